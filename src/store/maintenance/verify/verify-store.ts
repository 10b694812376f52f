/**
 * Checks a whole store, which may be in use: first the blocks of the log, then the pages of each data file, then the
 * checksum of every record, and then the consistency of the records. LMDB follows every pointer without checking it, so
 * it reads only files whose pages were found intact. Nothing is written.
 */
import { join } from 'node:path'
import { readBlock } from '../../../rules/capture/log-block.ts'
import {
  ENVIRONMENT_NAMES,
  type EnvironmentName,
  FIRST_TABLES,
  findDamage,
  requireEnvironment,
} from '../../directory/data-dir.ts'
import { joinEnvironment } from '../../directory/environment-lock.ts'
import { findDisagreement } from '../../directory/store-agreement.ts'
import { DamagedRecordError } from '../../faults.ts'
import { checkChangesBlock } from '../../identity/change-blocks.ts'
import { unseal } from '../../lmdb/codec.ts'
import { Environment, type PinnedEnvironment } from '../../lmdb/environment.ts'
import { LmdbFault, walkLmdbFile } from '../../lmdb/lmdb-walk.ts'
import { LogReader } from '../../log/event-log.ts'
import { DamagedLogError, logFolder } from '../../log/log-file.ts'
import { hasForm } from '../catalogue-forms.ts'
import { VERIFY_FINDINGS_MAX } from '../limits.ts'
import { RecordsCheck } from './records-check.ts'

/** The number of entries after which the check returns to the event loop, so that other work can continue. */
const ENTRIES_PER_TURN = 4096
/** The number of times that a block of the log must look damaged before it is reported. */
const LOG_LOOKS = 3
/**
 * In this table, a value contains several entries, each with a checksum. In other tables, a value ends with one
 * checksum.
 */
const CHANGES_TABLE = 'person_changes'

/** A fault in the store. */
export interface VerifyFinding {
  /** The absolute path of the data file. */
  readonly file: string
  /** The table and key of the record, or another part of the file. */
  readonly where: string
  readonly what: string
}

/** The result of a check. `findings` is empty for a sound store. */
export interface VerifyReport {
  readonly findings: readonly VerifyFinding[]
  readonly entries: number
  readonly bytes: number
  readonly pages: number
}

/**
 * Checks the store in a data directory. Throws `OperatorError` if there is none or a file is missing. Reads everything
 * twice, which takes about 1 s per 500 MB.
 */
export async function verifyStore(
  dataDir: string,
  onProgress: (bytes: number) => void,
): Promise<VerifyReport> {
  const path = requireEnvironment(dataDir, 'log')
  const verification = new Verification(path, onProgress)
  await verification.checkLog()
  for (const name of ENVIRONMENT_NAMES) await verification.checkEnvironment(name)
  verification.checkAgreement()
  return verification.report()
}

class Verification {
  readonly #dataDir: string
  readonly #onProgress: (bytes: number) => void
  readonly #findings: VerifyFinding[] = []
  #entries = 0
  #bytes = 0
  #pages = 0
  /** True if one of the files is so damaged that LMDB must not read it. */
  #hasBrokenFile = false

  constructor(dataDir: string, onProgress: (bytes: number) => void) {
    this.#dataDir = dataDir
    this.#onProgress = onProgress
  }

  report(): VerifyReport {
    return {
      findings: this.#findings,
      entries: this.#entries,
      bytes: this.#bytes,
      pages: this.#pages,
    }
  }

