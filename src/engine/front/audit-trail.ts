/**
 * Writes entries of the audit log for the main thread. Entries that arrive while others are being written are written
 * together afterward, so that many changes at the same time share one flush to disk.
 */
import type { AuditEntry } from '../../rules/access/audit-entry.ts'

/** The dependencies of the audit trail. */
export interface AuditTrailOptions {
  /** Stores entries durably. */
  readonly store: (entries: readonly AuditEntry[]) => Promise<void>
  /** Receives the entries that could not be stored. A `Logger` can be passed. */
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
   * Resolves when the entry is on disk. If the entry cannot be stored, it goes to the daemon's log instead, because the
   * change that it describes was already made. Never rejects.
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
