/** The form of commands in the log: JSON that the main thread writes and the processing thread reads. */
import type { Actor } from '../access/user.ts'
import type { DeadLetterCommand } from '../events/dead-letters.ts'
import type { PersonCommand } from './commands.ts'

/** A command in the form of the log. */
export interface LoggedCommand {
  readonly actor: Actor
  readonly command: PersonCommand
  /** The time at which the command was given, in milliseconds since 1970. */
  readonly at: number
}

/** A command about dead letters. It belongs to no project. */
export interface LoggedDeadLetterCommand extends Omit<LoggedCommand, 'command'> {
  readonly command: DeadLetterCommand
}

/** Returns the text of a command for the log. */
export function commandText(
  logged: Omit<LoggedCommand, 'command'> & { readonly command: PersonCommand | DeadLetterCommand },
): string {
  return JSON.stringify(logged)
}

/** Reads a command that `commandText` has written. */
export function readCommand(bytes: Buffer): LoggedCommand | LoggedDeadLetterCommand {
  // The checksum of the log proves that `commandText` wrote these bytes.
  return JSON.parse(bytes.toString('utf8')) as LoggedCommand | LoggedDeadLetterCommand
}

/** Returns whether a command is about dead letters. */
export function isAboutDeadLetters(
  logged: LoggedCommand | LoggedDeadLetterCommand,
): logged is LoggedDeadLetterCommand {
  const { kind } = logged.command
  return kind === 'replay_dead_letters' || kind === 'drop_dead_letters'
}
