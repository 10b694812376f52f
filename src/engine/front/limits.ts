/** The limits of engine/front, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/**
 * The largest number of damaged records for which the time of the last log line is kept. Beyond it, the list is
 * cleared.
 */
export const DAMAGE_RECORDS_MAX = 1000
/**
 * The largest number of buffers that are kept for the next commits to the log, because new memory for every commit
 * would start the garbage collector. The more events a commit contains, the larger are the buffers.
 */
export const COMMIT_SPARE_BUFFERS_MAX = 4
/** The largest number of bytes in a buffer that is kept for the next commits to the log. A larger one is released. */
export const COMMIT_SPARE_BYTES_MAX = 8 * 1024 * 1024
/**
 * The time that a commit to the disk may take. After it, its requests are answered 503, although their events may
 * still be stored.
 * @user Events
 */
export const COMMIT_MS_MAX = 10_000
/** If at least this many bytes wait, the next commit to the log starts without a pause to collect more events. */
export const COMMIT_SPACED_BYTES_MAX = 1024 * 1024
/**
 * The largest number of recent person overrides that are kept, so that repeated requests of a client do not fill the
 * log with the same override. Beyond it, the list is cleared.
 */
export const OVERRIDES_RECENT_MAX = 10_000
/**
 * The largest number of changes of persons that may wait at a time. A further one is answered 503.
 * @user Persons and groups
 */
export const COMMANDS_WAITING_MAX = 1000
/**
 * The time for which a change of persons waits for its result. After it, the request is answered 503, although the
 * change may still be made.
 * @user Persons and groups
 */
export const COMMAND_WAIT_MS_MAX = 30_000
/**
 * The largest number of changes of the members of a cohort in one command. More changes take several commands, so that
 * events are processed between them.
 */
export const COHORT_CHANGES_MAX = 10_000
/**
 * While at most this many events wait, processing pauses to collect more of them. If more wait, it works without a
 * pause, unless the main thread is busy.
 */
export const GATHER_EVENTS_MAX = 16_384
/**
 * The time for which processing waits while the main thread is busy, measured from the arrival of the oldest waiting
 * event. After it, processing starts.
 */
export const YIELD_MS_MAX = 1000
/**
 * While the main thread is busy, processing waits until more events than this are waiting. One commit of processing can
 * contain this many.
 */
export const YIELD_EVENTS_MAX = 49_152
/**
 * The time after its start during which the daemon may report that it is not ready because events of an earlier
 * process are not processed yet.
 */
export const CATCH_UP_MS_MAX = 30_000
/**
 * The longest pause between two retries of failed processing. The first pauses are shorter. The log keeps accepted
 * events until a retry succeeds.
 */
export const PROCESSING_RETRY_MS_MAX = 10_000
/**
 * The longest pause between two retries while the machine lacks disk space or open files, or does not answer reads.
 */
export const SHORTAGE_RETRY_MS_MAX = 1000
/**
 * The largest number of live event streams that are open at a time. A further one is answered 503.
 * @user Console and live events
 */
export const LIVE_STREAMS_MAX = 20
/**
 * The largest number of events per second that one live stream shows continuously. Further events are counted, and the
 * stream reports their number.
 * @user Console and live events
 */
export const LIVE_EVENTS_PER_SECOND_MAX = 10
/**
 * The largest number of events that a live stream shows at once after some seconds without events. Further events are
 * counted, and the stream reports their number.
 * @user Console and live events
 */
export const LIVE_EVENTS_AT_ONCE_MAX = 50
/**
 * The largest number of bytes that wait for the reader of a live stream, unless a single event is larger. Further
 * events are counted, and the stream reports their number.
 * @user Console and live events
 */
export const LIVE_QUEUE_BYTES_MAX = 256 * 1024
/**
 * The largest number of clients of one address (for IPv6, of one /64 network) that listen for changes of flags at a
 * time. A further one is answered 429.
 * @user Flags
 */
export const FLAG_LISTENERS_OF_ADDRESS_MAX = 1000
/**
 * The largest number of clients of one project that listen for changes of flags at a time. A further one is answered
 * 503.
 * @user Flags
 */
export const FLAG_LISTENERS_OF_PROJECT_MAX = 10_000
/** The largest number of listeners that are told about a change before other requests get their turn. */
export const FLAG_LISTENERS_TOLD_AT_ONCE_MAX = 256
/**
 * The time that a listener for changes of flags may take to read a message. After it, the connection is closed.
 * @user Flags
 */
export const FLAG_LISTENER_STALL_MS_MAX = 10_000
/**
 * The largest number of projects whose refused requests are recorded. Beyond it, the records of the project whose last
 * refusal is oldest are removed.
 */
export const FATE_PROJECTS_MAX = 100
/**
 * The largest number of bytes of the file in which refused requests survive a restart. The projects with the latest
 * refusals are kept, and the records of the others are lost at a restart.
 */
export const FATE_FILE_BYTES_MAX = 1024 * 1024
/** The time for which refused requests are shown. Older ones are left out. */
export const FATE_AGE_MS_MAX = 86_400_000
/** The largest number of bytes of a refused body in which a project key is searched. The rest is ignored. */
export const FATE_LOOKED_AT_BYTES_MAX = 4096
/** The largest number of minutes for which rates are kept. Older ones are removed. */
export const RATE_MINUTES_MAX = 24 * 60
/** The time ahead for which a full disk is predicted. A later date is not shown. */
export const FORECAST_MS_MAX = 10 * 365 * 86_400_000
/**
 * The largest number of counts of decisions, by flag, value and hour, that are kept, about 100 bytes each. Beyond it,
 * the oldest hours are removed.
 */
export const USAGE_ROWS_MAX = 200_000
/**
 * The largest number of repeated decisions that are not counted by flag yet. At the limit, all of them are counted at
 * once.
 */
export const USAGE_REPEATED_MAX = 256
/**
 * The largest number of values of a flag that the guard of a ramp compares. Less frequent values are left out.
 */
export const GUARD_VALUES_MAX = 100
