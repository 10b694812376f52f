/**
 * Calculates the members of cohorts with a rule on behavior: after a change of the rule, when a user asks for it, and
 * every hour, because new events arrive and old ones leave the period of the rule. A thread finds the differences
 * between the calculated and the stored members. Commands with these differences are then written to the log, so that a
 * replay and every replica store the same members. In a cluster, several replicas of a project may calculate the same
 * members. This is harmless. Without cohorts of this kind, the schedule has no timer.
 */
import type { Clock } from '../../base/clock.ts'
import { ServiceError } from '../../base/errors.ts'
import type { Logger } from '../../base/log.ts'
import { timeText } from '../../base/time.ts'
import type { CalculationEnd, CohortCalculation } from '../../rules/persons/cohort-shapes.ts'
import type { PersonCommands } from '../../rules/persons/commands.ts'
import type { CohortQueries } from '../threads/call-table.ts'
import type { CohortChanges } from '../threads/queries/query-tasks.ts'
import { COHORT_CHANGES_MAX } from './limits.ts'
import { DAEMON_ACTOR } from './retention-schedule.ts'

/** The time after which the members of a cohort are calculated again, in milliseconds. */
const PERIOD_MS = 3_600_000
/** The time between the start and the first check for cohorts, in milliseconds. */
const FIRST_MS = 1000
/**
 * The pause between a change of cohorts and the check for cohorts to calculate, in milliseconds. Several changes
 * shortly after each other then need only one check.
 */
const CHANGED_MS = 50
/** The pause before the next attempt if the daemon was busy or could not write, in milliseconds. */
const AGAIN_MS = 60_000
/**
 * If a calculation fails with one of these error codes, an early retry would fail, too. The calculation is repeated
 * when the cohort is due again.
 */
const LASTING: readonly string[] = ['query_timeout', 'query_too_large']
const UNFORESEEN = 'The members could not be calculated. The log of the daemon has the reason.'

/** The dependencies of the schedule. */
export interface CohortScheduleOptions {
  readonly queries: CohortQueries
  readonly commands: PersonCommands
  readonly clock: Pick<Clock, 'now'>
  /** Returns the time zone of a project, or null if there is no such project. */
  readonly timezoneOf: (projectId: number) => string | null
  readonly log: Pick<Logger, 'info' | 'warn'>
  /** The time after which the members of a cohort are calculated again, in milliseconds. Default: an hour. */
  readonly periodMs?: number | undefined
}

/** A cohort with a rule on behavior, which may have to be calculated now. */
interface Candidate {
  readonly projectId: number
  readonly id: number
  readonly calculation: CohortCalculation
}

/** Calculates the members of cohorts, one cohort at a time. */
export class CohortSchedule {
  readonly #options: CohortScheduleOptions
  readonly #periodMs: number
  #timer: NodeJS.Timeout | undefined
  #isStarted = false
  #isRunning = false
  /** True if cohorts have changed since the current check began. */
  #hasChanged = false
  #isStopped = false

  constructor(options: CohortScheduleOptions) {
    this.#options = options
    this.#periodMs = options.periodMs ?? PERIOD_MS
  }

  start(): void {
    this.#isStarted = true
    this.#lookIn(Math.min(FIRST_MS, this.#periodMs))
  }

