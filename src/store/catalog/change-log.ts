/**
 * The sequence of changes of a copy of environment `flags` (port: ports/change-log.ts). What the stores of this
 * thread write is captured and numbered in the same transaction; what comes from elsewhere is applied as it is.
 * The number of the newest is in table `state`, under `changes`; a store that never had a change log lacks it.
 */
import type { ChangeListener, ChangeLog, Following, WriteSet } from '../../ports/change-log.ts'
import { captureWrites, Environment, type Table } from '../lmdb/environment.ts'
import { FLAGS_ENVIRONMENT, FLAGS_TABLES } from '../lmdb/keys.ts'
import { getRecord, putRecord } from '../lmdb/records.ts'
import { KEPT_MAX } from './limits.ts'

const STATE = 'state'
const NUMBER_KEY = Buffer.from('changes', 'latin1')

/** The changes of one data directory. Open it before the stores whose writes it is to see, in their thread. */
export class CatalogueChanges implements ChangeLog {
  readonly #environment: Environment
  readonly #keptMax: number
  readonly #listeners = new Set<ChangeListener>()
  readonly #kept: { readonly number: number; readonly changes: WriteSet }[] = []

  /** `keptMax`: newest write sets that are kept for followers. */
  constructor(dataDir: string, keptMax = KEPT_MAX) {
    this.#keptMax = keptMax
    const tables = FLAGS_TABLES
    captureWrites({
      path: dataDir,
      name: FLAGS_ENVIRONMENT,
      within: (environment) => {
        const state = environment.table(STATE)
        putRecord(state, NUMBER_KEY, numberIn(state) + 1)
      },
      after: (changes) => this.#tell(changes),
    })
    this.#environment = new Environment({ dataDir, name: FLAGS_ENVIRONMENT, tables })
  }

  newest(): number {
    this.#environment.refresh()
    return numberIn(this.#environment.table(STATE))
  }

  async commit(expected: number, changes: WriteSet): Promise<number | null> {
    return this.#environment.write(() => {
      if (numberIn(this.#environment.table(STATE)) !== expected) return null
      for (const { table, key, value } of changes) {
        const target = this.#environment.table(table)
        if (value === null) void target.remove(Buffer.from(key))
        else void target.put(Buffer.from(key), Buffer.from(value))
      }
      return expected + 1
    })
  }

  follow(after: number, listener: ChangeListener): Following | null {
    const missing = this.newest() - after
    if (missing > this.#kept.length) return null
    for (const { number, changes } of this.#kept) if (number > after) listener(number, changes)
    this.#listeners.add(listener)
    return { close: () => this.#listeners.delete(listener) }
  }

  /** Stops capturing. */
  close(): Promise<void> {
    captureWrites(null)
    return this.#environment.close()
  }

  #tell(changes: WriteSet): void {
    const number = this.newest()
    this.#kept.push({ number, changes })
    if (this.#kept.length > this.#keptMax) this.#kept.shift()
    for (const listener of this.#listeners) listener(number, changes)
  }
}

function numberIn(state: Table): number {
  const number = getRecord(state, NUMBER_KEY)
  return typeof number === 'number' ? number : 0
}
