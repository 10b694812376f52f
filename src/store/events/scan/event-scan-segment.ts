/**
 * A segment with the columns that scans have decoded: times, distinct ID numbers, names, and requested properties, all
 * in name order (event-scan-names.ts). The columns of large segments are in memory that all threads share
 * (column-memory.ts), so a column that another thread has decoded need not be decoded again. If there is no room in the
 * shared memory, a column is kept in memory of this thread alone. The columns of small segments are always kept there,
 * because the next merge replaces these segments.
 */
import type { Block } from '../../../base/shared-blocks.ts'
import { SESSION_ID } from '../../../rules/analytics/session-id.ts'
import { pairKey } from '../../lmdb/keys.ts'
import {
  ERASED_NAME,
  ROLE_ELEMENTS,
  ROLE_NAME,
  type SegmentSummary,
} from '../format/segment-format.ts'
import {
  type DenseColumn,
  propertyColumn,
  type StoredColumn,
  specialColumn,
  storedColumn,
  uuidColumn,
} from '../format/segment-properties.ts'
import type { SegmentTables } from '../format/segment-tables.ts'
import { SegmentView } from '../format/segment-view.ts'
import { SCAN_OPEN_ROWS_MAX } from '../limits.ts'
import { type ColumnMemory, columnNames } from './column-memory.ts'
import {
  type ColumnShape,
  DISTINCT_IDS,
  type DistinctIds,
  NAME_ROWS,
  PLACED,
  PLACES,
  type PlacedColumn,
  SESSION_IDS,
  type SegmentTimes,
  type SessionIds,
  TIMES,
  withoutEdges,
} from './event-scan-columns.ts'
import { inNameOrder, type NameRows, nameColumn, rowsByName } from './event-scan-names.ts'
import { countPairs, type PairCounts } from './event-scan-pairs.ts'

/** The estimated number of bytes that a segment takes without its columns. */
const SEGMENT_BYTES = 1024
/** The estimated number of bytes that a column in shared memory takes in this thread. */
const COLUMN_BYTES = 256
const OFFSET_END = 2 ** 32
const NO_IDS = new Uint16Array(0)

/** Returns the text of a distinct ID number of the segment's project. */
export type TextOf = (distinctId: number) => string

interface HeldColumn {
  readonly column: unknown
  /** The block of shared memory that contains the column. Null if the column is in memory of this thread alone. */
  readonly block: Block | null
  /** The number of bytes of the column that are in memory of this thread alone. */
  readonly bytes: number
}

/** The long texts of a property, in their stored form. They are valid until the query ends. */
export interface StoredTexts extends StoredColumn {
  readonly json: Buffer
}

/**
 * One segment, with the columns that scans have decoded. All getters throw `DamagedRecordError`. The columns are valid
 * until the query ends.
 */
export class ScanSegment {
  readonly #sessionStarts: readonly number[] | null
  /** True if some rows were erased. */
  readonly hasDeletedRows: boolean
  /** The estimated number of bytes of the segment that are in memory of this thread alone. */
  bytes: number
  /** The number of the scan that has last used the segment. */
  lastScan = 0
  readonly #tables: SegmentTables
  readonly #memory: ColumnMemory
  readonly #sealed: Buffer
  readonly #columns = new Map<string, HeldColumn>()
  /**
   * The columns of properties, by key. They have a map of their own, so that no scan has to build a combined name for
   * each property of each segment.
   */
  readonly #properties = new Map<string, HeldColumn>()
  readonly #pairs = new Map<unknown, PairCounts>()
  /**
   * The properties with long values, by key. Null: the values are short, or their decoded column is cached in
   * `#properties`.
   */
  readonly #stored = new Map<string, StoredColumn | null>()
  #nameOf: ((column: string) => Uint32Array) | null = null
  #summary: SegmentSummary
  /**
   * The segment, opened so that its columns can be decoded. The view contains decompressed groups of columns. So the
   * view of a large segment is released after each scan.
   */
  #view: SegmentView | null
  /** The number of bytes of the view. They are included in `bytes`. */
  #viewBytes = 0

