/** The limits of store/events, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/** The largest number of rows in a segment, because row IDs have 16 bits. */
export const SEGMENT_ROWS_MAX = 16_384
/**
 * The largest number of properties of a segment that get a column of their own. Further properties share one column.
 */
export const SEGMENT_COLUMNS_MAX = 500
/**
 * The largest number of ranges of 4.7 hours, in which the sessions of a segment started, that its header names. With
 * more, a search for sessions reads their IDs.
 */
export const SEGMENT_SESSION_STARTS_MAX = 64
/**
 * The largest number of UTF-8 bytes in a property name that gets a column of its own. Properties with longer names
 * share one column.
 */
export const SEGMENT_COLUMN_KEY_BYTES_MAX = 500
/**
 * The largest number of events of a page that are decoded before the first of them is written. They take some tens of
 * megabytes at most, if they are large and the previous ones were not.
 */
export const DECODED_ROWS_MAX = 32
/**
 * The largest number of texts of distinct IDs that an export caches from segment to segment. Beyond it, the cache is
 * cleared.
 */
export const EXPORT_TEXTS_MAX = 65_536
/** The largest number of bytes of these texts. Beyond it, the cache is cleared. */
export const EXPORT_TEXT_BYTES_MAX = 16 * 1024 * 1024
/**
 * The largest number of decoded segments that are cached. One takes some megabytes, or much more if its events are very
 * large.
 */
export const SEGMENT_VIEWS_MAX = 8
/**
 * The approximate number of bytes of all these segments. The segment that was used last stays cached, whatever its
 * size.
 */
export const SEGMENT_VIEWS_BYTES_MAX = 64 * 1024 * 1024
/** The largest number of projects whose segment summaries are cached. */
export const CATALOGUE_PROJECTS_MAX = 32
/** The largest number of persons that a scan looks up one by one before it reads all persons of the project at once. */
export const SCAN_LOOKUPS_MAX = 2000
/** The largest number of persons whose records are cached during a scan. */
export const SCAN_CANDIDATES_MAX = 4096
/**
 * The largest number of distinct IDs with a new owner that a thread remembers one by one, 24 bytes each. With more, its
 * cached results of the project are computed again.
 */
export const OWNER_MOVES_MAX = 50_000
/** The largest number of event names whose text a thread caches for all segments. Beyond it, the cache is cleared. */
export const SCAN_NAMES_MAX = 10_000
/** The largest number of projects whose facts for scans a thread caches. */
export const SCAN_PROJECTS_MAX = 4
/**
 * The largest number of sessions of a project for which a thread caches numbers, about 100 bytes each. Beyond it, the
 * cache is cleared after the query.
 */
export const SCAN_SESSIONS_MAX = 1_000_000
/**
 * The largest number of values derived from events, such as sessions, that a thread caches for a project. Beyond it,
 * the oldest ones are evicted.
 */
export const SCAN_VALUES_KEPT_MAX = 64
/**
 * The largest number of rows in a segment that scans keep open between queries. A larger segment is opened again for
 * each further column.
 */
export const SCAN_OPEN_ROWS_MAX = 2048
/**
 * The largest number of pairs of an event name and a value of one column of a segment whose counts are cached, 2 bytes
 * each. With more, they are counted each time.
 */
export const SCAN_PAIRS_MAX = 4096
/** The largest number of results whose memory is kept for the next query. */
export const SCAN_ROW_COLUMNS_KEPT_MAX = 1
/**
 * The largest number of events that one query can find. More are answered 400 `query_too_large`. An event takes 20
 * bytes of memory, and 4 bytes for each value.
 * @user Queries
 */
export const SCAN_ROWS_MAX = 20_000_000
/** The largest number of UUIDs in the table in memory. Beyond it, the table is written as a run. */
export const UUID_TABLE_ENTRIES_MAX = 512 * 1024
/** The largest number of chunks that one step removes. */
export const UUID_REMOVED_CHUNKS_MAX = 512
/** The largest number of events with the same UUID that are read in each run. */
export const SAME_UUID_MAX = 1000
/** The largest number of segments that stay decoded for the check for duplicates. */
export const DUPLICATE_VIEWS_MAX = 8
/** The largest number of segments that one merge reads, which bounds its time. */
export const MERGE_SOURCES_MAX = 128
/** The largest number of projects whose segment builder keeps its memory between commits. */
export const BUILDERS_MAX = 8
/**
 * The largest number of UTF-16 units in the name of an event property that lists show. A property with a longer name is
 * stored and can be queried, but is not listed.
 */
export const PROPERTY_NAME_UNITS_MAX = 400
/**
 * The largest number of UTF-16 units, plus 40 for each name, of the property names that a segment lists. Beyond it, the
 * names of its oldest rows are left out.
 */
export const SEGMENT_NAMES_UNITS_MAX = 512 * 1024
/**
 * The approximate number of bytes of the event names in the list of a project. Beyond it, the least important names
 * make room for new ones.
 */
export const PROJECT_EVENT_NAMES_BYTES_MAX = 2 * 1024 * 1024
/**
 * The approximate number of bytes of the property names in the list of a project, with the events that have them.
 * Beyond it, the least important names make room for new ones.
 */
export const PROJECT_PROPERTY_NAMES_BYTES_MAX = 6 * 1024 * 1024
/**
 * The largest number of bytes of the names of all projects that one thread caches. Beyond it, those that were not used
 * for the longest time are evicted and read from the store again.
 */
export const NAMES_BYTES_MAX = 32 * 1024 * 1024
/**
 * The largest number of bytes of texts for which a column under construction keeps its memory from one segment to the
 * next.
 */
export const COLUMN_TEXT_BYTES_KEPT_MAX = 1024 * 1024
/**
 * The largest number of texts of distinct IDs of one project that the copy to a warehouse caches from segment to
 * segment. Beyond it, they are read again.
 */
export const DISTINCT_TEXTS_KEPT_MAX = 32_768
