/**
 * Limits that several folders or the API share and that are not settings. `npm run docs` writes their comments to
 * docs/LIMITS.md and docs/limits-internal.md. Source of the ingestion rules: docs/compatibility/errors.md, "Limits".
 */

/**
 * The largest number of containers (objects and lists) in a JSON body that may be nested, including the root. A body
 * that is nested more deeply is answered 400: `invalid_payload` for events, `invalid_input` for other requests.
 * @user Requests and answers
 */
export const JSON_DEPTH_MAX = 128
// rules/capture/scanner/assembly.ts contains the same value.
/**
 * The largest number of events in one request. More are answered 413 `request_too_large`. A body of 20 MiB cannot have
 * so many: it has room for 1,165,084 of the smallest events, `{"distinct_id":1}` on /engage.
 * @user Events
 */
export const BODY_EVENTS_MAX = 1_200_000
/**
 * The largest number of values (members and elements at any depth) in one event, or in the members of a request beside
 * `batch`. More are answered 413 `request_too_large`. If the properties of an event are within their size limit, the
 * event has at most half as many values.
 * @user Events
 */
export const EVENT_VALUES_MAX = 1_200_000
/**
 * The largest number of bytes in the body of a request to a private route. A larger body is answered 413.
 * @user Requests and answers
 */
export const API_BODY_BYTES_MAX = 4 * 1024 * 1024
/**
 * The largest number of values in the JSON body of a request to a private route. A body with more is answered 413,
 * because the main thread parses it.
 * @user Requests and answers
 */
export const API_BODY_VALUES_MAX = 110_000
/**
 * The largest number of objects and lists in the JSON body of a request to a private route. A body with more is
 * answered 413, because objects and lists take the most time to parse.
 * @user Requests and answers
 */
export const API_BODY_CONTAINERS_MAX = 20_000
/**
 * The largest number of values in a JSON body that is searched for `personal_api_key`. A body with more is answered
 * 413. Send the key in the header instead.
 * @user Requests and answers
 */
export const API_KEY_BODY_VALUES_MAX = 20_000
/**
 * The largest number of values in the body of a flag request. A body with more is answered 413, because the main thread
 * parses it.
 * @user Flags
 */
export const FLAG_BODY_VALUES_MAX = 20_000
/**
 * The largest number of UTF-16 units in the name of an event. The rest of a longer name is cut off.
 * @user Events
 */
export const EVENT_NAME_UNITS_MAX = 200
/**
 * The largest number of code points in a `distinct_id`. The rest of a longer ID is cut off.
 * @user Events
 */
export const DISTINCT_ID_POINTS_MAX = 200
/**
 * The largest number of characters in a project key or personal key. A longer key is invalid: on the ingestion routes
 * it is answered 401 `invalid_api_key`.
 * @user Requests and answers
 */
export const KEY_CHARACTERS_MAX = 64
/**
 * The largest number of characters in the name of a project, role or group type, or in the label of a key. A longer one
 * is answered 400 `max_length`.
 * @user Projects, users and keys
 */
export const NAME_CHARACTERS_MAX = 200
/**
 * The time that a timestamp may be ahead of the server's clock. For a later timestamp, the time of arrival is used
 * instead, with a warning.
 * @user Events
 */
export const FUTURE_TIMESTAMP_MS_MAX = 23 * 60 * 60 * 1000
/**
 * The largest number of group types of a project. Events do not add another type, and an index beyond the last one is
 * answered 400 `invalid_input`.
 * @user Persons and groups
 */
export const GROUP_TYPES_MAX = 5
/**
 * The largest number of rows on one page of events, flags, groups and the objects of the organization. A larger `limit`
 * is treated as this one.
 * @user Requests and answers
 */
export const PAGE_EVENTS_MAX = 1000
/**
 * The number of rows on one page of events, flags, groups and the objects of the organization if the request has no
 * `limit`.
 */
export const PAGE_EVENTS_DEFAULT = 100
/**
 * The largest number of days for which dropped events are kept and counted by hour. Older ones are removed.
 * @user Events
 */
export const DROPPED_DAYS_MAX = 7
/**
 * The largest number of decoded bytes in a body of events that the main thread checks. Worker threads check larger
 * bodies.
 */
export const FRONT_BODY_BYTES_MAX = 128 * 1024
/**
 * The largest number of bytes of lz64 data, or of JSON that must be parsed, in a body that the main thread checks.
 * Worker threads check larger bodies.
 */
export const FRONT_SLOW_BYTES_MAX = 32 * 1024
/**
 * The largest number of bytes in a slab for large bodies (base/slabs.ts). A larger body or block gets memory of its
 * own.
 */
