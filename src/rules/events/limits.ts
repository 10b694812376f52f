/** The limits of rules/events, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/** The largest number of values of an event property that are suggested. Less frequent values are left out. */
export const OFFERED_VALUES_MAX = 50
/** The largest number of UTF-16 units in a suggested value. Longer values are left out. */
export const OFFERED_UNITS_MAX = 500
/**
 * The largest number of different values of a property that are counted to suggest the most frequent ones. Values that
 * are found later are left out.
 */
export const VALUES_COUNTED_MAX = 100_000
/**
 * The largest number of custom event names that the console suggests where an event has to be chosen. Less frequent
 * names are left out.
 */
export const OFFERED_EVENTS_MAX = 1000
/** The largest number of samples that are kept for each reason why events were not stored. The newest ones are kept. */
export const FATE_SAMPLES_MAX = 10
/** The largest number of UTF-16 units of the request body in the sample of a refused request. The rest is cut off. */
export const FATE_BODY_UNITS_MAX = 1024
/** The largest number of bytes of the content of a dead letter that a list shows. The rest is cut off. */
export const LETTER_BODY_BYTES_MAX = 4096
