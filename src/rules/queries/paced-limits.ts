/**
 * Checks the limits of a query at intervals: whether its time is over, and whether anybody still waits for the answer.
 * Every loop whose length a client controls must count its steps here, also while parts are merged and answers are
 * written.
 */
import type { EventScanner } from '../analytics/event-columns.ts'

/** The part of `EventScanner` that throws if a query may not continue. */
export type QueryLimits = Pick<EventScanner, 'checkLimits'>

/** The limits are checked once for this number of steps. */
const CHECK_EVERY = 65_536

/** Checks the limits of a query each time that enough steps of work were counted. */
export class PacedLimits {
  readonly #limits: QueryLimits
  #left = 0

  constructor(limits: QueryLimits) {
    this.#limits = limits
  }

  /** Counts steps of work before they are done. Throws the same errors as `EventScanner.checkLimits`. */
  count(steps: number): void {
    this.#left -= steps
    if (this.#left > 0) return
    this.#left = CHECK_EVERY
    this.#limits.checkLimits()
  }
}
