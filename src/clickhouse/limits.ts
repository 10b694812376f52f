/** The limits of warehouse, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/**
 * The time for which a query waits for the answer of ClickHouse. After it, the query is answered 503.
 * @user Cluster and ClickHouse
 */
export const QUERY_MS_MAX = 30_000
/** The time for which an insert or a deletion waits for the answer of ClickHouse. After it, it is sent again. */
export const INSERT_MS_MAX = 60_000
/**
 * The largest number of bytes in one answer of ClickHouse. If an answer has more, the query is answered 503.
 * @user Cluster and ClickHouse
 */
export const ANSWER_BYTES_MAX = 512 * 1024 * 1024
/** The largest number of rows in one insert. Further rows go into the next insert. */
export const BATCH_ROWS_MAX = 65_536
/**
 * The largest number of bytes in one insert, unless a single event is larger. Further events go into the next insert.
 */
export const BATCH_BYTES_MAX = 16 * 1024 * 1024
/** The time for which events wait for further events, so that they are sent to ClickHouse together. */
export const BATCH_WAIT_MS_MAX = 5000
/** The longest pause between two retries while ClickHouse does not answer. The first pause is a tenth of it. */
export const RETRY_MS_MAX = 10_000
/**
 * The largest number of months before the month of arrival that get a partition of their own. Older events share one
 * partition.
 */
export const PARTITION_MONTHS_MAX = 24
/** The largest number of distinct ID numbers in one deletion. Further ones go into the next deletion. */
export const ERASURE_IDS_MAX = 10_000
/**
 * The largest number of rows of a column that are read from ClickHouse ahead of time, for a reader that reads one
 * segment after the other. Further rows are read when they are needed.
 */
export const AHEAD_ROWS_MAX = 65_536
/**
 * The largest number of bytes of columns that a thread has read ahead. Beyond it, the oldest ones are evicted and read
 * again.
 */
export const AHEAD_BYTES_MAX = 128 * 1024 * 1024
/**
 * The time, in milliseconds, after which a segment whose copy in ClickHouse is incomplete is compared with the copy
 * again. Until then, the segment keeps its columns in the store.
 */
export const COMPARE_AGAIN_MS = 600_000
/**
 * The time, in milliseconds, that must pass after ClickHouse has confirmed an event before the store may remove columns
 * of the event. By then, the kernel of the machine with ClickHouse has written the event to the disk, which takes at
 * most 35 s.
 */
export const COPY_SETTLED_MS = 36_000
/** The time for which `tenrec doctor` waits for ClickHouse. After it, the check fails. */
export const LOOK_MS_MAX = 5000
