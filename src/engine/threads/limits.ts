/** The limits of engine/threads: each with its unit, and what happens beyond it. docs/LIMITS.md lists them all. */

/** Milliseconds of work on a count of persons or groups. More: it is given up with 503. */
export const REACH_COUNT_MS_MAX = 30_000
/** Milliseconds of it at a time; then other reads have their turn. */
export const REACH_PIECE_MS_MAX = 100
/** Milliseconds for parsing one body in the slow lane. More: 503, because the machine is too busy. */
export const CHECK_MS_MAX = 20_000
/** Milliseconds that a body waits in all lanes together. More: 503. */
export const CHECK_WAIT_MS_MAX = 30_000
/** A group of columns with more bytes than this takes too long to decode for a short read. */
export const SHORT_GROUP_BYTES_MAX = 2 * 1024 * 1024
/** For so long the writer thread waits for the next append of a session, milliseconds; then the session ends. */
export const APPEND_SESSION_IDLE_MS_MAX = 20
/** Pieces of memory in which a session looks for blocks; a block in another one begins another session. */
export const APPEND_MEMORIES_MAX = 8
/** Bytes of one of them. A block in larger memory is appended by a call of its own. */
export const APPEND_MEMORY_BYTES_MAX = 8 * 1024 * 1024
/** Tasks that may wait for a reading thread; a further one is refused with 503. */
export const READS_WAITING_MAX = 256
/** Characters of the cells that one task looks at, and of a table that is written at once. */
export const TABLE_LOOKED_AT_MAX = 2 * 1024 * 1024
/** Bytes of lines that one task writes, about; the last line may exceed it. */
export const TABLE_PIECE_BYTES_MAX = 256 * 1024
/** Events that an export reads at once; a piece may exceed its limit of bytes by them, which are of one segment. */
export const EXPORT_ROWS_MAX = 1000
/** Time of one task, milliseconds. */
export const TABLE_PIECE_MS_MAX = 100
/** Transactions take milliseconds: a count that does not fall to 0 in this time belongs to nobody. */
export const TRANSACTION_MS_MAX = 5000
/** A thread takes a fraction of a second to start; a group that has none after this will not get one. */
export const REPLACEMENT_MS_MAX = 10_000
/** The number of files that the process must be able to open before it starts an additional thread. Fewer: 503. */
export const THREAD_FILES_MIN = 32
/** Events that a query looks at from which on it is divided among the threads for analytics. */
export const DIVIDED_EVENTS_MIN = 200_000
/** The same of queries that hardly do anything with each event: dividing them costs more than looking at fewer. */
export const DIVIDED_SIMPLE_EVENTS_MIN = 4_000_000
/** The same of those that only count events. */
export const DIVIDED_COUNTS_EVENTS_MIN = 20_000_000
/** Memory for what one thread remembers of queries, an estimate. What was used longest ago is given up. */
export const REMEMBERED_BYTES_MAX = 16 * 1024 * 1024
/** Shapes of queries of which it is remembered whether they were divided. More: one thread is asked first. */
export const QUERY_SHAPES_MAX = 1000
/** Events that came since a query was answered. More: all threads compute it again. */
export const NEW_EVENTS_MAX = 200_000
/** Queries of which one thread remembers something. */
export const REMEMBERED_PARTS_MAX = 500
/** UTF-16 units of a query whose thread is remembered. Longer: any thread takes it. */
export const REMEMBERED_QUERY_UNITS_MAX = 16_384
/** Queries that are brought up to date as events come. More: those that were asked longest ago are not. */
export const REFRESHED_QUERIES_MAX = 100
/** For how long that is done, since they were asked; milliseconds. */
export const QUERY_REFRESH_MS_MAX = 600_000
/** Time for that work which was not used is there later, up to this, milliseconds. Beyond it, it is lost. */
export const QUERY_REFRESH_SAVED_MS_MAX = 1000
/** Memory for an answer that a thread keeps until anything changes, an estimate. Larger: it is made again. */
export const REMEMBERED_PAGE_BYTES_MAX = 256 * 1024
/** Bytes of finished answers that need no thread while nothing changes. What was asked for longest ago is given up. */
export const KEPT_ANSWERS_BYTES_MAX = 8 * 1024 * 1024
/** The same of one answer. Larger: a thread makes it each time. */
export const KEPT_ANSWER_BYTES_MAX = 256 * 1024
/** Warnings among which those about one event are looked for: all that a project keeps. Further: not seen. */
export const FATE_WARNINGS_READ_MAX = 1000
/** Dropped events among which samples are looked for. Further: not seen. */
export const FATE_EVENTS_READ_MAX = 2000
/** The newest dead letters among which those of a project are looked for. Further: not seen. */
export const FATE_LETTERS_READ_MAX = 100
/** Pages of 2 MiB for copies of blocks that an outbox keeps to use again. Further ones are given back. */
export const BLOCK_PAGES_KEPT_MAX = 4
/** Milliseconds, about, that a thread is idle before it gives back the memory that its work needed. */
export const IDLE_MEMORY_MS_MAX = 30_000
/** Milliseconds, about, after which a thread that works tells again what memory it takes. */
export const MEMORY_TOLD_MS_MAX = 1000
/** Milliseconds between two looks at the memory that a query takes. */
export const MEMORY_LOOK_MS_MAX = 5
/** Pieces into which one part of a query is divided when memory is short. More: 400 `query_too_large`. */
export const QUERY_PIECES_MAX = 128
