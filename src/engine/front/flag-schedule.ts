/**
 * Makes scheduled changes of flags at their time, and watches the guards of ramps. A timer compares the clock with the
 * times of the waiting changes, which are in memory. Further work is necessary only if a change is due or a ramp has
 * guards.
 *
 * A thread makes the change, and records in the same transaction that it was made (store/catalog/scheduled-changes.ts).
 * It is therefore harmless to try a change twice: after a crash, or if another machine of the cluster was faster, the
 * thread finds that there is nothing to do.
 */
import type { Clock } from '../../base/clock.ts'
import { uuidV7 } from '../../base/ids.ts'
import { isObject, objectsOf } from '../../base/json.ts'
import type { Logger } from '../../base/log.ts'
import type { Counter, Gauge, MetricPage } from '../../base/metrics.ts'
import { groupTypeOf } from '../../rules/flags/group-type.ts'
import { type GuardEvent, seenProperties } from '../../rules/flags/schedule/guard-event.ts'
import {
  breachText,
  type GuardLook,
  isBreach,
  lookAtGuard,
} from '../../rules/flags/schedule/ramp-guard.ts'
import {
  type GuardVerdict,
  MOVE_OUTCOMES,
  type Moved,
  type PendingChange,
  type ScheduledChange,
} from '../../rules/flags/schedule/scheduled-change.ts'
import type { Flag } from '../../rules/flags/types.ts'
import type { FlagDirectory } from '../../store/catalog/flag-store.ts'
import type { Queries } from '../threads/pool.ts'
import { countExposed } from './exposed-persons.ts'
import type { GroupCommit } from './group-commit.ts'
import { GuardEvents } from './guard-events.ts'

/** The interval of the checks for due changes, in milliseconds. */
const TICK_MS = 1000
/** The interval at which the guards of a ramp are checked, in milliseconds. */
const LOOK_MS = 20_000
/** The pause before the next attempt after a failed one, in milliseconds. */
const AGAIN_MS = 10_000

/** The dependencies of the schedule. */
export interface FlagScheduleOptions {
  readonly queries: Pick<Queries, 'moveFlag' | 'removeGuardEvent' | 'scheduledChange' | 'answer'>
  readonly flags: Pick<FlagDirectory, 'pendingChanges' | 'guardEvents' | 'flagById'>
  readonly groupCommit: Pick<GroupCommit, 'add'>
  /** Called when an event about a ramp was passed to the log. `bytes` is its size there. */
  readonly onAccepted: (projectId: number, bytes: number) => void
  /** Returns the time zone of a project if this machine stores its events, otherwise null. */
  readonly timezoneOf: (projectId: number) => string | null
  /** Reloads the flags after a change was made. */
  readonly refresh: () => void
  /** Returns the error with which writes are refused at the moment, or null if they are possible. */
  readonly refusal: () => object | null
  /** Returns true if the cluster has a machine of an older version, which could not store events about ramps. */
  readonly isMixed: () => boolean
  readonly clock: Pick<Clock, 'now'>
  readonly log: Pick<Logger, 'info' | 'warn'>
  readonly page: MetricPage
  /** The interval at which guards are checked, in milliseconds. Tests set it. */
  readonly lookMs?: number | undefined
}

/** The results of the last check of the guards of a ramp. */
export interface GuardLooks {
  readonly atMs: number
  readonly results: readonly GuardLook[]
}

/** The state of a waiting change between two checks. */
interface Attempt {
  isRunning: boolean
  /** After a failure, the change is not tried again before this time, in milliseconds of `performance.now()`. */
  notBefore: number
  lookedAt: number
  looks: GuardLooks | null
}

/** Makes scheduled changes of flags until it is stopped. */
export class FlagSchedule {
  readonly #options: FlagScheduleOptions
  readonly #lookMs: number
  readonly #attempts = new Map<string, Attempt>()
  readonly #events: GuardEvents
  readonly #counts: ReadonlyMap<string, Counter>
  readonly #failures: Counter
  readonly #looksMade: Counter
  readonly #pending: Gauge
  readonly #watched: Gauge
  #timer: NodeJS.Timeout | undefined
  #isStopped = false
  /**
   * Two queues: `#moves` for scheduled changes, and `#looks` for checks of guards. Each promise resolves when
   * everything in its queue has ended. The tasks of a queue run one after the other. There are two queues, so that a
   * slow check does not delay changes of other flags.
   */
  #moves: Promise<void> = Promise.resolve()
  #looks: Promise<void> = Promise.resolve()
  #cancelLook: () => void = () => {}

