/**
 * Looks at the limits of a query every so often: whether its time is over, and whether anybody still waits.
 * Every loop over what a client may make long asks, also where parts are put together and answers made.
 */
import type { EventScanner } from '../analytics/event-columns.ts'

/** What says whether a query may go on. */
export type QueryLimits = Pick<EventScanner, 'checkLimits'>

/** Steps between two looks at the limits of a query. */
const CHECK_EVERY = 65_536

/** Asks now and then whether to go on. */
export class PacedLimits {
  readonly #limits: QueryLimits
  #left = 0

  constructor(limits: QueryLimits) {
    this.#limits = limits
  }

  /** Before so many steps of work. Throws as `EventScanner.checkLimits`. */
  count(steps: number): void {
    this.#left -= steps
    if (this.#left > 0) return
    this.#left = CHECK_EVERY
    this.#limits.checkLimits()
  }
}
