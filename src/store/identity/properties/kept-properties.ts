/**
 * What the properties of the persons of a project came to when they were counted last (property-keeper.ts): so
 * that whoever asks for their names, or for values of one, reads few persons. It holds as long as nobody was
 * deleted; what came or changed since adds its names.
 *
 * Table `kept_properties`: project u32 -> MessagePack of `[version, newest P, deletions, PackedCounts]`. It can be
 * counted anew at any time, so it is no function of the log, and a record that is damaged is passed over.
 */
import { attempt } from '../../faults.ts'
import {
  type EventTables,
  keysOf,
  NUMBER_MAX,
  numberInKey,
  numberKey,
  pairKey,
} from '../../lmdb/keys.ts'
import { getRecord, putRecord } from '../../lmdb/records.ts'
import { entryCount, numberAt } from '../change-blocks.ts'
import { ACTORS_READ_BYTES_MAX, ACTORS_READ_MAX, RECENT_PERSONS_MAX } from '../limits.ts'
import {
  loadPerson,
  loadPersonCounters,
  type PersonCounters,
  type PersonRecord,
  propertiesOfRecord,
} from '../person-records.ts'
import { type PackedCounts, PropertyCounts } from './property-counts.ts'

const VERSION = 1
/** Blocks of changes, newest first, in which those who changed last are looked for. */
const RECENT_BLOCKS = 8

type Packed = readonly [
  version: number,
  lastPerson: number,
  deletions: number,
  counts: PackedCounts,
]

/** What is kept of a project. */
export interface KeptProperties {
  /** The newest P that was counted. */
  readonly lastPerson: number
  readonly deletions: number
  readonly counts: PropertyCounts
}

/** What is kept of a project; null when nothing is, or nothing that can be read. About 1 ms for 1000 names and values. */
export function loadKeptProperties(
  tables: Pick<EventTables, 'kept_properties'>,
  projectId: number,
): KeptProperties | null {
  const key = numberKey(projectId)
  const record = attempt(
    () => getRecord(tables.kept_properties, key) ?? null,
    () => undefined,
  )
  if (record === null) return null
  // Written by `storeKeptProperties`, and unchanged since: the checksum says so.
  const [version, lastPerson, deletions, counts] = record as Packed
  if (version !== VERSION) return null
  return { lastPerson, deletions, counts: PropertyCounts.restored(counts) }
}

/** Keeps counts. Only in a write transaction. */
export function storeKeptProperties(
  tables: Pick<EventTables, 'kept_properties'>,
  projectId: number,
  { lastPerson, deletions, counts }: KeptProperties,
): void {
  const packed: Packed = [VERSION, lastPerson, deletions, counts.pack()]
  putRecord(tables.kept_properties, numberKey(projectId), packed)
}

/**
 * What is known of the persons of a project without reading all of them, with the names that came since; null:
 * they are few, or have to be read. Some milliseconds.
 */
export function countedProperties(tables: EventTables, projectId: number): PropertyCounts | null {
  const counters = loadPersonCounters(tables.person_projects, projectId)
  if (!areMany(tables, projectId, counters)) return null
  const kept = loadKeptProperties(tables, projectId)
  if (kept === null || kept.deletions !== counters.deletions) return null
  const recent = new PropertyCounts()
  let bytes = 0
  for (const number of recentPersons(tables, projectId)) {
    const record = loadPerson(tables, projectId, number)
    if (record === null) continue
    bytes += bytesOf(record)
    if (bytes > ACTORS_READ_BYTES_MAX) break
    const properties = propertiesOfRecord(record)
    if (number > kept.lastPerson) recent.add(properties)
    else recent.addNew(properties, kept.counts)
  }
  kept.counts.merge(recent)
  return kept.counts
}

/** Whether the persons of a project are too many, or too large, to be read for a list. Some milliseconds. */
export function areMany(
  tables: EventTables,
  projectId: number,
  { persons }: Pick<PersonCounters, 'persons'>,
): boolean {
  if (persons > ACTORS_READ_MAX) return true
  let bytes = 0
  const range = { start: pairKey(projectId, NUMBER_MAX), end: pairKey(projectId, 0), reverse: true }
  for (const key of tables.persons.getKeys(range)) {
    const record = loadPerson(tables, projectId, numberInKey(key, 4))
    bytes += record === null ? 0 : bytesOf(record)
    if (bytes > ACTORS_READ_BYTES_MAX) return true
  }
  return false
}

function bytesOf({ jsonBytes, changesJson, deltas }: PersonRecord): number {
  return jsonBytes + (changesJson?.length ?? 0) + deltas.length
}

/** P of those who came or changed last. */
function recentPersons(tables: EventTables, projectId: number): ReadonlySet<number> {
  const newest = {
    start: pairKey(projectId, NUMBER_MAX),
    end: pairKey(projectId, 0),
    reverse: true,
  }
  const numbers = new Set<number>()
  const half = RECENT_PERSONS_MAX / 2
  for (const key of tables.persons.getKeys({ ...newest, limit: half })) {
    numbers.add(numberInKey(key, 4))
  }
  for (const { value } of tables.person_changes.getRange({ ...newest, limit: RECENT_BLOCKS })) {
    const count = entryCount(value)
    for (let position = 0; position < count && numbers.size < RECENT_PERSONS_MAX; position++) {
      numbers.add(numberAt(value, position))
    }
  }
  return numbers
}

/**
 * Counts persons in the order of their numbers, newest first, below `from`; null when all were, or so many bytes of them,
 * else where to go on.
 */
export function countPersons(
  tables: EventTables,
  projectId: number,
  counts: PropertyCounts,
  from: number,
  personsMax: number,
  isOver: () => boolean,
  bytesMax = Number.POSITIVE_INFINITY,
): { readonly next: number | null; readonly counted: number } {
  const { start: end } = keysOf(projectId)
  const range = { start: pairKey(projectId, from), end, reverse: true, limit: personsMax }
  let [counted, bytes] = [0, 0]
  for (const key of tables.persons.getKeys(range)) {
    const number = numberInKey(key, 4)
    if (isOver()) return { next: number, counted }
    const record = loadPerson(tables, projectId, number)
    counted++
    if (record === null) continue
    bytes += bytesOf(record)
    if (bytes > bytesMax) break
    counts.add(propertiesOfRecord(record))
  }
  return { next: null, counted }
}
