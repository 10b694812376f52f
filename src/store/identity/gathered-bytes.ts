/** Counts the estimated memory of everything that waits for the next commit. */

/** The estimated bytes that wait for the next commit. All parts of the store that gather changes share one object. */
export class GatheredBytes {
  bytes = 0
}