  /** `sealed` is the stored header of the segment, with its checksum. */
  constructor(
    tables: SegmentTables,
    memory: ColumnMemory,
    summary: SegmentSummary,
    sealed: Buffer,
  ) {
    this.#tables = tables
    this.#memory = memory
    this.#summary = summary
    this.#sealed = sealed
    this.#view = null
    const { names, sessions } = this.#open().directory
    this.#sessionStarts = sessions
    const named = names.reduce((sum, [name, count]) => sum + (name === ERASED_NAME ? 0 : count), 0)
    this.hasDeletedRows = named < summary.rows
    this.bytes = SEGMENT_BYTES + sealed.length
  }

  /** Returns whether a session of the segment may have started in one of these ranges (session-starts.ts). */
  mayHoldSessions(starts: ReadonlySet<number>): boolean {
    return this.#sessionStarts?.some((range) => starts.has(range)) ?? true
  }

  /** The ranges in which the sessions of the segment started, or null if these are unknown. */
  get sessionStarts(): readonly number[] | null {
    return this.#sessionStarts
  }

  get summary(): SegmentSummary {
    return this.#summary
  }

  /**
   * Returns whether this object contains the segment that `summary` describes. If it is not the same `summary` object
   * as before, the stored headers are compared: after a merge, unchanged segments of the project get new summary
   * objects too.
   */
  isCurrent(summary: SegmentSummary): boolean {
    if (this.#summary === summary) return true
    const stored = this.#tables.headers.get(pairKey(summary.projectId, summary.firstSequence))
    if (stored?.equals(this.#sealed) !== true) return false
    this.#summary = summary
    return true
  }

  get times(): SegmentTimes {
    return this.#column('times', TIMES, () => {
      const { timestamps } = this.#open()
      const { base, offsets } = compactTimes(timestamps, this.summary.firstTimestampMs)
      return { base, offsets: inNameOrder(offsets, this.nameRows) }
    })
  }

  /**
   * For each position in name order (event-scan-names.ts), the distinct ID number of the event, or 0 if it was erased.
   */
  get distinctIds(): Uint32Array {
    return this.#distinctIds.ids
  }

  /** The largest distinct ID number of the segment. */
  get lastDistinctId(): number {
    return this.#distinctIds.largest
  }

  get nameRows(): NameRows {
    return this.#column('name rows', NAME_ROWS, () =>
      rowsByName(specialColumn(this.#open(), ROLE_NAME)),
    )
  }

  /** For each row, its position in name order (event-scan-names.ts). */
  get places(): Uint16Array {
    return this.#column('places', PLACES, () => {
      const { rows } = this.nameRows
      const places = new Uint16Array(rows.length)
      for (let place = 0; place < rows.length; place++) places[rows[place] ?? 0] = place
      return places
    })
  }

  get names(): PlacedColumn {
    return this.#column('names', PLACED, () => withoutEdges(nameColumn(this.nameRows)))
  }

