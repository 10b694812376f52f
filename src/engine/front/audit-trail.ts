/**
 * Writes audit log entries for the front. Entries that arrive during a write share the next one, as events share a
 * commit, so that many concurrent changes do not each need a flush.
 */
import type { AuditEntry } from '../../rules/access/audit-entry.ts'

/** The dependencies of the trail. */
export interface AuditTrailOptions {
  /** Stores entries durably. */
  readonly store: (entries: readonly AuditEntry[]) => Promise<void>
  /** Receives entries that could not be stored. A `Logger` fits. */
  readonly log: { error(fields: object, message: string): void }
  /** Counts entries that could not be stored. */
  readonly failures: { value: number }
}

/** Sends entries to the store in order of arrival. */
export class AuditTrail {
  readonly #options: AuditTrailOptions
  #waiting: AuditEntry[] = []
  #next: Promise<void> | null = null
  #writing: Promise<void> = Promise.resolve()

  constructor(options: AuditTrailOptions) {
    this.#options = options
  }

  /**
   * Resolves when the entry is durable. If it cannot be stored, it is written to the daemon's log instead, and the
   * caller continues, because the audited change has already been made. Never rejects.
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
      log.error({ err, entries }, 'Could not write to the audit log.')
    })
    return this.#writing
  }
}
