/**
 * A segment with what scans have decoded of it: times, distinct_ids, names, and the properties that were asked for,
 * all in the order of names (event-scan-names.ts). Columns of large segments lie where all threads find them
 * (column-memory.ts), and are looked for there first; those of small ones, which the next merge replaces, and what
 * finds no room are the thread's own.
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
  DENSE,
  DISTINCT_IDS,
  type DistinctIds,
  NAME_ROWS,
  PLACES,
  SESSION_IDS,
  type SegmentTimes,
  type SessionIds,
  TIMES,
} from './event-scan-columns.ts'
import { inNameOrder, type NameRows, nameColumn, rowsByName } from './event-scan-names.ts'
import { countPairs, type PairCounts } from './event-scan-pairs.ts'

/** What a segment costs besides its columns: an estimate. */
const SEGMENT_BYTES = 1024
/** What a column costs that lies elsewhere. */
const COLUMN_BYTES = 256
const OFFSET_END = 2 ** 32
const NO_IDS = new Uint16Array(0)

/** Gives the text of a distinct_id of the segment's project. */
export type TextOf = (distinctId: number) => string

interface HeldColumn {
  readonly column: unknown
  /** Where it lies; null: it is the thread's own. */
  readonly block: Block | null
  /** Of the thread's own. */
  readonly bytes: number
}

/** Long texts as they are stored. Valid until the query ends. */
export interface StoredTexts extends StoredColumn {
  readonly json: Buffer
}

/** All getters throw `DamagedRecordError`. Columns are valid until the query ends. */
export class ScanSegment {
  readonly #sessionStretches: readonly number[] | null
  /** Some were erased. */
  readonly hasDeletedRows: boolean
  /** An estimate of the memory that it takes of the thread's own. */
  bytes: number
  /** The number of the scan that used it last. */
  lastScan = 0
  readonly #tables: SegmentTables
  readonly #memory: ColumnMemory
  readonly #sealed: Buffer
  readonly #columns = new Map<string, HeldColumn>()
  /** By key: a name for both would be put together for each segment of each scan. */
  readonly #properties = new Map<string, HeldColumn>()
  readonly #pairs = new Map<unknown, PairCounts>()
  /** By key; null: the values are short. */
  readonly #stored = new Map<string, StoredColumn | null>()
  #nameOf: ((column: string) => Uint32Array) | null = null
  #summary: SegmentSummary
  /** Only during a scan, unless the segment is small: it keeps what it unpacks. */
  #view: SegmentView | null
  /** Of `bytes`. */
  #viewBytes = 0

  /** `sealed`: the header. */
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
    this.#sessionStretches = sessions
    const named = names.reduce((sum, [name, count]) => sum + (name === ERASED_NAME ? 0 : count), 0)
    this.hasDeletedRows = named < summary.rows
    this.bytes = SEGMENT_BYTES + sealed.length
  }

  /** Whether any of its sessions may have begun in one of these stretches (session-stretches.ts). */
  mayHoldSessions(stretches: ReadonlySet<number>): boolean {
    return this.#sessionStretches?.some((stretch) => stretches.has(stretch)) ?? true
  }

  /** When its sessions began, as `mayHoldSessions` has it; null: nobody can tell. */
  get sessionStretches(): readonly number[] | null {
    return this.#sessionStretches
  }

  get summary(): SegmentSummary {
    return this.#summary
  }

  /** Whether it is the segment with this summary. The summaries of a project are new after a merge. */
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

  /** D of each place; 0 for deleted rows. */
  get distinctIds(): Uint32Array {
    return this.#distinctIds.ids
  }

  /** The largest D of the segment. */
  get lastDistinctId(): number {
    return this.#distinctIds.largest
  }

  get nameRows(): NameRows {
    return this.#column('name rows', NAME_ROWS, () =>
      rowsByName(specialColumn(this.#open(), ROLE_NAME)),
    )
  }

  /** The place of each row. */
  get places(): Uint16Array {
    return this.#column('places', PLACES, () => {
      const { rows } = this.nameRows
      const places = new Uint16Array(rows.length)
      for (let place = 0; place < rows.length; place++) places[rows[place] ?? 0] = place
      return places
    })
  }

  get names(): DenseColumn {
    return this.#column('names', DENSE, () => nameColumn(this.nameRows))
  }

  /** Chains of elements. */
  get elements(): DenseColumn {
    return this.#column('elements', DENSE, () =>
      this.#inOrder(specialColumn(this.#open(), ROLE_ELEMENTS)),
    )
  }

  property(key: string, textOf: TextOf): DenseColumn {
    return this.#column(
      key,
      DENSE,
      () => this.#inOrder(propertyColumn(this.#open(), key, textOf)),
      this.#properties,
    )
  }

  /**
   * A property whose values are long, as it is stored; null for any other. Nothing of it is decoded but which value each
   * row has, and nothing is kept but that.
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

  /** The pairs of one of its columns. */
  pairs(column: DenseColumn): PairCounts {
    let pairs = this.#pairs.get(column)
    if (pairs === undefined) {
      pairs = countPairs(this.nameRows, column)
      this.#pairs.set(column, pairs)
      this.bytes += pairs?.byteLength ?? 0
    }
    return pairs
  }

  /** The ids of sessions. */
  get sessionIds(): SessionIds {
    return this.#column('sessions', SESSION_IDS, () => {
      const stored = uuidColumn(this.#open(), SESSION_ID)
      if (stored === null) return { ids: NO_IDS, uuids: null }
      return { ids: inNameOrder(stored.ids, this.nameRows), uuids: stored.uuids }
    })
  }

  /** Gives up what only decoding needs, unless opening it again for the next column costs more than it takes. */
  close(): void {
    if (this.#isLarge) this.#view = null
    const bytes = this.#view?.heldBytes ?? 0
    this.bytes += bytes - this.#viewBytes
    this.#viewBytes = bytes
  }

  /** Gives up what is decoded of the segment as a whole; columns stay. */
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

  #inOrder({ ids, values }: DenseColumn): DenseColumn {
    // No row has a value, in whatever order.
    if (values.length === 1) return { ids, values }
    return { ids: inNameOrder(ids, this.nameRows), values }
  }

  /** What is held, what lies where all threads find it, or else what `decode` makes. */
  #column<Column>(
    name: string,
    shape: ColumnShape<Column>,
    decode: () => Column,
    columns = this.#columns,
  ): Column {
    const held = columns.get(name)
    if (held !== undefined) {
      // Held under this name by nobody but this method.
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

/** Half the memory where all times are whole milliseconds within 49 days. */
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
