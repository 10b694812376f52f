/**
 * How many events of a project were not stored, by hour of arrival and reason. Unlike the events
 * (dropped-events.ts) these are never given up before their time.
 *
 * Table `dropped_counts`: project u32, hours since 1970 u32 -> MessagePack of an object from reason to count.
 */
import { DROP_REASONS, type DropReason } from '../../rules/capture/drop-reasons.ts'
import type { DroppedCount } from '../../rules/events/dropped-events.ts'
import { attempt, type DamageListener } from '../faults.ts'
import { pack, seal, unpack, unseal } from '../lmdb/codec.ts'
import type { Table } from '../lmdb/environment.ts'
import { NUMBER_MAX, numberInKey, pairKey } from '../lmdb/keys.ts'
import { DROPPED_HOURS_MAX } from './limits.ts'

const TABLE = 'dropped_counts'
const HOUR_MS = 3_600_000

type Counts = Partial<Record<DropReason, number>>

/** Writes counts. For the one writing thread. */
export class DroppedCounts {
  readonly #table: Table
  readonly #onDamage: DamageListener
  /** Of each project what was counted since the last `store`, by hour. */
  readonly #added = new Map<number, Map<number, Counts>>()

  /** `onDamage`: told of counts that are damaged; they begin anew. */
  constructor(table: Table, onDamage: DamageListener) {
    this.#table = table
    this.#onDamage = onDamage
  }

  /** Counts an event; it is stored by the next `store`. */
  add(projectId: number, arrivedAtMs: number, reason: DropReason): void {
    const hour = Math.min(Math.max(Math.floor(arrivedAtMs / HOUR_MS), 0), NUMBER_MAX)
    let hours = this.#added.get(projectId)
    if (hours === undefined) {
      hours = new Map()
      this.#added.set(projectId, hours)
    }
    let counts = hours.get(hour)
    if (counts === undefined) {
      counts = {}
      hours.set(hour, counts)
    }
    counts[reason] = (counts[reason] ?? 0) + 1
  }

  /** Stores what was counted: one record for each hour. Only in a write transaction. */
  store(nowMs: number): void {
    for (const [projectId, hours] of this.#added) {
      let newest = 0
      for (const [hour, added] of hours) {
        newest = Math.max(newest, hour)
        const key = pairKey(projectId, hour)
        const stored = this.#table.get(key)
        const known =
          stored === undefined ? null : attempt(() => decode(key, stored), this.#onDamage)
        const counts = known ?? {}
        for (const reason of DROP_REASONS) {
          const count = added[reason]
          if (count !== undefined) counts[reason] = (counts[reason] ?? 0) + count
        }
        void this.#table.put(key, seal(key, pack(counts)))
      }
      // An event from a clock that is ahead makes nothing old.
      this.#removeBefore(
        projectId,
        Math.min(newest, Math.floor(nowMs / HOUR_MS)) - DROPPED_HOURS_MAX,
      )
    }
    this.#added.clear()
  }

  #removeBefore(projectId: number, hour: number): void {
    if (hour <= 0) return
    const range = { start: pairKey(projectId, 0), end: pairKey(projectId, hour) }
    const keys = [...this.#table.getKeys(range)].map((key) => Buffer.from(key))
    for (const key of keys) void this.#table.remove(key)
  }
}

function decode(key: Uint8Array, value: Buffer): Counts {
  // Written by `store`; the checksum says that it is unchanged.
  return unpack(unseal(TABLE, key, value)) as Counts
}

/** The counts of hours that end behind `afterMs`, newest hour first. Throws `DamagedRecordError`. */
export function countDropped(
  table: Table,
  projectId: number,
  afterMs: number,
): readonly DroppedCount[] {
  const first = Math.max(0, Math.floor(afterMs / HOUR_MS))
  const range = { start: pairKey(projectId, first), end: pairKey(projectId + 1, 0) }
  const counts: DroppedCount[] = []
  for (const { key, value } of table.getRange(range)) {
    const hour = new Date(numberInKey(key, 4) * HOUR_MS).toISOString()
    const byReason = decode(key, value)
    for (const reason of DROP_REASONS.toReversed()) {
      const count = byReason[reason]
      if (count !== undefined) counts.push({ hour, reason, count })
    }
  }
  return counts.toReversed()
}
