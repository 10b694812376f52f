/**
 * Experience continuity: what is hashed in place of a person's distinct_id, flag by flag, so that a user
 * who logs in keeps what was shown before. The first identifier that is written for a flag stays for ever.
 *
 * Table `flag_overrides`: project, P -> JSON list of `[flag key, identifier]`; sealed. It is written by
 * the processing thread in the order of the log, so that merges and overrides never cross.
 * Source: docs/compatibility/decisions.md, "Continuity".
 */
import type { Table } from '../lmdb/environment.ts'
import { loadNumbered, NumberedRecords } from '../lmdb/numbered-records.ts'

/** Flag key -> identifier. */
export type Overrides = ReadonlyMap<string, string>

type Pairs = readonly (readonly [flagKey: string, identifier: string])[]

const NO_OVERRIDES: Overrides = new Map()

/** The overrides of a person; empty for nearly all. Throws `DamagedRecordError`. */
export function loadOverrides(table: Table, projectId: number, number: number): Overrides {
  const pairs = loadNumbered<Pairs>(table, projectId, number)
  return pairs === null ? NO_OVERRIDES : new Map(pairs)
}

/** The overrides of one project in the processing thread. */
export class ProjectOverrides extends NumberedRecords<Pairs> {
  /** The overrides of person P. Throws `DamagedRecordError`. */
  of(number: number): Overrides {
    return new Map(this.find(number))
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
      this.set(number, [...after])
    }
  }

  /**
   * Person `into` keeps its own and inherits what it lacks; both together then belong to `kept`, which is one of the
   * two numbers, and the other one has none any more. Throws `DamagedRecordError` and has then changed nothing.
   */
  merge(into: number, from: number, kept: number): void {
    const inherited = this.of(from)
    const own = this.of(into)
    if (inherited.size === 0 && (own.size === 0 || kept === into)) return
    this.set(kept, [...new Map([...inherited, ...own])])
    const [other, lost] = kept === into ? [from, inherited] : [into, own]
    if (lost.size > 0) this.remove(other)
  }

  /** Forgets the overrides of a person that is deleted. */
  remove(number: number): void {
    this.set(number, null)
  }
}
