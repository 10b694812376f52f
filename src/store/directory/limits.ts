/** The limits of store/directory: each with its unit, and what happens beyond it. docs/LIMITS.md lists them all. */

/** A command holds the lock for a moment: how long others wait for that, and commands for each other. */
export const LOCK_WAIT_MS_MAX = 1500
/** The same for a command. */
export const LOCK_COMMAND_WAIT_MS_MAX = 10_000
/** Who holds the lock and leaves no note for so long neither looks whether it is free nor is about to write one. */
export const LOCK_SILENCE_MS_MAX = 500
/** Others who come at the same moment are in the way for an instant, commands until they end, a daemon stays. */
export const LOCK_ATTEMPTS_MAX = 75
/** The same beside a running daemon. */
export const LOCK_ATTEMPTS_BESIDE_DAEMON_MAX = 10
/** Milliseconds until the helper that holds the lock has it. Longer: the start fails. */
export const LOCK_SPAWN_MS_MAX = 10_000
