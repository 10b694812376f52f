/** Counts the estimated memory that the parts of a store have gathered for the next commit. */

/** The estimated memory of what was gathered since the last commit, in bytes. All parts that gather share it. */
export class GatheredBytes {
  bytes = 0
}
