/** Commands about dead letters. The main thread issues them, and the processing thread executes them. */
import type { Actor } from '../access/user.ts'

/**
 * A command for the letters whose number is greater than `after` and at most `through`, oldest first. One command
 * handles a limited number of letters.
 */
export interface DeadLetterCommand {
  /** `replay_dead_letters` processes the letters again, and `drop_dead_letters` discards them for good. */
  readonly kind: 'replay_dead_letters' | 'drop_dead_letters'
  readonly after: number
  readonly through: number
}

/** The result of one command. */
export interface DeadLetterOutcome {
  /** The number of letters that were replayed or dropped. They no longer exist. */
  readonly done: number
  /**
   * The number of letters that failed again. An event that failed again has become a new letter. An unreadable block
   * keeps its letter.
   */
  readonly failed: number
  /**
   * The number of letters that contain a command (an action that a user requested) instead of events. Commands are not
   * replayed, because their callers were told that the commands had failed.
   */
  readonly skipped: number
  /** The number of the last letter that was handled. It is the `after` of the next command. */
  readonly last: number
  /** The number of the newest letter at the start of the command. A letter that fails again gets a higher number. */
  readonly newest: number
  /** True if there are more letters up to `through`. */
  readonly hasMore: boolean
}

/** The port through which the main thread issues these commands. The daemon connects it to the log. */
export interface DeadLetterCommands {
  /** Resolves when the command was executed durably. Rejects with `ServiceError` 503 if it cannot be executed. */
  deadLetters(actor: Actor, command: DeadLetterCommand): Promise<DeadLetterOutcome>
}
