/** The limits of engine/front: each with its unit, and what happens beyond it. docs/LIMITS.md lists them all. */

/** Records whose last line in the log is remembered. */
export const DAMAGE_RECORDS_MAX = 1000
/**
 * Memory kept for the next blocks, as large as traffic has made it: fresh memory for every commit makes
 * the garbage collector run.
 */
export const COMMIT_SPARE_BUFFERS_MAX = 4
/** Bytes of one of them. A larger one is given up. */
export const COMMIT_SPARE_BYTES_MAX = 8 * 1024 * 1024
/** A commit that takes longer leaves its requests with 503 and unknown outcome. */
export const COMMIT_MS_MAX = 10_000
/** Bytes that are worth a commit of their own at any time. */
export const COMMIT_SPACED_BYTES_MAX = 1024 * 1024
/** Requests that are remembered, so that a client that repeats itself fills no log. */
export const OVERRIDES_RECENT_MAX = 10_000
/** Commands that may wait at a time; a further one is refused with 503. */
export const COMMANDS_WAITING_MAX = 1000
/** A command that takes longer is answered with 503; it may still be carried out. */
export const COMMAND_WAIT_MS_MAX = 30_000
/** A backlog of that many events is worked on without a pause, unless the front is busy. */
export const GATHER_EVENTS_MAX = 16_384
/** While the front is busy, processing waits until the oldest event is that old, milliseconds. */
export const YIELD_MS_MAX = 1000
/** Or until so many events wait: as many as one commit of processing gathers. */
export const YIELD_EVENTS_MAX = 49_152
/** For that long after its start a daemon may call itself not ready because of what an earlier run left. */
export const CATCH_UP_MS_MAX = 30_000
/**
 * The longest pause between two retries of failed processing, in milliseconds. The first pauses are shorter. The log
 * keeps accepted events until a retry succeeds.
 */
export const PROCESSING_RETRY_MS_MAX = 10_000
/** Streams of events that are open at a time. A further one: 503. */
export const LIVE_STREAMS_MAX = 20
/** Events a second that one stream goes on to show. Further ones are counted, and it says how many. */
export const LIVE_EVENTS_PER_SECOND_MAX = 10
/** Events that it shows at once after it has shown none for some seconds. Further ones: as above. */
export const LIVE_EVENTS_AT_ONCE_MAX = 50
/** Bytes that wait for the reader of a stream, unless a single event is larger. Further events: as above. */
export const LIVE_QUEUE_BYTES_MAX = 256 * 1024
/** Projects whose refused requests are remembered. Beyond: the one that was refused nothing for longest is forgotten. */
export const FATE_PROJECTS_MAX = 100
/** How long they are told, milliseconds. Older ones are left out. */
export const FATE_AGE_MS_MAX = 86_400_000
/** Bytes of a refused body in which a key of a project is looked for. Further: not seen. */
export const FATE_LOOKED_AT_BYTES_MAX = 4096
/** Minutes of which rates are remembered. Older ones are forgotten. */
export const RATE_MINUTES_MAX = 24 * 60
/** How far ahead a full disk is foretold, milliseconds. Beyond: not. */
export const FORECAST_MS_MAX = 10 * 365 * 86_400_000
/** Counts, by flag, value and hour, that are kept, some 100 bytes each; beyond, the oldest hours go. */
export const USAGE_ROWS_MAX = 200_000
/** Decisions that were repeated and are not counted flag by flag yet; with so many they are, at once. */
export const USAGE_REPEATED_MAX = 256
