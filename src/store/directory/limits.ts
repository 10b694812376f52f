/** The limits of store/directory, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/**
 * The time for which a daemon or another process waits for the lock of the data directory while a command holds it.
 * After it, the start fails.
 */
export const LOCK_WAIT_MS_MAX = 1500
/**
 * The time for which a command waits for the lock of the data directory while another command holds it. After it, the
 * command fails.
 */
export const LOCK_COMMAND_WAIT_MS_MAX = 10_000
/**
 * The time for which a process waits for the lock of the data directory if its holder has written no note about itself.
 * The holder may only be checking the lock, or be about to write the note. After this time, the start fails.
 */
export const LOCK_SILENCE_MS_MAX = 500
/**
 * The largest number of attempts to register as a user of an environment. After the last one, the start fails. Attempts
 * fail while another process uses the environment in a way that excludes this one. A process that is just starting does
 * so for a moment, a command until it ends, and a daemon for longer.
 */
export const LOCK_ATTEMPTS_MAX = 75
/**
 * The largest number of attempts to register as a user of an environment, if a daemon runs on the data directory. After
 * the last one, the command fails.
 */
export const LOCK_ATTEMPTS_BESIDE_DAEMON_MAX = 10
/**
 * The time in which the child process that locks a folder (`flock` or perl) must take the lock. If it takes longer, the
 * start fails.
 */
export const LOCK_SPAWN_MS_MAX = 10_000
