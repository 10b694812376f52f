/**
 * The order in which uploads are checked. How much work a body needs is not known before it is decoded: a few kilobytes
 * may expand to millions of events, and the sender may not even have a key. A check therefore begins in the cheapest
 * lane that the size of its body allows. If it turns out to need more work than the lane permits, it is stopped and
 * waits in the next lane. Each lane has threads that more expensive lanes cannot use, so cheap checks never wait for
 * expensive ones.
 *
 * express  up to 1 MiB when decoded, or up to 128 KiB if the events must be parsed: milliseconds
 * bulk     any size if the scanner reads the body; otherwise parses up to 1 MiB, and checks only the outline and the
 *          key of a larger body
 * slow     larger bodies that are parsed event by event; with few exceptions, their keys were checked in the bulk lane
 */
import { type Clock, SYSTEM_CLOCK } from '../../base/clock.ts'
import { SLAB_BYTES_MAX } from '../../base/limits.ts'
import { type RefusalReason, refusal } from '../../base/refusals.ts'
import { type Slab, transferable } from '../../base/slabs.ts'
import type { CaptureRequest } from '../../rules/capture/accept.ts'
import { isGzip } from '../../rules/capture/decode.ts'
import { CHECK_WAIT_MS_MAX } from './limits.ts'
import { CHECK_LANES, type CheckLane, type CheckResult, type CheckTask } from './tasks.ts'

/**
 * The limits of one body in a lane, in bytes. A body that exceeds a limit moves to the next lane. `AcceptTools`
 * explains the members.
 */
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

/**
 * The largest number of bodies that may wait in each lane. If one more arrives, one of them is refused with 503: the
 * new body, or the newest body of the sender that has most bodies in the lane.
 */
const WAITING_MAX: Readonly<Record<CheckLane, number>> = { express: 256, bulk: 128, slow: 64 }
/** The length in bytes of the smallest gzip stream, which has no content. */
const GZIP_BYTES_MIN = 18
const LOOK_EVERY_MS = 50

/** The caller for which a body is checked. */
export interface CheckWaiter {
  /** Returns false if the client has left and nobody needs the check. */
  isWanted(): boolean
  /**
   * The sender of the body. The threads serve the senders in turn. Callers without a sender count as one sender
   * together.
   */
  readonly sender?: object
  /** Returns false if too much data waits to be written to the disk. Large bodies then have to wait. */
  hasRoom(): boolean
  /**
   * The slab (reusable shared memory, base/slabs.ts) that contains the body. The queue becomes its owner. Null if the
   * body has memory of its own.
   */
  readonly slab: Slab | null
  /**
   * Returns a slab (see `slab`) into which the log block of a body with this decoded size is written, or null if no
   * slab is free.
   */
  takeSlab(decodedBytes: number): Slab | null
  /** Throws an error if a body must be refused although its check has accepted it. */
  admit?(projectId: number): void
}

/** The dependencies of a queue. */
export interface CheckQueueOptions {
  /**
   * The largest number of threads that the bulk lane uses at a time. The same limit applies to the slow lane. The queue
   * has twice this number of threads, and one more, so that one thread is always left for the express lane.
   */
  readonly laneThreads: number
  /** Runs a check on a thread. `transferList` contains the memory of the body, which is moved to the thread. */
  readonly run: (task: CheckTask, transferList: readonly ArrayBuffer[]) => Promise<CheckResult>
  readonly clock?: Clock
}

/**
 * The final result of a check. A check that must continue in a later lane has none yet. The receiver must release the
 * slab of the block.
 */
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

/** Decides which check runs next. The queue is in the main thread; the checks run in other threads. */
export class CheckQueue {
  readonly #options: CheckQueueOptions
  readonly #clock: Clock
  readonly #waiting = { express: [] as Waiting[], bulk: [] as Waiting[], slow: [] as Waiting[] }
  readonly #running = { express: 0, bulk: 0, slow: 0 }
  /**
   * For each sender, the number of the last check that was started for it. Checks are numbered in the order of their
   * start.
   */
  readonly #turns = new WeakMap<object, number>()
  #turn = 0
  /** How many waiting bodies were refused to make room for the body of another sender. */
  #displaced = 0
  #timer: NodeJS.Timeout | undefined

  constructor(options: CheckQueueOptions) {
    this.#options = options
    this.#clock = options.clock ?? SYSTEM_CLOCK
  }

  waitingIn(lane: CheckLane): number {
    return this.#waiting[lane].length
  }

  /** How many waiting bodies were refused to make room for the body of another sender. */
  get displacedCount(): number {
    return this.#displaced
  }

  /**
   * Checks a request. Its body must be the only view of its memory, or be in the slab of `waiter`. Rejects with the
   * `ServiceError` `server_error` if too many checks wait, or if this one waits too long, and with the errors of `run`
   * and `admit`.
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

  /**
   * Makes room for a new body in a lane by refusing the newest body of the sender that has most bodies in the lane.
   * Does so only if that sender has at least two bodies more than the sender of the new body. Returns whether a body
   * was refused.
   */
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

  /**
   * Refuses checks that nobody waits for any more, and checks that have waited too long. Then starts checks on the free
   * threads.
   */
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

  /**
   * Returns the index of the next body to check: the oldest body of the sender that has waited longest since it last
   * got a thread. A sender that never got one comes first.
   */
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
        // A block without events is not stored, so its slab is released.
        const isInSlab = result.block.buffer instanceof SharedArrayBuffer
        inUse = result.eventCount > 0 && isInSlab ? slab : null
        waiting.resolve({ ...result, block: { ...result.block, slab: inUse } })
      }
    } catch (error) {
      waiting.reject(error)
    } finally {
      // The check or its thread has ended, so nothing uses the memory any more.
      for (const one of new Set([body, slab])) if (one !== inUse) one?.release()
      this.#running[lane]--
      // `setImmediate` lets the caller pass on the events of this check before the next check starts, because `hasRoom`
      // must count them.
      setImmediate(() => this.#startNext())
    }
  }
}

/** Refuses a check that has not started. */
function giveUp({ waiter, reject }: Waiting, reason: RefusalReason): void {
  waiter.slab?.release()
  reject(refusal(reason))
}

/** Returns the number of threads of the queue: `laneThreads` for each of two lanes, and one for the express lane. */
export function threadsOf(laneThreads: number): number {
  return 2 * laneThreads + 1
}

/**
 * Chooses the first lane of a body by its decoded size. A gzip body contains this size at its end. If the size there is
 * wrong, the express lane notices it.
 */
function firstLaneOf(body: Uint8Array): CheckLane {
  const { decodedBytesMax } = LANE_LIMITS.express
  const declaredBytes = isGzip(body) ? gzipSize(body) : 0
  return Math.max(body.length, declaredBytes) > decodedBytesMax ? 'bulk' : 'express'
}

/** Returns the size of the decoded content modulo 2^32, as it is written at the end of a gzip stream. */
function gzipSize(body: Uint8Array): number {
  if (body.length < GZIP_BYTES_MIN) return 0
  return new DataView(body.buffer, body.byteOffset + body.length - 4, 4).getUint32(0, true)
}
