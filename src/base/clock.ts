/** The one way to learn the time. Pure folders never read it; tests and the daemon inject it. */

/** Two readings of the time. */
export interface Clock {
  /** Wall clock, milliseconds since 1970 (UTC). It may jump. */
  now(): number
  /** Monotonic milliseconds from an arbitrary start, for durations. */
  monotonic(): number
}

/** The clock of this machine. */
export const SYSTEM_CLOCK: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
}
