/** Commands as the log holds them: JSON that the front writes and the processor reads. */
import type { Actor } from '../access/user.ts'
import type { DeadLetterCommand } from '../events/dead-letters.ts'
import type { PersonCommand } from './commands.ts'

/** A command as the log holds it. */
export interface LoggedCommand {
  readonly actor: Actor
  readonly command: PersonCommand
  /** When it was given, milliseconds. */
  readonly at: number
}

/** A command about dead letters, which belongs to no project. */
export interface LoggedDeadLetterCommand extends Omit<LoggedCommand, 'command'> {
  readonly command: DeadLetterCommand
}

/** The text of a command in the log. */
export function commandText(
  logged: Omit<LoggedCommand, 'command'> & { readonly command: PersonCommand | DeadLetterCommand },
): string {
  return JSON.stringify(logged)
}

/** The reverse of `commandText`. */
export function readCommand(bytes: Buffer): LoggedCommand | LoggedDeadLetterCommand {
  // The log holds what `commandText` has written: its checksum says so.
  return JSON.parse(bytes.toString('utf8')) as LoggedCommand | LoggedDeadLetterCommand
}

/** Whether a command is about dead letters. */
export function isAboutDeadLetters(
  logged: LoggedCommand | LoggedDeadLetterCommand,
): logged is LoggedDeadLetterCommand {
  const { kind } = logged.command
  return kind === 'replay_dead_letters' || kind === 'drop_dead_letters'
}