export const SLAB_BYTES_MAX = 24 * 1024 * 1024
/**
 * The largest number of slabs for large bodies in use at a time. There are fewer if the budget for bodies has no room
 * for them. Further bodies get memory of their own.
 */
export const SLABS_MAX = 8
/**
 * The largest number of bytes of a body that fits into a small slab. The slab itself is a quarter larger, because the
 * log block of a body may be larger than the body.
 */
export const SMALL_SLAB_BODY_BYTES_MAX = 1024 * 1024
/**
 * The largest number of small slabs in use at a time. There are fewer if they would take more than a sixth of the
 * budget for bodies. Further bodies get memory of their own.
 */
export const SMALL_SLABS_MAX = 32
/**
 * The largest number of bytes in the body of a flag request, as sent and decoded. A larger body is answered 413,
 * because the main thread reads it.
 * @user Flags
 */
export const FLAG_BODY_BYTES_MAX = 256 * 1024
/**
 * The largest number of bytes in the body of a flag request whose decision is cached. For a larger request, the flags
 * are evaluated each time.
 */
export const DECISION_BYTES_MAX = 4096
/**
 * The approximate number of bytes of all cached decisions, without their answers. Beyond it, the oldest ones are
 * evicted.
 */
export const KNOWN_DECISIONS_BYTES_MAX = 16 * 1024 * 1024
/**
 * The approximate number of bytes of all flag requests that are cached with what they mean, so that a repeated request
 * is not parsed again. Beyond it, the oldest ones are evicted.
 */
export const KNOWN_REQUESTS_BYTES_MAX = 8 * 1024 * 1024
/** The largest number of bytes of an answer that is cached with its decision. Longer answers are built each time. */
export const KNOWN_ANSWER_BYTES_MAX = 16 * 1024
/**
 * The largest number of bytes of all cached answers. Beyond it, the newest answer replaces the oldest one, which is
 * built again when it is needed.
 */
export const KNOWN_ANSWERS_BYTES_MAX = 16 * 1024 * 1024
/**
 * The default number of bytes, approximately, of the decoded columns that analytic queries cache. Beyond it, the
 * oldest columns are evicted.
 */
export const SCAN_CACHE_BYTES_DEFAULT = 160 * 1024 * 1024
/**
 * The largest number of bytes in one chunk of the memory in which threads share blocks, because V8 creates no buffer
 * larger than 4 GiB. A larger block is not cached.
 */
export const BLOCK_CHUNK_BYTES_MAX = 1024 ** 3
/**
 * The approximate time, in milliseconds, for which a thread waits for the lock of the shared blocks. If it does not get
 * the lock in this time, no thread begins to read blocks until all blocks are cleared. They are cleared when no thread
 * reads them any more.
 */
export const BLOCK_LOCK_WAITS_MAX = 1000
/**
 * The largest number of bytes in the request line and headers, unless the environment variable
 * UWS_HTTP_MAX_HEADERS_SIZE sets another value. A request with more is answered 431.
 * @user Requests and answers
 */
export const HEADER_BYTES_MAX = 65_536
/**
 * The approximate number of bytes in the rows of one page. A page always has at least one row. It ends before the row
 * that would exceed this size, and `next` leads to the rest. A timeline with more bytes is answered 400
 * `query_too_large`.
 * @user Requests and answers
 */
export const PAGE_BYTES_MAX = 8 * 1024 * 1024
/**
 * The largest number of rows on a page that the threads for short reads try to build. The threads for long reads build
 * larger pages.
 */
export const SHORT_PAGE_ROWS_MAX = 100
/**
 * The largest number of bytes in the rows of a page that the threads for short reads build. The threads for long reads
 * build larger pages.
 */
export const SHORT_PAGE_BYTES_MAX = 256 * 1024
/**
 * The time that a page may take on a thread for short reads. A page that takes longer is built by the threads for long
 * reads.
 */
export const SHORT_PAGE_MS_MAX = 50
/**
 * The largest number of bytes in a table (CSV) that is built at once. A larger table is answered 400
 * `invalid_input`.
 * @user Requests and answers
 */
export const TABLE_BYTES_MAX = 16 * 1024 * 1024
/**
 * The largest number of bytes that all answers hold while they wait for their readers. Beyond it, answers whose
 * readers have stalled are cut off. If that does not free enough memory, a request is answered 503.
 * @user Requests and answers
 */
export const WAITING_ANSWERS_BYTES_MAX = 128 * 1024 * 1024
/**
 * The largest number of reads that may wait for one of the threads for long reads. Beyond it, the waiting read that
 * asks for the most rows is answered 503.
 * @user Requests and answers
 */
