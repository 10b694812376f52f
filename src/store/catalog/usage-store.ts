/**
 * How often flags were decided to have which value. Table `flag_usage`: number of the hour since 1970, u32 ->
 * `UsageHour`, MessagePack with a checksum. It raises no version: nobody decides by it.
 */
import type { UsageHour } from '../../rules/flags/types.ts'
import { DamagedRecordError } from '../faults.ts'
import { numberKey } from '../lmdb/keys.ts'
import { getRecord, putRecord, removeRange } from '../lmdb/records.ts'
import type { DirectoryEnvironment } from './directory-environment.ts'

const HOUR_MS = 3_600_000

/** Reads and writes it, each write a durable transaction. */
export class UsageStore {
  readonly #environment: DirectoryEnvironment

  constructor(environment: DirectoryEnvironment) {
    this.#environment = environment
  }

  /** All hours that are kept, the oldest first. A damaged one is left out: it is made anew or falls away. */
  all(): readonly UsageHour[] {
    const table = this.#environment.table('flag_usage')
    return [...table.getKeys({})].flatMap((key) => {
      try {
        // Written by `keep`, and unchanged since: the checksum says so.
        return [getRecord(table, Buffer.from(key)) as UsageHour]
      } catch (cause) {
        if (cause instanceof DamagedRecordError) return []
        throw cause
      }
    })
  }

  /** Writes those hours over what they were, and removes those that began before `fromMs`. */
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
