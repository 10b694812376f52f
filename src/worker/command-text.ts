/** Commands as the log holds them: JSON that both ends know. */
import type { Actor, PersonCommand } from '../query/persons.ts'

/** A command as the log holds it. */
export interface LoggedCommand {
  readonly actor: Actor
  readonly command: PersonCommand
  /** When it was given, milliseconds. */
  readonly at: number
}

/** The text of a command in the log. */
export function commandText(logged: LoggedCommand): string {
  return JSON.stringify(logged)
}

/** The reverse of `commandText`. */
export function readCommand(bytes: Buffer): LoggedCommand {
  // The log holds what `commandText` has written: its checksum says so.
  return JSON.parse(bytes.toString('utf8')) as LoggedCommand
}