  constructor(options: FlagScheduleOptions) {
    this.#options = options
    this.#lookMs = options.lookMs ?? LOOK_MS
    const { queries, groupCommit, clock, timezoneOf, onAccepted, page } = options
    this.#events = new GuardEvents({
      queries,
      groupCommit,
      clock,
      isHere: (projectId) => timezoneOf(projectId) !== null,
      onAccepted,
      onFailure: (error, { projectId }) => this.#failed(error, projectId),
      waitMs: this.#lookMs,
    })
    const moves = page.counters(
      'flag_schedule_moves_total',
      'Scheduled changes of flags that this machine made or ended, by outcome.',
      ['outcome'],
    )
    const outcomes = MOVE_OUTCOMES.filter((outcome) => outcome !== 'nothing')
    this.#counts = new Map(outcomes.map((outcome) => [outcome, moves.with(outcome)]))
    this.#failures = page
      .counters(
        'flag_schedule_failures_total',
        'Attempts to make a scheduled change, to look at a guard or to write its event that failed and are repeated.',
        [],
      )
      .with()
    this.#looksMade = page
      .counters(
        'flag_guard_looks_total',
        'Number of times that guards of ramps were evaluated.',
        [],
      )
      .with()
    this.#pending = page
      .gauges('flag_schedule_pending', 'Scheduled changes of flags that wait for their time.', [])
      .with()
    this.#watched = page
      .gauges(
        'flag_ramps_watched',
        'Running ramps (stepwise rollouts of flags) that have guards.',
        [],
      )
      .with()
  }

  start(): void {
    this.#timer = setInterval(() => this.#tick(), TICK_MS)
  }

  /** Stops the schedule. Resolves when everything that was already started has ended. */
  async stop(): Promise<void> {
    this.#isStopped = true
    clearInterval(this.#timer)
    this.#cancelLook()
    await Promise.all([this.#moves, this.#looks])
    await this.#events.stop()
  }

  /** Returns the results of the last check of a ramp's guards on this machine, or null if there was none. */
  looksOf(projectId: number, id: number): GuardLooks | null {
    return this.#attempts.get(`${projectId} ${id}`)?.looks ?? null
  }

  #tick(): void {
    const { flags, timezoneOf, clock, refusal } = this.#options
    let pending: readonly PendingChange[]
    let events: readonly GuardEvent[]
    try {
      pending = flags.pendingChanges()
      events = flags.guardEvents()
    } catch (error) {
      this.#failed(error)
      return
    }
    this.#pending.value = pending.length
    this.#watched.value = pending.filter(({ isWatched }) => isWatched).length
    this.#forgetOthers(pending)
    if (pending.length + events.length === 0 || refusal() !== null) return
    this.#events.write(events)
    const [nowMs, monotonicMs] = [clock.now(), performance.now()]
    for (const change of pending) {
      const timezone = timezoneOf(change.projectId)
      if (timezone === null) continue
      const attempt = this.#attemptOf(change)
      if (attempt.isRunning || monotonicMs < attempt.notBefore) continue
      const isDue = change.dueAtMs <= nowMs
      const isToLookAt = change.isWatched && monotonicMs >= attempt.lookedAt + this.#lookMs
      // The guards of a ramp are checked before its next step, so that no step is made while a guard is violated.
      if (isToLookAt || (isDue && change.isWatched)) {
        this.#run(change, attempt, () => this.#watch(change, attempt, timezone))
      } else if (isDue) this.#run(change, attempt, () => this.#move(change))
    }
  }

  #run(change: PendingChange, attempt: Attempt, action: () => Promise<void>): void {
    attempt.isRunning = true
    const guarded = async (): Promise<void> => {
      try {
        if (!this.#isStopped) await action()
      } catch (error) {
        attempt.notBefore = performance.now() + AGAIN_MS
        this.#failed(error, change.projectId, change.id)
      } finally {
        attempt.isRunning = false
      }
    }
    if (change.isWatched) this.#looks = this.#looks.then(guarded)
    else this.#moves = this.#moves.then(guarded)
  }

  /** Checks the guards of a ramp. Stops the ramp if a guard is violated. Otherwise makes the next step if it is due. */
  async #watch(pending: PendingChange, attempt: Attempt, timezone: string): Promise<void> {
    const { queries, flags, clock, isMixed } = this.#options
    const { projectId, id } = pending
    attempt.lookedAt = performance.now()
    const change = await queries.scheduledChange(projectId, id)
    const flag = flags.flagById(projectId, pending.flagId)
    if (change !== null && flag !== null) {
      const results = await this.#look(change, flag, timezone)
      attempt.looks = { atMs: clock.now(), results }
      const breach = results.find(isBreach)
      if (breach !== undefined) {
        const action = change.ramp?.onBreach ?? 'halt'
        const uuid = isMixed() ? null : uuidV7(clock.now())
        const verdict = {
          action,
          reason: breachText(breach),
          uuid,
          seen: seenProperties(breach),
        }
        return await this.#move(pending, verdict)
      }
    }
    if (pending.dueAtMs <= clock.now()) await this.#move(pending)
  }

  async #look(
    { ramp, projectId }: ScheduledChange,
    flag: Flag,
    timezone: string,
  ): Promise<readonly GuardLook[]> {
    if (ramp === null || ramp.watchedFromMs === null) return []
    const { queries, clock } = this.#options
    const values = valuesOf(flag)
    const count = ramp.steps.length * ramp.guards.length * values.length
    const results: GuardLook[] = []
    for (const guard of ramp.guards) {
      const question = {
        projectId,
        timezone,
        flagKey: flag.key,
        // Conditions with different group types have no groups in common, so persons are counted.
        groupTypeIndex: groupTypeOf(flag.filters) ?? null,
        event: guard.event,
        fromMs: ramp.watchedFromMs,
        nowMs: clock.now(),
      }
      const exposed = await countExposed(queries, question, (cancel) => {
        this.#cancelLook = cancel
      })
      results.push(...lookAtGuard(guard, exposed, { values, count }))
    }
    this.#looksMade.value++
    return results
  }

  async #move({ projectId, id, executions }: PendingChange, verdict?: GuardVerdict): Promise<void> {
    const { queries, clock, refresh } = this.#options
    const move = verdict === undefined ? { id, executions } : { id, executions, verdict }
    const uuid = verdict?.uuid ?? null
    if (uuid !== null) this.#events.setOwn(uuid, true)
    let moved: Moved | null = null
    try {
      moved = await queries.moveFlag({ projectId, nowMs: clock.now(), move })
    } finally {
      // If the call failed, it is unknown whether the event was stored. The event is then treated like an event of
      // another process: if it is still stored after a while, it is written to the log.
      const isStored = moved !== null && moved.outcome !== 'nothing'
      if (uuid !== null && !isStored) this.#events.setOwn(uuid, false)
    }
    refresh()
    this.#report(projectId, id, moved)
  }

  #report(project: number, change: number, { outcome, flagId, text, reason }: Moved): void {
    const count = this.#counts.get(outcome)
    if (count === undefined) return
    count.value++
    const fields = { project, change, flag: flagId, outcome, text }
    if (reason === null) this.#options.log.info(fields, 'A scheduled change of a flag was made.')
    else this.#options.log.warn({ ...fields, reason }, 'A scheduled change of a flag was stopped.')
  }

  #failed(err: unknown, project?: number, change?: number): void {
    if (this.#isStopped) return
    this.#failures.value++
    const fields = { err, project, change }
    this.#options.log.warn(fields, 'A scheduled change of a flag failed and will be tried again.')
  }

  #attemptOf(change: PendingChange): Attempt {
    const key = keyOf(change)
    const known = this.#attempts.get(key)
    if (known !== undefined) return known
    const attempt: Attempt = {
      isRunning: false,
      notBefore: 0,
      lookedAt: Number.NEGATIVE_INFINITY,
      looks: null,
    }
    this.#attempts.set(key, attempt)
    return attempt
  }

  #forgetOthers(pending: readonly PendingChange[]): void {
    if (this.#attempts.size === 0) return
    const keys = new Set(pending.map(keyOf))
    for (const [key, { isRunning }] of this.#attempts) {
      if (!keys.has(key) && !isRunning) this.#attempts.delete(key)
    }
  }
}

function keyOf({ projectId, id }: PendingChange): string {
  return `${projectId} ${id}`
}

/** Returns all values except `false` that a flag can have, as texts. */
function valuesOf({ filters: { multivariate } }: Flag): readonly string[] {
  const variants = isObject(multivariate) ? objectsOf(multivariate['variants']) : []
  return variants.length === 0 ? ['true'] : variants.map(({ key }) => String(key))
}
