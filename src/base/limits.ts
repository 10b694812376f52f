/**
 * Limits that are not settings. Each has a name, a unit and, beside it, what is answered beyond it.
 * Sources: ingestion rules in docs/compatibility/errors.md, "Limits".
 */

/** Nesting of containers in a JSON body, the root counting as 1. Deeper: 400 `invalid_payload`. */
export const JSON_DEPTH_MAX = 128
/**
 * Elements of one request. Above what 20 MiB of the smallest events that are stored hold (1,165,084 of
 * `{"distinct_id":1}` on /engage). More: 413 `request_too_large`. Stands in rules/capture/scanner/assembly.ts, too.
 */
export const BODY_EVENTS_MAX = 1_200_000
/**
 * Values (members and elements at any depth) of one event: as many as are turned into objects at a time.
 * An event within the limit of properties has half as many at most. More: 413 `request_too_large`.
 */
export const EVENT_VALUES_MAX = 1_200_000
/** Bytes of a body on a private route. More: 413. */
export const API_BODY_BYTES_MAX = 4 * 1024 * 1024
/** Values in the JSON body of a private route, which is parsed on the main thread. More: 413. */
export const API_BODY_VALUES_MAX = 110_000
/** Objects and lists among them, which take the most time. More: 413. */
export const API_BODY_CONTAINERS_MAX = 20_000
/** Values in a body that is parsed to find the personal key in it. More: 413. */
export const API_KEY_BODY_VALUES_MAX = 20_000
/** Values in the body of a flag request, which is parsed on the main thread. More: 413. */
export const FLAG_BODY_VALUES_MAX = 20_000
/** UTF-16 units of an event name. Longer: cut. */
export const EVENT_NAME_UNITS_MAX = 200
/** Code points of a distinct_id. Longer: cut. */
export const DISTINCT_ID_POINTS_MAX = 200
/** Characters of a project or personal key. Longer: 401 `invalid_api_key`. */
export const KEY_CHARACTERS_MAX = 64
/** Characters of the name of a project or role, or of the label of a key. Longer: 400 `max_length`. */
export const NAME_CHARACTERS_MAX = 200
/** How far ahead of the server's clock a timestamp may lie. Beyond: the arrival time is taken, with a warning. */
export const FUTURE_TIMESTAMP_MS_MAX = 23 * 60 * 60 * 1000
/** Group types of a project. A further one: ignored. */
export const GROUP_TYPES_MAX = 5
/** Events of one page of a list. A larger limit is taken for this one. */
export const PAGE_EVENTS_MAX = 1000
/** Events of one page when the request names no limit. */
export const PAGE_EVENTS_DEFAULT = 100
/** How long events that were not stored are kept, and counted by the hour. */
export const DROPPED_DAYS_MAX = 7
/** Decoded bytes up to which a body is checked on the front; larger ones are checked in the pool. */
export const FRONT_BODY_BYTES_MAX = 128 * 1024
/** Bytes of lz64, or of JSON that must be parsed, up to which a body is checked on the front. */
export const FRONT_SLOW_BYTES_MAX = 32 * 1024
/** Bytes of a slab for large bodies (slabs.ts). A larger body or block: memory of its own. */
export const SLAB_BYTES_MAX = 24 * 1024 * 1024
/** Slabs in use at a time; fewer where the budget for bodies has no room for them. Further bodies: as above. */
export const SLABS_MAX = 8
/** Bytes of a body up to which it lies in a small slab, which has a quarter more for what its block adds. */
export const SMALL_SLAB_BODY_BYTES_MAX = 1024 * 1024
/** Small slabs in use at a time, within a sixth of the budget for bodies. Further bodies: memory of their own. */
export const SMALL_SLABS_MAX = 32
/** Bytes of the body of a flag request, as sent and decoded; it is read on the front. More: 413. */
export const FLAG_BODY_BYTES_MAX = 256 * 1024
/** Bytes of the body of a flag request whose decision is remembered. Larger ones are decided each time. */
export const DECISION_BYTES_MAX = 4096
/** Bytes, about, of all decisions that are remembered, without their answers. Beyond: the oldest are forgotten. */
export const KNOWN_DECISIONS_BYTES_MAX = 16 * 1024 * 1024
/** Bytes, about, of the requests that are known to ask for one of them. Beyond: the oldest are read again. */
export const KNOWN_REQUESTS_BYTES_MAX = 8 * 1024 * 1024
/** Bytes of an answer that is remembered with its decision. Longer ones are put together each time. */
export const KNOWN_ANSWER_BYTES_MAX = 16 * 1024
/** Bytes of the answers that are kept so. Beyond: the newest takes the place of the oldest, which is put together again. */
export const KNOWN_ANSWERS_BYTES_MAX = 16 * 1024 * 1024
/** Bytes, about, of the decoded columns that analytic queries keep when no setting says otherwise. Beyond: the oldest are given up. */
export const SCAN_CACHE_BYTES_DEFAULT = 160 * 1024 * 1024
/** Bytes of one piece of the memory in which threads keep blocks together: V8 makes no larger buffer than 4 GiB. A block is never larger: it is not kept. */
export const BLOCK_CHUNK_BYTES_MAX = 1024 ** 3
/** Milliseconds, about, that a thread waits for another that changes what is kept there. Longer: it goes on without it, until nobody uses it and it begins anew. */
export const BLOCK_LOCK_WAITS_MAX = 1000
/** Bytes of request line and headers, unless the environment variable UWS_HTTP_MAX_HEADERS_SIZE says otherwise. Beyond: 431. */
export const HEADER_BYTES_MAX = 65_536
/** Bytes of the rows of one page, about: a page ends there, with `next`, but not before its first row. */
export const PAGE_BYTES_MAX = 8 * 1024 * 1024
/** Rows of a page up to which the threads for short reads try it. More: the threads for long reads make it. */
export const SHORT_PAGE_ROWS_MAX = 100
/** Bytes of the rows of a page that the threads for short reads make. More: as above. */
export const SHORT_PAGE_BYTES_MAX = 256 * 1024
/** Milliseconds that a page may take on a thread for short reads. More: as above. */
export const SHORT_PAGE_MS_MAX = 50
/** Bytes of a table that is made as a whole. More: 400 `invalid_input`. */
export const TABLE_BYTES_MAX = 16 * 1024 * 1024
/** Bytes that large answers hold together while they wait for their readers. Beyond: stalled ones are cut, else 503. */
export const WAITING_ANSWERS_BYTES_MAX = 128 * 1024 * 1024
/** Reads that may wait for a thread for long reads. Beyond: the largest of them is refused with 503. */
export const LONG_READS_WAITING_MAX = 32
/** Distinct ids of a person in lists and within events. Further ones: left out, and all are counted. */
export const DISTINCT_IDS_LISTED_MAX = 100
/** Distinct ids of a person that is shown alone or within an analytic answer. Further ones: as above. */
export const DISTINCT_IDS_SHOWN_MAX = 1000
/** Cells of one table, empty ones included. More: 400 `invalid_input`. */
export const TABLE_CELLS_MAX = 5_000_000
/** Bytes of the names of all columns. More: as too many cells. */
export const TABLE_HEADER_BYTES_MAX = 4 * 1024 * 1024
/** Label sets that one family may have. Further ones share the set whose values are all `other`. */
export const METRIC_LABEL_SETS_MAX = 1000
/** UTF-16 units of a pattern that a refusal repeats. */
export const PATTERN_QUOTED_UNITS_MAX = 40
/** Instructions of a compiled pattern. A larger one counts as invalid. */
export const REPLACEMENT_PROGRAM_MAX = 1000
/** UTF-16 units of a text that are searched; the rest stays as it is. */
export const REPLACEMENT_TEXT_UNITS_MAX = 10_000
/** UTF-16 units of a result; no more replacements are made in a text that has become longer. */
export const REPLACEMENT_RESULT_UNITS_MAX = 20_000
/** UTF-16 units of a pattern. A longer one counts as invalid. */
export const PATTERN_UNITS_MAX = 500
/** Instructions of a compiled pattern. A larger one counts as invalid. */
export const PATTERN_PROGRAM_MAX = 1000
/** UTF-16 units of a text that are searched; the rest is not looked at. */
export const PATTERN_TEXT_UNITS_MAX = 2000
/** What the engine may remember about one pattern; it works slower, not wrong, when that is used up. */
export const PATTERN_ENGINE_BYTES_MAX = 32 * 1024
/** Compiled patterns that are kept; the one that was compiled first goes first. */
export const CACHED_PATTERNS_MAX = 500
/** States that fit into the memory of an engine, at most: each takes 150 bytes and more. */
export const PATTERN_ENGINE_STATES_MAX = Math.ceil(PATTERN_ENGINE_BYTES_MAX / 150)
/** Units of the budget of a request, 30 ns each: some 12 ms, measured for the worst patterns. */
export const PATTERN_REQUEST_UNITS_MAX = 400_000
/** The highest number of a partition of events; each has a stream, and an outbox on every machine that accepts for it. */
export const PARTITION_MAX = 63
/** Persons or groups that one rehearsal of a flag decides about. More: 400 `invalid_input`. */
export const REHEARSAL_SAMPLE_MAX = 100_000
/** The same when the client does not say. */
export const REHEARSAL_SAMPLE_USUAL = 10_000
/** Days for which it is kept how often flags had each value. More: 400 `invalid_input`. */
export const USAGE_DAYS_MAX = 30
/** Days of time zones whose offset a thread remembers, some 100 bytes each. More: it begins anew. */
export const ZONE_DAYS_MAX = 16_384
