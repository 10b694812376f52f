/**
 * Writes events about ramps to the log: for each ramp that a guard has stopped, one event. The log makes them durable,
 * and they are processed in order with the events of clients. The transaction that stops a ramp stores its event
 * (store/catalog/scheduled-changes.ts). When the event is in the log, the stored event is removed. After a crash
 * between these two steps, the event is written to the log again with the same UUID, and processing drops it as a
 * duplicate.
 *
 * In a cluster, several machines see the stored event. The machine that stopped the ramp writes the event to the log at
 * once. Another machine, or the same machine after a restart, does so only if the event is still stored after some
 * time.
 */
import type { Clock } from '../../base/clock.ts'
import type { ServiceError } from '../../base/errors.ts'
import { parseUuid } from '../../base/ids.ts'
import { getOrAdd } from '../../base/maps.ts'
import { ParsedEvents } from '../../rules/capture/log-block.ts'
import { type GuardEvent, guardEventText } from '../../rules/flags/schedule/guard-event.ts'
import type { Queries } from '../threads/pool.ts'
import type { GroupCommit } from './group-commit.ts'

/** The pause before the next attempt after a failure, in milliseconds. */
const AGAIN_MS = 10_000

/** The dependencies of these events. */
export interface GuardEventsOptions {
  readonly queries: Pick<Queries, 'removeGuardEvent'>
  readonly groupCommit: Pick<GroupCommit, 'add'>
  readonly clock: Pick<Clock, 'now'>
  /** Returns whether this machine stores the events of a project. */
  readonly isHere: (projectId: number) => boolean
  /** Called when an event of a project was passed to the log. `bytes` is its size there. */
  readonly onAccepted: (projectId: number, bytes: number) => void
  readonly onFailure: (error: unknown, event: GuardEvent) => void
  /**
   * The process that stored an event writes it to the log at once. Any other process waits this many milliseconds, and
   * then writes the event itself if it is still stored.
   */
  readonly waitMs: number
}

/** The state of a stored event. */
interface Attempt {
  isRunning: boolean
  /** True if this process has already written the event to the log. Then only the stored event must be removed. */
  isLogged: boolean
  /** The event is not written before this time, in milliseconds of `performance.now()`. */
  notBefore: number
}

/** Writes stored events to the log until it is stopped. */
export class GuardEvents {
  readonly #options: GuardEventsOptions
  readonly #attempts = new Map<string, Attempt>()
  readonly #own = new Set<string>()
  #writes: Promise<void> = Promise.resolve()
  #isStopped = false

  constructor(options: GuardEventsOptions) {
    this.#options = options
  }

  /**
   * Records whether this process is storing the event with this UUID. If so, the event is later written to the log
   * without waiting.
   */
  setOwn(uuid: string, isOwn: boolean): void {
    if (isOwn) this.#own.add(uuid)
    else this.#own.delete(uuid)
  }

  /**
   * Writes the stored events whose time has come, one after the other. `stored` contains the events of all projects.
   */
  write(stored: readonly GuardEvent[]): void {
    const { isHere, waitMs } = this.#options
    const nowMs = performance.now()
    this.#forgetOthers(stored)
    for (const event of stored) {
      const { uuid, projectId } = event
      if (!isHere(projectId)) continue
      const attempt = getOrAdd(this.#attempts, uuid, () => ({
        isRunning: false,
        isLogged: false,
        notBefore: this.#own.delete(uuid) ? nowMs : nowMs + waitMs,
      }))
      if (attempt.isRunning || nowMs < attempt.notBefore) continue
      attempt.isRunning = true
      this.#writes = this.#writes.then(() => this.#write(event, attempt))
    }
  }

  /** Starts no further writes. Resolves when the writes that were already started have ended. */
  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#writes
  }

  async #write(event: GuardEvent, attempt: Attempt): Promise<void> {
    const { queries, clock, onAccepted, onFailure } = this.#options
    const { projectId, number } = event
    try {
      if (this.#isStopped) return
      if (!attempt.isLogged) {
        const bytes = await this.#log(event)
        attempt.isLogged = true
        onAccepted(projectId, bytes)
      }
      await queries.removeGuardEvent(projectId, number, clock.now())
      attempt.notBefore = Number.POSITIVE_INFINITY
    } catch (error) {
      attempt.notBefore = performance.now() + AGAIN_MS
      onFailure(error, event)
    } finally {
      attempt.isRunning = false
    }
  }

  /** Writes the event to the log. Resolves, when it is on the disk, with the number of bytes that it takes there. */
  async #log(event: GuardEvent): Promise<number> {
    const { groupCommit, clock } = this.#options
    const { projectId, uuid } = event
    const events = new ParsedEvents([guardEventText(event)], [parseUuid(uuid)])
    const header = {
      projectId,
      flags: 0,
      arrivedAtMs: clock.now(),
      sentAtMs: Number.NaN,
      address: '',
    }
    let bytes = 0
    await new Promise<void>((resolve, reject) => {
      const acknowledge = (error: ServiceError | null): void => {
        if (error === null) resolve()
        else reject(error)
      }
      bytes = groupCommit.add(header, events, { acknowledge })
    })
    return bytes
  }

  #forgetOthers(stored: readonly GuardEvent[]): void {
    if (this.#attempts.size === 0) return
    const uuids = new Set(stored.map(({ uuid }) => uuid))
    for (const [uuid, { isRunning }] of this.#attempts) {
      if (!uuids.has(uuid) && !isRunning) this.#attempts.delete(uuid)
    }
  }
}
