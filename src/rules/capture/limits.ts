/** The limits of rules/capture: each with its unit, and what happens beyond it. docs/LIMITS.md lists them all. */
import { DISTINCT_ID_POINTS_MAX, EVENT_NAME_UNITS_MAX } from '../../base/limits.ts'

/** Characters of an entry beyond which it is no address (an IPv6 address with a zone has fewer). */
export const ADDRESS_CHARACTERS_MAX = 100
/** Characters of `X-Forwarded-For` among which an address is looked for; proxies in front add few. */
export const FORWARDED_FOR_CHARACTERS_MAX = 1000
/** How late an event may arrive and still belong to the visitor of its day. */
export const COOKIELESS_LATE_MS_MAX = 72 * 3_600_000
/** UTF-16 units of the extra text that tells visitors apart. Longer: cut. */
export const COOKIELESS_EXTRA_UNITS_MAX = 100
/** Names of zones come from clients; beyond that number all that is known of them is forgotten. */
export const COOKIELESS_ZONES_MAX = 200
/** No zone has a longer name. */
export const COOKIELESS_ZONE_UNITS_MAX = 64
/** UTF-16 units of the text of an element. Longer: cut. */
export const ELEMENT_TEXT_UNITS_MAX = 400
/** UTF-16 units of the address of an element. Longer: cut. */
export const ELEMENT_HREF_UNITS_MAX = 2048
/** More than any name or id keeps: a code point has at most two units. */
export const FIELD_JSON_UNITS_MAX = 2 * Math.max(DISTINCT_ID_POINTS_MAX, EVENT_NAME_UNITS_MAX) + 1
/** Rows of a column that the kernel fills by itself. A column of more is filled value by value. */
export const COLUMN_BLOCK_ROWS = 8192
/** Bytes of an event beyond which it is always parsed: what large events hold hardly repeats. */
export const KERNEL_EVENT_BYTES_MAX = 256 * 1024
/** Events without a key that are looked at for one before the body has to wait for those that are proved. */
export const KEY_PROOF_EVENTS_MAX = 1000
/** UTF-16 units of a text in a warning. Longer: cut. */
export const WARNING_UNITS_MAX = 1000
/** UTF-16 units of a time in a warning. Longer: cut. */
export const TIME_SHOWN_UNITS_MAX = 100
/** Characters of a time that is not in ISO 8601. Longer: no time. */
export const TIME_CHARACTERS_MAX = 120
/** Texts of classes of elements of which the thread remembers what they become. */
export const CLASSES_KEPT_MAX = 1000
/** UTF-16 units of such a text; longer ones are taken apart each time. */
export const CLASSES_KEPT_UNITS_MAX = 300
/** UTF-16 units of a value that the reason for leaving out a line shows. Longer: cut. */
export const IMPORT_VALUE_SHOWN_UNITS_MAX = 100
/** UTF-16 units of the name and version of an SDK in `PostHog-Sdk-Info`. Longer: the header is ignored. */
export const SDK_INFO_UNITS_MAX = 200
