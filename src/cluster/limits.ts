/** The limits of cluster, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/**
 * The time for which a request waits until a majority of the brokers has its events. After it, events are acknowledged
 * from the local disk alone, or answered 503 if the settings require a majority.
 * @user Cluster and ClickHouse
 */
export const REPLICATION_MS_MAX = 1000
/** The time that the brokers have to confirm a message. After it, the message is sent again. */
export const PUBLISH_MS_MAX = 3000
/**
 * The largest number of bytes of blocks in one message, unless a single block is larger. Further blocks go into the
 * next message.
 */
export const MESSAGE_BYTES_MAX = 2 * 1024 * 1024
/**
 * The largest number of bytes of blocks that wait in memory for the brokers. Further blocks are read from the outbox on
 * disk again.
 */
export const OUTBOX_MEMORY_BYTES_MAX = 32 * 1024 * 1024
/**
 * The largest number of bytes of messages that wait to be processed. Beyond it, no further messages are taken from the
 * stream.
 */
export const FOLLOWED_BYTES_MAX = 64 * 1024 * 1024
/**
 * The time for which an outbox keeps blocks that enough replicas have stored, because another replica still lacks them
 * and makes no progress. After it, the blocks may be removed.
 */
export const LAGGARD_MS_MAX = 300_000
/**
 * The largest number of runs of an outbox. A run begins when the outbox is opened, and when a write to its log fails.
 * The numbers that identify its blocks cannot represent more runs. Beyond it, the start fails with a reference to
 * docs/CLUSTER.md.
 * @user Cluster and ClickHouse
 */
export const OUTBOX_RUNS_MAX = 8000
/**
 * The time for which the stream keeps messages. A replica that was away for longer needs a newer backup.
 * @user Cluster and ClickHouse
 */
export const STREAM_AGE_MS_MAX = 7 * 86_400_000
/**
 * The time for which a change of the catalogue waits for a majority of the brokers. After it, the change is answered
 * 503.
 * @user Cluster and ClickHouse
 */
export const CONTROL_MS_MAX = 5000
/**
 * The time for which a change of the catalogue waits for a majority of the brokers if the previous change reached no
 * majority. After it, the change is answered 503.
 */
export const CONTROL_ALONE_MS_MAX = 1000
/**
 * The largest number of messages in the stream of the catalogue. Beyond it, the whole catalogue is added to the stream,
 * and the older messages are removed.
 */
export const CONTROL_MESSAGES_MAX = 1024
/**
 * The time for which a machine without a catalogue waits for the brokers at its start. After it, the process ends with
 * an error. It can be started again.
 * @user Cluster and ClickHouse
 */
export const JOIN_MS_MAX = 60_000
/**
 * The largest number of bytes that a message may need in addition to one body, for headers and for small requests of
 * the same commit. If `max_payload` of the brokers is less than `body_limit` plus this number, Tenrec reports it.
 */
export const MESSAGE_HEADS_BYTES_MAX = 2 * 1024 * 1024
/**
 * The time, in milliseconds, for which a command such as `cluster status` listens to the machines of a cluster. Each
 * machine reports its state every two seconds.
 */
export const STATUS_LISTENED_MS = 3000
/**
 * The time, in milliseconds, by which messages stay longer in the stream of secrets for cookieless visitors than in the
 * stream of events. A secret is created before the events of its day, and such events may still arrive after the day.
 */
export const SALT_DAYS_MS = 6 * 86_400_000
/**
 * The largest number of requests to replicas for whose answers one machine can wait at a time. A further one is
 * answered 503.
 * @user Cluster and ClickHouse
 */
export const QUESTIONS_WAITING_MAX = 1024
/**
 * The largest number of requests from other machines that one machine works on at a time. A further one is refused with
 * 503.
 */
export const QUESTIONS_SERVED_MAX = 1024
/**
 * The time that a complete answer of another machine may take. After it, the request is answered 503.
 * @user Cluster and ClickHouse
 */
export const QUESTION_MS_MAX = 300_000
/** The time for which another machine may send nothing. After it, a read is sent once more and then answered 503. */
export const SILENCE_MS_MAX = 2000
/**
 * The time for which a request waits until a replica of the partition is connected. After it, the request is answered
 * 503.
 */
export const NOBODY_MS_MAX = 1000
/**
 * The time for which a request waits until a replica has caught up with the last write of the machine that asks. After
 * it, another replica is asked.
 */
export const QUESTION_WAIT_MS_MAX = 1500
/** The largest number of bytes in one answer of another machine. For a larger answer, the request is answered 503. */
export const DISTANT_ANSWER_BYTES_MAX = 64 * 1024 * 1024
/**
 * The largest number of bytes of answers of other machines that one machine collects at a time. Beyond it, the request
 * is answered 503.
 */
export const DISTANT_ANSWERS_BYTES_MAX = 256 * 1024 * 1024
/** The largest number of bytes of an answer in one message. It is less if the brokers accept only smaller messages. */
export const ANSWER_PART_BYTES_MAX = 512 * 1024
/**
 * The largest number of results of commands that a machine keeps for other machines. Beyond it, the oldest result is
 * evicted.
 */
export const OUTCOMES_KEPT_MAX = 2000
/**
 * The time for which the decision of a flag waits for persons or groups that another machine stores. After it, flags
 * that need them fail.
 * @user Cluster and ClickHouse
 */
export const FACTS_MS_MAX = 300
/**
 * The time for which a machine may send nothing after a request for the persons or groups of a flag decision. After it,
 * another machine is asked.
 */
export const FACTS_SILENCE_MS_MAX = 150
/**
 * The time for which persons and groups of other machines are cached for flag decisions. It is shorter than the time
 * that processing needs to show an event.
 */
export const FACTS_KEPT_MS_MAX = 100
/**
 * The largest number of bytes of the persons and groups of other machines that are cached for flag decisions. Beyond
 * it, the oldest ones are evicted.
 */
export const FACTS_KEPT_BYTES_MAX = 16 * 1024 * 1024
/**
 * The time for which a replica may be behind the end of the stream. After it, the replica answers no requests until it
 * has caught up.
 */
export const HOLDER_LATE_MS_MAX = 10_000
/** The time for which a machine waits for cohorts and group types of another machine. After it, it asks again. */
export const DEFINITIONS_MS_MAX = 5000
/** For this time after a write, the machine that wrote reads only from replicas that have the write. */
export const WRITTEN_MS_MAX = 30_000
/**
 * The largest number of bytes of memory that are kept and reused for the bodies of messages, enough for several blocks.
 * A larger body gets memory of its own.
 */
export const MESSAGE_KEPT_BYTES_MAX = 4 * 1024 * 1024
