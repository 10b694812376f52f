/**
 * The only access to the current time. Folders of pure code never read it. The daemon and the tests pass a clock to the
 * code that needs one.
 */

/** Two ways to read the time. */
export interface Clock {
  /** Returns the wall clock time in milliseconds since 1970 (UTC). It may jump. */
  now(): number
  /** Returns monotonic milliseconds since an arbitrary start, for durations. */
  monotonic(): number
}

/** The clock of this machine. */
export const SYSTEM_CLOCK: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
}
