/**
 * The numbers of flag decisions in each hour, by flag and by decided value. Table `flag_usage`: number of the hour
 * since 1970, u32 -> `UsageHour`, MessagePack with a checksum. Writes do not raise the version number of the
 * environment, because no decision depends on these counts.
 */
import type { UsageHour } from '../../rules/flags/types.ts'
import { DamagedRecordError } from '../faults.ts'
import { numberKey } from '../lmdb/keys.ts'
import { getRecord, putRecord, removeRange } from '../lmdb/records.ts'
import type { DirectoryEnvironment } from './directory-environment.ts'

const HOUR_MS = 3_600_000

/** Reads and writes the counts. Each write is a durable transaction. */
export class UsageStore {
  readonly #environment: DirectoryEnvironment

  constructor(environment: DirectoryEnvironment) {
    this.#environment = environment
  }

  /**
   * Returns all stored hours, oldest first. A damaged hour is skipped: it will be written again, or be removed when it
   * is too old.
   */
  all(): readonly UsageHour[] {
    const table = this.#environment.table('flag_usage')
    return [...table.getKeys({})].flatMap((key) => {
      try {
        // The cast is right: `keep` wrote the record, and its checksum matches.
        return [getRecord(table, Buffer.from(key)) as UsageHour]
      } catch (cause) {
        if (cause instanceof DamagedRecordError) return []
        throw cause
      }
    })
  }

  /**
   * Stores the counts of these hours in place of the earlier ones, and removes the hours that began before `fromMs`.
   */
  keep({ hours, fromMs }: { readonly hours: readonly UsageHour[]; readonly fromMs: number }): void {
    this.#environment.record(() => {
      const table = this.#environment.table('flag_usage')
      for (const hour of hours) putRecord(table, keyOf(hour.hourMs), hour)
      removeRange(table, { end: keyOf(fromMs) })
    })
  }
}

function keyOf(hourMs: number): Buffer {
  return numberKey(Math.floor(hourMs / HOUR_MS))
}
