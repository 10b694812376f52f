/** The limits of store/warehouse: each with its unit, and what happens beyond it. docs/LIMITS.md lists them all. */

/** Rows that a segment has at most: ids of rows are 16 bits wide. */
export const SEGMENT_ROWS_MAX = 16_384
/** Properties of a segment that get a column of their own; further ones share one. */
export const SEGMENT_COLUMNS_MAX = 500
/** Stretches of 4.7 hours in which the sessions of a segment began, which its header names. More: who looks for sessions reads their ids. */
export const SEGMENT_SESSION_STRETCHES_MAX = 64
/** UTF-8 bytes of a property name that gets a column of its own. */
export const SEGMENT_COLUMN_KEY_BYTES_MAX = 500
/**
 * Events of a page that are decoded before the first of them is written: some tens of megabytes at most, if
 * they are large and those before were not.
 */
export const STRETCH_ROWS_MAX = 32
/** Texts of distinct_ids that are kept from segment to segment; all are forgotten when they are more. */
export const EXPORT_TEXTS_MAX = 65_536
/** Bytes of them. Beyond: forgotten. */
export const EXPORT_TEXT_BYTES_MAX = 16 * 1024 * 1024
/** A decoded segment takes some megabytes, but those of very large events much more. */
export const SEGMENT_VIEWS_MAX = 8
/** Bytes that all of them hold, about; the one that is used last stays, whatever it holds. */
export const SEGMENT_VIEWS_BYTES_MAX = 64 * 1024 * 1024
/** Projects whose summaries are kept. */
export const CATALOGUE_PROJECTS_MAX = 32
/** Persons that are looked up one by one before all of the project are read at once. */
export const SCAN_LOOKUPS_MAX = 2000
/** Persons whose records stay at hand during a scan. */
export const SCAN_CANDIDATES_MAX = 4096
/**
 * Distinct_ids that got another owner which a thread knows one by one, 24 bytes each. More: what it remembers of
 * the project's events is computed anew.
 */
export const OWNER_MOVES_MAX = 50_000
/** Names of events whose text a thread keeps once for all segments; beyond, all are forgotten. */
export const SCAN_NAMES_MAX = 10_000
/** Projects whose facts are kept. */
export const SCAN_PROJECTS_MAX = 4
/** Sessions of a project that a thread keeps numbers for, about 100 bytes each; beyond, all are forgotten behind the query. */
export const SCAN_SESSIONS_MAX = 1_000_000
/** Values made of events that a thread keeps for a project, such as its sessions; the oldest make room. */
export const SCAN_VALUES_KEPT_MAX = 64
/** Rows of a segment that scans keep open between queries. More: it is opened anew for each further column. */
export const SCAN_OPEN_ROWS_MAX = 2048
/** Pairs of a name and a value of one column of a segment that are counted once, 2 bytes each. More: each time. */
export const SCAN_PAIRS_MAX = 4096
/** Results whose memory is kept for the next query. */
export const SCAN_ROW_COLUMNS_KEPT_MAX = 1
/** Rows that one scan may find. More: 400 `query_too_large`. A row takes 20 bytes and 4 for each value. */
export const SCAN_ROWS_MAX = 20_000_000
/** Uuids of the table in memory. Beyond: it is written as a run. */
export const UUID_TABLE_ENTRIES_MAX = 512 * 1024
/** Chunks that one step removes. */
export const UUID_REMOVED_CHUNKS_MAX = 512
/** Events with one uuid that are looked at in each run. */
export const SAME_UUID_MAX = 1000
/** Segments that stay decoded. */
export const DUPLICATE_VIEWS_MAX = 8
/** Segments that one merge reads at most, which bounds its time. */
export const MERGE_SOURCES_MAX = 128
/** Projects whose builder keeps its memory between commits. */
export const BUILDERS_MAX = 8
/** UTF-16 units of the name of a property that is listed. Longer: the property is stored and can be asked for, but no list has it. */
export const PROPERTY_NAME_UNITS_MAX = 400
/** UTF-16 units, and 40 for each name, of the names of properties that a segment tells of. More: those of its oldest rows are left out. */
export const SEGMENT_NAMES_UNITS_MAX = 512 * 1024
/** Bytes, about, of the names of events that a project's list holds. More: the least worthy give way to new ones. */
export const PROJECT_EVENT_NAMES_BYTES_MAX = 2 * 1024 * 1024
/** Bytes, about, of the names of properties that a project's list holds, and of which events have them. More: the least worthy give way to new ones. */
export const PROJECT_PROPERTY_NAMES_BYTES_MAX = 6 * 1024 * 1024
/** Bytes of the names of all projects that one thread keeps. Beyond: those that were asked for longest ago are read from the store again. */
export const NAMES_BYTES_MAX = 32 * 1024 * 1024
/** Bytes of texts for which a column that is filled keeps memory from one segment to the next. */
export const COLUMN_TEXT_BYTES_KEPT_MAX = 1024 * 1024
/** Texts of distinct_ids of one project that copying to a warehouse keeps from segment to segment, before one is begun. Beyond, they are read again. */
export const DISTINCT_TEXTS_KEPT_MAX = 32_768
