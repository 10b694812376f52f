/** The limits of rules/access, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/**
 * The time without a user request after which a console session ends.
 * @user Console and live events
 */
export const SESSION_IDLE_MS_MAX = 12 * 3_600_000
/**
 * The time after which a console session ends, even if it is in use.
 * @user Console and live events
 */
export const SESSION_AGE_MS_MAX = 7 * 24 * 3_600_000
/**
 * The longest time between two updates of the stored time at which a console session was last used. The stored time may
 * be late by this much.
 */
export const SESSION_SEEN_LATE_MS_MAX = 60_000
