/**
 * Plans and makes merges of small segments. Small commits create small segments. Each of them needs a header, and they
 * compress badly. Neighboring segments that are smaller than a certain size are merged when together they reach this
 * size. There are several such sizes: 16, 256, 4096 rows and so on. So an event is rewritten at most three times, or
 * only once if each commit contains some hundred events.
 */
import { getOrAdd } from '../../../base/maps.ts'
import type { ColumnBuilder } from '../format/column-builder.ts'
import { addOwn, SEGMENT_ROWS_TARGET, type SegmentBuilder } from '../format/segment-builder.ts'
import {
  ERASED_NAME,
  MODE_MIRROR,
  ROLE_ELEMENTS,
  ROLE_PROPERTY,
  ROLE_REST,
} from '../format/segment-format.ts'
import type { ColumnView, SegmentView } from '../format/segment-view.ts'
import { valueBytes } from '../format/value-bytes.ts'
import { MERGE_SOURCES_MAX, SEGMENT_ROWS_MAX } from '../limits.ts'

const TIER_FACTOR = 16
/**
 * The smallest number of segments that a merge joins. Fewer segments are joined only if together they nearly fill a
 * segment.
 */
const SOURCES_MIN = 16
/**
 * A column is stored as a plain list only if the list has at most this many times as many bytes as the column's
 * dictionary, plus `REPEATED_BYTES_IGNORED`.
 */
const REPEATED_PART = 9 / 8
const REPEATED_BYTES_IGNORED = 4096

/** The number of rows of a segment, for planning merges. */
export interface SegmentSize {
  readonly firstSequence: number
  readonly rows: number
}

/** The segments to merge, given by their indexes in the list: from `start` to `end - 1`. */
export interface MergePlan {
  readonly start: number
  readonly end: number
}

/**
 * Returns the next merge of a project, or null if none is worthwhile. `segments` are in the order of their sequence
 * numbers. `rowsTarget` is the number of rows of a full segment. It goes through the list a few times.
 */
export function planMerge(
  segments: readonly SegmentSize[],
  rowsTarget = SEGMENT_ROWS_TARGET,
): MergePlan | null {
  const rowsMax = Math.min(rowsTarget * 2, SEGMENT_ROWS_MAX)
  for (let size = TIER_FACTOR; ; size *= TIER_FACTOR) {
    // A segment that is at least half full is not merged.
    const below = Math.min(size, rowsTarget / 2)
    const plan = planTier(segments, below, rowsTarget)
    if (plan !== null) return plan
    if (below === rowsTarget / 2) break
  }
  return planStrays(segments, rowsTarget / 2, rowsMax)
}

/**
 * Returns the first series of neighboring segments that is worth merging. Each of them has fewer rows than `below`.
 * Returns null if there is none.
 */
function planTier(
  segments: readonly SegmentSize[],
  below: number,
  rowsTarget: number,
): MergePlan | null {
  const isWorth = (count: number, rows: number): boolean =>
    count > 1 && rows >= below && (count >= SOURCES_MIN || rows >= rowsTarget * 0.75)
  let start = 0
  let rows = 0
  for (let index = 0; index < segments.length; index++) {
    const next = segments[index]?.rows ?? 0
    if (next >= below) {
      if (isWorth(index - start, rows)) return { start, end: index }
      start = index + 1
      rows = 0
    } else if (rows + next > rowsTarget || index - start >= MERGE_SOURCES_MAX) {
      if (isWorth(index - start, rows)) return { start, end: index }
      start = index
      rows = next
    } else rows += next
  }
  const end = segments.length
  return isWorth(end - start, rows) ? { start, end } : null
}

/**
 * Returns a merge that appends the small segments between two full segments to the first of the two. They would
 * otherwise never be merged. Returns null if there are none.
 */
function planStrays(
  segments: readonly SegmentSize[],
  full: number,
  rowsMax: number,
): MergePlan | null {
  for (let index = 1; index < segments.length - 1; index++) {
    const rows = segments[index]?.rows ?? 0
    if (rows >= full) continue
    let end = index
    let total = segments[index - 1]?.rows ?? 0
    while (end < segments.length && (segments[end]?.rows ?? 0) < full) {
      total += segments[end]?.rows ?? 0
      end++
    }
    const isEnclosed = end < segments.length
    if (isEnclosed && total <= rowsMax) return { start: index - 1, end }
    index = end
  }
  return null
}

/**
 * Appends all rows of a stored segment to a builder. Rows that are marked in `deleted` keep their position, because it
 * determines the sequence number. But they lose their contents: their distinct ID number becomes 0, their name becomes
 * empty, and they have no uuid, no properties and no time of their own.
 */
