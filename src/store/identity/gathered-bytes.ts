/** Counts the estimated memory of all changes that wait for the next commit. */

/**
 * The estimated number of bytes of memory of the changes that wait for the next commit. All parts of the store that
 * gather changes share one such object.
 */
export class GatheredBytes {
  bytes = 0
}