  /** Checks the blocks that are in the log. Missing blocks are reported by `checkAgreement`. */
  async checkLog(): Promise<void> {
    try {
      const log = new LogReader({ dataDir: this.#dataDir })
      const { first, last } = log.extent() ?? { first: 1, last: 0 }
      for (let sequence = first; sequence <= last; sequence++) {
        if (this.#findings.length >= VERIFY_FINDINGS_MAX) break
        this.#checkBlock(log, sequence)
        if (sequence % ENTRIES_PER_TURN === 0) await this.#breathe()
      }
      await log.close()
    } catch (cause) {
      if (!(cause instanceof DamagedLogError)) throw cause
      this.#find(cause.file, 'file', cause.what)
    }
  }

  /**
   * Checks one block. A daemon may reuse the file of the block while the block is read, so a fault counts only if it is
   * found repeatedly.
   */
  #checkBlock(log: LogReader, sequence: number): void {
    for (let look = 1; look <= LOG_LOOKS; look++) {
      try {
        const block = log.block(sequence)
        if (block === undefined) return
        readBlock(block)
        this.#entries++
        this.#bytes += block.length
        return
      } catch (cause) {
        if (look < LOG_LOOKS) log.refresh()
        else if (cause instanceof DamagedLogError) throw cause
        else this.#find(logFolder(this.#dataDir), `block ${sequence}`, reasonOf(cause))
      }
    }
  }

  async checkEnvironment(name: EnvironmentName): Promise<void> {
    const file = join(this.#dataDir, name, 'data.mdb')
    const damage = findDamage(this.#dataDir, name)
    if (damage !== null) {
      this.#hasBrokenFile = true
      this.#find(file, 'file', `is damaged: ${damage}`)
      return
    }
    joinEnvironment(this.#dataDir, name)
    const environment = new Environment({
      dataDir: this.#dataDir,
      name,
      tables: [],
      isReadOnly: true,
    })
    try {
      if (!this.#walk(environment, file)) {
        this.#hasBrokenFile = true
        return
      }
      const tables = this.#knownTables(name, file, environment.openAll())
      const pin = environment.pin()
      try {
        await this.#checkRecords(tables, pin, name, file)
      } finally {
        pin.release()
      }
    } finally {
      await environment.close()
    }
  }

  /** Checks whether the parts of the store belong together. Does nothing if LMDB must not read one of the files. */
  checkAgreement(): void {
    if (this.#hasBrokenFile) return
    const found = findDisagreement(this.#dataDir)
    if (found !== null) this.#find(found.file, 'store', found.what)
  }

  /** Pins the newest state and checks its pages. Returns whether they are intact. */
  #walk(environment: Environment, file: string): boolean {
    const pinned = environment.pinNewest()
    if (pinned === null) {
      this.#find(file, 'pages', 'the store changes too often to be checked, try again')
      return false
    }
    try {
      this.#pages += walkLmdbFile(file, pinned.state).pages
      return true
    } catch (cause) {
      if (!(cause instanceof LmdbFault)) throw cause
      this.#find(file, 'pages', cause.message)
      return false
    } finally {
      pinned.pin.release()
    }
  }

  /** Returns the tables that this version knows, and reports all others as findings. */
  #knownTables(name: EnvironmentName, file: string, tables: readonly string[]): readonly string[] {
    const known = FIRST_TABLES[name]
    for (const table of tables) {
      if (!known.includes(table)) this.#find(file, `table ${table}`, 'is not a known table')
    }
    return tables.filter((table) => known.includes(table))
  }

  async #checkRecords(
    tables: readonly string[],
    pin: PinnedEnvironment,
    name: EnvironmentName,
    file: string,
  ): Promise<void> {
    const check = new RecordsCheck((where, what) => this.#find(file, where, what))
    for (const table of tables) {
      let entries = 0
      for (const { key, value } of pin.entries(table)) {
        this.#entries++
        this.#bytes += key.length + value.length
        if (++entries % ENTRIES_PER_TURN === 0) await this.#breathe()
        if (this.#findings.length >= VERIFY_FINDINGS_MAX) return
        try {
          if (table === CHANGES_TABLE) checkChangesBlock(key, value)
          else {
            const bytes = unseal(table, key, value)
            if (name === 'events') check.take(table, key, bytes)
            // Tables are always restored as a whole. So if a table has the records of another table, its first record
            // shows it.
            else if (entries === 1 && !hasForm(table, key, bytes)) {
              this.#find(file, `table ${table}`, 'has records of another table')
            }
          }
        } catch (cause) {
          this.#findRecord(file, table, key, cause)
        }
      }
    }
    check.finish()
  }

  #findRecord(file: string, table: string, key: Buffer, cause: unknown): void {
    const where = `table ${table}, key ${key.toString('hex')}`
    const isDamage = cause instanceof DamagedRecordError
    this.#find(file, where, isDamage ? 'the checksum does not match' : reasonOf(cause))
  }

  #find(file: string, where: string, what: string): void {
    this.#findings.push({ file, where, what })
  }

  async #breathe(): Promise<void> {
    this.#onProgress(this.#bytes)
    await new Promise((resolve) => setImmediate(resolve))
  }
}

function reasonOf(cause: unknown): string {
  return `cannot be read: ${cause instanceof Error ? cause.message : String(cause)}`
}
