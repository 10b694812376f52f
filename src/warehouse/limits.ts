/** The limits of warehouse: each with its unit, and what happens beyond it. docs/LIMITS.md lists them all. */

/** How long ClickHouse may take to answer a question, milliseconds. Beyond: 503. */
export const QUERY_MS_MAX = 30_000
/** The same of an insert, or of an order to delete. Beyond, it is sent again. */
export const INSERT_MS_MAX = 60_000
/** Bytes of one answer of ClickHouse. More: 503. */
export const ANSWER_BYTES_MAX = 512 * 1024 * 1024
/** Rows of one insert. Further ones go into the next. */
export const BATCH_ROWS_MAX = 65_536
/** Bytes of one insert, unless a single event is larger. Further ones go into the next. */
export const BATCH_BYTES_MAX = 16 * 1024 * 1024
/** How long events wait for others to be sent with them, milliseconds, at most. */
export const BATCH_WAIT_MS_MAX = 5000
/** How long the next try waits while ClickHouse does not answer, milliseconds; it begins with a tenth of that. */
export const RETRY_MS_MAX = 10_000
/** Months, before the one of arrival, that get a partition of their own. Older events share one. */
export const PARTITION_MONTHS_MAX = 24
/** Numbers of distinct_ids in one order to delete. Further ones go into the next. */
export const ERASURE_IDS_MAX = 10_000
/** Rows of a column that are read ahead of who reads one segment after the other. */
export const AHEAD_ROWS_MAX = 65_536
/** Bytes of columns that a thread has read ahead. Beyond: the oldest are read again. */
export const AHEAD_BYTES_MAX = 128 * 1024 * 1024
/** How long a segment whose copy was not whole keeps its columns, milliseconds, until it is compared again. */
export const COMPARE_AGAIN_MS = 600_000
/** How long ClickHouse has an event, milliseconds, before the store may give it away: a kernel flushes within 35 s. */
export const COPY_SETTLED_MS = 36_000
/** How long `tenrec doctor` waits for ClickHouse, milliseconds. */
export const LOOK_MS_MAX = 5000
