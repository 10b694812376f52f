/** The limits of rules/capture, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */
import { DISTINCT_ID_POINTS_MAX, EVENT_NAME_UNITS_MAX } from '../../base/limits.ts'

/**
 * The largest number of characters in an entry of `X-Forwarded-For` that is read as an IP address. A longer entry is
 * skipped. Even an IPv6 address with a zone is shorter.
 */
export const ADDRESS_CHARACTERS_MAX = 100
/** The largest number of characters of `X-Forwarded-For` in which an IP address is searched. The rest is ignored. */
export const FORWARDED_FOR_CHARACTERS_MAX = 1000
/**
 * The time by which a cookieless event may arrive after the end of its day and still count for the visitor of that day.
 * An event that arrives later counts for the day on which it arrived.
 * @user Events
 */
export const COOKIELESS_LATE_MS_MAX = 72 * 3_600_000
/**
 * The largest number of UTF-16 units of `$cookieless_extra`, which distinguishes cookieless visitors. The rest is
 * ignored.
 */
export const COOKIELESS_EXTRA_UNITS_MAX = 100
/**
 * The largest number of time zones whose formatters are cached, because clients send their names. Beyond it, the cache
 * is cleared.
 */
export const COOKIELESS_ZONES_MAX = 200
/** The largest number of UTF-16 units in the name of a time zone. A longer name does not count as one. */
export const COOKIELESS_ZONE_UNITS_MAX = 64
/**
 * The largest number of UTF-16 units of the text of a clicked element. The rest is cut off.
 * @user Events
 */
export const ELEMENT_TEXT_UNITS_MAX = 400
/**
 * The largest number of UTF-16 units of the `href` of a clicked element. The rest is cut off.
 * @user Events
 */
export const ELEMENT_HREF_UNITS_MAX = 2048
/**
 * If the name or ID of an event is a list or object, its JSON is read only up to about this number of UTF-16 units.
 * This is more than a name or ID may have. A code point has at most two units.
 */
export const FIELD_JSON_UNITS_MAX = 2 * Math.max(DISTINCT_ID_POINTS_MAX, EVENT_NAME_UNITS_MAX) + 1
/**
 * The number of rows of a column that the WebAssembly kernel fills at once. A column with more rows is filled value by
 * value.
 */
export const COLUMN_BLOCK_ROWS = 8192
/**
 * The largest number of bytes in an event that the WebAssembly kernel reads. A larger event is always parsed, because
 * its content hardly repeats.
 */
export const KERNEL_EVENT_BYTES_MAX = 256 * 1024
/**
 * The largest number of events that are searched for a project key before a large body is parsed, so that an unknown
 * key is refused early. If none of these events has a key, the body is parsed.
 */
export const KEY_PROOF_EVENTS_MAX = 1000
/**
 * The largest number of UTF-16 units of a text in an ingestion warning. The rest is cut off.
 * @user Events
 */
export const WARNING_UNITS_MAX = 1000
/** The largest number of UTF-16 units of an invalid time that a warning shows. The rest is cut off. */
export const TIME_SHOWN_UNITS_MAX = 100
/** The largest number of characters in a timestamp that is not in ISO 8601. A longer one is not a valid timestamp. */
export const TIME_CHARACTERS_MAX = 120
/**
 * The largest number of `class` texts of elements whose parsed form a thread caches. Beyond it, the cache is cleared.
 */
export const CLASSES_KEPT_MAX = 1000
/**
 * The largest number of UTF-16 units in a `class` text whose parsed form is cached. A longer text is parsed each time.
 */
export const CLASSES_KEPT_UNITS_MAX = 300
/** The largest number of UTF-16 units of a value that the reason for skipping a line shows. The rest is cut off. */
export const IMPORT_VALUE_SHOWN_UNITS_MAX = 100
/** The largest number of UTF-16 units in the header `PostHog-Sdk-Info`. A longer header is ignored. */
export const SDK_INFO_UNITS_MAX = 200
/**
 * The largest window of a zstd body, given as an exponent of two: 2^23 bytes are 8 MiB, the largest window that RFC
 * 9659 allows for `Content-Encoding: zstd`. A body with a larger window is refused. The decoder allocates the window
 * before it has read anything else.
 */
export const ZSTD_WINDOW_LOG_MAX = 23
/**
 * The largest number of frames of a zstd body. A body with more is refused. Encoders that compress in parallel write a
 * frame for each part.
 */
export const ZSTD_FRAMES_MAX = 1000
