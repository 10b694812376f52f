/** The limits of rules/persons: each with its unit, and what happens beyond it. docs/LIMITS.md lists them all. */

/** The longest of them, with a pair of quotes. */
export const ILLEGAL_ID_UNITS_MAX = 19
/** Lists of keys that a table remembers. Further: compared anew. */
export const TABLE_SEEN_KEYS_MAX = 64
/** Names of properties that a table remembers as bytes. Further: written anew. */
export const TABLE_NAMES_MAX = 4096
/** UTF-16 units of such a name. Longer: not remembered. */
export const TABLE_NAME_UNITS_MAX = 100
/** Bytes of JSON that the properties of one person may have. */
export const PERSON_PROPERTIES_BYTES_MAX = 524_288
