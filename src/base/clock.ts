/** The only access to the current time. Pure folders never read it; the daemon and the tests inject a clock. */

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
