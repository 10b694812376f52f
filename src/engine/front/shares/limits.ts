/** The limits of engine/front/shares, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/**
 * The largest number of senders whose waiting events are counted separately, about 300 bytes each. If all of them have
 * waiting events, further senders share one account.
 */
export const SENDERS_MAX = 8192
/**
 * The largest number of shares into which the queue of waiting events is divided. If more senders fill the queue
 * equally, all of them are answered 503.
 */
export const SHARES_MAX = 1000
/** The time without accepted events of any other sender after which a sender may use the whole queue. */
export const SENDER_ACTIVE_MS_MAX = 60_000
/**
 * The highest value of the measured processing time of a sender's events, divided by the first estimate. A higher one
 * is treated as this one.
 */
export const WORK_FACTOR_MAX = 100
