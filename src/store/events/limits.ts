/** The limits of store/events, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/** The largest number of rows in a segment. The numbers of rows are stored in 16 bits. */
export const SEGMENT_ROWS_MAX = 16_384
/**
 * The largest number of properties of a segment that get a column of their own. Further properties share one column,
 * which is slower to read.
 */
export const SEGMENT_COLUMNS_MAX = 500
/**
 * The largest number of start ranges of sessions (4.7 hours each) that the header of a segment names. If there are
 * more, a search for sessions has to open the segment.
 */
export const SEGMENT_SESSION_STARTS_MAX = 64
/**
 * The largest number of UTF-8 bytes in a property name that gets a column of its own. Properties with longer names
 * share one column.
 */
export const SEGMENT_COLUMN_KEY_BYTES_MAX = 500
/**
 * The largest number of events of a page that are decoded before the first of them is written. The number is first
 * estimated from the size of earlier rows. If large events follow small ones, the decoded events take some tens of
 * megabytes.
 */
export const DECODED_ROWS_MAX = 32
/**
 * The largest number of texts of distinct IDs that an export caches from segment to segment. Beyond it, the cache is
 * cleared.
 */
export const EXPORT_TEXTS_MAX = 65_536
/** The largest number of bytes in the distinct ID texts that an export caches. Beyond it, the cache is cleared. */
export const EXPORT_TEXT_BYTES_MAX = 16 * 1024 * 1024
/**
 * The largest number of decoded segments that a reader caches. One takes some megabytes, or much more if its events are
 * very large.
 */
export const SEGMENT_VIEWS_MAX = 8
/**
 * The largest approximate number of bytes in the decoded segments that a reader caches. The segment that was used last
 * stays cached, whatever its size.
 */
export const SEGMENT_VIEWS_BYTES_MAX = 64 * 1024 * 1024
/**
 * The largest number of projects whose segment summaries a reader caches. The summaries of further projects are read
 * again.
 */
export const CATALOGUE_PROJECTS_MAX = 32
/** The largest number of persons that a scan looks up one by one before it reads all persons of the project at once. */
export const SCAN_LOOKUPS_MAX = 2000
/**
 * The largest number of persons, and of distinct ID texts, that are cached during a scan. Beyond it, the cache is
 * cleared.
 */
export const SCAN_CANDIDATES_MAX = 4096
/**
 * The largest number of distinct IDs with a new owner that a thread records one by one, so that it can correct cached
 * results. Each takes 24 bytes. If there are more, the thread computes the results of the project again.
 */
export const OWNER_MOVES_MAX = 50_000
/** The largest number of event names whose text a thread caches for all segments. Beyond it, the cache is cleared. */
export const SCAN_NAMES_MAX = 10_000
/**
 * The largest number of projects whose owners, uuids and other facts for scans a thread caches. The facts of further
 * projects are read again.
 */
export const SCAN_PROJECTS_MAX = 4
/**
 * The largest number of sessions of a project to which a thread assigns numbers, about 100 bytes each. Beyond it, the
 * numbers are discarded after the query.
 */
export const SCAN_SESSIONS_MAX = 1_000_000
/**
 * The largest number of values derived from events, such as sessions, that a thread caches for a project. Beyond it,
 * the oldest ones are evicted.
 */
export const SCAN_VALUES_KEPT_MAX = 64
/**
 * If a segment has at most this number of rows, scans keep it open between queries. A larger segment is opened again
 * when another column is needed.
 */
export const SCAN_OPEN_ROWS_MAX = 2048
/**
 * The largest number of pairs of an event name and a value, in one column of a segment, whose counts are cached; 2
 * bytes each. If there are more, the events are counted again by each query.
 */
export const SCAN_PAIRS_MAX = 4096
/** The largest number of query results whose memory is kept for the next query. Further memory is released. */
export const SCAN_ROW_COLUMNS_KEPT_MAX = 1
/**
 * The largest number of events that one query can find. More are answered 400 `query_too_large`. An event takes 20
 * bytes of memory, and 4 bytes for each value.
 * @user Queries
 */
export const SCAN_ROWS_MAX = 20_000_000
/**
 * The largest number of entries of the UUID index in memory. Beyond it, they are written to disk as a run. The table
 * has room for 65,536 more before it doubles its memory, because it is written only between two commits. While the
 * disk is short of space, the table may grow to four times this number.
 */
export const UUID_TABLE_ENTRIES_MAX = 448 * 1024
/** The largest number of chunks of outdated runs that one maintenance step removes. */
export const UUID_REMOVED_CHUNKS_MAX = 512
/** The largest number of events with the same UUID that a search reads from one run. Further ones are not found. */
export const SAME_UUID_MAX = 1000
/** The largest number of segments that stay decoded for the check for duplicates. Further ones are decoded again. */
export const DUPLICATE_VIEWS_MAX = 8
/** The largest number of segments that one merge joins, which bounds its time. Further ones are merged later. */
export const MERGE_SOURCES_MAX = 128
/**
 * The largest number of projects whose segment builder keeps its memory between commits. The memory of the others is
 * released and allocated again.
 */
export const BUILDERS_MAX = 8
/**
 * The largest number of UTF-16 units in the name of an event property that lists show. A property with a longer name is
 * stored and can be queried, but is not listed.
 */
export const PROPERTY_NAME_UNITS_MAX = 400
/**
 * The largest size of the property names that a segment stores for lists of names, in UTF-16 units, plus 40 for each
 * name. Beyond it, names that only occur in its oldest rows are left out.
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
 * The largest number of bytes in the event and property names that one thread caches for all projects. Beyond it, the
 * projects that were not used for the longest time are evicted and read from the store again.
 */
export const NAMES_BYTES_MAX = 32 * 1024 * 1024
/**
 * If the texts of a column under construction have at most this many bytes, the column keeps their memory for the next
 * segment.
 */
export const COLUMN_TEXT_BYTES_KEPT_MAX = 1024 * 1024
/**
 * The largest number of texts of distinct IDs of one project that the copy to a warehouse caches from segment to
 * segment. Beyond it, they are read again.
 */
export const DISTINCT_TEXTS_KEPT_MAX = 32_768