export function appendSegment(
  builder: SegmentBuilder,
  view: SegmentView,
  deleted: Uint8Array | null = null,
): void {
  const { rows } = view.summary
  const first = builder.rows
  const { timestamps, arrivals, distinctIds, names } = view
  const uuid = new Uint8Array(16)
  const nameIds = names.values.map((name) => builder.names.idOf(String(name)))
  const { firstArrivalMs } = view.summary
  const firstTimestampMs = deleted === null ? 0 : firstKept(view, deleted)
  const noUuid = new Uint8Array(16)
  for (let row = 0; row < rows; row++) {
    if (deleted?.[row] === 1) {
      const target = builder.beginRow(0, firstTimestampMs, firstArrivalMs, 0, noUuid, 0)
      builder.setName(target, builder.names.idOf(ERASED_NAME))
      continue
    }
    view.copyUuid(row, uuid, 0)
    const target = builder.beginRow(
      distinctIds[row] ?? 0,
      timestamps[row] ?? 0,
      arrivals[row] ?? 0,
      view.modeOf(row),
      uuid,
      0,
    )
    builder.setName(target, nameIds[names.ids[row] ?? 0] ?? 0)
  }
  // If all rows are deleted, no column is read, because columns might have to be fetched from the warehouse.
  if (deleted?.every((mark) => mark === 1) !== true) appendColumns(builder, view, first, deleted)
}

/**
 * Returns the earliest timestamp of the rows that are not deleted. The header must not reveal the time of an erased
 * event.
 */
function firstKept({ timestamps, summary }: SegmentView, deleted: Uint8Array): number {
  let first = Number.POSITIVE_INFINITY
  for (let row = 0; row < timestamps.length; row++) {
    if (deleted[row] !== 1) first = Math.min(first, timestamps[row] ?? first)
  }
  return first === Number.POSITIVE_INFINITY ? summary.firstTimestampMs : first
}

type Spilled = Map<number, Record<string, unknown>>

function appendColumns(
  builder: SegmentBuilder,
  view: SegmentView,
  first: number,
  deleted: Uint8Array | null,
): void {
  const spilled: Spilled = new Map()
  for (const entry of view.directory.columns) {
    const whole = view.column(entry)
    const column = deleted === null ? whole : withoutRows(whole, deleted)
    if (column.present.length === 0) continue
    if (entry.role === ROLE_PROPERTY) {
      const target = builder.columnOf(entry.key)
      if (target === null) spill(spilled, column, (row) => builder.textOfRow(first + row))
      else appendProperty(builder, target, column, first)
    } else if (entry.role === ROLE_ELEMENTS) appendValues(builder.elements, column, first)
    else if (entry.role === ROLE_REST) {
      for (const [index, row] of column.present.entries()) {
        const value = column.values[column.ids[index] ?? 0]
        // The cast is right: the column of shared properties contains only objects.
        for (const [key, own] of Object.entries(value as object)) spillOne(spilled, row, key, own)
      }
    }
  }
  const spilledRows = [...spilled].sort(([a], [b]) => a - b)
  for (const [row, properties] of spilledRows) builder.rest.put(first + row, properties)
}

function withoutRows(column: ColumnView, deleted: Uint8Array): ColumnView {
  const { present, ids } = column
  const isKept = (_: number, index: number): boolean => deleted[present[index] ?? 0] !== 1
  return { ...column, present: present.filter(isKept), ids: ids.filter(isKept) }
}

function appendProperty(
  builder: SegmentBuilder,
  target: ColumnBuilder,
  column: ColumnView,
  first: number,
): void {
  if (column.entry.mode !== MODE_MIRROR) {
    if (target.isMirror) builder.unmirror(target, first)
    appendValues(target, column, first)
    return
  }
  if (target.count === 0) target.isMirror = true
  for (const row of column.present) {
    if (target.isMirror) target.putMirror(first + row)
    else target.put(first + row, builder.textOfRow(first + row))
  }
}

function appendValues(target: ColumnBuilder, column: ColumnView, first: number): void {
  const { present, ids, values } = column
  if (target.isPlain && repeatsMuch(column)) target.makeDictionary(first)
  const known = new Uint16Array(values.length)
  for (let index = 0; index < present.length; index++) {
    const row = first + (present[index] ?? 0)
    const id = ids[index] ?? 0
    const targetId = known[id] ?? 0
    if (targetId !== 0 && !target.isPlain) target.putKnown(row, targetId)
    else {
      target.put(row, values[id])
      known[id] = target.ids[row] ?? 0
    }
  }
}

/** Returns whether a list with one value for each row would be much larger than the column's dictionary. */
function repeatsMuch({ present, ids, values }: ColumnView): boolean {
  if (present.length <= values.length) return false
  const sizes = values.map(valueBytes)
  const valuesBytes = sizes.reduce((sum, size) => sum + size, 0)
  let listBytes = 0
  for (let index = 0; index < present.length; index++) listBytes += sizes[ids[index] ?? 0] ?? 0
  return listBytes > valuesBytes * REPEATED_PART + REPEATED_BYTES_IGNORED
}

/**
 * Collects the values of a property that gets no column of its own in the merged segment, because there are too many.
 */
function spill(spilled: Spilled, column: ColumnView, textOf: (row: number) => string): void {
  const isMirror = column.entry.mode === MODE_MIRROR
  for (const [index, row] of column.present.entries()) {
    const value = isMirror ? textOf(row) : column.values[column.ids[index] ?? 0]
    spillOne(spilled, row, column.entry.key, value)
  }
}

function spillOne(spilled: Spilled, row: number, key: string, value: unknown): void {
  addOwn(
    getOrAdd(spilled, row, () => ({})),
    key,
    value,
  )
}
