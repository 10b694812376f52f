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
/** Questions of one machine to those that hold events that may wait for their answers. Beyond: 503. */
export const QUESTIONS_WAITING_MAX = 1024
/** Questions of other machines that one works on. Beyond, they are refused with 503. */
export const QUESTIONS_SERVED_MAX = 1024
/** How long an answer may take in all, milliseconds. Beyond: 503. */
export const QUESTION_MS_MAX = 300_000
/** How long who was asked may be silent, milliseconds. Beyond, a read is asked once more, and then refused with 503. */
export const SILENCE_MS_MAX = 2000
/** How long it is tried to find a machine that holds events, milliseconds. Beyond: 503. */
export const NOBODY_MS_MAX = 1000
/** How long a question waits for a copy to be as far as who asks has seen, milliseconds. Beyond, another one is asked. */
export const QUESTION_WAIT_MS_MAX = 1500
/** Bytes of one answer of another machine. Beyond: 503. */
export const DISTANT_ANSWER_BYTES_MAX = 64 * 1024 * 1024
/** Bytes of answers that one machine puts together at a time. Beyond: 503. */
export const DISTANT_ANSWERS_BYTES_MAX = 256 * 1024 * 1024
/** Bytes of a part of an answer in one message, or what fits into one if that is less. */
export const ANSWER_PART_BYTES_MAX = 512 * 1024
/** Outcomes of commands that a machine remembers for others. Beyond, the oldest is forgotten. */
export const OUTCOMES_KEPT_MAX = 2000
/** How long a decision waits for what is stored elsewhere, milliseconds. Beyond, flags that need it fail. */
export const FACTS_MS_MAX = 300
/** How long before another machine is asked for it, milliseconds. */
export const FACTS_SILENCE_MS_MAX = 150
/** How long what a decision needed is taken as it was, milliseconds: less than processing takes to show an event. */
export const FACTS_KEPT_MS_MAX = 100
/** Bytes of what decisions needed that is kept. Beyond, the oldest is forgotten. */
export const FACTS_KEPT_BYTES_MAX = 16 * 1024 * 1024
/** A copy that has not come to the end of the stream for that long, milliseconds, answers nobody. */
export const HOLDER_LATE_MS_MAX = 10_000
/** How long cohorts and group types are waited for, milliseconds. Beyond, they are asked for again. */
export const DEFINITIONS_MS_MAX = 5000
/** How long what an edge asks must be as far as what was written there, milliseconds: copies that are later answer nobody. */
export const WRITTEN_MS_MAX = 30_000
/** Bytes that are kept for bodies of messages, as much as those of several blocks need. A larger body has memory of its own. */
export const MESSAGE_KEPT_BYTES_MAX = 4 * 1024 * 1024
