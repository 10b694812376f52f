/**
 * The decoded columns of segments that scans use again and again: times, distinct_ids, names, and the
 * properties that were asked for. Bounded by bytes. What a running scan has used is not given up for what
 * it uses next: a project that is larger than the cache then finds part of itself there every time, and
 * not nothing.
 */
import { getOrAdd } from '../../../base/maps.ts'
import { type BudgetShare, budgetOf } from '../../../base/shared-budget.ts'
import { SESSION_ID } from '../../../rules/analytics/session-id.ts'
import { pairKey } from '../../lmdb/keys.ts'
import { ROLE_ELEMENTS, ROLE_NAME, type SegmentSummary } from '../format/segment-format.ts'
import {
  type DenseColumn,
  propertyColumn,
  specialColumn,
  uuidColumn,
} from '../format/segment-properties.ts'
import { placeBehind, type SegmentTables } from '../format/segment-tables.ts'
import { SegmentView } from '../format/segment-view.ts'
import { SCAN_OPEN_ROWS_MAX } from '../limits.ts'
import { inNameOrder, type NameRows, nameColumn, rowsByName } from './event-scan-names.ts'
import { countPairs, type PairCounts } from './event-scan-pairs.ts'

/** What a value costs besides its characters: an estimate. */
const VALUE_BYTES = 24
/** What a segment costs besides its columns: an estimate. */
const SEGMENT_BYTES = 1024
const OFFSET_END = 2 ** 32

/** Gives the text of a distinct_id of the segment's project. */
export type TextOf = (distinctId: number) => string

/** The times of a segment: `base + offsets[place]`; `offsets` are whole milliseconds or any float64. */
export interface SegmentTimes {
  readonly base: number
  readonly offsets: Uint32Array | Float64Array
}

/** The property that tells the session of each event. */
export interface StoredSessions extends DenseColumn {
  /** 16 bytes for each value from 1, in place of `values`; null: these are not all UUIDs in lower case. */
  readonly uuids: Uint8Array | null
}

/**
 * A segment with what was decoded of it; columns are in the order of names (event-scan-names.ts). All
 * getters throw `DamagedRecordError`.
 */
export class ScanSegment {
  readonly #sessionStretches: readonly number[] | null
  /** Some were erased: these have no name. */
  readonly hasDeletedRows: boolean
  /** An estimate of the memory that it takes. */
  bytes: number
  /** The number of the scan that used it last. */
  lastScan = 0
  readonly #tables: SegmentTables
  readonly #sealed: Buffer
  readonly #columns = new Map<string, DenseColumn>()
  /** By key: a name for both would be put together for each segment of each scan. */
  readonly #properties = new Map<string, DenseColumn>()
  readonly #pairs = new Map<DenseColumn, PairCounts>()
  #sessions: StoredSessions | null = null
  #summary: SegmentSummary
  #times: SegmentTimes | null = null
  #distinctIds: Uint32Array | null = null
  #lastDistinctId = 0
  #nameRows: NameRows | null = null
  #hasPlaces = false
  /** Only during a scan, unless the segment is small: it keeps what it unpacks. */
  #view: SegmentView | null
  /** Of `bytes`. */
  #viewBytes = 0

  /** `sealed`: the header. */
  constructor(tables: SegmentTables, summary: SegmentSummary, sealed: Buffer) {
    this.#tables = tables
    this.#summary = summary
    this.#sealed = sealed
    this.#view = null
    const { names, sessions } = this.#open().directory
    this.#sessionStretches = sessions
    this.hasDeletedRows = names.reduce((sum, [, count]) => sum + count, 0) < summary.rows
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
    if (this.#times === null) {
      const { timestamps } = this.#open()
      const { base, offsets } = compactTimes(timestamps, this.summary.firstTimestampMs)
      this.#times = { base, offsets: inNameOrder(offsets, this.nameRows) }
      this.bytes += this.#times.offsets.byteLength
    }
    return this.#times
  }

  /** D of each place; 0 for deleted rows. */
  get distinctIds(): Uint32Array {
    if (this.#distinctIds === null) {
      this.#distinctIds = inNameOrder(this.#open().distinctIds, this.nameRows)
      for (const distinctId of this.#distinctIds) {
        if (distinctId > this.#lastDistinctId) this.#lastDistinctId = distinctId
      }
      this.bytes += this.#distinctIds.byteLength
    }
    return this.#distinctIds
  }

  /** The largest D of the segment. */
  get lastDistinctId(): number {
    return this.distinctIds.length === 0 ? 0 : this.#lastDistinctId
  }

  get nameRows(): NameRows {
    if (this.#nameRows === null) {
      this.#nameRows = rowsByName(specialColumn(this.#open(), ROLE_NAME))
      this.bytes += this.#nameRows.rows.byteLength + this.#nameRows.values.length * VALUE_BYTES
    }
    return this.#nameRows
  }

  /** The place of each row. */
  get places(): Uint16Array {
    const { places } = this.nameRows
    if (!this.#hasPlaces) this.bytes += places.byteLength
    this.#hasPlaces = true
    return places
  }

  get names(): DenseColumn {
    return this.#column('name', () => nameColumn(this.nameRows))
  }

  /** Chains of elements. */
  get elements(): DenseColumn {
    return this.#column('elements', () => this.#inOrder(specialColumn(this.#open(), ROLE_ELEMENTS)))
  }

  property(key: string, textOf: TextOf): DenseColumn {
    return this.#column(
      key,
      () => this.#inOrder(propertyColumn(this.#open(), key, textOf)),
      this.#properties,
    )
  }

  /** The pairs of one of its columns. */
  pairs(column: DenseColumn): PairCounts {
    return getOrAdd(this.#pairs, column, () => {
      const pairs = countPairs(this.nameRows, column)
      this.bytes += pairs?.byteLength ?? 0
      return pairs
    })
  }

