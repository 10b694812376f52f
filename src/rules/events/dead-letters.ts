/** Commands about dead letters: the front asks, the processing thread carries out. */
import type { Actor } from '../access/user.ts'

/** What to do with the letters behind number `after` up to `through`, oldest first; some at a time. */
export interface DeadLetterCommand {
  /** Process them again, or forget them for good. */
  readonly kind: 'replay_dead_letters' | 'drop_dead_letters'
  readonly after: number
  readonly through: number
}

/** What became of the letters that one command has dealt with. */
export interface DeadLetterOutcome {
  /** Replayed or dropped: they are gone. */
  readonly done: number
  /** Failed again: events are new letters now, unreadable blocks have stayed. */
  readonly failed: number
  /** Commands, which are not replayed: whoever gave them was told that they failed. */
  readonly skipped: number
  /** Number of the last letter that was looked at; `after` of the next command. */
  readonly last: number
  /** Number of the newest letter when the command began: what fails again has a higher one. */
  readonly newest: number
  /** There are more letters up to `through`. */
  readonly hasMore: boolean
}

/** Commands as a port: the front calls it, the daemon wires it to the log. */
export interface DeadLetterCommands {
  /** Resolves when it is done, durably. Rejects with `ServiceError` 503 when it cannot be done. */
  deadLetters(actor: Actor, command: DeadLetterCommand): Promise<DeadLetterOutcome>
}
