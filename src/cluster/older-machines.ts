/**
 * Notes which machines of a cluster run an older version. While one of them runs, this machine stores nothing that the
 * older one could not read, or from which it would compute different results. See docs/CLUSTER.md, "Upgrade".
 */
import type { NodeReport } from './shared-stream.ts'

/**
 * The edition of the data that machines write into the catalogue and the log. Raise it when a machine of an older
 * version could not apply a change of the catalogue, or would carry out a command differently. Edition 0 lacks the
 * tables `saved_metrics` and `guard_events`, and does not carry out `set_cohort_members`, which adds members to static
 * cohorts. Edition 1 does not carry out `copy` of experiments, and counts persons where an experiment counts groups.
 */
export const EDITION = 2

/** A machine counts as running for this time after its last report, in milliseconds. */
const FORGOTTEN_MS = 60_000

/** Notes the machines whose newest report has an older edition. */
export class OlderMachines {
  readonly #now: () => number
  /** The time of the last report of each machine, by the machine's name. */
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
