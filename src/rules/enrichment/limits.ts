/** The limits of rules/enrichment. */

/** Characters of a user agent that are looked at; what is behind them is as if it were not there. */
export const AGENT_UNITS_MAX = 1024

/** Characters of a text of a GeoIP database; a longer one is left out. */
export const PLACE_TEXT_UNITS_MAX = 256

/** Subdivisions of a country that an event gets, the largest first; the others are left out. */
export const PLACE_SUBDIVISIONS_MAX = 4
