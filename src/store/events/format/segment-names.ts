/**
 * The facts about the names of events and properties in a segment: the number of events with each name, their times,
 * which events have which properties, and the types of the values. All of it can be derived from the columns. If that
 * would take long, the segment stores the facts, in a group of their own (`Directory.facts`, MessagePack of
 * `PackedNames`). Segments of older versions store no facts. Property names that are too long are left out. If there
 * are too many names, those that occur only in the oldest rows are left out.
 */

import { withRoom } from '../../../rules/analytics/growing-arrays.ts'
import { type PropertyType, propertyType } from '../../../rules/events/event-definitions.ts'
import { pack, unpack } from '../../lmdb/codec.ts'
import { PROPERTY_NAME_UNITS_MAX, SEGMENT_NAMES_UNITS_MAX } from '../limits.ts'
import type { ColumnBuilder } from './column-builder.ts'
import { NumberSet, type PackedNumbers } from './number-set.ts'
import type { SegmentBuilder } from './segment-builder.ts'
import { type ColumnEntry, ROLE_PROPERTY, ROLE_REST } from './segment-format.ts'
import { propertyColumn } from './segment-properties.ts'
import type { SegmentView } from './segment-view.ts'

const PLACES_FIRST = 64
/**
 * Added to the length of each name when all names together are compared with their limit. Otherwise, very short names
 * would count almost nothing, and there could be too many of them.
 */
const NAME_UNITS = 40
/** The types that a property can have. A type is stored as its index in this list. */
export const STORED_TYPES: readonly (PropertyType | null)[] = [
  ...([null, 'String', 'Numeric', 'Boolean', 'DateTime'] as const),
]

/** What is known about the events with one name, or about the properties with one name. Times are in milliseconds. */
interface Share {
  name: string
  count: number
  firstSeenMs: number
  lastSeenMs: number
}

/** The facts about the events with one name. `count` is the number of these events that are not erased. */
export interface EventShare extends Share {
  firstArrivalMs: number
  lastArrivalMs: number
  /** The number of the last row that has the name. */
  lastRow: number
}

/** The facts about the properties with one name. */
export interface PropertyShare extends Share {
  /** The type of the property: that of its first value that is not null. Null: all values are null. */
  type: PropertyType | null
  /** The event names that occur together with the property, as positions in the list of events. */
  readonly events: PackedNumbers
}

/** The names of the events and properties in a segment, with the facts about them. */
export interface SegmentNames {
  readonly events: readonly Readonly<EventShare>[]
  readonly properties: readonly Readonly<PropertyShare>[]
}

type PackedShare = readonly [name: string, count: number, firstMs: number, lastMs: number]
type PackedNames = readonly [
  events: readonly (readonly [...PackedShare, firstMs: number, lastMs: number, lastRow: number])[],
  properties: readonly (readonly [...PackedShare, type: number, events: PackedNumbers])[],
]

/** The fixed columns of a segment. Only the rows from `firstRow` to `rows - 1` are used. */
interface NamedRows {
  readonly firstRow: number
  readonly rows: number
  readonly timestamps: Float64Array
  readonly arrivals: Float64Array
  readonly distinctIds: Uint32Array
  readonly names: readonly unknown[]
  /** For each row, the position of its name in `names`. The first name has the position `firstId`. */
  readonly nameIds: Uint16Array
  readonly firstId: 0 | 1
}

/**
 * For each index, the earliest and the latest time, as parallel arrays. One object for each index would take more
 * memory.
 */
class Spans {
  first = new Float64Array(PLACES_FIRST)
  last = new Float64Array(PLACES_FIRST)

  /** Makes room for a further index, which has no times yet. */
  begin(place: number): void {
    this.first = withRoom(this.first, place)
    this.last = withRoom(this.last, place)
    this.first[place] = Number.POSITIVE_INFINITY
    this.last[place] = Number.NEGATIVE_INFINITY
  }

  note(place: number, timeMs: number): void {
    if (timeMs < (this.first[place] ?? 0)) this.first[place] = timeMs
    if (timeMs > (this.last[place] ?? 0)) this.last[place] = timeMs
  }
}

const BLOCK_ROWS = 64

/**
 * Finds the earliest and latest time of some rows. For each block of 64 rows, it stores the earliest and latest time.
 * Events arrive roughly in the order of their times, so most blocks can be skipped.
 */
class MomentBlocks {
  readonly #timestamps: Float64Array
  readonly #rows: number
  readonly #spans = new Spans()