export const LONG_READS_WAITING_MAX = 32
/**
 * The largest number of `distinct_ids` of a person in lists and within events. Further IDs are left out, and
 * `distinct_ids_count` gives their total number.
 * @user Persons and groups
 */
export const DISTINCT_IDS_LISTED_MAX = 100
/**
 * The largest number of `distinct_ids` of a person that is shown alone or within an analytic answer. Further IDs are
 * left out, and `distinct_ids_count` gives their total number.
 * @user Persons and groups
 */
export const DISTINCT_IDS_SHOWN_MAX = 1000
/**
 * The largest number of cells in one table (CSV), including empty ones. A table with more is answered 400
 * `invalid_input`.
 * @user Requests and answers
 */
export const TABLE_CELLS_MAX = 5_000_000
/**
 * The largest number of bytes in the names of all columns of a table (CSV). A table with more is answered 400
 * `invalid_input`.
 */
export const TABLE_HEADER_BYTES_MAX = 4 * 1024 * 1024
/**
 * The largest number of label sets of one metric family. Further label sets share the set whose values are all `other`.
 */
export const METRIC_LABEL_SETS_MAX = 1000
/** The largest number of UTF-16 units of a pattern that an error message quotes. The rest is left out. */
export const PATTERN_QUOTED_UNITS_MAX = 40
/** The largest number of instructions in a compiled pattern for replacements. A larger pattern counts as invalid. */
export const REPLACEMENT_PROGRAM_MAX = 1000
/** The largest number of UTF-16 units of a text in which replacements are made. The rest stays unchanged. */
export const REPLACEMENT_TEXT_UNITS_MAX = 10_000
/**
 * The largest number of UTF-16 units of a text after replacements. No further replacements are made in a text that has
 * become longer.
 */
export const REPLACEMENT_RESULT_UNITS_MAX = 20_000
/**
 * The largest number of UTF-16 units in a regular expression. A longer one counts as invalid.
 * @user Cohorts, actions and filters
 */
export const PATTERN_UNITS_MAX = 500
/** The largest number of instructions in a compiled regular expression. A larger one counts as invalid. */
export const PATTERN_PROGRAM_MAX = 1000
/**
 * The largest number of UTF-16 units of a text in which a regular expression is searched. The rest of the text is
 * ignored.
 * @user Cohorts, actions and filters
 */
export const PATTERN_TEXT_UNITS_MAX = 2000
/**
 * The largest number of bytes that the regular expression engine may cache for one pattern. When these bytes are used
 * up, the engine works more slowly, with the same results.
 */
export const PATTERN_ENGINE_BYTES_MAX = 32 * 1024
/**
 * The largest number of compiled patterns that are cached. Beyond it, the pattern that was compiled first is evicted.
 */
export const CACHED_PATTERNS_MAX = 500
/** The largest number of states that the engine may cache for one pattern. A state takes at least 150 bytes. */
export const PATTERN_ENGINE_STATES_MAX = Math.ceil(PATTERN_ENGINE_BYTES_MAX / 150)
/**
 * The time that one request may use for regular expressions, in units of 30 ns. It is about 12 ms for the slowest
 * patterns that were found. Beyond it, flags that need a pattern fail with `pattern_limit`.
 */
export const PATTERN_REQUEST_UNITS_MAX = 400_000
/**
 * The highest number that a partition of events may have. The setting `partitions` accepts no higher number. Each
 * partition has a stream, and an outbox on every machine that accepts events for it.
 * @user Cluster and ClickHouse
 */
export const PARTITION_MAX = 63
/**
 * The largest number of flags in one plan. A larger plan is answered 400 `invalid_input`.
 * @user Flags
 */
export const PLAN_FLAGS_MAX = 1000
/**
 * The largest number of persons or groups for which one rehearsal of a flag decides. A larger `sample` is answered 400
 * `invalid_input`.
 * @user Flags
 */
export const REHEARSAL_SAMPLE_MAX = 100_000
/** The number of persons or groups for which a rehearsal decides if the request has no `sample`. */
export const REHEARSAL_SAMPLE_USUAL = 10_000
/**
 * The largest number of days for which the number of decisions by flag and value is kept. A larger `days` is answered
 * 400 `invalid_input`.
 * @user Flags
 */
export const USAGE_DAYS_MAX = 30
/**
 * The largest number of pairs of a day and a time zone whose offset from UTC a thread caches, about 100 bytes each.
 * Beyond it, the cache is cleared.
 */
export const ZONE_DAYS_MAX = 16_384
/**
 * The largest number of characters of an invalid choice, such as a command, that an error shows. A longer one is left
 * out.
 */
export const CHOICE_SHOWN_CHARACTERS_MAX = 20
