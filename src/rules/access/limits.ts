/** The limits of rules/access: each with its unit, and what happens beyond it. docs/LIMITS.md lists them all. */

/** Milliseconds without a request that somebody made after which a session of the console ends. */
export const SESSION_IDLE_MS_MAX = 12 * 3_600_000
/** Milliseconds after which a session of the console ends whatever it does. */
export const SESSION_AGE_MS_MAX = 7 * 24 * 3_600_000
/** Milliseconds by which the noted time of its last use may be late: it is written no more often. */
export const SESSION_SEEN_LATE_MS_MAX = 60_000
