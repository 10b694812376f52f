/** The limits of the command line: each with its unit, and what happens beyond it. docs/LIMITS.md lists them all. */

/** After the last request was due, answers are awaited for this long. */
export const BENCH_STRAGGLERS_MS_MAX = 5000
/** Beyond, requests that are due are not even kept: the step has failed. */
export const BENCH_WAITING_MAX = 200_000
/** Seconds of `bench`. More: a wrong use. */
export const BENCH_SECONDS_MAX = 3600
/** Events of a batch of `bench`. More: a wrong use. */
export const BENCH_BATCH_EVENTS_MAX = 10_000
/** Connections of `bench`. More: a wrong use. */
export const BENCH_CONNECTIONS_MAX = 4096
/** Events a second of `bench`. More: a wrong use. */
export const BENCH_RATE_MAX = 10_000_000
/** The largest number of anything that is named by one: no store has larger. More: a wrong use. */
export const ID_MAX = 0xffff_fffe
/** Persons of a list. More: a wrong use. */
export const LIST_PERSONS_MAX = 10_000
/** Milliseconds of the download of the SDK. Longer: it fails. */
export const DOWNLOAD_MS_MAX = 120_000
/** Flushes that `doctor` times. It stops there. */
export const DISK_FLUSHES_MAX = 2000
/** Large writes that `doctor` times. It stops there. */
export const DISK_LARGE_WRITES_MAX = 16
/** Milliseconds in which it flushes. It stops there. */
export const DISK_FLUSHING_MS_MAX = 1200
/** Milliseconds in which it writes much. It stops there. */
export const DISK_LARGE_MS_MAX = 600
/** Filters that are named one by one; of the others only the count. */
export const FILTERS_NAMED_MAX = 50
/** Milliseconds that a command waits for the daemon. Longer: it fails. */
export const DAEMON_ANSWER_MS_MAX = 60_000
/** Events of a body. More wait for the next. */
export const IMPORT_BATCH_EVENTS_MAX = 10_000
/** A body is sent before it is larger than this, unless one event is. */
export const IMPORT_BATCH_BYTES_MAX = 4 * 1024 * 1024
/** Times that a batch is sent. Then the import fails. */
export const IMPORT_ATTEMPTS_MAX = 60
/** Milliseconds that an import waits for an answer. Longer: sent again. */
export const IMPORT_ANSWER_MS_MAX = 120_000
/** Bytes of an answer that are read. */
export const IMPORT_ANSWER_BYTES_MAX = 64 * 1024
/** Characters of an answer that a message shows. Longer: cut. */
export const IMPORT_DETAIL_CHARACTERS_MAX = 200
/** Bytes of one line, which may be a whole page of events. Longer: the line is named and left out. */
export const LINE_BYTES_MAX = 256 * 1024 * 1024
/** Characters of one record of a table. Longer: its first line is named and left out. */
export const IMPORT_RECORD_CHARACTERS_MAX = 8 * 1024 * 1024
/** Values of `--event-data`, which are kept in memory. More: the command ends. */
export const IMPORT_EVENT_DATA_MAX = 5_000_000
/** Milliseconds that a command waits for the metrics. Longer: they are unknown. */
export const METRICS_ANSWER_MS_MAX = 10_000
/** Characters of a cell of a printed table. Longer: cut. */
export const CELL_CHARACTERS_MAX = 80
/** Columns of the longest bar of a chart. */
export const BAR_COLUMNS_MAX = 50
/** Rows that a query asks for. More: a wrong use. */
export const QUERY_ROWS_MAX = 10_000
/** Names of events that are offered when none is close to what was typed. */
export const QUERY_NAMES_SHOWN_MAX = 5
/** Erasures of a list. More: a wrong use. */
export const LIST_ERASURES_MAX = 10_000
/** Bytes of the end of a file that hold its last line: a line is an event of at most this size. */
export const EXPORT_LAST_LINE_BYTES_MAX = 32 * 1024 * 1024
/** Faulty lines that an import names. Further: counted. */
export const IMPORT_FAULTS_SHOWN_MAX = 100_000
/** Events that the daemon refuses one after the other, with none accepted in between. More: the import ends. */
export const IMPORT_REFUSALS_IN_A_ROW_MAX = 100
/** Periods of a cohort of retention, its own included. Later ones are not shown. */
export const QUERY_RETURNS_MAX = 100
/** Steps of a funnel. More: a wrong use. */
export const QUERY_STEPS_MAX = 20
/** Of what a command names, kept in its audit entry; the rest is cut off. */
export const OBJECT_ID_CHARACTERS_MAX = 200
/** Events of a day that a project may be limited to. More: a wrong use. */
export const DAILY_EVENTS_LIMIT_MAX = 1_000_000_000_000
/** Bytes of events of a day that a project may be limited to. More: a wrong use. */
export const DAILY_BYTES_LIMIT_MAX = 1024 ** 5
/** Kills of `prove-durability`. More: a wrong use. */
export const PROOF_KILLS_MAX = 10_000
/** Seconds of load before a kill of `prove-durability`. More: a wrong use. */
export const PROOF_SECONDS_MAX = 600
/** Connections of `prove-durability`. More: a wrong use. */
export const PROOF_CONNECTIONS_MAX = 256
/** The largest seed of `prove-durability`. More: a wrong use. */
export const PROOF_SEED_MAX = 2_147_483_648
/** Events that `prove-durability` sends. Beyond, it only sends again what got no answer. */
export const PROOF_EVENTS_MAX = 2_000_000
/** Milliseconds in which a daemon of `prove-durability` gets ready. Longer: the command fails. */
export const PROOF_START_MS_MAX = 120_000
/** Milliseconds that a request of `prove-durability` waits for its answer. Longer: its events count as unanswered. */
export const PROOF_ANSWER_MS_MAX = 30_000
/** Milliseconds in which the events of `prove-durability` are processed at the end. Longer: the command fails. */
export const PROOF_PROCESSING_MS_MAX = 300_000
/** Events of each kind of fault that the report of `prove-durability` names by their uuid; the others are counted. */
export const PROOF_EXAMPLES_MAX = 20