  constructor(timestamps: Float64Array, rows: number) {
    this.#timestamps = timestamps
    this.#rows = rows
    for (let row = 0; row < rows; row++) {
      if (row % BLOCK_ROWS === 0) this.#spans.begin(row / BLOCK_ROWS)
      this.#spans.note(Math.floor(row / BLOCK_ROWS), timestamps[row] ?? 0)
    }
  }

  /** Returns the earliest time of the rows that have a value in `ids`. Rows without the property have a 0 there. */
  firstOf(ids: Uint16Array): number {
    const { first } = this.#spans
    let found = Number.POSITIVE_INFINITY
    for (let block = 0; block * BLOCK_ROWS < this.#rows; block++) {
      if ((first[block] ?? 0) >= found) continue
      const end = Math.min(this.#rows, (block + 1) * BLOCK_ROWS)
      for (let row = block * BLOCK_ROWS; row < end; row++) {
        if (ids[row] !== 0) found = Math.min(found, this.#timestamps[row] ?? 0)
      }
    }
    return found
  }

  /** Returns the latest time of the rows that have a value in `ids`. Rows without the property have a 0 there. */
  lastOf(ids: Uint16Array): number {
    const { last } = this.#spans
    let found = Number.NEGATIVE_INFINITY
    for (let block = Math.ceil(this.#rows / BLOCK_ROWS) - 1; block >= 0; block--) {
      if ((last[block] ?? 0) <= found) continue
      const end = Math.min(this.#rows, (block + 1) * BLOCK_ROWS)
      for (let row = block * BLOCK_ROWS; row < end; row++) {
        if (ids[row] !== 0) found = Math.max(found, this.#timestamps[row] ?? 0)
      }
    }
    return found
  }
}

/** Collects the facts from the columns of a segment. */
class NameGatherer {
  readonly #rows: NamedRows
  /** The number of events with each name, by the position of the name. */
  readonly #eventCounts: Uint32Array
  readonly #eventTimes = new Spans()
  readonly #arrivals = new Spans()
  readonly #lastRows: Uint32Array
  /** The number of rows that are not erased. */
  #count = 0
  /** For each property name, its index in the arrays below. */
  readonly #places = new Map<string, number>()
  readonly #types: (PropertyType | null)[] = []
  readonly #eventSets: NumberSet[] = []
  #counts = new Uint32Array(PLACES_FIRST)
  readonly #times = new Spans()
  /** For each event name, 1 if at least one row with this name has a value in the column that is being added. */
  readonly #marks: Uint8Array
  #moments: MomentBlocks | null = null
  #units = 0
  /** True if the names have reached their limit. Further property names are then left out. */
  #isFull = false

  constructor(rows: NamedRows) {
    this.#rows = rows
    const { names, timestamps, arrivals, distinctIds, nameIds, firstId } = rows
    this.#eventCounts = new Uint32Array(names.length)
    this.#lastRows = new Uint32Array(names.length)
    this.#marks = new Uint8Array(names.length + firstId)
    for (const event of names.keys()) {
      this.#eventTimes.begin(event)
      this.#arrivals.begin(event)
    }
    for (let row = rows.firstRow; row < rows.rows; row++) {
      // Skip erased rows, which have no distinct ID number.
      if (distinctIds[row] === 0) continue
      const event = (nameIds[row] ?? 0) - firstId
      this.#count++
      this.#eventCounts[event] = (this.#eventCounts[event] ?? 0) + 1
      this.#eventTimes.note(event, timestamps[row] ?? 0)
      this.#arrivals.note(event, arrivals[row] ?? 0)
      this.#lastRows[event] = row
    }
  }

  /**
   * Adds the property `name`. `present` are the numbers of the rows that have it. `typeOf` returns its type, and is
   * called only if the type is not known yet.
   */
  addColumn(name: string, present: Uint16Array, typeOf: () => PropertyType | null): void {
    const { firstRow, timestamps, nameIds } = this.#rows
    const start = firstRow === 0 ? 0 : present.findIndex((row) => row >= firstRow)
    const count = start < 0 ? 0 : present.length - start
    if (count === 0) return
    const place = this.#placeOf(name)
    if (place < 0) return
    this.#counts[place] = (this.#counts[place] ?? 0) + count
    this.#types[place] ??= typeOf()
    if (count === this.#count) {
      this.#setAll(place)
      return
    }
    const marks = this.#marks.fill(0)
    let firstMs = Number.POSITIVE_INFINITY
    let lastMs = Number.NEGATIVE_INFINITY
    for (let index = start; index < present.length; index++) {
      const row = present[index] ?? 0
      const timeMs = timestamps[row] ?? 0
      if (timeMs < firstMs) firstMs = timeMs
      if (timeMs > lastMs) lastMs = timeMs
      marks[nameIds[row] ?? 0] = 1
    }
    this.#times.note(place, firstMs)
    this.#times.note(place, lastMs)
    this.#setMarked(place)
  }

  /** Adds the property of a column that is being filled. In `ids`, rows without the property have a 0. */
  addFilled({ key, ids, count }: ColumnBuilder, typeOf: () => PropertyType | null): void {
    const place = this.#placeOf(key)
    if (place < 0) return
    this.#counts[place] = count
    this.#types[place] = typeOf()
    if (count === this.#count) {
      this.#setAll(place)
      return
    }
    const { rows, nameIds, timestamps } = this.#rows
    const marks = this.#marks.fill(0)
    for (let row = 0; row < rows; row++) if (ids[row] !== 0) marks[nameIds[row] ?? 0] = 1
    this.#setMarked(place)
    this.#moments ??= new MomentBlocks(timestamps, rows)
    this.#times.note(place, this.#moments.firstOf(ids))
    this.#times.note(place, this.#moments.lastOf(ids))
  }

  /**
   * Adds those properties of one row that have no column of their own. Call it for the rows from the newest to the
   * oldest.
   */
  addShared(row: number, shared: Readonly<Record<string, unknown>>): void {
    const { firstRow, timestamps, nameIds, firstId } = this.#rows
    if (row < firstRow) return
    const timeMs = timestamps[row] ?? 0
    const event = (nameIds[row] ?? 0) - firstId
    for (const name in shared) {
      const place = this.#placeOf(name)
      if (place < 0) continue
      this.#counts[place] = (this.#counts[place] ?? 0) + 1
      this.#times.note(place, timeMs)
      this.#eventSets[place]?.add(event)
      // The type of a property is that of its first value that is not null. The rows come newest first, so the type of
      // an earlier row replaces that of a later one.
      this.#types[place] = propertyType(shared[name]) ?? this.#types[place] ?? null
    }
  }

  finish(): SegmentNames {
    const events = this.#rows.names.map((name, event) => ({
      name: String(name),
      count: this.#eventCounts[event] ?? 0,
      ...spanOf(this.#eventTimes, event),
      firstArrivalMs: this.#arrivals.first[event] ?? 0,
      lastArrivalMs: this.#arrivals.last[event] ?? 0,
      lastRow: this.#lastRows[event] ?? 0,
    }))
    const properties = [...this.#places].map(([name, place]) => ({
      name,
      count: this.#counts[place] ?? 0,
      ...spanOf(this.#times, place),
      type: this.#types[place] ?? null,
      events: this.#eventSets[place]?.pack() ?? [],
    }))
    return { events, properties }
  }

  /** Records that the property occurs with all event names. */
  #setAll(place: number): void {
    const { first, last } = this.#eventTimes
    for (const [event, count] of this.#eventCounts.entries()) {
      if (count === 0) continue
      this.#eventSets[place]?.add(event)
      this.#times.note(place, first[event] ?? 0)
      this.#times.note(place, last[event] ?? 0)
    }
  }

  /**
   * Records that a property occurs with the event names for which `#marks` contains a 1. `place` is the index of the
   * property.
   */
  #setMarked(place: number): void {
    const { firstId } = this.#rows
    const marks = this.#marks
    for (let id = firstId; id < marks.length; id++) {
      if (marks[id] === 1) this.#eventSets[place]?.add(id - firstId)
    }
  }

