/**
 * Regularly starts the erasure of events that are older than the retention of their project. A reader thread finds out
 * whether a project has such events (store/events/erase/erasure-reader.ts). If so, a command is written to the log. It
 * contains the exact times up to which events are erased, so that a replay erases the same events.
 * store/events/write/event-erasure.ts erases them.
 */
import type { Clock } from '../../base/clock.ts'
import type { Logger } from '../../base/log.ts'
import type { Actor } from '../../rules/access/user.ts'
import type { ErasureReceipt, RetentionPlan } from '../../rules/events/erasure.ts'
import type { PersonCommands } from '../../rules/persons/commands.ts'
import type { ErasureQueries } from '../threads/call-table.ts'

/** The interval of the searches for events to erase, in milliseconds. */
const PERIOD_MS = 3_600_000
/**
 * The time between the start and the first search, in milliseconds. It is short, so that a daemon that is often
 * restarted still makes the search.
 */
const FIRST_MS = 60_000

/** The actor that is recorded for erasures that no user has started. */
export const DAEMON_ACTOR: Actor = { userId: 0, firstName: '', email: '' }

/** The dependencies of retention. */
export interface RetentionOptions {
  readonly queries: Pick<ErasureQueries, 'planRetention' | 'retainedProjects'>
  readonly commands: PersonCommands
  readonly clock: Pick<Clock, 'now'>
}

/**
 * The plan of an erasure, and the receipt of the erasure that was started. The receipt is null if there is nothing to
 * erase, or if an erasure is already running.
 */
export interface RetentionRun {
  readonly plan: RetentionPlan
  readonly receipt: ErasureReceipt | null
}

/**
 * Searches for events of one project that its retention rules erase, and starts the erasure. Rejects with the errors of
 * `queries` and `commands`, for example with 503 if nothing can be written to the log.
 */
export async function runRetention(
  { queries, commands, clock }: RetentionOptions,
  projectId: number,
  actor: Actor,
): Promise<RetentionRun> {
  const plan = await queries.planRetention(projectId, null, clock.now())
  const { rules, oldestThrough, arrivedThroughMs } = plan
  if (plan.events === 0 || plan.isRunning) return { plan, receipt: null }
  const command = { kind: 'run_retention', rules, oldestThrough, arrivedThroughMs } as const
  const result = await commands.run(projectId, actor, command)
  return { plan, receipt: result.kind === 'done' ? (result.erasure ?? null) : null }
}

/** Runs retention for all projects, periodically. */
export class RetentionSchedule {
  readonly #options: RetentionOptions
  readonly #log: Pick<Logger, 'info' | 'warn'>
  readonly #commands: PersonCommands
  readonly #periodMs: number
  #timer: NodeJS.Timeout | undefined
  #isStopped = false

  constructor(
    options: RetentionOptions,
    log: Pick<Logger, 'info' | 'warn'>,
    periodMs: number = PERIOD_MS,
  ) {
    this.#options = { ...options, commands: { run: (...command) => this.#command(command) } }
    this.#commands = options.commands
    this.#log = log
    this.#periodMs = periodMs
  }

  start(): void {
    this.#schedule(Math.min(FIRST_MS, this.#periodMs))
  }

  /** Stops the schedule. No further project is searched. */
  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
  }

  #schedule(delayMs: number): void {
    if (this.#isStopped) return
    this.#timer = setTimeout(() => {
      void this.#run().then(() => this.#schedule(this.#periodMs))
    }, delayMs)
  }

  /**
   * Sends a command. Rejects after `stop`, because a search that is still running then must not write to the log any
   * more.
   */
  #command(command: Parameters<PersonCommands['run']>): ReturnType<PersonCommands['run']> {
    if (this.#isStopped) return Promise.reject(new Error('retention was stopped'))
    return this.#commands.run(...command)
  }

  /** Runs retention once for each project that has rules. */
  async #run(): Promise<void> {
    try {
      for (const projectId of await this.#options.queries.retainedProjects()) {
        if (this.#isStopped) return
        const { plan, receipt } = await runRetention(this.#options, projectId, DAEMON_ACTOR)
        if (receipt === null) continue
        const figures = { project: projectId, erasure: receipt.id, events: plan.events }
        this.#log.info(figures, 'Retention erases events.')
      }
    } catch (error) {
      if (this.#isStopped) return
      this.#log.warn({ err: error }, 'Retention failed and will be tried again.')
    }
  }
}
