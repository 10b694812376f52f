/**
 * What a segment says about the names of its events and properties: how many there are of each, when, which
 * events have which properties, and what the values are. Segments of many rows carry it in a group of their
 * own (`Directory.facts`), MessagePack of `PackedNames`; of others, and of those that older versions wrote, it
 * is found in the columns.
 */
import { type PropertyType, propertyType } from '../../../rules/events/definitions.ts'
import { pack, unpack } from '../../lmdb/codec.ts'
import { SEGMENT_NAMES_UNITS_MAX } from '../limits.ts'
import type { ColumnBuilder } from './column-builder.ts'
import type { SegmentBuilder } from './segment-builder.ts'
import { type ColumnEntry, ROLE_PROPERTY, ROLE_REST } from './segment-format.ts'
import { propertyColumn } from './segment-properties.ts'
import type { SegmentView } from './segment-view.ts'

const TYPES: readonly (PropertyType | null)[] = [null, 'String', 'Numeric', 'Boolean', 'DateTime']

/** Events or properties of one name. Times are milliseconds. */
interface Share {
  name: string
  count: number
  firstSeenMs: number
  lastSeenMs: number
}

/** The events of one name; `count` is 0 where all were erased. */
export interface EventShare extends Share {
  firstArrivalMs: number
  lastArrivalMs: number
  /** The last row that has it. */
  lastRow: number
}

/** The properties of one name. */
export interface PropertyShare extends Share {
  /** Of the first value that is not null. */
  type: PropertyType | null
  /** For each event of the list 1 where it has the property. */
  readonly marks: Uint8Array
}

/** The names of a segment. */
export interface SegmentNames {
  readonly events: readonly Readonly<EventShare>[]
  readonly properties: readonly Readonly<PropertyShare>[]
}

type PackedShare = readonly [name: string, count: number, firstMs: number, lastMs: number]
type PackedNames = readonly [
  events: readonly (readonly [...PackedShare, firstMs: number, lastMs: number, lastRow: number])[],
  properties: readonly (readonly [...PackedShare, type: number, marks: Uint8Array])[],
]

/** The fixed columns of rows, of which the rows from `firstRow` to `rows` count. */
interface NamedRows {
  readonly firstRow: number
  readonly rows: number
  readonly timestamps: Float64Array
  readonly arrivals: Float64Array
  readonly distinctIds: Uint32Array
  readonly names: readonly unknown[]
  /** For each row the position of its name, from `firstId`. */
  readonly nameIds: Uint16Array
  readonly firstId: 0 | 1
}

/** Goes through the columns of a segment. */
class NameGatherer {
  readonly #rows: NamedRows
  readonly #events: readonly EventShare[]
  readonly #properties = new Map<string, PropertyShare>()
  /** UTF-16 units of all names of properties. */
  units = 0

  constructor(rows: NamedRows) {
    this.#rows = rows
    this.#events = rows.names.map((name) => ({
      ...{ ...noShare(String(name)), lastRow: 0 },
      firstArrivalMs: Number.POSITIVE_INFINITY,
      lastArrivalMs: Number.NEGATIVE_INFINITY,
    }))
    const { timestamps, arrivals, distinctIds, nameIds, firstId } = rows
    for (let row = rows.firstRow; row < rows.rows; row++) {
      const event = this.#events[(nameIds[row] ?? 0) - firstId]
      // Erased rows have no D.
      if (event === undefined || distinctIds[row] === 0) continue
      note(event, timestamps[row] ?? 0)
      const arrivedMs = arrivals[row] ?? 0
      if (arrivedMs < event.firstArrivalMs) event.firstArrivalMs = arrivedMs
      if (arrivedMs > event.lastArrivalMs) event.lastArrivalMs = arrivedMs
      event.lastRow = row
    }
  }

  /** Adds a property by the rows that have it. `typeOf` is asked once, when its type is not known. */
  addColumn(name: string, present: Uint16Array, typeOf: () => PropertyType | null): void {
    const { firstRow, timestamps, nameIds, firstId } = this.#rows
    if ((present.at(-1) ?? -1) < firstRow) return
    const property = this.#property(name)
    const { marks } = property
    for (const row of present) {
      if (row < firstRow) continue
      note(property, timestamps[row] ?? 0)
      marks[(nameIds[row] ?? 0) - firstId] = 1
    }
    property.type ??= typeOf()
  }

  /** Adds the properties of one row that share a column. */
  addShared(row: number, shared: Readonly<Record<string, unknown>>): void {
    const { firstRow, timestamps, nameIds, firstId } = this.#rows
    if (row < firstRow) return
    for (const name in shared) {
      const property = this.#property(name)
      note(property, timestamps[row] ?? 0)
      property.marks[(nameIds[row] ?? 0) - firstId] = 1
      property.type ??= propertyType(shared[name])
    }
  }

  finish(): SegmentNames {
    return { events: this.#events, properties: [...this.#properties.values()] }
  }

  #property(name: string): PropertyShare {
    let property = this.#properties.get(name)
    if (property === undefined) {
      const marks = new Uint8Array(this.#events.length)
      property = { ...noShare(name), type: null, marks }
      this.#properties.set(name, property)
      this.units += name.length
    }
    return property
  }
}