  /** Returns the index of a property in the arrays, or -1 if its name is left out. */
  #placeOf(name: string): number {
    const known = this.#places.get(name)
    if (known !== undefined) return known
    if (this.#isFull || name.length > PROPERTY_NAME_UNITS_MAX) return -1
    this.#units += name.length + NAME_UNITS
    if (this.#units > SEGMENT_NAMES_UNITS_MAX) {
      this.#isFull = true
      return -1
    }
    const place = this.#places.size
    this.#places.set(name, place)
    this.#counts = withRoom(this.#counts, place)
    this.#times.begin(place)
    this.#eventSets.push(new NumberSet())
    this.#types.push(null)
    return place
  }
}

/** Returns the facts about the names of a segment that is being filled, as the content of a group. */
export function encodeNames(builder: SegmentBuilder): Buffer {
  const { rows, timestamps, arrivals, distinctIds, names, rest } = builder
  const named = { firstRow: 0, rows, timestamps, arrivals, distinctIds, names: names.values }
  const gatherer = new NameGatherer({ ...named, nameIds: names.ids, firstId: 1 })
  for (const column of builder.columns.values()) {
    if (column.count > 0) gatherer.addFilled(column, () => typeOfColumn(builder, column))
  }
  let index = rest.count
  for (let row = rows - 1; row >= 0 && index > 0; row--) {
    const id = rest.ids[row] ?? 0
    if (id === 0) continue
    index--
    // The cast is right: the column of shared properties contains only objects.
    const shared = rest.values[rest.isPlain ? index : id - 1]
    gatherer.addShared(row, shared as Readonly<Record<string, unknown>>)
  }
  const { events, properties } = gatherer.finish()
  const packed: PackedNames = [
    events.map((event) => {
      const { firstArrivalMs, lastArrivalMs, lastRow } = event
      return [...packShare(event), firstArrivalMs, lastArrivalMs, lastRow]
    }),
    properties.map((share) => [
      ...packShare(share),
      STORED_TYPES.indexOf(share.type),
      share.events,
    ]),
  ]
  return pack(packed)
}

