/** What becomes of events that are accepted and not stored: they are counted, and a part of them is kept for a while. */
import type { DropReason } from '../../rules/capture/drop-reasons.ts'
import type { DamageListener } from '../faults.ts'
import type { ProjectPersons } from '../identity/project-persons.ts'
import type { Table } from '../lmdb/environment.ts'
import { DroppedCounts } from './dropped-counts.ts'
import { type DroppedEvent, DroppedEvents } from './dropped-events.ts'

/** Gathers dropped events between commits. For the one writing thread. */
export class DroppedWriter {
  readonly #events: DroppedEvents
  readonly #counts: DroppedCounts
  /** The newest erasure of each project that the dropped events have heard of. */
  readonly #erasures = new Map<number, number>()

  /** `table` opens a table of environment `events`; `onDamage` is told of records that are left out. */
  constructor(
    table: (name: 'dropped_events' | 'dropped_counts') => Table,
    onDamage: DamageListener,
  ) {
    this.#events = new DroppedEvents(table('dropped_events'), onDamage)
    this.#counts = new DroppedCounts(table('dropped_counts'), onDamage)
  }

  /** Counts an event, by the hour of its arrival. */
  count(projectId: number, arrivedAtMs: number, reason: DropReason): void {
    this.#counts.add(projectId, arrivedAtMs, reason)
  }

  /** Keeps an event; its bytes are copied. */
  add(event: DroppedEvent): void {
    this.#events.add(event)
  }

  /** Erases what commands to these persons' project have asked for since the last call. Call it after each. */
  erase(projectId: number, persons: Pick<ProjectPersons, 'newJobs' | 'distinctIdOf'>): void {
    for (const { number, job } of persons.newJobs) {
      if (number <= (this.#erasures.get(projectId) ?? 0)) continue
      this.#erasures.set(projectId, number)
      this.#events.erase(projectId, job, (distinctId) => persons.distinctIdOf(distinctId))
    }
  }

  /** Stores what was gathered. Only in a write transaction. */
  store(nowMs: number): void {
    this.#events.store(nowMs)
    this.#counts.store(nowMs)
  }
}
