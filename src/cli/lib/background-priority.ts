/** For commands that work long beside a daemon: what the daemon does comes first. */
import { existsSync, readdirSync } from 'node:fs'
import { getPriority, setPriority } from 'node:os'

/** As systemd/tenrec-backup.service has it. */
const NICENESS = 10
const THREADS = '/proc/self/task'

/**
 * Gives every thread of this process the lower priority, and thereby those that they start later. Linux
 * knows it for each thread. Where it cannot be done, the command runs as it is.
 */
export function lowerPriority(): void {
  if (!existsSync(THREADS)) return
  for (const thread of readdirSync(THREADS)) {
    const id = Number(thread)
    try {
      if (getPriority(id) < NICENESS) setPriority(id, NICENESS)
    } catch {
      // A thread that has ended meanwhile, or a system that does not allow it.
    }
  }
}
