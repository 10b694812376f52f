/** The limits of rules/persons, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/**
 * The number of UTF-16 units in the longest `distinct_id` of the list of illegal ones, including a pair of quotation
 * marks. A longer ID is illegal only if it is blank.
 */
export const ILLEGAL_ID_UNITS_MAX = 19
/**
 * The number of positions in an event for which the property table caches the property that was last seen there. Names
 * at later positions are looked up each time.
 */
export const TABLE_SEEN_KEYS_MAX = 64
/** The largest number of property names whose JSON is cached. Beyond it, the cache is cleared. */
export const TABLE_NAMES_MAX = 4096
/** The largest number of UTF-16 units in a cached property name. The JSON of longer names is built each time. */
export const TABLE_NAME_UNITS_MAX = 100
/**
 * The largest number of bytes of JSON in the properties of one person or group. A change by an event that would exceed
 * it is not applied, with a warning. A change by a request is answered 400 `invalid_input`.
 * @user Persons and groups
 */
export const PERSON_PROPERTIES_BYTES_MAX = 524_288