  /** The ids of sessions. */
  sessions(textOf: TextOf): StoredSessions {
    if (this.#sessions === null) {
      const uuids = uuidColumn(this.#open(), SESSION_ID)
      if (uuids === null) return { ...this.property(SESSION_ID, textOf), uuids: null }
      this.#sessions = {
        ids: inNameOrder(uuids.ids, this.nameRows),
        values: [],
        uuids: uuids.uuids,
      }
      this.bytes += this.#sessions.ids.byteLength + uuids.uuids.byteLength
    }
    return this.#sessions
  }

  /** Gives up what only decoding needs, unless opening it again for the next column costs more than it takes. */
  close(): void {
    if (this.#summary.rows > SCAN_OPEN_ROWS_MAX) this.#view = null
    const bytes = this.#view?.heldBytes ?? 0
    this.bytes += bytes - this.#viewBytes
    this.#viewBytes = bytes
  }

  #inOrder({ ids, values }: DenseColumn): DenseColumn {
    // No row has a value, in whatever order.
    if (values.length === 1) return { ids, values }
    return { ids: inNameOrder(ids, this.nameRows), values }
  }

  #column(name: string, decode: () => DenseColumn, columns = this.#columns): DenseColumn {
    return getOrAdd(columns, name, () => {
      const column = decode()
      this.bytes += columnBytes(column)
      return column
    })
  }

  #open(): SegmentView {
    const { projectId, firstSequence } = this.summary
    const key = pairKey(projectId, firstSequence)
    this.#view ??= new SegmentView(this.#tables.groups, key, this.#sealed)
    return this.#view
  }
}

/** Keeps segments for the scans of one thread. */
export class ScanCache {
  readonly #tables: SegmentTables
  readonly #budget: BudgetShare
  readonly #segments = new Map<string, ScanSegment>()
  /** Lists of summaries without a merge since the cache was compared with them; further segments may come. */
  readonly #checked = new WeakSet<readonly SegmentSummary[]>()
  #bytes = 0
  #scan = 0

  constructor(tables: SegmentTables, budget: BudgetShare) {
    this.#tables = tables
    this.#budget = budget
  }

  /** An estimate of the memory that all segments take. */
  get bytes(): number {
    return this.#bytes
  }

  /** How many segments are kept. */
  get segmentCount(): number {
    return this.#segments.size
  }

  /**
   * Call it before the first segment of each scan, with the summaries of all segments of the project. Gives
   * up what merges have replaced: about 0.1 us a segment, once after each merge; and what is more than it may keep.
   */
  beginScan(projectId: number, summaries: readonly SegmentSummary[]): void {
    this.#scan++
    this.#makeRoom(0)
    if (this.#checked.has(summaries)) return
    this.#checked.add(summaries)
    for (const [name, { summary, bytes }] of this.#segments) {
      if (summary.projectId !== projectId) continue
      const { firstSequence, rows } = summary
      const now = summaries[placeBehind(summaries, firstSequence - 1)]
      if (now?.firstSequence === firstSequence && now.rows === rows) continue
      this.#segments.delete(name)
      this.#bytes -= bytes
    }
  }

  /**
   * Runs `use` on a segment. Throws what `use` throws, and `DamagedRecordError`.
   */
  use<T>(summary: SegmentSummary, use: (segment: ScanSegment) => T): T {
    const name = `${summary.projectId} ${summary.firstSequence}`
    const segment = this.#take(name, summary)
    try {
      return use(segment)
    } finally {
      segment.close()
      this.#keep(name, segment)
    }
  }

  #take(name: string, summary: SegmentSummary): ScanSegment {
    const known = this.#segments.get(name)
    if (known !== undefined) {
      this.#segments.delete(name)
      this.#bytes -= known.bytes
      if (known.isCurrent(summary)) return known
    }
    const sealed = this.#tables.headerAt(summary.projectId, summary.firstSequence)
    return new ScanSegment(this.#tables, summary, sealed)
  }

  #keep(name: string, segment: ScanSegment): void {
    if (!this.#makeRoom(segment.bytes)) return
    segment.lastScan = this.#scan
    this.#segments.set(name, segment)
    this.#bytes += segment.bytes
  }

  /** Gives up what earlier scans have used, the oldest first, until there is room. False: there is none. */
  #makeRoom(bytes: number): boolean {
    const bytesMax = budgetOf(this.#budget, this.#bytes)
    for (const [oldName, old] of this.#segments) {
      if (this.#bytes + bytes <= bytesMax || old.lastScan === this.#scan) break
      this.#segments.delete(oldName)
      this.#bytes -= old.bytes
    }
    return this.#bytes + bytes <= bytesMax
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

function columnBytes({ ids, values }: DenseColumn): number {
  if (values.length === 1) return VALUE_BYTES
  let bytes = ids.byteLength
  for (const value of values) bytes += VALUE_BYTES + sizeOf(value)
  return bytes
}

function sizeOf(value: unknown): number {
  if (typeof value === 'string') return value.length
  return typeof value === 'object' && value !== null ? JSON.stringify(value).length * 4 : 0
}
