/** The limits of rules/events: each with its unit, and what happens beyond it. docs/LIMITS.md lists them all. */

/** Values of a property of events that are offered. Further: left out. */
export const OFFERED_VALUES_MAX = 50
/** UTF-16 units of a value that is offered; longer ones are left out. */
export const OFFERED_UNITS_MAX = 500
/** Different values that are counted for that; those that come later are left out. */
export const VALUES_COUNTED_MAX = 100_000
/** Names of events of one's own that are offered in the place of values. Further: left out. */
export const OFFERED_EVENTS_MAX = 1000
/** Samples of a reason for which events have no stored row. The newest are kept. */
export const FATE_SAMPLES_MAX = 10
/** UTF-16 units of the body of a refused request that a sample has. Further: cut. */
export const FATE_BODY_UNITS_MAX = 1024
/** Bytes of what a dead letter holds that a list shows. Further: cut. */
export const LETTER_BODY_BYTES_MAX = 4096
