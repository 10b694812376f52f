/**
 * The front's side of the audit log. Entries that come while a write is on its way share the next one, as
 * events share a commit, so that many changes at a time do not each wait for a flush of their own.
 */
import type { AuditEntry } from '../../rules/access/audit-entry.ts'

/** What the trail works with. */
export interface AuditTrailOptions {
  /** Stores entries durably. */
  readonly store: (entries: readonly AuditEntry[]) => Promise<void>
  /** Receives entries that could not be stored; a `Logger` will do. */
  readonly log: { error(fields: object, message: string): void }
  /** Counts entries that could not be stored. */
  readonly failures: { value: number }
}

/** Sends entries to the store in the order in which they come. */
export class AuditTrail {
  readonly #options: AuditTrailOptions
  #waiting: AuditEntry[] = []
  #next: Promise<void> | null = null
  #writing: Promise<void> = Promise.resolve()

  constructor(options: AuditTrailOptions) {
    this.#options = options
  }

  /**
   * Resolves when the entry is durable. An entry that cannot be stored is in the daemon's log instead and
   * holds nobody up: what it tells of is done. Never rejects.
   */
  record(entry: AuditEntry): Promise<void> {
    this.#waiting.push(entry)
    this.#next ??= this.#writing.then(() => this.#write())
    return this.#next
  }

  #write(): Promise<void> {
    const { store, log, failures } = this.#options
    const entries = this.#waiting
    this.#waiting = []
    this.#next = null
    this.#writing = store(entries).catch((err: unknown) => {
      failures.value += entries.length
      log.error({ err, entries }, 'the audit log could not be written')
    })
    return this.#writing
  }
}
