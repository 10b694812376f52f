/**
 * Dropped events: events that were accepted and are intentionally not stored. A limited number of the newest ones of
 * each project and reason is kept, so that users can find out why an event is missing. Events removed because of the
 * limits are still counted (dropped-counts.ts).
 *
 *   dropped_events   project u32, block of the log u48, position among the dropped events of the block u32
 *                    -> head length u32 little-endian | head | first bytes of the event's JSON
 *     head           MessagePack [reason, event, distinct_id, bytes, arrival in milliseconds, uuid]
 *
 * The keys are derived from the log, so processing the same log again stores the same records. Within a project, the
 * order of the keys is the order of arrival.
 */
import { formatUuid } from '../../base/ids.ts'
import { DROPPED_DAYS_MAX } from '../../base/limits.ts'
import { getOrAdd } from '../../base/maps.ts'
import type { DropReason, LossReason } from '../../rules/capture/drop-reasons.ts'
import type {
  DroppedEventCursor,
  DroppedEventPage,
  DroppedEventsQuery,
  DroppedEventView,
} from '../../rules/events/dropped-events.ts'
import type { DeletionJob } from '../../rules/events/erasure-job.ts'
import { erasureMatch, overlaps, ruleOf } from '../../rules/events/erasure-match.ts'
import { attempt, type DamageListener } from '../faults.ts'
import type { ProjectPersons } from '../identity/project-persons.ts'
import { pack, seal, unpack, unseal } from '../lmdb/codec.ts'
import type { Table } from '../lmdb/environment.ts'
import { droppedKey, type EventTables, keysOf, numberInKey } from '../lmdb/keys.ts'
import { DroppedCounts } from './dropped-counts.ts'
import {
  DROPPED_BYTES_MAX,
  DROPPED_DATA_BYTES_MAX,
  DROPPED_EVENTS_MAX,
  DROPPED_REASON_BYTES_MAX,
  DROPPED_REASON_EVENTS_MAX,
} from './limits.ts'
import { RecordRing } from './record-ring.ts'

const TABLE = 'dropped_events'
const KEPT_MS = DROPPED_DAYS_MAX * 86_400_000
/** The number of bytes that a record takes on the disk, without its texts and its data. */
const RECORD_BYTES = 96
/** The number of bytes that a record takes in memory, without its texts and its data. */
const RECORD_MEMORY_BYTES = 600

/** An event that was accepted but is not stored. */
export interface DroppedEvent {
  readonly projectId: number
  /** The sequence number of the block of the log that contained the event. */
  readonly block: number
  /** The index of the event among the dropped events of the block. */
  readonly place: number
  readonly arrivedAtMs: number
  readonly reason: LossReason
  /** The uuid of the event, which has 16 bytes. */
  readonly uuid: Uint8Array
  readonly event: string | null
  readonly distinctId: string | null
  /** The JSON of the event. Only its beginning is copied. */
  readonly json: Uint8Array
}

type Head = readonly [
  reason: LossReason,
  event: string | null,
  distinctId: string | null,
  bytes: number,
  arrivedAtMs: number,
  uuid: Uint8Array,
]

interface Entry {
  readonly projectId: number
  readonly head: Head
  readonly key: Buffer
  /** The beginning of the JSON, until it is stored. Null afterward. */
  data: Buffer | null
}

/** The limits for dropped events. Only tests set them. */
export interface DroppedLimits {
  readonly reasonEventsMax?: number
  readonly allEventsMax?: number
}

/** Writes dropped events. Only the thread that writes to the store uses it. */
export class DroppedEvents {
  readonly #table: Table
  readonly #onDamage: DamageListener
  readonly #reasonEventsMax: number
  readonly #entries = new Map<string, Entry>()
  /** For each project and reason, the sizes of the events that are kept. */
  readonly #rings = new Map<string, RecordRing<string>>()
  readonly #all: RecordRing<string>
  readonly #changed = new Set<Entry>()
  #removed: Buffer[] = []
  /** The estimated number of bytes of memory of the events that were added since the last `store`. */
  gatheredBytes = 0
  #isLoaded = false

  constructor(table: Table, onDamage: DamageListener, limits: DroppedLimits = {}) {
    this.#table = table
    this.#onDamage = onDamage
    this.#reasonEventsMax = limits.reasonEventsMax ?? DROPPED_REASON_EVENTS_MAX
    this.#all = new RecordRing(limits.allEventsMax ?? DROPPED_EVENTS_MAX, DROPPED_BYTES_MAX)
  }

  /** Adds an event. The next `store` writes it, unless the limits have removed it by then. */
  add({ projectId, block, place, reason, event, distinctId, json, ...rest }: DroppedEvent): void {
    this.#load()
    const data = Buffer.from(json.subarray(0, DROPPED_DATA_BYTES_MAX))
    const uuid = Buffer.from(rest.uuid)
    const head: Head = [reason, event, distinctId, json.length, rest.arrivedAtMs, uuid]
    const entry = { projectId, head, key: droppedKey(projectId, block, place), data }
    this.#changed.add(entry)
    const units = (event?.length ?? 0) + (distinctId?.length ?? 0)
    this.gatheredBytes += RECORD_MEMORY_BYTES + data.length + units * 2
    this.#take(entry, data.length)
  }

