/**
 * Notes which machines of a cluster run an older version. While there is one, nothing is stored that such a machine
 * could not read, or from which it would compute something else: see docs/CLUSTER.md, "Upgrade".
 */
import type { NodeReport } from './shared-stream.ts'

/**
 * The edition of what machines write into the catalogue and the log. Raise it when machines of an older version cannot
 * apply a change of the catalogue, or would carry out a command in another way. Edition 0 lacks the tables
 * `saved_metrics` and `guard_events`, and does not add members to static cohorts by `set_cohort_members`.
 */
export const EDITION = 1

/** A machine that has not reported for this time is forgotten, in milliseconds. */
const FORGOTTEN_MS = 60_000

/** The machines whose newest report has an older edition. */
export class OlderMachines {
  readonly #now: () => number
  /** The time of the last report by the name of the machine. */
  readonly #heardAtMs = new Map<string, number>()

  /** `now` returns milliseconds of a clock that never goes back. */
  constructor(now: () => number) {
    this.#now = now
  }

  hear({ replica, edition = 0 }: Pick<NodeReport, 'replica' | 'edition'>): void {
    if (edition < EDITION) this.#heardAtMs.set(replica, this.#now())
    else this.#heardAtMs.delete(replica)
  }

  /** True if a machine with an older version has reported within the last minute. */
  get areThere(): boolean {
    for (const [replica, atMs] of this.#heardAtMs) {
      if (this.#now() - atMs < FORGOTTEN_MS) return true
      this.#heardAtMs.delete(replica)
    }
    return false
  }
}