  /** Tells the schedule that a commit has changed cohorts. Before `start`, this has no effect. */
  changed(): void {
    if (this.#isRunning) this.#hasChanged = true
    else if (this.#isStarted) this.#lookIn(CHANGED_MS)
  }

  /** Stops the schedule. A calculation that is running writes no further commands. */
  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
  }

  /** Sets the timer of the next check. */
  #lookIn(delayMs: number): void {
    if (this.#isStopped) return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.#look(), delayMs)
  }

  /** Calculates all cohorts that are due, and sets the timer of the next check. */
  async #look(): Promise<void> {
    this.#isRunning = true
    this.#hasChanged = false
    let nextMs: number
    try {
      nextMs = await this.#calculateDue()
    } catch (error) {
      nextMs = AGAIN_MS
      if (!this.#isStopped) {
        this.#options.log.warn({ err: error }, 'Members of cohorts could not be calculated yet.')
      }
    }
    this.#isRunning = false
    if (this.#hasChanged) this.#lookIn(CHANGED_MS)
    else if (Number.isFinite(nextMs)) this.#lookIn(nextMs)
  }

  /**
   * Calculates all cohorts that are due. Returns the time until the next check in milliseconds. Returns infinity if no
   * cohort has a rule on behavior, or after `stop`.
   */
  async #calculateDue(): Promise<number> {
    const { queries } = this.#options
    // The cohorts are in the order of their ids. A cohort usually refers to older cohorts, so these are calculated
    // first.
    const cohorts = await queries.calculatedCohorts()
    for (const cohort of cohorts) {
      if (this.#isStopped) return Number.POSITIVE_INFINITY
      if (isWanted(cohort) || this.#waitMs(cohort) <= 0) await this.#calculate(cohort)
    }
    const known = await queries.calculatedCohorts()
    if (known.length === 0) return Number.POSITIVE_INFINITY
    // All due cohorts were just calculated, but `isWanted` may still be true for one of them. If it was changed in the
    // meantime, `changed` causes an early check. If its project was removed, it cannot be calculated. A check after
    // `AGAIN_MS` is therefore early enough.
    const waits = known.map((cohort) => (isWanted(cohort) ? AGAIN_MS : this.#waitMs(cohort)))
    return Math.max(CHANGED_MS, Math.min(...waits))
  }

  #waitMs({ calculation: { triedAtMs } }: Candidate): number {
    const { clock } = this.#options
    return triedAtMs + this.#periodMs - clock.now()
  }

  async #calculate({ projectId, id, calculation }: Candidate): Promise<void> {
    const { queries, clock, timezoneOf, log } = this.#options
    const timezone = timezoneOf(projectId)
    if (timezone === null) return
    const nowMs = clock.now()
    let changes: CohortChanges | null
    try {
      const facts = { projectId, id, timezone, nowMs, testAccountFilters: [] }
      changes = await queries.cohortMembers(facts)
    } catch (error) {
      if (this.#isStopped) return
      if (error instanceof ServiceError && !LASTING.includes(error.code)) throw error
      const reason = error instanceof ServiceError ? error.message : UNFORESEEN
      log.warn(
        { err: error, project: projectId, cohort: id },
        'Members of a cohort could not be calculated.',
      )
      const end = {
        at: timeText(nowMs),
        atMs: nowMs,
        requests: calculation.requests,
        error: reason,
      }
      await this.#write(projectId, id, calculation, [], [], end)
      return
    }
    if (changes !== null) await this.#store(projectId, id, changes, nowMs)
  }

  /** Stores changes of the members of a cohort. Each command contains a limited number of changes. */
  async #store(
    projectId: number,
    id: number,
    { added, removed, count, calculation }: CohortChanges,
    nowMs: number,
  ): Promise<void> {
    const { requests } = calculation
    const end = { at: timeText(nowMs), atMs: nowMs, requests, error: null }
    const steps = Math.max(
      1,
      Math.ceil(Math.max(added.length, removed.length) / COHORT_CHANGES_MAX),
    )
    for (let step = 0; step < steps; step++) {
      const [from, to] = [step * COHORT_CHANGES_MAX, (step + 1) * COHORT_CHANGES_MAX]
      const isLast = step === steps - 1
      const isCurrent = await this.#write(
        projectId,
        id,
        calculation,
        [...added.subarray(from, to)],
        [...removed.subarray(from, to)],
        isLast ? end : null,
      )
      if (!isCurrent) return
    }
    const figures = { project: projectId, cohort: id, persons: count }
    const changes = { added: added.length, removed: removed.length }
    if (added.length + removed.length > 0) {
      this.#options.log.info({ ...figures, ...changes }, 'The members of a cohort were calculated.')
    }
  }

  /** Writes a command. Resolves with false if the cohort was deleted or its rule has changed since the calculation. */
  async #write(
    projectId: number,
    id: number,
    { revision }: CohortCalculation,
    added: readonly number[],
    removed: readonly number[],
    end: CalculationEnd | null,
  ): Promise<boolean> {
    if (this.#isStopped) return false
    const command = { kind: 'set_cohort_members', id, revision, added, removed, end } as const
    const result = await this.#options.commands.run(projectId, DAEMON_ACTOR, command)
    return result.kind === 'done'
  }
}

/** Returns whether a calculation was requested and has not been done yet. */
function isWanted({ calculation: { requests, answered } }: Candidate): boolean {
  return answered < requests
}
