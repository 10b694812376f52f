/**
 * Writes entries of the audit log for the front. Entries that arrive during a write are written together by the next
 * one, so that many changes at the same time do not need a flush each.
 */
import type { AuditEntry } from '../../rules/access/audit-entry.ts'

/** What the audit trail needs. */
export interface AuditTrailOptions {
  /** Stores entries durably. */
  readonly store: (entries: readonly AuditEntry[]) => Promise<void>
  /** Gets the entries that could not be stored. A `Logger` can be passed. */
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
   * Resolves when the entry is on disk. If it cannot be stored, it is written to the daemon's log instead, because the
   * change that it describes has already been made. Never rejects.
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
