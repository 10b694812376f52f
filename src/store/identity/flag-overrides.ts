/**
 * Experience continuity: what is hashed in place of a person's distinct_id, flag by flag, so that a user
 * who logs in keeps what was shown before. The first identifier that is written for a flag stays for ever.
 *
 * Table `flag_overrides`: project, P -> JSON list of `[flag key, identifier]`; sealed. It is written by
 * the processing thread in the order of the log, so that merges and overrides never cross.
 * Source: docs/compatibility/decisions.md, "Continuity".
 */

import type { Table } from '../lmdb/environment.ts'
import { pairKey } from '../lmdb/keys.ts'
import { getJson, putJson } from '../lmdb/records.ts'

const OVERRIDES = 'flag_overrides'

/** Flag key -> identifier. */
export type Overrides = ReadonlyMap<string, string>

const NO_OVERRIDES: Overrides = new Map()

/** The overrides of a person; empty for nearly all. Throws `DamagedRecordError`. */
export function loadOverrides(table: Table, projectId: number, number: number): Overrides {
  const key = pairKey(projectId, number)
  const pairs = getJson<[string, string][]>(table, OVERRIDES, key)
  return pairs === null ? NO_OVERRIDES : new Map(pairs)
}

/** The overrides of one project in the processing thread. */
export class ProjectOverrides {
  readonly #projectId: number
  readonly #table: Table
  /** Changed since the last commit. Empty: to be removed. */
  readonly #changed = new Map<number, Overrides>()

  constructor(projectId: number, table: Table) {
    this.#projectId = projectId
    this.#table = table
  }

  /** The overrides of person P. Throws `DamagedRecordError`. */
  of(number: number): Overrides {
    return this.#changed.get(number) ?? loadOverrides(this.#table, this.#projectId, number)
  }

  /**
   * Gives `identifier` to the flags that have no override on any of the persons (P), on each of them.
   * Throws `DamagedRecordError` and has then changed nothing.
   */
  add(persons: readonly number[], flagKeys: readonly string[], identifier: string): void {
    const before = persons.map((number) => this.of(number))
    const missing = flagKeys.filter((flagKey) => !before.some((known) => known.has(flagKey)))
    if (missing.length === 0) return
    for (const [index, number] of persons.entries()) {
      const after = new Map(before[index])
      for (const flagKey of missing) after.set(flagKey, identifier)
      this.#changed.set(number, after)
    }
  }

  /**
   * Person `into` keeps its own and inherits what it lacks; `from` has none any more. Throws
   * `DamagedRecordError` and has then changed nothing.
   */
  merge(into: number, from: number): void {
    const inherited = this.of(from)
    if (inherited.size === 0) return
    this.#changed.set(into, new Map([...inherited, ...this.of(into)]))
    this.#changed.set(from, NO_OVERRIDES)
  }

  /** Forgets the overrides of a person that is deleted. */
  remove(number: number): void {
    this.#changed.set(number, NO_OVERRIDES)
  }

  /** Stores what was changed. Only in a write transaction. */
  store(): void {
    for (const [number, overrides] of this.#changed) {
      const key = pairKey(this.#projectId, number)
      if (overrides.size === 0) void this.#table.remove(key)
      else putJson(this.#table, key, [...overrides])
    }
    this.#changed.clear()
  }
}
