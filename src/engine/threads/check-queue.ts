/**
 * The order in which uploads are checked. What a body will cost is not known before it is opened: a few
 * kilobytes may stand for millions of events, and who sends it need not have a key. So a check begins in
 * the first lane that its size allows and is given up there as soon as it turns out to be more work than
 * the lane is for; it then waits for the next one. Each lane has threads that the later ones cannot take,
 * so that what costs little never waits for what costs much.
 *
 *   express  up to 1 MiB when decoded, of which 128 KiB may have to be parsed: milliseconds
 *   bulk     any size, proved by the scanner; of what has to be parsed the outline and the key
 *   slow     known keys only, with few exceptions: large bodies that are parsed event by event
 */
import { type Clock, SYSTEM_CLOCK } from '../../base/clock.ts'
import { SLAB_BYTES_MAX } from '../../base/limits.ts'
import { type RefusalReason, refusal } from '../../base/refusals.ts'
import { type Slab, transferable } from '../../base/slabs.ts'
import type { CaptureRequest } from '../../rules/capture/accept.ts'
import { isGzip } from '../../rules/capture/decode.ts'
import { CHECK_WAIT_MS_MAX } from './limits.ts'
import { CHECK_LANES, type CheckLane, type CheckResult, type CheckTask } from './tasks.ts'

/** How much of one body a lane looks at, in bytes; see `AcceptTools`. More: the next lane. */
export interface LaneLimits {
  readonly decodedBytesMax: number
  readonly slowBytesMax: number
  readonly outlinedBytesMax: number
}

const KIBIBYTE = 1024
const MEBIBYTE = 1024 * KIBIBYTE
const NO_LIMIT = Number.POSITIVE_INFINITY

/** The limits of each lane. */
export const LANE_LIMITS: Readonly<Record<CheckLane, LaneLimits>> = {
  express: {
    decodedBytesMax: MEBIBYTE,
    slowBytesMax: 128 * KIBIBYTE,
    outlinedBytesMax: 128 * KIBIBYTE,
  },
  bulk: { decodedBytesMax: NO_LIMIT, slowBytesMax: MEBIBYTE, outlinedBytesMax: NO_LIMIT },
  slow: { decodedBytesMax: NO_LIMIT, slowBytesMax: NO_LIMIT, outlinedBytesMax: NO_LIMIT },
}

/** Bodies that wait in a lane. A further one: 503, for it or for the newest of the sender that has most there. */
const WAITING_MAX: Readonly<Record<CheckLane, number>> = { express: 256, bulk: 128, slow: 64 }
/** A header and an end without anything between them. */
const GZIP_BYTES_MIN = 18
const LOOK_EVERY_MS = 50

/** Who waits for a check. */
export interface CheckWaiter {
  /** False: the client has left, and nobody needs the check. */
  isWanted(): boolean
  /** Whose body it is: senders have threads in turn. Absent: together with all others that name none. */
  readonly sender?: object
  /** False: so much waits for the disk that large bodies have to wait. */
  hasRoom(): boolean
  /** What the body lies in, which the queue has from now on; null: memory of its own. */
  readonly slab: Slab | null
  /** One for the block of a body of up to so many bytes when it is decoded; null: none is free. */
  takeSlab(decodedBytes: number): Slab | null
  /** Throws the refusal of a body that was accepted, if there is one. */
  admit?(projectId: number): void
}

/** What a queue works with. */
export interface CheckQueueOptions {
  /** Threads that the bulk and the slow lane may have at a time, each; one more is for the express lane. */
  readonly laneThreads: number
  /** Runs a check on a thread. `transferList` is the memory of the body, which changes hands. */
  readonly run: (task: CheckTask, transferList: readonly ArrayBuffer[]) => Promise<CheckResult>
  readonly clock?: Clock
}

