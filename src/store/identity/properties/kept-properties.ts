/**
 * Stores the last count of the properties of a project's persons: for each property, how many persons have it, and how
 * many have each of its values. property-keeper.ts makes the counts. With a count, a query for the names of properties,
 * or for the values of one, reads only a few persons. A count is valid until a person is deleted. A reader adds the
 * names of properties that have appeared since the count.
 *
 * Table `kept_properties`: project u32 -> MessagePack of `[version, newest person number, deletions, PackedCounts]`.
 * The properties can be counted again at any time, so a damaged record is ignored.
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
  loadUnpaged,
  type PersonCounters,
  type PersonRecord,
  propertiesOfRecord,
} from '../person-records.ts'
import { type PackedCounts, PropertyCounts } from './property-counts.ts'

const VERSION = 1
/** To find persons that have changed recently, this number of the newest blocks of changes is read. */
const RECENT_BLOCKS = 8

type Packed = readonly [
  version: number,
  lastPerson: number,
  deletions: number,
  counts: PackedCounts,
]

/** The stored count of the properties of one project. */
export interface KeptProperties {
  /** The largest person number when the count began. Persons with larger numbers are not counted. */
  readonly lastPerson: number
  readonly deletions: number
  readonly counts: PropertyCounts
}

/**
 * Returns the stored count of a project, or null if there is none that can be read. It takes about 1 ms for 1000 names
 * and values.
 */
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
  // The cast is right: `storeKeptProperties` wrote the record, and its checksum matches.
  const [version, lastPerson, deletions, counts] = record as Packed
  if (version !== VERSION) return null
  return { lastPerson, deletions, counts: PropertyCounts.restored(counts) }
}

/** Stores a count. Call it only within a write transaction. */
export function storeKeptProperties(
  tables: Pick<EventTables, 'kept_properties'>,
  projectId: number,
  { lastPerson, deletions, counts }: KeptProperties,
): void {
  const packed: Packed = [VERSION, lastPerson, deletions, counts.pack()]
  putRecord(tables.kept_properties, numberKey(projectId), packed)
}

/**
 * Returns how many persons of a large project have each property, without reading all persons. Names that appeared
 * recently are included. Returns null if the project has few persons, or if there is no valid count. It takes some
 * milliseconds.
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
    addNames(recent, record, number > kept.lastPerson ? null : kept.counts)
  }
  kept.counts.merge(recent)
  return kept.counts
}

/** Counts the names of the properties of a person. If `known` is given, names that it already counts are left out. */
function addNames(
  counts: PropertyCounts,
  record: PersonRecord,
  known: PropertyCounts | null = null,
): void {
  const { json, changesJson, deltas } = record
  if (changesJson === null && deltas === '') counts.addNames(json, known)
  else if (known === null) counts.add(propertiesOfRecord(record))
  else counts.addNew(propertiesOfRecord(record), known)
}

/**
 * Returns whether the persons of a project are too many or too large to read all of them for a list. It reads no pages
 * of properties, and takes some milliseconds.
 */
export function areMany(
  tables: EventTables,
  projectId: number,
  { persons }: Pick<PersonCounters, 'persons'>,
): boolean {
  if (persons > ACTORS_READ_MAX) return true
  let bytes = 0
  const range = { start: pairKey(projectId, NUMBER_MAX), end: pairKey(projectId, 0), reverse: true }
  for (const key of tables.persons.getKeys(range)) {
    const record = loadUnpaged(tables, projectId, numberInKey(key, 4))
    bytes += record === null ? 0 : bytesOf(record)
    if (bytes > ACTORS_READ_BYTES_MAX) return true
  }
  return false
}

function bytesOf({ jsonBytes, changesJson, deltas }: PersonRecord): number {
  return jsonBytes + (changesJson?.length ?? 0) + deltas.length
}

/** Returns the numbers of some persons that were added or changed most recently. */
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
 * Counts the properties of at most `personsMax` persons, from the person number `from` downwards, and stops when these
 * persons have more than `bytesMax` bytes. Also stops when `isOver` returns true: `next` of the result is then the person
 * number with which to continue. In all other cases, `next` is null.
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
    if (counts.countsValues) counts.add(propertiesOfRecord(record))
    else addNames(counts, record)
  }
  return { next: null, counted }
}
