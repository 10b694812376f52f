/** JSON records of a project that are identified by numbers, together with the changes that are not stored yet. */
import type { Table } from './environment.ts'
import { keysOf, NUMBER_MAX, numberInKey, pairKey } from './keys.ts'
import { getJson, lastKey, putJson } from './records.ts'

/** Returns a record, or null if it does not exist or the number is not valid. Throws `DamagedRecordError`. */
export function loadNumbered<T>(table: Table, projectId: number, number: number): T | null {
  if (!Number.isInteger(number) || number < 1 || number > NUMBER_MAX) return null
  return getJson<T>(table, pairKey(projectId, number))
}

/** The records of one project, as the processing thread sees and changes them. */
export class NumberedRecords<T> {
  readonly projectId: number
  readonly #table: Table
  readonly #changed = new Map<number, T | null>()
  /** Null until it was looked up. False also if all records were removed since. */
  #isEmpty: boolean | null = null

  constructor(projectId: number, table: Table) {
    this.projectId = projectId
    this.#table = table
  }

  /** Returns the current version of a record, or null. Throws `DamagedRecordError`. */
  find(number: number): T | null {
    const changed = this.#changed.get(number)
    if (changed !== undefined) return changed
    return loadNumbered(this.#table, this.projectId, number)
  }

  /** True if there is certainly no record. */
  get isEmpty(): boolean {
    // Removals that are not stored yet say nothing about the other records, so nothing is concluded from them.
    if (this.#isEmpty === null && this.#changed.size > 0) return false
    this.#isEmpty ??= lastKey(this.#table, keysOf(this.projectId)) === undefined
    return this.#isEmpty
  }

  /** Replaces a record, or removes it if `record` is null. */
  set(number: number, record: T | null): void {
    if (record !== null) this.#isEmpty = false
    this.#changed.set(number, record)
  }

  /** Returns a number that no record has: the largest number in use plus 1. */
  nextId(): number {
    const last = lastKey(this.#table, keysOf(this.projectId))
    return Math.max(last === undefined ? 0 : numberInKey(last, 4), ...this.#changed.keys()) + 1
  }

  /** Stores the changes. Call it only within a write transaction. */
  store(): void {
    for (const [number, record] of this.#changed) {
      const key = pairKey(this.projectId, number)
      if (record === null) void this.#table.remove(key)
      else putJson(this.#table, key, record)
    }
    this.#changed.clear()
  }
}
