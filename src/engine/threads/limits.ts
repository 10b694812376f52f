/** The limits of engine/threads, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/**
 * The time that a count of persons or groups may take. A longer count is answered 503.
 * @user Flags
 */
export const REACH_COUNT_MS_MAX = 30_000
/** The time for which a count of persons or groups works before other reads are served. */
export const REACH_PIECE_MS_MAX = 100
/**
 * The time to parse the events of one upload in the slow lane. A longer one is answered 503, because the machine is
 * too busy.
 * @user Events
 */
export const CHECK_MS_MAX = 20_000
/**
 * The time for which an upload waits in all lanes together for its check. After it, the request is answered 503.
 * @user Events
 */
export const CHECK_WAIT_MS_MAX = 30_000
/**
 * The largest number of bytes in a group of columns that a short read decodes. A page that needs a larger group is
 * built by the threads for long reads.
 */
export const SHORT_GROUP_BYTES_MAX = 2 * 1024 * 1024
/** The time for which the writer thread waits for the next append of a session. Then the session ends. */
export const APPEND_SESSION_IDLE_MS_MAX = 20
/**
 * The largest number of chunks of memory in which a session finds blocks. A block in another chunk starts a new
 * session.
 */
export const APPEND_MEMORIES_MAX = 8
/** The largest number of bytes in such a chunk. A block in a larger one is appended by a separate call. */
export const APPEND_MEMORY_BYTES_MAX = 8 * 1024 * 1024
/**
 * The largest number of tasks that may wait for a reader thread. A further one is answered 503.
 * @user Requests and answers
 */
export const READS_WAITING_MAX = 256
/** The largest number of characters of cells that one task reads, and of a table that is written at once. */
export const TABLE_LOOKED_AT_MAX = 2 * 1024 * 1024
/** The approximate number of bytes of lines that one task writes. The last line may exceed it. */
export const TABLE_PIECE_BYTES_MAX = 256 * 1024
/**
 * The largest number of events that an export reads at once, all of one segment. A chunk may exceed its limit of bytes
 * by them.
 */
export const EXPORT_ROWS_MAX = 1000
/** The time of one task that writes lines or tables. The rest is left to the next task. */
export const TABLE_PIECE_MS_MAX = 100
/**
 * The time for which open write transactions are observed after a thread has ended. Transactions take milliseconds, so
 * one that is still open after it belonged to the ended thread.
 */
export const TRANSACTION_MS_MAX = 5000
/**
 * The time in which a replacement thread must start. It usually takes a fraction of a second, so a group without a
 * thread by then will not get one.
 */
export const REPLACEMENT_MS_MAX = 10_000
/**
 * The smallest number of files that the process must still be able to open before it starts the first thread of a
 * group. With fewer, the request is answered 503.
 */
export const THREAD_FILES_MIN = 32
/** The smallest number of events from which on a query is divided among the analytics threads. */
export const DIVIDED_EVENTS_MIN = 200_000
/**
 * The same number for queries that do little work for each event, because dividing them costs more than reading the
 * events.
 */
export const DIVIDED_SIMPLE_EVENTS_MIN = 4_000_000
/** The same number for queries that only count events. */
export const DIVIDED_COUNTS_EVENTS_MIN = 20_000_000
/**
 * The estimated number of bytes of query results that one thread caches. Beyond it, the results that were not used for
 * the longest time are evicted.
 */
export const REMEMBERED_BYTES_MAX = 16 * 1024 * 1024
/**
 * The largest number of query shapes for which it is remembered whether they were divided. For another shape, one
 * thread is asked first.
 */
export const QUERY_SHAPES_MAX = 1000
/**
 * The largest number of events that arrived since a query was answered, up to which its cached result is updated. With
 * more, the query is computed again.
 */
export const NEW_EVENTS_MAX = 200_000
/** The largest number of queries whose results one thread caches. */
export const REMEMBERED_PARTS_MAX = 500
/** The largest number of UTF-16 units in a query whose thread is remembered. A longer query may go to any thread. */
export const REMEMBERED_QUERY_UNITS_MAX = 16_384
/**
 * The largest number of queries that are refreshed as events arrive. Beyond it, those that were asked the longest time
 * ago are not refreshed.
 */
export const REFRESHED_QUERIES_MAX = 100
/** The time since a query was asked for which it is refreshed. */
export const QUERY_REFRESH_MS_MAX = 600_000
/** The unused time for refreshing that can be saved for later. Unused time beyond it is lost. */
export const QUERY_REFRESH_SAVED_MS_MAX = 1000
/**
 * The estimated number of bytes of an answer that a thread caches until anything changes. A larger one is built again.
 */
export const REMEMBERED_PAGE_BYTES_MAX = 256 * 1024
/**
 * The largest number of bytes of finished answers that are sent without a thread while nothing changes. Beyond it, the
 * answers that were not used for the longest time are evicted.
 */
export const KEPT_ANSWERS_BYTES_MAX = 8 * 1024 * 1024
/** The largest number of bytes of one such answer. A larger one is built by a thread each time. */
export const KEPT_ANSWER_BYTES_MAX = 256 * 1024
/** The largest number of warnings in which those about one event are searched. A project keeps no more. */
export const FATE_WARNINGS_READ_MAX = 1000
/** The largest number of dropped events in which samples are searched. Older ones are ignored. */
export const FATE_EVENTS_READ_MAX = 2000
/** The largest number of newest dead letters in which those of a project are searched. Older ones are ignored. */
export const FATE_LETTERS_READ_MAX = 100
/**
 * The largest number of pages of 2 MiB for copies of blocks that an outbox keeps for reuse. Further pages are released.
 */
export const BLOCK_PAGES_KEPT_MAX = 4
/** The approximate time that a thread must be idle before it releases the memory of its work. */
export const IDLE_MEMORY_MS_MAX = 30_000
/** The approximate time between two reports of a working thread about its memory. */
export const MEMORY_TOLD_MS_MAX = 1000
/** The time between two checks of the memory of a query. */
export const MEMORY_LOOK_MS_MAX = 5
/**
 * The largest number of pieces into which one part of a query is divided if memory is short. A query that needs more is
 * answered 400 `query_too_large`.
 * @user Queries
 */
export const QUERY_PIECES_MAX = 128
