/** The limits of cluster: each with its unit, and what happens beyond it. docs/LIMITS.md lists them all. */

/** Without a majority of brokers for that long, milliseconds, events are acknowledged from this disk alone, or refused. */
export const REPLICATION_MS_MAX = 1000
/** How long a message may be on its way to the brokers, milliseconds. Beyond, it is sent again. */
export const PUBLISH_MS_MAX = 3000
/** Bytes of blocks in one message, unless a single block is larger. Further blocks go into the next. */
export const MESSAGE_BYTES_MAX = 2 * 1024 * 1024
/** Bytes of blocks that wait in memory for the brokers. Further ones are read from the outbox again. */
export const OUTBOX_MEMORY_BYTES_MAX = 32 * 1024 * 1024
/** Bytes of messages that wait to be processed. Beyond, nothing more is taken from the stream. */
export const FOLLOWED_BYTES_MAX = 64 * 1024 * 1024
/** How long an outbox waits for a copy beyond those that must have a block, milliseconds, while it comes no further. */
export const LAGGARD_MS_MAX = 300_000
/** Times that an outbox was opened, or had to give up a number; its numbers cannot tell more apart. */
export const OUTBOX_RUNS_MAX = 8000
/** How long the stream keeps messages, milliseconds. A copy that is away for longer needs a newer backup. */
export const STREAM_AGE_MS_MAX = 7 * 86_400_000
/** How long a change of the catalogue may wait for a majority of brokers, milliseconds. Beyond: 503. */
export const CONTROL_MS_MAX = 5000
/** The same while none was there for the change before it. */
export const CONTROL_ALONE_MS_MAX = 1000
/** Messages of the stream of the catalogue. Beyond, the whole catalogue is added and what it stands for cut off. */
export const CONTROL_MESSAGES_MAX = 1024
/** How long a machine without a catalogue waits for the brokers, milliseconds. Beyond, it ends, and may be started again. */
export const JOIN_MS_MAX = 60_000
/** Bytes that a message may need besides one body: heads, and small requests of the same commit. */
export const MESSAGE_HEADS_BYTES_MAX = 2 * 1024 * 1024
/** How long the machines of a cluster are listened to, milliseconds: each tells how it is every two seconds. */
export const STATUS_LISTENED_MS = 3000
/** How long before its events the secret of a day is made, and how long after them one may still come, milliseconds. */
export const SALT_DAYS_MS = 6 * 86_400_000
