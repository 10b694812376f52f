/**
 * Writes commands to the log, and waits until the processing thread reports their results. A command in the log is
 * carried out even if no caller waits for the result any more.
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

/**
 * The commands that free space. When the disk is nearly full, they are still accepted after other commands are refused.
 */
const ERASING: ReadonlySet<string> = new Set([
  'delete_person',
  'drop_dead_letters',
  'erase_events',
  'finish_erasure',
  'run_retention',
])
/** The project id in the records of commands that do not belong to a project. */
const NO_PROJECT = 0
/**
 * If an erasure in ClickHouse or the write of its `finish_erasure` command fails, both are tried again after this time,
 * in milliseconds.
 */
const ERASED_AGAIN_MS = 1000

/** The dependencies of commands. */
export interface PersonCommandOptions {
  readonly groupCommit: Pick<GroupCommit, 'add'>
  readonly clock: Clock
  /**
   * Returns the error with which a command must be refused at the moment, or null. `isErasing` is true for commands
   * that free space.
   */
  readonly refusal: (isErasing: boolean) => ServiceError | null
  /**
   * Called when the record of a command is on disk in the log. `isAwaited` returns whether a caller still waits for the
   * result.
   */
  readonly onLogged: (uuid: string, isAwaited: () => boolean, projectId: number) => void
  /**
   * Erases the events of a job from the copy in ClickHouse, and resolves when this is done. Undefined if there is no
   * copy.
   */
  readonly eraseCopies?: ((job: ErasedJob) => Promise<void>) | undefined
  /**
   * Returns true if another machine erases the events from the copy in ClickHouse, and then writes to the log that the
   * job is done. Default: false.
   */
  readonly isSaidElsewhere?: () => boolean
}

interface Waiting {
  readonly resolve: (result: CommandResult) => void
  readonly reject: (error: ServiceError) => void
  readonly timer: NodeJS.Timeout
}

/** Writes commands to the log and waits for their results. */
export class LoggedPersonCommands implements PersonCommands, DeadLetterCommands {
  readonly #options: PersonCommandOptions
  readonly #waiting = new Map<string, Waiting>()
  /**
   * Jobs that this machine has carried out in its own store. Another machine erases their events from the copy in
   * ClickHouse and writes to the log that the jobs are done. If no other machine does this any more, this machine does
   * it.
   */
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

  /** Resolves the commands whose results have arrived, and writes to the log which erasures are done. */
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
   * Erases the events of a job from the copy in ClickHouse, if there is one, and then writes to the log that the job is
   * done. Machines erase events at different times, but every machine that processes the log must store the same
   * receipt. The receipt therefore contains the time of the `finish_erasure` command. If the daemon ends before this
   * command is written, the daemon finds the job again at its next start.
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

  /** Rejects all waiting commands. Call it when nothing will be processed any more. */
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
