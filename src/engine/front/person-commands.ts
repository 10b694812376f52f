/**
 * The front's side of commands: writes them to the log and waits until the processing thread tells what
 * became of them. A command that is in the log is carried out even if nobody waits any more.
 */
import type { Clock } from '../../base/clock.ts'
import type { ServiceError } from '../../base/errors.ts'
import { formatUuid, writeUuidV7 } from '../../base/ids.ts'
import { refusal } from '../../base/refusals.ts'
import type { ErasedJob } from '../../ports/warehouse.ts'
import type { Actor } from '../../rules/access/user.ts'
import { ParsedEvents, RECORD_COMMAND } from '../../rules/capture/log-block.ts'
import type {
  DeadLetterCommand,
  DeadLetterCommands,
  DeadLetterOutcome,
} from '../../rules/events/dead-letters.ts'
import type { CommandResult, PersonCommand, PersonCommands } from '../../rules/persons/commands.ts'
import { commandText } from '../../rules/persons/logged-command.ts'
import type { ProcessResult } from '../threads/tasks.ts'
import type { GroupCommit } from './group-commit.ts'
import { COMMAND_WAIT_MS_MAX, COMMANDS_WAITING_MAX } from './limits.ts'
import { DAEMON_ACTOR } from './retention-schedule.ts'

/** Commands that give space back: they go on for a while when the disk is nearly full. */
const ERASING: ReadonlySet<string> = new Set([
  'delete_person',
  'drop_dead_letters',
  'erase_events',
  'finish_erasure',
  'run_retention',
])
/** In records that belong to no project. */
const NO_PROJECT = 0
/** How long after a refusal the log is told again what was erased. */
const ERASED_AGAIN_MS = 1000

/** What commands work with. */
export interface PersonCommandOptions {
  readonly groupCommit: Pick<GroupCommit, 'add'>
  readonly clock: Clock
  /** Why nothing can be written now, or null; `isErasing`: what gives space back. */
  readonly refusal: (isErasing: boolean) => ServiceError | null
  /** A command, by the uuid of its record, is durable in the log: somebody waits for what becomes of it. */
  readonly onLogged: (uuid: string, isAwaited: () => boolean, projectId: number) => void
  /** Resolves when what a job means is erased outside of the store, too. Absent: there is nothing. */
  readonly eraseCopies?: ((job: ErasedJob) => Promise<void>) | undefined
  /** Whether another machine erases copies, and says then that a job is done. Default: no. */
  readonly isSaidElsewhere?: () => boolean
}

interface Waiting {
  readonly resolve: (result: CommandResult) => void
  readonly reject: (error: ServiceError) => void
  readonly timer: NodeJS.Timeout
}

/** Sends commands to the log. */
export class LoggedPersonCommands implements PersonCommands, DeadLetterCommands {
  readonly #options: PersonCommandOptions
  readonly #waiting = new Map<string, Waiting>()
  /** Jobs that another machine says to be done, as long as there is one. */
  readonly #left: ErasedJob[] = []

  constructor(options: PersonCommandOptions) {
    this.#options = options
  }

  async deadLetters(actor: Actor, command: DeadLetterCommand): Promise<DeadLetterOutcome> {
    const result = await this.run(NO_PROJECT, actor, command)
    if (result.kind === 'done' && result.letters !== undefined) return result.letters
    throw new TypeError('the command answered nothing about dead letters')
  }

  run(
    projectId: number,
    actor: Actor,
    command: PersonCommand | DeadLetterCommand,
  ): Promise<CommandResult> {
    const { groupCommit, clock, onLogged } = this.#options
    const refused = this.#options.refusal(ERASING.has(command.kind))
    if (refused !== null) return Promise.reject(refused)
    if (this.#waiting.size >= COMMANDS_WAITING_MAX) {
      return Promise.reject(refusal('commands_full'))
    }
    const at = clock.now()
    const uuidBytes = new Uint8Array(16)
    writeUuidV7(uuidBytes, 0, at)
    const uuid = formatUuid(uuidBytes, 0)
    const events = new ParsedEvents([commandText({ actor, command, at })], [uuidBytes])
    const header = {
      projectId,
      flags: RECORD_COMMAND,
      arrivedAtMs: at,
      sentAtMs: Number.NaN,
      address: '',
    }
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.delete(uuid)
        reject(refusal('command_late'))
      }, COMMAND_WAIT_MS_MAX)
      timer.unref()
      this.#waiting.set(uuid, { resolve, reject, timer })
      groupCommit.add(header, events, {
        acknowledge: (error) => {
          if (error === null) onLogged(uuid, () => this.#waiting.has(uuid), projectId)
          else this.#end(uuid)?.reject(error)
        },
      })
    })
  }

  /** Tells those who wait what became of their commands, and the log what was erased. */
  processed({ commands, erased }: Pick<ProcessResult, 'commands' | 'erased'>): void {
    for (const { uuid, result } of commands) {
      const waiting = this.#end(uuid)
      if (result !== null) waiting?.resolve(result)
      else waiting?.reject(refusal('command_failed'))
    }
    this.#left.push(...erased)
    if (this.#options.isSaidElsewhere?.() === true) return
    for (const job of this.#left.splice(0)) void this.#sayErased(job)
  }

  /**
   * When a job has erased its events depends on when there was time. A receipt has to be the same for whoever
   * processes the log, so it gets the time of this command. What is not said is found again at the next start.
   */
  async #sayErased(job: ErasedJob): Promise<void> {
    try {
      await this.#options.eraseCopies?.(job)
      const command = { kind: 'finish_erasure', job: job.number } as const
      await this.run(job.projectId, DAEMON_ACTOR, command)
    } catch {
      setTimeout(() => void this.#sayErased(job), ERASED_AGAIN_MS).unref()
    }
  }

  /** Nothing will be processed any more: everyone who waits is told so. */
  fail(): void {
    for (const uuid of [...this.#waiting.keys()]) {
      this.#end(uuid)?.reject(refusal('command_stopped'))
    }
  }

  #end(uuid: string): Waiting | undefined {
    const waiting = this.#waiting.get(uuid)
    this.#waiting.delete(uuid)
    clearTimeout(waiting?.timer)
    return waiting
  }
}
