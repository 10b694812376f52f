/**
 * Counts the events of a project that were not stored, by the hour of their arrival and the reason. Limits may remove
 * the dropped events themselves early (dropped-events.ts), but not these counts.
 *
 * Table `dropped_counts`: project u32, hours since 1970 u32 -> MessagePack of an object from reason to count. Its
 * member `last` maps each reason to the time at which the last such event arrived, in milliseconds. Records of earlier
 * versions do not have the member.
 */

import { getOrAdd } from '../../base/maps.ts'
import { DROP_REASONS, type DropReason } from '../../rules/capture/drop-reasons.ts'
import type { DroppedCount } from '../../rules/events/dropped-events.ts'
import { attempt, type DamageListener } from '../faults.ts'
import { unpack } from '../lmdb/codec.ts'
import type { Table } from '../lmdb/environment.ts'
import { keysOf, NUMBER_MAX, numberInKey, pairKey } from '../lmdb/keys.ts'
import { entriesOf, getRecord, putRecord, removeRange } from '../lmdb/records.ts'
import { DROPPED_HOURS_MAX } from './limits.ts'

const HOUR_MS = 3_600_000

type Numbers = Partial<Record<DropReason, number>>
type Counts = Numbers & { readonly last?: Numbers }

/**
 * For one hour and each reason: the number of events that were added since the last `store`, and the time at which the
 * last of them arrived.
 */
interface AddedHour {
  readonly counts: Numbers
  readonly last: Numbers
}

/** The counts of one project that were added since the last `store`. */
interface Added {
  readonly hours: Map<number, AddedHour>
  /**
   * The newest hour in which an event arrived since the last `expire`. Hours are counted from 1970. 0 if there was no
   * event.
   */
  newest: number
  /** The first hour whose counts are kept, counted from 1970. Stored counts of earlier hours are removed. */
  firstKept: number
}

/** Collects and writes counts. Only the thread that writes to the store uses it. */
export class DroppedCounts {
  readonly #table: Table
  readonly #onDamage: DamageListener
  readonly #added = new Map<number, Added>()

  /** `onDamage` gets the error of each damaged record. The counts in a damaged record start again at 0. */
  constructor(table: Table, onDamage: DamageListener) {
    this.#table = table
    this.#onDamage = onDamage
  }

  /** Counts an event. The next `store` writes the count. */
  add(projectId: number, arrivedAtMs: number, reason: DropReason): void {
    const hour = Math.min(Math.max(Math.floor(arrivedAtMs / HOUR_MS), 0), NUMBER_MAX)
    const newAdded = (): Added => ({ hours: new Map(), newest: 0, firstKept: 0 })
    const added = getOrAdd(this.#added, projectId, newAdded)
    const { counts, last } = getOrAdd(
      added.hours,
      hour,
      (): AddedHour => ({ counts: {}, last: {} }),
    )
    counts[reason] = (counts[reason] ?? 0) + 1
    last[reason] = Math.max(last[reason] ?? 0, arrivedAtMs)
    added.newest = Math.max(added.newest, hour)
  }

  /**
   * Removes the counts that are too old at the time `atMs`, in milliseconds. Only projects that had dropped events
   * since the last call are checked.
   */
  expire(atMs: number): void {
    for (const added of this.#added.values()) {
      if (added.newest === 0) continue
      // If the clock was ahead when an event arrived, its hour is too late, and other counts would be removed too
      // early. So the age of the counts is measured from the hour of the newest event or from `atMs`, whichever is
      // earlier.
      const firstKept = Math.min(added.newest, Math.floor(atMs / HOUR_MS)) - DROPPED_HOURS_MAX
      for (const hour of added.hours.keys()) if (hour < firstKept) added.hours.delete(hour)
      added.firstKept = Math.max(added.firstKept, firstKept)
      added.newest = 0
    }
  }

  /**
   * Writes the counts to the table, with one record for each hour. Call it only within a write transaction. It may be
   * called while a block of the log is being processed. The counts that this block makes too old are then removed only
   * by a later call, after `expire` was called for the block.
   */
  store(): void {
    for (const [projectId, { hours, firstKept }] of this.#added) {
      const range = { start: pairKey(projectId, 0), end: pairKey(projectId, firstKept) }
      removeRange(this.#table, range)
      for (const [hour, added] of hours) {
        const key = pairKey(projectId, hour)
        const stored = attempt(() => getRecord(this.#table, key), this.#onDamage)
        // The cast is right: `putRecord` below wrote the record, and its checksum matches.
        const before = stored as Counts | null
        const counts: Numbers = {}
        const last: Numbers = {}
        // The reasons are written in a fixed order, so that the record does not depend on the order of the events.
        for (const reason of DROP_REASONS) {
          const count = (before?.[reason] ?? 0) + (added.counts[reason] ?? 0)
          if (count > 0) counts[reason] = count
          const lastMs = Math.max(before?.last?.[reason] ?? 0, added.last[reason] ?? 0)
          if (lastMs > 0) last[reason] = lastMs
        }
        putRecord(this.#table, key, { ...counts, last })
      }
      hours.clear()
    }
    for (const [projectId, { newest }] of this.#added) {
      if (newest === 0) this.#added.delete(projectId)
    }
  }
}

/**
 * Returns the counts of the hours that end after `afterMs` (milliseconds since 1970), newest hour first. Throws
 * `DamagedRecordError`.
 */
export function countDropped(
  table: Table,
  projectId: number,
  afterMs: number,
): readonly DroppedCount[] {
  const first = Math.max(0, Math.floor(afterMs / HOUR_MS))
  const range = { ...keysOf(projectId), start: pairKey(projectId, first) }
  const counts: DroppedCount[] = []
  for (const { key, value } of entriesOf(table, range)) {
    const hour = new Date(numberInKey(key, 4) * HOUR_MS).toISOString()
    // The cast is right: `store` wrote the record, and its checksum matches.
    const byReason = unpack(value) as Counts
    for (const reason of DROP_REASONS.toReversed()) {
      const count = byReason[reason]
      if (count === undefined) continue
      const lastMs = byReason.last?.[reason]
      const last = lastMs === undefined ? hour : new Date(lastMs).toISOString()
      counts.push({ hour, reason, count, last_seen_at: last })
    }
  }
  return counts.toReversed()
}