  /** The column with the element chains of the events. */
  get elements(): PlacedColumn {
    return this.#column('elements', PLACED, () =>
      this.#inOrder(specialColumn(this.#open(), ROLE_ELEMENTS)),
    )
  }

  property(key: string, textOf: TextOf): PlacedColumn {
    return this.#column(
      key,
      PLACED,
      () => this.#inOrder(propertyColumn(this.#open(), key, textOf)),
      this.#properties,
    )
  }

  /**
   * Returns a property with long values in its stored form. Decodes and caches only the location of each row's value.
   * Returns null if the property has no long values, or if its decoded column was cached before the first call.
   */
  stored(key: string): StoredTexts | null {
    let held = this.#stored.get(key)
    if (held === undefined) {
      held = this.#properties.has(key) ? null : this.#storedColumn(key)
      this.#stored.set(key, held)
    }
    if (held === null) return null
    return { ...held, json: this.#open().storedJson(held.entry) }
  }

  #storedColumn(key: string): StoredColumn | null {
    const column = storedColumn(this.#open(), key)
    if (column === null) return null
    const ids = inNameOrder(column.ids, this.nameRows)
    this.bytes += COLUMN_BYTES + ids.byteLength + column.places.byteLength
    return { ...column, ids }
  }

  /** Returns the number of events for each pair of a name and a value of this column. */
  pairs(column: PlacedColumn): PairCounts {
    let pairs = this.#pairs.get(column)
    if (pairs === undefined) {
      pairs = countPairs(this.nameRows, column)
      this.#pairs.set(column, pairs)
      this.bytes += pairs?.byteLength ?? 0
    }
    return pairs
  }

  /** The session ids of the events. */
  get sessionIds(): SessionIds {
    return this.#column('sessions', SESSION_IDS, () => {
      const stored = uuidColumn(this.#open(), SESSION_ID)
      if (stored === null) return { ids: NO_IDS, uuids: null }
      return { ids: inNameOrder(stored.ids, this.nameRows), uuids: stored.uuids }
    })
  }

  /**
   * Releases the view if the segment is large. The view is only needed for decoding. The view of a small segment is
   * kept, because opening the segment again would cost more than the memory.
   */
  close(): void {
    if (this.#isLarge) this.#view = null
    const bytes = this.#view?.heldBytes ?? 0
    this.bytes += bytes - this.#viewBytes
    this.#viewBytes = bytes
  }

  /** Releases the view of the segment. The decoded columns stay cached. */
  releaseView(): void {
    this.#view = null
    this.bytes -= this.#viewBytes
    this.#viewBytes = 0
  }

  get #isLarge(): boolean {
    return this.#summary.rows > SCAN_OPEN_ROWS_MAX
  }

  get #distinctIds(): DistinctIds {
    return this.#column('distinct_ids', DISTINCT_IDS, () => {
      const ids = inNameOrder(this.#open().distinctIds, this.nameRows)
      let largest = 0
      for (const distinctId of ids) if (distinctId > largest) largest = distinctId
      return { ids, largest }
    })
  }

  #inOrder({ ids, values }: DenseColumn): PlacedColumn {
    // If no row has a value, the ids are all 0, and need not be put in name order.
    const isSame = values.length === 1
    return withoutEdges({ ids: isSame ? ids : inNameOrder(ids, this.nameRows), values })
  }

  /**
   * Returns a column: the cached one, or else one that another thread has put into shared memory, or else the result of
   * `decode`.
   */
  #column<Column>(
    name: string,
    shape: ColumnShape<Column>,
    decode: () => Column,
    columns = this.#columns,
  ): Column {
    const held = columns.get(name)
    if (held !== undefined) {
      // The cast is right: under this name, only columns of this type are stored.
      if (held.block === null || this.#memory.isThere(held.block)) return held.column as Column
      this.#forget(held)
    }
    const found = this.#placed(columns === this.#columns ? name : `property ${name}`, shape, decode)
    columns.set(name, found)
    this.bytes += found.bytes
    return found.column
  }

  #placed<Column>(
    name: string,
    shape: ColumnShape<Column>,
    decode: () => Column,
  ): HeldColumn & { readonly column: Column } {
    const own = (column: Column): HeldColumn & { readonly column: Column } => {
      return { column, block: null, bytes: COLUMN_BYTES + shape.bytesOf(column, 'all') }
    }
    if (!this.#isLarge) return own(decode())
    this.#nameOf ??= columnNames(
      `${this.#summary.projectId} ${this.#summary.firstSequence} `,
      this.#sealed,
    )
    const id = this.#nameOf(name)
    let placed = this.#memory.find(id, shape)
    if (placed === null) {
      const column = decode()
      placed = shape.isShared(column) ? this.#memory.put(id, column, shape) : null
      if (placed === null) return own(column)
    }
    return { ...placed, bytes: COLUMN_BYTES + shape.bytesOf(placed.column, 'values') }
  }

  #forget({ column, bytes }: HeldColumn): void {
    this.bytes -= bytes + (this.#pairs.get(column)?.byteLength ?? 0)
    this.#pairs.delete(column)
  }

  #open(): SegmentView {
    const { projectId, firstSequence } = this.summary
    const key = pairKey(projectId, firstSequence)
    this.#view ??= new SegmentView(this.#tables.groups, key, this.#sealed)
    return this.#view
  }
}

/** Returns times in a form that takes half the memory, if all of them are whole milliseconds within 49 days. */
function compactTimes(timestamps: Float64Array, base: number): SegmentTimes {
  const offsets = new Uint32Array(timestamps.length)
  for (let row = 0; row < timestamps.length; row++) {
    const offset = (timestamps[row] ?? 0) - base
    if (!(offset >= 0 && offset < OFFSET_END) || !Number.isInteger(offset)) {
      return { base: 0, offsets: timestamps }
    }
    offsets[row] = offset
  }
  return { base, offsets }
}