/** A verdict; a check that is deferred has none yet. Whoever gets it has the slab of the block. */
export type CheckVerdict =
  | Extract<CheckResult, { kind: 'refused' }>
  | (Extract<CheckResult, { kind: 'accepted' }> & { readonly block: Pick<CheckWaiter, 'slab'> })

interface Waiting {
  readonly request: CaptureRequest
  readonly waiter: CheckWaiter
  readonly sinceMs: number
  readonly resolve: (verdict: CheckVerdict) => void
  readonly reject: (reason: unknown) => void
}

/** Decides which check runs next. Lives on the main thread; the checks run elsewhere. */
export class CheckQueue {
  readonly #options: CheckQueueOptions
  readonly #clock: Clock
  readonly #waiting = { express: [] as Waiting[], bulk: [] as Waiting[], slow: [] as Waiting[] }
  readonly #running = { express: 0, bulk: 0, slow: 0 }
  /** When a sender last had a thread, as a number that grows. */
  readonly #turns = new WeakMap<object, number>()
  #turn = 0
  /** Bodies that gave way to those of other senders. */
  #displaced = 0
  #timer: NodeJS.Timeout | undefined

  constructor(options: CheckQueueOptions) {
    this.#options = options
    this.#clock = options.clock ?? SYSTEM_CLOCK
  }

  /** Checks that wait in a lane. */
  waitingIn(lane: CheckLane): number {
    return this.#waiting[lane].length
  }

  /** Bodies that were refused because their sender had most in a full lane. */
  get displacedCount(): number {
    return this.#displaced
  }

  /**
   * Checks a request, whose body must be the only view of its memory, or lie in the slab. Rejects with
   * `ServiceError` `server_error` when too many wait, or for too long, and with what `run` or `admit` throw.
   */
  check(request: CaptureRequest, waiter: CheckWaiter): Promise<CheckVerdict> {
    return new Promise((resolve, reject) => {
      const sinceMs = this.#clock.monotonic()
      this.#enqueue(firstLaneOf(request.body), { request, waiter, sinceMs, resolve, reject })
      this.#startNext()
    })
  }