  /**
   * Erases the dropped events of a project that match an erasure. An event is erased if its distinct_id is one of those
   * to erase, or if all persons are to be erased. In addition, its name and its time of arrival must match the rules of
   * the erasure. `idOf` returns the distinct ID number of a distinct_id, or 0 if it has none.
   */
  erase(projectId: number, job: DeletionJob, idOf: (distinctId: string) => number): void {
    this.#load()
    const match = erasureMatch(job)
    for (const [name, entry] of this.#entries) {
      if (entry.projectId !== projectId) continue
      const [, event, distinctId, , arrivedAtMs] = entry.head
      if (!overlaps(ruleOf(match, event ?? ''), arrivedAtMs, arrivedAtMs)) continue
      if (match.spans !== null) {
        if (distinctId === null) continue
        const id = idOf(distinctId)
        const isAskedFor = job.criteria.personId === null && job.criteria.distinctId === distinctId
        if (!isAskedFor && (id === 0 || !match.spans.has(id))) continue
      }
      this.#forget(name, entry)
    }
  }

  /** Writes the additions and removals to the table. Call it only within a write transaction. */
  store(): void {
    this.#load()
    for (const key of this.#removed) void this.#table.remove(key)
    for (const { key, head, data } of this.#changed) {
      if (data === null) continue
      const packed = pack(head)
      const length = Buffer.allocUnsafe(4)
      length.writeUInt32LE(packed.length)
      void this.#table.put(key, seal(key, length, packed, data))
    }
    for (const entry of this.#changed) entry.data = null
    this.#changed.clear()
    this.#removed = []
    this.gatheredBytes = 0
  }

  #take(entry: Entry, dataBytes: number): void {
    const [reason, event, distinctId] = entry.head
    const name = entry.key.toString('latin1')
    const ringName = `${entry.projectId} ${reason}`
    const newRing = () => new RecordRing<string>(this.#reasonEventsMax, DROPPED_REASON_BYTES_MAX)
    const ring = getOrAdd(this.#rings, ringName, newRing)
    const textBytes = Buffer.byteLength(event ?? '') + Buffer.byteLength(distinctId ?? '')
    const bytes = dataBytes + textBytes + RECORD_BYTES
    this.#entries.set(name, entry)
    ring.add(name, bytes)
    this.#all.add(name, bytes)
    for (const limited of [ring, this.#all]) {
      for (let oldest = limited.excess(); oldest !== undefined; oldest = limited.excess()) {
        const outdated = this.#entries.get(oldest)
        if (outdated === undefined) throw new TypeError('a ring names an event that is not there')
        this.#forget(oldest, outdated)
      }
    }
  }

  #forget(name: string, entry: Entry): void {
    this.#entries.delete(name)
    this.#rings.get(`${entry.projectId} ${entry.head[0]}`)?.delete(name)
    this.#all.delete(name)
    this.#changed.delete(entry)
    if (entry.data === null) this.#removed.push(entry.key)
  }

  /**
   * Removes the events that are too old at the time `atMs` (milliseconds since 1970). It checks the events in the order
   * of their arrival and stops at the first one that is not too old. An event that arrived long after `atMs` also
   * counts as too old, because the clock must have been wrong when it arrived.
   */
  expire(atMs: number): void {
    this.#load()
    for (const name of this.#all.keys()) {
      const entry = this.#entries.get(name)
      if (entry === undefined || Math.abs(atMs - entry.head[4]) <= KEPT_MS) return
      this.#forget(name, entry)
    }
  }

  #load(): void {
    if (this.#isLoaded) return
    this.#isLoaded = true
    const stored: { readonly entry: Entry; readonly bytes: number }[] = []
    for (const { key, value } of this.#table.getRange()) {
      const copy = Buffer.from(key)
      const record = attempt(() => decode(copy, value), this.#onDamage)
      if (record === null) continue
      const { projectId, head, data } = record
      const entry = { projectId, head, key: copy, data: null }
      stored.push({ entry, bytes: data.length })
    }
    // The table is ordered by project, but the limits remove the events that arrived first.
    stored.sort((a, b) => Buffer.compare(a.entry.key.subarray(4), b.entry.key.subarray(4)))
    for (const { entry, bytes } of stored) this.#take(entry, bytes)
  }
}

/**
 * Collects dropped events and their counts. The next commit stores them. Only the thread that writes to the store uses
 * it.
 */
export class DroppedWriter {
  readonly #events: DroppedEvents
  readonly #counts: DroppedCounts
  /** For each project, the number of the newest erasure that was applied to its dropped events. */
  readonly #erasures = new Map<number, number>()

  /** `onDamage` gets the error of each damaged record. The record is skipped. */
  constructor(
    tables: Pick<EventTables, 'dropped_events' | 'dropped_counts'>,
    onDamage: DamageListener,
  ) {
    this.#events = new DroppedEvents(tables.dropped_events, onDamage)
    this.#counts = new DroppedCounts(tables.dropped_counts, onDamage)
  }

  /** The estimated number of bytes of memory of the events that were added since the last `store`. */
  get gatheredBytes(): number {
    return this.#events.gatheredBytes
  }

  /** Counts a dropped event in the hour of its arrival. */
  count(projectId: number, arrivedAtMs: number, reason: DropReason): void {
    this.#counts.add(projectId, arrivedAtMs, reason)
  }

  /** Adds a dropped event. Its bytes are copied. */
  add(event: DroppedEvent): void {
    this.#events.add(event)
  }

  /** Applies the erasures that were ordered for a project since the last call. Call it after each command. */
  erase(projectId: number, persons: Pick<ProjectPersons, 'newJobs' | 'ids'>): void {
    for (const { number, job } of persons.newJobs) {
      if (number <= (this.#erasures.get(projectId) ?? 0)) continue
      this.#erasures.set(projectId, number)
      this.#events.erase(projectId, job, (distinctId) => persons.ids.find(distinctId))
    }
  }

  /**
   * Removes the events and counts that are too old at the time of a block of the log. Call it for each block: if it
   * were called for each commit, the remaining records would depend on how many blocks a commit contains.
   */
  expire(atMs: number): void {
    this.#events.expire(atMs)
    this.#counts.expire(atMs)
  }

  /** Writes the changes to the tables. Call it only within a write transaction. */
  store(): void {
    this.#events.store()
    this.#counts.store()
  }
}

interface StoredEvent {
  readonly projectId: number
  readonly block: number
  readonly place: number
  readonly head: Head
  readonly data: Buffer
}

function decode(key: Buffer, value: Buffer): StoredEvent {
  const bytes = unseal(TABLE, key, value)
  const dataStart = 4 + bytes.readUInt32LE()
  return {
    projectId: numberInKey(key, 0),
    block: key.readUIntBE(4, 6),
    place: key.readUInt32BE(10),
    // The cast is right: `store` wrote the record, and its checksum matches.
    head: unpack(bytes.subarray(4, dataStart)) as Head,
    data: bytes.subarray(dataStart),
  }
}

/**
 * Returns a page of the dropped events of a project, newest first. The cost grows with the number of dropped events of
 * the project. Throws `DamagedRecordError`.
 */
export function listDropped(table: Table, query: DroppedEventsQuery): DroppedEventPage {
  const results: DroppedEventView[] = []
  let last: DroppedEventCursor | null = null
  for (const stored of newestFirst(table, query.projectId, query.cursor)) {
    const { block, place, head } = stored
    const [reason, , , , arrivedAtMs] = head
    if (arrivedAtMs <= query.afterMs) continue
    if (query.beforeMs !== undefined && arrivedAtMs >= query.beforeMs) continue
    if (query.reason !== undefined && reason !== query.reason) continue
    if (results.length === query.limit) return { results, nextCursor: last }
    results.push(viewOf(stored))
    last = { block, place }
  }
  return { results, nextCursor: null }
}

/**
 * Returns the newest dropped event with a uuid, or null. The cost grows with the number of dropped events of the
 * project. Throws `DamagedRecordError`.
 */
export function findDropped(
  table: Table,
  projectId: number,
  uuid: string,
  afterMs: number,
): DroppedEventView | null {
  for (const stored of newestFirst(table, projectId)) {
    const [, , , , arrivedAtMs, bytes] = stored.head
    if (arrivedAtMs > afterMs && formatUuid(bytes, 0) === uuid) return viewOf(stored)
  }
  return null
}

function* newestFirst(
  table: Table,
  projectId: number,
  behind?: DroppedEventCursor,
): Generator<StoredEvent> {
  const { start: end, end: behindAll } = keysOf(projectId)
  const start = behind ? droppedKey(projectId, behind.block, behind.place) : behindAll
  for (const { key, value } of table.getRange({ start, end, reverse: true })) {
    const copy = Buffer.from(key)
    if (!copy.equals(start)) yield decode(copy, value)
  }
}

function viewOf({ head, data }: StoredEvent): DroppedEventView {
  const [reason, event, distinctId, bytes, arrivedAtMs, uuid] = head
  return {
    uuid: formatUuid(uuid, 0),
    timestamp: new Date(arrivedAtMs).toISOString(),
    reason,
    event,
    distinct_id: distinctId,
    data: textOf(data, bytes),
    bytes,
  }
}

/** Decodes UTF-8 that may have been cut off. If the last character is incomplete, it is left out. */
function textOf(data: Buffer, bytes: number): string {
  return new TextDecoder().decode(data, { stream: data.length < bytes })
}