/** The names of a segment that is filled, as its group holds them; null when they are too many to carry. */
export function encodeNames(builder: SegmentBuilder): Buffer | null {
  const { rows, timestamps, arrivals, distinctIds, names, rest } = builder
  const named = { firstRow: 0, rows, timestamps, arrivals, distinctIds, names: names.values }
  const gatherer = new NameGatherer({ ...named, nameIds: names.ids, firstId: 1 })
  const scratch = new Uint16Array(rows)
  for (const column of builder.columns.values()) {
    if (column.count === 0) continue
    const present = presentRows(column, rows, scratch)
    gatherer.addColumn(column.key, present, () => typeOfColumn(builder, column, present))
  }
  for (const [index, row] of presentRows(rest, rows, scratch).entries()) {
    if (gatherer.units > SEGMENT_NAMES_UNITS_MAX) return null
    // The column of shared properties holds objects only.
    gatherer.addShared(row, storedValue(rest, row, index) as Readonly<Record<string, unknown>>)
  }
  const { events, properties } = gatherer.finish()
  const packed: PackedNames = [
    events.map((event) => {
      const { firstArrivalMs, lastArrivalMs, lastRow } = event
      return [...packShare(event), firstArrivalMs, lastArrivalMs, lastRow]
    }),
    properties.map((share) => [...packShare(share), TYPES.indexOf(share.type), share.marks]),
  ]
  return pack(packed)
}

/** The names that a group of a segment holds, whose checksum was checked. */
function decodeNames(bytes: Buffer): SegmentNames {
  // Written by `encodeNames`, and unchanged since: the checksum says so.
  const [events, properties] = unpack(bytes) as PackedNames
  return {
    events: events.map(([name, count, firstSeenMs, lastSeenMs, ...arrivals]) => {
      const [firstArrivalMs, lastArrivalMs, lastRow] = arrivals
      const share = { name, count, firstSeenMs, lastSeenMs }
      return { ...share, firstArrivalMs, lastArrivalMs, lastRow }
    }),
    properties: properties.map(([name, count, firstSeenMs, lastSeenMs, type, marks]) => {
      return { name, count, firstSeenMs, lastSeenMs, type: TYPES[type] ?? null, marks }
    }),
  }
}

/**
 * The names of the rows of a stored segment from `firstRow` on. `isTyped` says of a property that its type
 * need not be found, and `textOf` gives the text of a distinct_id, which some properties have. Throws
 * `DamagedRecordError`. Cost: some 0.1 us for each name that the segment carries; otherwise some 10 ns for
 * each row and each of its properties, more for those that share a column.
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
      for (const [index, row] of present.entries()) {
        gatherer.addShared(row, values[ids[index] ?? 0] as Readonly<Record<string, unknown>>)
      }
    }
  }
  return gatherer.finish()
}

function noShare(name: string): Share {
  const never = { firstSeenMs: Number.POSITIVE_INFINITY, lastSeenMs: Number.NEGATIVE_INFINITY }
  return { name, count: 0, ...never }
}

function note(share: Share, timeMs: number): void {
  share.count++
  if (timeMs < share.firstSeenMs) share.firstSeenMs = timeMs
  if (timeMs > share.lastSeenMs) share.lastSeenMs = timeMs
}

function packShare({ name, count, firstSeenMs, lastSeenMs }: Share): PackedShare {
  return [name, count, firstSeenMs, lastSeenMs]
}

/** The rows that have a value, in memory that is used again. */
function presentRows({ ids }: ColumnBuilder, rows: number, scratch: Uint16Array): Uint16Array {
  let count = 0
  for (let row = 0; row < rows; row++) if (ids[row] !== 0) scratch[count++] = row
  return scratch.subarray(0, count)
}

/** The value of a row, which is the one at `index` of those that have one. Not of a mirror. */
function storedValue({ isPlain, values, ids }: ColumnBuilder, row: number, index: number): unknown {
  return values[isPlain ? index : (ids[row] ?? 0) - 1]
}

function typeOfColumn(
  builder: SegmentBuilder,
  column: ColumnBuilder,
  present: Uint16Array,
): PropertyType | null {
  for (const [index, row] of present.entries()) {
    const value = column.isMirror ? builder.textOfRow(row) : storedValue(column, row, index)
    const type = propertyType(value)
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
