/** The limits of engine/threads, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/**
 * The time that a count of persons or groups may take. A longer count is answered 503.
 * @user Flags
 */
export const REACH_COUNT_MS_MAX = 30_000
/** The time for which a count of persons or groups works without a pause. After it, other long reads get their turn. */
export const REACH_PIECE_MS_MAX = 100
/**
 * The time that a thread of the slow lane, which checks the most expensive uploads, may take to parse the events of one
 * upload. If it takes longer, the machine is too busy, and the request is answered 503.
 * @user Events
 */
export const CHECK_MS_MAX = 20_000
/**
 * The time that an upload may wait for its check, in all lanes of threads together. After it, the request is answered
 * 503.
 * @user Events
 */
export const CHECK_WAIT_MS_MAX = 30_000
/**
 * The largest number of bytes in a group of columns that a thread for short reads decodes. A page that needs a larger
 * group is built by the threads for long reads.
 */
export const SHORT_GROUP_BYTES_MAX = 2 * 1024 * 1024
/** The time for which the writer thread waits for the next append of a session. After it, the session ends. */
export const APPEND_SESSION_IDLE_MS_MAX = 20
/**
 * The largest number of shared buffers that an append session can use. A block in another buffer starts a new session.
 */
export const APPEND_MEMORIES_MAX = 8
/**
 * The largest number of bytes of a shared buffer that an append session can use. A block in a larger buffer is appended
 * by a separate call.
 */
export const APPEND_MEMORY_BYTES_MAX = 8 * 1024 * 1024
/**
 * The largest number of tasks that may wait for a reader thread. A further one is answered 503.
 * @user Requests and answers
 */
export const READS_WAITING_MAX = 256
/**
 * The largest number of characters in table cells that one task reads to determine the columns of a table. A table with
 * fewer characters is written by a single task.
 */
export const TABLE_LOOKED_AT_MAX = 2 * 1024 * 1024
/** The approximate number of bytes of table or export lines that one task writes. The last line may exceed it. */
export const TABLE_PIECE_BYTES_MAX = 256 * 1024
/**
 * The largest number of events that an export reads at once. All of them are in one segment. Their lines together may
 * have more bytes than the limit for one task.
 */
export const EXPORT_ROWS_MAX = 1000
/** The time that one task may spend on writing a table or an export. After it, the next task continues. */
export const TABLE_PIECE_MS_MAX = 100
/**
 * The time for which open write transactions are observed after a thread has ended unexpectedly. A transaction takes
 * milliseconds, so one that is still open after this time belonged to the ended thread.
 */
export const TRANSACTION_MS_MAX = 5000
/**
 * The time in which a thread that ended unexpectedly must be replaced. This usually takes a fraction of a second. If
 * there is no thread of its kind by then, the process ends.
 */
export const REPLACEMENT_MS_MAX = 10_000
/**
 * The smallest number of files that the process must still be able to open before it starts the first thread of a kind.
 * If there are fewer, the request is answered 503.
 */
export const THREAD_FILES_MIN = 32
/**
 * The smallest number of events for which a query is divided among the analytics threads. Below it, one thread answers
 * the query.
 */
export const DIVIDED_EVENTS_MIN = 200_000
/**
 * The smallest number of events for which a query is divided if it does little work for each event. With fewer events,
 * dividing the query would cost more than reading the events.
 */
export const DIVIDED_SIMPLE_EVENTS_MIN = 4_000_000
/** The smallest number of events for which a query is divided if it only counts events. */
export const DIVIDED_COUNTS_EVENTS_MIN = 20_000_000
/**
 * The estimated number of bytes of query results that one thread caches. Beyond it, the results that were not used for
 * the longest time are evicted.
 */
export const REMEMBERED_BYTES_MAX = 16 * 1024 * 1024
/**
 * The largest number of query shapes for which the daemon records whether such queries were divided. A query of another
 * shape is first sent to one thread.
 */
export const QUERY_SHAPES_MAX = 1000
/**
 * The largest number of new events with which the cached result of a query is updated. If more have arrived, the query
 * is computed again.
 */
export const NEW_EVENTS_MAX = 200_000
/** The largest number of queries whose results one thread caches. */
export const REMEMBERED_PARTS_MAX = 500
/**
 * The largest number of UTF-16 units in a query for which the daemon records which thread has cached the result. A
 * longer query may go to any thread.
 */
export const REMEMBERED_QUERY_UNITS_MAX = 16_384
/**
 * The largest number of queries whose answers are refreshed as events arrive. Beyond it, the queries that were sent
 * longest ago are not refreshed.
 */
export const REFRESHED_QUERIES_MAX = 100
/** The time for which a query is refreshed after a client last sent it. */
export const QUERY_REFRESH_MS_MAX = 600_000
/**
 * The largest amount of time that is saved for refreshing queries. Refreshing may use only a share of the time, and the
 * part that it does not use is saved for later.
 */
export const QUERY_REFRESH_SAVED_MS_MAX = 1000
/**
 * The estimated number of bytes of an answer that a thread caches until the store changes. A larger answer is built
 * again each time.
 */
export const REMEMBERED_PAGE_BYTES_MAX = 256 * 1024
/**
 * The largest number of bytes in the finished answers that the main thread caches and sends without asking a thread, as
 * long as the store does not change. Beyond it, the answers that were not used for the longest time are evicted.
 */
export const KEPT_ANSWERS_BYTES_MAX = 8 * 1024 * 1024
/**
 * The largest number of bytes in a finished answer that the main thread caches. A thread builds a larger answer each
 * time.
 */
export const KEPT_ANSWER_BYTES_MAX = 256 * 1024
/**
 * The largest number of warnings of a project that a search for the fate of an event reads. The store keeps no more
 * warnings for each project.
 */
export const FATE_WARNINGS_READ_MAX = 1000
/** The largest number of dropped events, newest first, that are read to find samples. Older ones are ignored. */
export const FATE_EVENTS_READ_MAX = 2000
/**
 * The largest number of dead letters, newest first, that are read to find those of a project. Older ones are ignored.
 */
export const FATE_LETTERS_READ_MAX = 100
/**
 * The largest number of pages of memory (2 MiB each) for copies of blocks that an outbox keeps for reuse. Further pages
 * are released.
 */
export const BLOCK_PAGES_KEPT_MAX = 4
/** The approximate time that a thread must be idle before it releases the memory of its work. */
export const IDLE_MEMORY_MS_MAX = 30_000
/** The approximate time between two reports of a working thread about its memory. */
export const MEMORY_TOLD_MS_MAX = 1000
/** The shortest time between two checks of how much memory a query uses. */
export const MEMORY_LOOK_MS_MAX = 5
/**
 * The largest number of pieces into which one part of a query is divided if memory is short. A query that needs more is
 * answered 400 `query_too_large`.
 * @user Queries
 */
export const QUERY_PIECES_MAX = 128
