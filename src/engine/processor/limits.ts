/** The limits of engine/processor: each with its unit, and what happens beyond it. docs/LIMITS.md lists them all. */

/** Batches without events that may wait beside those with events. */
export const BATCHES_MAX = 1024
/** Bytes of blocks that one commit gathers while the disk is short of room; the next ones follow at once. */
export const SHORT_COMMIT_BYTES_MAX = 16 * 1024 * 1024
/** Letters of one command; it says when there are more. */
export const COMMAND_LETTERS_MAX = 200
/** Bytes of letters after which one command ends, so that events do not wait long. */
export const COMMAND_LETTER_BYTES_MAX = 8 * 1024 * 1024
/** Bytes of what is remembered of user agents, and as many of addresses. Beyond: the oldest is found out anew. */
export const ENRICHMENT_CACHE_BYTES_MAX = 8 * 1024 * 1024
/** Bytes of a GeoIP database, which is read into memory. Larger: not read. */
export const GEOIP_FILE_BYTES_MAX = 1024 ** 3
/** References that one record of a GeoIP database may hold. More: the address has no place. */
export const GEOIP_REFERENCES_MAX = 2000
/** Milliseconds that one look into a GeoIP database may take. Longer: the database is used no more. */
export const GEOIP_LOOKUP_MS_MAX = 1000
/** UTF-16 units of the properties of the events that one run takes for all streams. Further ones are missed. */
export const LIVE_RUN_UNITS_MAX = 1024 * 1024
/** Bytes of memory that one transaction of processing may gather. At the limit it commits, even in the middle of a block. */
export const GATHERED_BYTES_MAX = 64 * 1024 * 1024
/** After a batch of events failed, the next batch is this many times smaller. */
export const ATTEMPT_PARTS = 8
/** How often an event may fail alone with an error before it becomes a dead letter. */
export const ATTEMPTS_ALONE_MAX = 2
/**
 * How often an event may end the thread or the process alone before it becomes a dead letter. More often than with an
 * error, because a process that is repeatedly killed from outside must not lose the event.
 */
export const ENDS_ALONE_MAX = 8
/** Failed maintenance steps that are recorded. Beyond this, the oldest one is forgotten. */
export const FAILED_STEPS_MAX = 100
/** The pause of a maintenance step after its first failure, in milliseconds. It doubles with each further failure. */
export const STEP_PAUSE_MS_MIN = 600_000
/** The longest pause of a maintenance step, in milliseconds. */
export const STEP_PAUSE_MS_MAX = 86_400_000
