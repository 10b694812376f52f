/**
 * The clock that code receives from its caller instead of reading the time itself. Tests pass a clock of their own.
 * Code that computes results from its inputs alone receives a moment and no clock.
 */

/** Two ways to read the time. */
export interface Clock {
  /** Returns the wall clock time in milliseconds since 1970 (UTC). It jumps when the clock of the machine is set. */
  now(): number
  /** Returns monotonic milliseconds since an arbitrary start, for durations. */
  monotonic(): number
}

/** The clock of this machine. */
export const SYSTEM_CLOCK: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
}