  #enqueue(lane: CheckLane, waiting: Waiting): void {
    if (this.#waiting[lane].length >= WAITING_MAX[lane] && !this.#makeRoom(lane, waiting)) {
      giveUp(waiting, 'checks_full')
      return
    }
    this.#waiting[lane].push(waiting)
    this.#timer ??= setInterval(() => this.#look(), LOOK_EVERY_MS)
  }

  /** Gives up the newest body of the sender that has most in a lane, unless that is the sender of the new one. */
  #makeRoom(lane: CheckLane, { waiter }: Waiting): boolean {
    const counts = new Map<object | undefined, number>()
    for (const { waiter } of this.#waiting[lane]) {
      counts.set(waiter.sender, (counts.get(waiter.sender) ?? 0) + 1)
    }
    const [largest, count] = [...counts].reduce((a, b) => (b[1] > a[1] ? b : a))
    if (count <= (counts.get(waiter.sender) ?? 0) + 1) return false
    const index = this.#waiting[lane].findLastIndex((one) => one.waiter.sender === largest)
    for (const displaced of this.#waiting[lane].splice(index, 1)) {
      giveUp(displaced, 'checks_full')
      this.#displaced++
    }
    return true
  }

  /** Gives up what nobody waits for any more, or what waited too long, and starts what has room now. */
  #look(): void {
    const nowMs = this.#clock.monotonic()
    for (const lane of CHECK_LANES) {
      this.#waiting[lane] = this.#waiting[lane].filter((waiting) => {
        if (!waiting.waiter.isWanted()) giveUp(waiting, 'check_unwanted')
        else if (nowMs - waiting.sinceMs > CHECK_WAIT_MS_MAX) giveUp(waiting, 'check_waited')
        else return true
        return false
      })
    }
    this.#startNext()
    if (CHECK_LANES.some((lane) => this.#waiting[lane].length > 0)) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #startNext(): void {
    for (const lane of CHECK_LANES) {
      while (this.#mayStart(lane)) {
        const [next] = this.#waiting[lane].splice(this.#nextIndex(lane), 1)
        if (next !== undefined) void this.#run(lane, next)
      }
    }
  }

  /** The oldest body of the sender that has waited longest for a thread. */
  #nextIndex(lane: CheckLane): number {
    let [nextIndex, nextTurn] = [0, Number.POSITIVE_INFINITY]
    for (const [index, { waiter }] of this.#waiting[lane].entries()) {
      const turn = this.#turns.get(waiter.sender ?? this) ?? 0
      if (turn < nextTurn) [nextIndex, nextTurn] = [index, turn]
    }
    return nextIndex
  }

  #mayStart(lane: CheckLane): boolean {
    const next = this.#waiting[lane][0]
    if (next === undefined) return false
    const { express, bulk, slow } = this.#running
    const { laneThreads } = this.#options
    if (express + bulk + slow >= threadsOf(laneThreads)) return false
    return lane === 'express' || (this.#running[lane] < laneThreads && next.waiter.hasRoom())
  }

  async #run(lane: CheckLane, waiting: Waiting): Promise<void> {
    const { request, waiter } = waiting
    const body = waiter.slab
    const blockBytes = Math.min(LANE_LIMITS[lane].decodedBytesMax, SLAB_BYTES_MAX)
    const hasRoom = body !== null && body.bodyBytesMax >= blockBytes
    const slab = hasRoom ? body : (waiter.takeSlab(blockBytes) ?? body)
    let inUse: Slab | null = null
    this.#running[lane]++
    this.#turns.set(waiter.sender ?? this, ++this.#turn)
    try {
      const task = { lane, request, slab: slab?.memory ?? null }
      const result = await this.#options.run(task, transferable([request.body.buffer]))
      if (result.kind === 'deferred') {
        inUse = body
        const deferred = { ...waiting, request: { ...request, body: result.body } }
        this.#enqueue(lane === 'express' ? 'bulk' : 'slow', deferred)
      } else if (result.kind === 'refused') {
        waiting.resolve(result)
      } else {
        waiter.admit?.(result.projectId)
        // A block without events goes no further.
        const isInSlab = result.block.buffer instanceof SharedArrayBuffer
        inUse = result.eventCount > 0 && isInSlab ? slab : null
        waiting.resolve({ ...result, block: { ...result.block, slab: inUse } })
      }
    } catch (error) {
      waiting.reject(error)
    } finally {
      // A check is one call: when its thread has ended, it does not work with the memory any more.
      for (const one of new Set([body, slab])) if (one !== inUse) one?.give()
      this.#running[lane]--
      // Not before whoever waited has handed the events on: `hasRoom` must count them.
      setImmediate(() => this.#startNext())
    }
  }
}

/** Refuses a check that has no thread. */
function giveUp({ waiter, reject }: Waiting, reason: RefusalReason): void {
  waiter.slab?.give()
  reject(refusal(reason))
}

/** Threads of a queue in which two lanes have `laneThreads` each. */
export function threadsOf(laneThreads: number): number {
  return 2 * laneThreads + 1
}

/** A look at the size, which for gzip stands at the end. Who lies there is found out in the express lane. */
function firstLaneOf(body: Uint8Array): CheckLane {
  const { decodedBytesMax } = LANE_LIMITS.express
  const declaredBytes = isGzip(body) ? gzipSize(body) : 0
  return Math.max(body.length, declaredBytes) > decodedBytesMax ? 'bulk' : 'express'
}

/** The size of the content modulo 2^32, as the end of a gzip stream says. */
function gzipSize(body: Uint8Array): number {
  if (body.length < GZIP_BYTES_MIN) return 0
  return new DataView(body.buffer, body.byteOffset + body.length - 4, 4).getUint32(0, true)
}
