/** The limits of the command line, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/**
 * The time for which `bench` waits for answers after the last request was due. Requests without an answer then count as
 * `unanswered`.
 */
export const BENCH_STRAGGLERS_MS_MAX = 5000
/** The largest number of requests of `bench` that are due but not sent yet. Beyond it, the step ends as failed. */
export const BENCH_WAITING_MAX = 200_000
/** The highest `--seconds` of `bench`. A higher value is a usage error. */
export const BENCH_SECONDS_MAX = 3600
/** The highest `--batch` of `bench`, in events. A higher value is a usage error. */
export const BENCH_BATCH_EVENTS_MAX = 10_000
/** The highest `--connections` of `bench`. A higher value is a usage error. */
export const BENCH_CONNECTIONS_MAX = 4096
/** The highest `--rate` of `bench`, in events per second. A higher value is a usage error. */
export const BENCH_RATE_MAX = 10_000_000
/**
 * The highest number that a command accepts for an object or a count. No store has a higher number. A higher value is
 * a usage error.
 */
export const ID_MAX = 0xffff_fffe
/**
 * The largest number of persons that a command lists. A higher `--limit` is treated as this one.
 * @user Command line
 */
export const LIST_PERSONS_MAX = 10_000
/** The time that the download of the SDK may take. If it takes longer, the command fails. */
export const DOWNLOAD_MS_MAX = 120_000
/** The largest number of flushes with which `doctor` measures the disk. It stops measuring after them. */
export const DISK_FLUSHES_MAX = 2000
/** The largest number of large writes with which `doctor` measures the disk. It stops measuring after them. */
export const DISK_LARGE_WRITES_MAX = 16
/** The time for which `doctor` measures flushes of the disk. It stops measuring after it. */
export const DISK_FLUSHING_MS_MAX = 1200
/** The time for which `doctor` measures large writes to the disk. It stops measuring after it. */
export const DISK_LARGE_MS_MAX = 600
/** The largest number of never matching filters in the report of `doctor`. The report only counts further ones. */
export const FILTERS_NAMED_MAX = 50
/**
 * The time for which a command waits for an answer of the daemon. After it, the command fails.
 * @user Command line
 */
export const DAEMON_ANSWER_MS_MAX = 60_000
/** The largest number of events in one request of an import. Further events go into the next request. */
export const IMPORT_BATCH_EVENTS_MAX = 10_000
/**
 * When an import has gathered this many bytes of events, it sends them as one request. A single larger event is sent
 * alone.
 */
export const IMPORT_BATCH_BYTES_MAX = 4 * 1024 * 1024
/**
 * The largest number of attempts of an import to send one request. If the last one is not answered, the import fails.
 */
export const IMPORT_ATTEMPTS_MAX = 60
/** The longest time for which an import waits before it sends a request again, even if the server asks for more. */
export const IMPORT_RETRY_MS_MAX = 60_000
/** The time for which an import waits for an answer. After it, the request is sent again. */
export const IMPORT_ANSWER_MS_MAX = 120_000
/** The largest number of bytes of an answer that an import reads. The rest is ignored. */
export const IMPORT_ANSWER_BYTES_MAX = 64 * 1024
/** The largest number of characters of an answer that an error of an import shows. The rest is cut off. */
export const IMPORT_DETAIL_CHARACTERS_MAX = 200
/**
 * The largest number of bytes in one line of an imported file, which may contain a whole page of events. A longer line
 * is skipped and reported.
 * @user Command line
 */
export const LINE_BYTES_MAX = 256 * 1024 * 1024
/**
 * The largest number of characters in one record of an imported CSV table. A longer record is skipped, and its first
 * line is reported.
 * @user Command line
 */
export const IMPORT_RECORD_CHARACTERS_MAX = 8 * 1024 * 1024
/**
 * The largest number of values in the file of `--event-data`, because they are kept in memory. If there are more, the
 * command fails. Import month by month.
 * @user Command line
 */
