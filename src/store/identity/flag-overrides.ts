/**
 * Stores flag overrides for experience continuity. The value of a flag is decided by a hash of an identifier, usually
 * the distinct_id. An override is an identifier that is hashed in place of the distinct_id, so that users keep their
 * variant when they log in. Once an override is stored for a person and a flag, it does not change.
 *
 * Table `flag_overrides`: project, person -> JSON list of `[flag key, identifier]` and a checksum. The processing
 * thread writes it in the order of the log, so merges and overrides cannot conflict. Source:
 * docs/compatibility/decisions.md, "Continuity".
 */
import type { Table } from '../lmdb/environment.ts'
import { loadNumbered, NumberedRecords } from '../lmdb/numbered-records.ts'

/** The overrides of one person: for each flag key, the identifier that is hashed for the flag. */
export type Overrides = ReadonlyMap<string, string>

type Pairs = readonly (readonly [flagKey: string, identifier: string])[]

const NO_OVERRIDES: Overrides = new Map()

/** Returns the overrides of a person. Nearly all persons have none. Throws `DamagedRecordError`. */
export function loadOverrides(table: Table, projectId: number, number: number): Overrides {
  const pairs = loadNumbered<Pairs>(table, projectId, number)
  return pairs === null ? NO_OVERRIDES : new Map(pairs)
}

/** The overrides of one project, as the processing thread sees and changes them. */
export class ProjectOverrides extends NumberedRecords<Pairs> {
  /** Returns the overrides of a person. Throws `DamagedRecordError`. */
  of(number: number): Overrides {
    return new Map(this.find(number))
  }

  /**
   * Stores `identifier` as the override of these flags for all `persons`. If one of the persons already has an override
   * for a flag, that flag is skipped for all of them. If it throws `DamagedRecordError`, nothing was changed.
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
   * Merges the overrides of the persons with the numbers `into` and `from`. If both have an override for a flag, the
   * one of `into` is used. The result is stored under `kept`, which is either `into` or `from`. The overrides under the
   * other number are removed. If it throws `DamagedRecordError`, nothing was changed.
   */
  merge(into: number, from: number, kept: number): void {
    if (this.isEmpty) return
    const inherited = this.of(from)
    const own = this.of(into)
    if (inherited.size === 0 && (own.size === 0 || kept === into)) return
    this.set(kept, [...new Map([...inherited, ...own])])
    const [other, lost] = kept === into ? [from, inherited] : [into, own]
    if (lost.size > 0) this.remove(other)
  }

  /** Removes the overrides of a deleted person. */
  remove(number: number): void {
    this.set(number, null)
  }
}
