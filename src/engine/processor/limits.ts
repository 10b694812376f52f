/** The limits of engine/processor, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/**
 * The largest number of batches of stored events that may wait for a subscriber, such as a live stream. Beyond it, all
 * waiting batches are dropped, and the subscriber is told that it missed them.
 */
export const BATCHES_MAX = 1024
/**
 * The largest number of bytes of blocks in one commit while the disk has little free space. The next commit, with
 * further blocks, follows at once.
 */
export const SHORT_COMMIT_BYTES_MAX = 16 * 1024 * 1024
/** The largest number of dead letters that one command handles. The command reports whether there are more. */
export const COMMAND_LETTERS_MAX = 200
/**
 * A command ends when it has handled dead letters with more than this number of bytes in total, so that events do not
 * wait long.
 */
export const COMMAND_LETTER_BYTES_MAX = 8 * 1024 * 1024
/**
 * The largest number of bytes in the cache of user agents, and in the cache of IP addresses. Beyond it, the oldest
 * entries are evicted.
 */
export const ENRICHMENT_CACHE_BYTES_MAX = 8 * 1024 * 1024
/**
 * The largest number of bytes in a GeoIP database, which is read into memory. A larger database is not used.
 * @user Events
 */
export const GEOIP_FILE_BYTES_MAX = 1024 ** 3
/**
 * The largest number of references in one record of a GeoIP database. An IP address whose record has more gets no
 * location.
 */
export const GEOIP_REFERENCES_MAX = 2000
/**
 * The time that one lookup in a GeoIP database may take. After a longer lookup, the database is no longer used, with a
 * warning in the log.
 */
export const GEOIP_LOOKUP_MS_MAX = 1000
/**
 * The largest number of UTF-16 units of the properties of events that one processing run collects for all live streams.
 * Further events are counted as missed.
 */
export const LIVE_RUN_UNITS_MAX = 1024 * 1024
/**
 * The largest number of bytes of memory that one transaction of processing collects. At the limit it commits, even in
 * the middle of a block.
 */
export const GATHERED_BYTES_MAX = 64 * 1024 * 1024
/** After a batch of events failed, the next batch is smaller by this factor. */
export const ATTEMPT_PARTS = 8
/**
 * The largest number of times that an event may fail with an error when it is processed alone. Then it becomes a dead
 * letter.
 * @user Events
 */
export const ATTEMPTS_ALONE_MAX = 2
/**
 * The largest number of times that an event may end the thread or the process when it is processed alone. Then it
 * becomes a dead letter. The number is higher than for errors, because a process that is repeatedly killed from outside
 * must not lose the event.
 * @user Events
 */
export const ENDS_ALONE_MAX = 8
/** The largest number of failed maintenance steps that are recorded. Beyond it, the oldest one is removed. */
export const FAILED_STEPS_MAX = 100
/**
 * The pause before a maintenance step is tried again after its first failure, in milliseconds. It doubles with each
 * further failure.
 */
export const STEP_PAUSE_MS_MIN = 600_000
/** The longest pause before a maintenance step that has failed is tried again. */
export const STEP_PAUSE_MS_MAX = 86_400_000
