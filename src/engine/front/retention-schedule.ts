/**
 * Carries out retention from time to time. What has to go is found by a reading thread; then a command
 * that says every moment that it means goes into the log, so that a replay erases the same events. A
 * project of which nothing has to go gets no command.
 */
import type { Clock } from '../../base/clock.ts'
import type { Logger } from '../../base/log.ts'
import type { Actor } from '../../rules/access/user.ts'
import type { ErasureReceipt, RetentionPlan } from '../../rules/events/erasure.ts'
import type { PersonCommands } from '../../rules/persons/commands.ts'
import type { ErasureQueries } from '../threads/call-table.ts'

/** How often events that are kept too long are looked for. */
const PERIOD_MS = 3_600_000
/** How long after the start at first: a daemon that is restarted often shall get to it, too. */
const FIRST_MS = 60_000

/** Who erases when nobody in person does. */
export const DAEMON_ACTOR: Actor = { userId: 0, firstName: '', email: '' }

/** What retention works with. */
export interface RetentionOptions {
  readonly queries: Pick<ErasureQueries, 'planRetention' | 'retainedProjects'>
  readonly commands: PersonCommands
  readonly clock: Pick<Clock, 'now'>
}

/** What was found, and the receipt of what was begun; null: nothing has to go, or it is on its way. */
export interface RetentionRun {
  readonly plan: RetentionPlan
  readonly receipt: ErasureReceipt | null
}

/**
 * Finds out what has to go of one project by its rules, and begins with it. Rejects as its ports do,
 * with 503 when the log takes nothing.
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

/** Does so for all projects, again and again. */
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

  /** Begins with no further project. */
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

  /** A search that ends after the stop must not write any more. */
  #command(command: Parameters<PersonCommands['run']>): ReturnType<PersonCommands['run']> {
    if (this.#isStopped) return Promise.reject(new Error('retention was stopped'))
    return this.#commands.run(...command)
  }

  /** Looks at every project that has rules. */
  async #run(): Promise<void> {
    try {
      for (const projectId of await this.#options.queries.retainedProjects()) {
        if (this.#isStopped) return
        const { plan, receipt } = await runRetention(this.#options, projectId, DAEMON_ACTOR)
        if (receipt === null) continue
        const figures = { project: projectId, erasure: receipt.id, events: plan.events }
        this.#log.info(figures, 'retention erases events')
      }
    } catch (error) {
      if (this.#isStopped) return
      this.#log.warn({ err: error }, 'retention could not be carried out; it is tried again')
    }
  }
}