/** Decodes the group with the facts of a segment. The caller must have checked its checksum. */
function decodeNames(bytes: Buffer): SegmentNames {
  // The cast is right: `encodeNames` wrote the facts, and their checksums match.
  const [events, properties] = unpack(bytes) as PackedNames
  return {
    events: events.map(([name, count, firstSeenMs, lastSeenMs, ...arrivals]) => {
      const [firstArrivalMs, lastArrivalMs, lastRow] = arrivals
      const share = { name, count, firstSeenMs, lastSeenMs }
      return { ...share, firstArrivalMs, lastArrivalMs, lastRow }
    }),
    properties: properties.map(([name, count, firstSeenMs, lastSeenMs, type, events]) => {
      return { name, count, firstSeenMs, lastSeenMs, type: STORED_TYPES[type] ?? null, events }
    }),
  }
}

/**
 * Returns the names of the events and properties in the rows of a stored segment, from the row `firstRow` on. `isTyped`
 * returns whether the caller already knows the type of a property. The type is then not read. `textOf` returns the text
 * of a distinct ID number, for properties whose values are the distinct_ids. Throws `DamagedRecordError`. If `firstRow`
 * is 0 and the segment stores facts about its names, this takes about 0.1 us for each name. Otherwise, the columns are
 * read, which takes about 10 ns for each row and each of its properties, and more for properties that share a column.
 */
export function namesOf(
  view: SegmentView,
  firstRow: number,
  isTyped: (property: string) => boolean,
  textOf: (distinctId: number) => string,
): SegmentNames {
  const facts = firstRow === 0 ? view.facts : null
  if (facts !== null) return decodeNames(facts)
  const { timestamps, arrivals, distinctIds, names } = view
  const { rows } = view.summary
  const named = { firstRow, rows, timestamps, arrivals, distinctIds, names: names.values }
  const gatherer = new NameGatherer({ ...named, nameIds: names.ids, firstId: 0 })
  for (const entry of view.directory.columns) {
    if (entry.role === ROLE_PROPERTY) {
      const { present } = view.indexOf(entry)
      gatherer.addColumn(entry.key, present, () =>
        isTyped(entry.key) ? null : typeOfProperty(view, entry, firstRow, textOf),
      )
    } else if (entry.role === ROLE_REST) {
      const { present, ids, values } = view.column(entry)
      for (let index = present.length - 1; index >= 0; index--) {
        const shared = values[ids[index] ?? 0] as Readonly<Record<string, unknown>>
        gatherer.addShared(present[index] ?? 0, shared)
      }
    }
  }
  return gatherer.finish()
}

function spanOf({ first, last }: Spans, place: number) {
  return { firstSeenMs: first[place] ?? 0, lastSeenMs: last[place] ?? 0 }
}

function packShare({ name, count, firstSeenMs, lastSeenMs }: Share): PackedShare {
  return [name, count, firstSeenMs, lastSeenMs]
}

function typeOfColumn(builder: SegmentBuilder, column: ColumnBuilder): PropertyType | null {
  const { ids, isMirror, isPlain } = column
  if (isPlain) return propertyType(column.firstPlain)
  for (let row = 0; row < builder.rows; row++) {
    const id = ids[row] ?? 0
    if (id === 0) continue
    const type = propertyType(isMirror ? builder.textOfRow(row) : column.values[id - 1])
    if (type !== null) return type
  }
  return null
}

function typeOfProperty(
  view: SegmentView,
  { key }: ColumnEntry,
  firstRow: number,
  textOf: (distinctId: number) => string,
): PropertyType | null {
  const { ids, values } = propertyColumn(view, key, textOf)
  for (let row = firstRow; row < ids.length; row++) {
    const type = propertyType(values[ids[row] ?? 0])
    if (type !== null) return type
  }
  return null
}