export const IMPORT_EVENT_DATA_MAX = 5_000_000
/** The time for which a command waits for the metrics of the daemon. After it, the metrics are shown as unknown. */
export const METRICS_ANSWER_MS_MAX = 10_000
/** The largest number of characters in a cell of a printed table. The rest is cut off. */
export const CELL_CHARACTERS_MAX = 80
/** The largest number of terminal columns in the longest bar of a chart. */
export const BAR_COLUMNS_MAX = 50
/**
 * The largest number of rows that a `query` command asks for. A higher `--limit` is treated as this one.
 * @user Command line
 */
export const QUERY_ROWS_MAX = 10_000
/** The largest number of event names that a `query` command suggests if no name is similar to the given one. */
export const QUERY_NAMES_SHOWN_MAX = 5
/**
 * The largest number of erasures that a command lists. A higher `--limit` is treated as this one.
 * @user Command line
 */
export const LIST_ERASURES_MAX = 10_000
/**
 * The largest number of bytes at the end of an exported file that are read to find its last line. A line is one event,
 * which is always shorter.
 */
export const EXPORT_LAST_LINE_BYTES_MAX = 32 * 1024 * 1024
/**
 * The largest number of invalid lines that an import reports one by one. For further lines, it reports only their
 * number.
 */
export const IMPORT_FAULTS_SHOWN_MAX = 100_000
/**
 * The largest number of events that the daemon may refuse in a row, without accepting one in between. If it refuses
 * another one, the import fails.
 * @user Command line
 */
export const IMPORT_REFUSALS_IN_A_ROW_MAX = 100
/**
 * The largest number of periods that `query retention` shows for a cohort, including its first one. Later periods are
 * not shown.
 */
export const QUERY_RETURNS_MAX = 100
/**
 * The largest number of steps of `query funnel`. More are a usage error.
 * @user Command line
 */
export const QUERY_STEPS_MAX = 20
/**
 * The largest number of characters that the audit log keeps of the object named on the command line. The rest is cut
 * off.
 */
export const OBJECT_ID_CHARACTERS_MAX = 200
/**
 * The highest daily number of events that a project can be limited to. A higher `--daily-events-limit` is a usage
 * error.
 * @user Command line
 */
export const DAILY_EVENTS_LIMIT_MAX = 1_000_000_000_000
/**
 * The highest daily number of bytes of events that a project can be limited to. A higher `--daily-bytes-limit` is a
 * usage error.
 * @user Command line
 */
export const DAILY_BYTES_LIMIT_MAX = 1024 ** 5
/** The highest `--kills` of `prove-durability`. A higher value is a usage error. */
export const PROOF_KILLS_MAX = 10_000
/** The highest `--seconds` of load before a kill of `prove-durability`. A higher value is a usage error. */
export const PROOF_SECONDS_MAX = 600
/** The highest `--connections` of `prove-durability`. A higher value is a usage error. */
export const PROOF_CONNECTIONS_MAX = 256
/** The highest `--seed` of `prove-durability`. A higher value is a usage error. */
export const PROOF_SEED_MAX = 2_147_483_648
/**
 * The largest number of different events that `prove-durability` sends. After them, the command only repeats events
 * that were not answered.
 */
export const PROOF_EVENTS_MAX = 2_000_000
/** The time that a daemon of `prove-durability` has to become ready. After it, the command fails. */
export const PROOF_START_MS_MAX = 120_000
/**
 * The time for which a request of `prove-durability` waits for its answer. After it, its events count as unanswered.
 */
export const PROOF_ANSWER_MS_MAX = 30_000
/** The time that the events of `prove-durability` have to be processed at the end. After it, the command fails. */
export const PROOF_PROCESSING_MS_MAX = 300_000
/**
 * The largest number of events, for each kind of fault, whose UUIDs the report of `prove-durability` lists. Of further
 * events, the report gives only the number.
 */
export const PROOF_EXAMPLES_MAX = 20
/**
 * The largest number of bytes of a file with flags. A larger file is refused.
 * @user Command line
 */
export const FLAGS_FILE_BYTES_MAX = 16 * 1024 * 1024
/** The largest number of aliases in a YAML file. A file with more is refused. */
export const YAML_ALIASES_MAX = 100
/** The largest number of changes of value of one flag that `flag rehearse` prints. Further ones are left out. */
export const PLAN_FLIPS_SHOWN_MAX = 10
