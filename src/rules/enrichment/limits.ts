/** The limits of rules/enrichment, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/** The largest number of UTF-16 units of a user agent that are read. The rest is ignored. */
export const AGENT_UNITS_MAX = 1024

/** The largest number of UTF-16 units in a text of a GeoIP database. A longer text is left out. */
export const PLACE_TEXT_UNITS_MAX = 256

/**
 * The largest number of subdivisions of a country, such as states, that an event gets. The largest subdivisions are
 * used, and further ones are left out.
 */
export const PLACE_SUBDIVISIONS_MAX = 4
