/**
 * Keeps what flags were decided to be over restarts: what has changed of the last hours is written each minute
 * and at the end. A process that is killed loses the last minute.
 */
import type { OrganizationPort } from '../threads/organization-tasks.ts'
import type { FlagUsage } from './flag-usage.ts'

const COLLECT_MS = 10_000
const KEEP_MS = 60_000

/** What it works with. */
export interface UsageKeeperOptions {
  readonly usage: FlagUsage
  /** Assigns what was counted to the present hour. */
  readonly collect: () => void
  readonly queries: OrganizationPort
  /** Why nothing can be written now, or null. */
  readonly refusal: () => object | null
  /** Receives what could not be read or written; a `Logger` will do. */
  readonly log: { error(fields: object, message: string): void }
}

/** Collects, and reads and writes what was collected. */
export class UsageKeeper {
  readonly #options: UsageKeeperOptions
  #timers: readonly NodeJS.Timeout[] = []

  constructor(options: UsageKeeperOptions) {
    this.#options = options
  }

  /** Takes over what is kept; without it counting begins anew. Then collects until `stop`. */
  async start(): Promise<void> {
    const { usage, queries, collect, log } = this.#options
    try {
      usage.restore(await queries.organization('keptUsage', undefined))
    } catch (err) {
      log.error({ err }, 'what flags were decided to be could not be read')
    }
    this.#timers = [setInterval(collect, COLLECT_MS), setInterval(() => void this.#keep(), KEEP_MS)]
  }

  /** Writes the rest, unless nothing may be written any more. */
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
      log.error({ err }, 'what flags were decided to be could not be written')
    }
  }
}
