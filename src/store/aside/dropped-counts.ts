/**
 * How many events of a project were not stored, by hour of arrival and reason. Unlike the events
 * (dropped-events.ts) these are never given up before their time.
 *
 * Table `dropped_counts`: project u32, hours since 1970 u32 -> MessagePack of an object from reason to count.
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

type Counts = Partial<Record<DropReason, number>>

/** What was counted of a project since the last `store`. */
interface Added {
  readonly hours: Map<number, Counts>
  /** The newest hour since the last `expire`; 0: none. */
  newest: number
  /** Stored hours before this one go. */
  firstKept: number
}

/** Writes counts. For the one writing thread. */
export class DroppedCounts {
  readonly #table: Table
  readonly #onDamage: DamageListener
  readonly #added = new Map<number, Added>()

  /** `onDamage`: told of counts that are damaged; they begin anew. */
  constructor(table: Table, onDamage: DamageListener) {
    this.#table = table
    this.#onDamage = onDamage
  }

  /** Counts an event; it is stored by the next `store`. */
  add(projectId: number, arrivedAtMs: number, reason: DropReason): void {
    const hour = Math.min(Math.max(Math.floor(arrivedAtMs / HOUR_MS), 0), NUMBER_MAX)
    const newAdded = (): Added => ({ hours: new Map(), newest: 0, firstKept: 0 })
    const added = getOrAdd(this.#added, projectId, newAdded)
    const counts = getOrAdd(added.hours, hour, (): Counts => ({}))
    counts[reason] = (counts[reason] ?? 0) + 1
    added.newest = Math.max(added.newest, hour)
  }

  /** Lets go what is too old at a moment, of projects that something was counted of since the last call. */
  expire(atMs: number): void {
    for (const added of this.#added.values()) {
      if (added.newest === 0) continue
      // An event from a clock that is ahead makes nothing old.
      const firstKept = Math.min(added.newest, Math.floor(atMs / HOUR_MS)) - DROPPED_HOURS_MAX
      for (const hour of added.hours.keys()) if (hour < firstKept) added.hours.delete(hour)
      added.firstKept = Math.max(added.firstKept, firstKept)
      added.newest = 0
    }
  }

  /**
   * Stores what was counted: one record for each hour. Only in a write transaction, between two blocks or within one:
   * what the block makes too old is let go at its end all the same.
   */
  store(): void {
    for (const [projectId, { hours, firstKept }] of this.#added) {
      const range = { start: pairKey(projectId, 0), end: pairKey(projectId, firstKept) }
      removeRange(this.#table, range)
      for (const [hour, added] of hours) {
        const key = pairKey(projectId, hour)
        const stored = attempt(() => getRecord(this.#table, key), this.#onDamage)
        // Written below; the checksum says that it is unchanged.
        const before = stored as Counts | null
        const counts: Counts = {}
        // In the order of the table, whichever came first.
        for (const reason of DROP_REASONS) {
          const count = (before?.[reason] ?? 0) + (added[reason] ?? 0)
          if (count > 0) counts[reason] = count
        }
        putRecord(this.#table, key, counts)
      }
      hours.clear()
    }
    for (const [projectId, { newest }] of this.#added) {
      if (newest === 0) this.#added.delete(projectId)
    }
  }
}

/** The counts of hours that end behind `afterMs`, newest hour first. Throws `DamagedRecordError`. */
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
    // Written by `store`; the checksum says that it is unchanged.
    const byReason = unpack(value) as Counts
    for (const reason of DROP_REASONS.toReversed()) {
      const count = byReason[reason]
      if (count !== undefined) counts.push({ hour, reason, count })
    }
  }
  return counts.toReversed()
}
