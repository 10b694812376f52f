/** The limits of engine/front/shares: each with its unit, and what happens beyond it. docs/LIMITS.md lists them all. */

/** Senders whose waiting events are counted, some 300 bytes each. Beyond, when all have something waiting: further ones share one account. */
export const SENDERS_MAX = 8192
/** Shares into which the waiting queue is divided at most. When more senders fill it alike, all are refused with 503. */
export const SHARES_MAX = 1000
/** A sender has the queue for itself when nobody else's events were accepted for that long, milliseconds. */
export const SENDER_ACTIVE_MS_MAX = 60_000
/** What processing of a sender's events takes, as a multiple of the first estimate. More is taken for this. */
export const WORK_FACTOR_MAX = 100
