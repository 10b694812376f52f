/**
 * Stores the counts of flag decisions per hour, so that they survive a restart. Every minute, and when the daemon
 * stops, it writes the counts of the hours that have changed. If the process is killed, the counts of the last minute
 * are lost.
 */
import type { OrganizationPort } from '../threads/organization-tasks.ts'
import type { FlagUsage } from './flag-usage.ts'

const COLLECT_MS = 10_000
const KEEP_MS = 60_000

/** The dependencies of the usage keeper. */
export interface UsageKeeperOptions {
  readonly usage: FlagUsage
  /** Updates the counts of the current hour with the decisions that were made since the last call. */
  readonly collect: () => void
  readonly queries: OrganizationPort
  /** Returns the error with which writes are refused at the moment, or null if they are possible. */
  readonly refusal: () => object | null
  /** Receives the errors of reads and writes. A `Logger` can be passed. */
  readonly log: { error(fields: object, message: string): void }
}

/** Collects the counts of flag decisions, and reads and writes them. */
export class UsageKeeper {
  readonly #options: UsageKeeperOptions
  #timers: readonly NodeJS.Timeout[] = []

  constructor(options: UsageKeeperOptions) {
    this.#options = options
  }

  /** Restores the stored counts, or starts from zero if that fails. Then collects and stores counts until `stop`. */
  async start(): Promise<void> {
    const { usage, queries, collect, log } = this.#options
    try {
      usage.restore(await queries.organization('keptUsage', undefined))
    } catch (err) {
      log.error({ err }, 'Could not read the counts of flag values.')
    }
    this.#timers = [setInterval(collect, COLLECT_MS), setInterval(() => void this.#keep(), KEEP_MS)]
  }

  /** Stops the timers. If `mayWrite` is true, writes the counts that are not stored yet. */
  async stop(mayWrite: boolean): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer)
    if (!mayWrite) return
    this.#options.collect()
    await this.#keep()
  }

  async #keep(): Promise<void> {
    const { usage, queries, refusal, log } = this.#options
    if (refusal() !== null) return
    const changed = usage.takeChanged()
    if (changed.hours.length === 0) return
    try {
      await queries.organization('keepUsage', changed)
    } catch (err) {
      usage.putBack(changed.hours)
      log.error({ err }, 'Could not write the counts of flag values.')
    }
  }
}
