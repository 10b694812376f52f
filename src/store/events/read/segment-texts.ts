/**
 * Reads the events of a segment so that they can be copied to ClickHouse. The fixed columns are read as numbers. A
 * property is read as the JSON text that is stored, without parsing it. Equal values of a segment share one text.
 */
import type { JsonBytes } from '../../../base/json-bytes.ts'
import { getOrAdd } from '../../../base/maps.ts'
import type { ColumnSource, ColumnTexts, CopiedSegment } from '../../../ports/warehouse.ts'
import type { ErasureTarget } from '../../../rules/events/erasure-job.ts'
import { loadDistinctText } from '../../identity/distinct-ids.ts'
import { loadCopied, loadJob } from '../../identity/erasure-records.ts'
import { Environment } from '../../lmdb/environment.ts'
import {
  EVENTS_ENVIRONMENT,
  EVENTS_TABLES,
  type EventsTable,
  type EventTables,
} from '../../lmdb/keys.ts'
import {
  columnOf,
  isSame,
  mayGiveAway,
  setColumnSource,
  staysHere,
} from '../format/away-columns.ts'
import { loadAllCounters } from '../format/event-projects.ts'
import { SEGMENT_BYTES_TARGET, SEGMENT_ROWS_TARGET } from '../format/segment-builder.ts'
import {
  type ColumnEntry,
  MODE_MIRROR,
  ROLE_ELEMENTS,
  ROLE_PROPERTY,
  ROLE_REST,
} from '../format/segment-format.ts'
import { SegmentTables } from '../format/segment-tables.ts'
import { VALUES_UUID } from '../format/segment-values.ts'
import type { ColumnIndex, SegmentView, StoredValues } from '../format/segment-view.ts'
import { DISTINCT_TEXTS_KEPT_MAX } from '../limits.ts'

/**
 * Writes the length of a text in the form that ClickHouse's formats RowBinary and Native use. The caller must write the
 * text next.
 */
function writeLength(target: JsonBytes, bytes: number): void {
  let rest = bytes
  while (rest > 127) {
    target.writeByte((rest & 127) | 128)
    rest >>>= 7
  }
  target.writeByte(rest)
}

/** Writes a text preceded by its length. */
function writeSized(target: JsonBytes, text: string): void {
  writeLength(target, Buffer.byteLength(text))
  target.writeText(text)
}

/**
 * Sets the object by which this thread reads columns that were moved to the warehouse. Null: the thread cannot read
 * such columns.
 */
export function findColumnsIn(source: ColumnSource | null): void {
  setColumnSource(source)
}

/**
 * The properties of the rows, as parallel arrays. The properties of row `i` are at the indexes from `ends[i]` to
 * `ends[i + 1] - 1`.
 */
export interface TextRows {
  /**
   * For each property of each row: the offset in the arena of its name, and the offset of its JSON text. At each
   * offset, the length of the text comes first, then the text.
   */
  readonly keys: Uint32Array
  readonly texts: Uint32Array
  readonly ends: Uint32Array
  readonly arena: JsonBytes
}

/** One segment, opened so that its events can be copied. It is valid until the next segment is read. */
export class SegmentTexts {
  readonly view: SegmentView
  readonly #textOf: (distinctId: number) => string

  constructor(view: SegmentView, textOf: (distinctId: number) => string) {
    this.view = view
    this.#textOf = textOf
  }

  /** Writes a distinct_id, preceded by its length, into `arena`. Returns the offset of the length. */
  distinctChunk(arena: JsonBytes, distinctId: number): number {
    return sizedChunk(arena, this.#textOf(distinctId))
  }

  /**
   * Writes the event names into `arena`. Returns the offset of each name, at the index that `view.names.ids` uses for
   * it.
   */
  nameChunks(arena: JsonBytes): readonly number[] {
    return this.view.names.values.map((name) => sizedChunk(arena, String(name)))
  }

  /**
   * Writes the element chains into `arena`. Returns their offsets, by row. Rows without elements are missing in the
   * result.
   */
  elementChunks(arena: JsonBytes): ReadonlyMap<number, number> {
    const chunks = new Map<number, number>()
    const entry = this.view.special(ROLE_ELEMENTS)
    if (entry === undefined) return chunks
    const { present, ids, values } = this.view.column(entry)
    const known = values.map((value) => sizedChunk(arena, String(value)))
    for (const [index, row] of present.entries()) chunks.set(row, known[ids[index] ?? 0] ?? 0)
    return chunks
  }

  /**
   * Writes the properties of all rows into `arena`, and returns where they are. Throws `DamagedRecordError`. It takes
   * about 20 ns for each value of each row.
   */
  properties(arena: JsonBytes): TextRows {
    const { view } = this
    const { rows } = view.summary
    const columns = view.directory.columns
      .filter(({ role }) => role === ROLE_PROPERTY)
      .map((entry) => ({ entry, index: view.indexOf(entry) }))
    const shared = sharedProperties(view)
    const ends = new Uint32Array(rows + 1)
    for (const { index } of columns) countRows(index.present, ends)
    for (const { row } of shared) ends[row + 1] = (ends[row + 1] ?? 0) + 1
    for (let row = 0; row < rows; row++) ends[row + 1] = (ends[row + 1] ?? 0) + (ends[row] ?? 0)
    const next = ends.slice()
    const found = {
      arena,
      ends,
      keys: new Uint32Array(ends[rows] ?? 0),
      texts: new Uint32Array(ends[rows] ?? 0),
    }
    for (const { entry, index } of columns) this.#addColumn(found, entry, index, next)
    for (const { row, key, value } of shared) {
      const position = next[row] ?? 0
      found.keys[position] = sizedChunk(arena, key)
      found.texts[position] = sizedChunk(arena, JSON.stringify(value))
      next[row] = position + 1
    }
    return found
  }

  /**
   * True if the columns of the segment may be moved to the warehouse: the segment is full, none of its columns was
   * moved before, and no properties share a column.
   */
  get mayGiveAway(): boolean {
    const { summary, valueBytes, directory } = this.view
    const isFull = summary.rows * 2 >= SEGMENT_ROWS_TARGET || valueBytes * 2 > SEGMENT_BYTES_TARGET
    return isFull && !summary.isAway && mayGiveAway(directory)
  }

  /**
   * Identifies the segment in its present state. Before the columns are removed from the store, this value is compared
   * with the segment to find out whether it has changed.
   */
  get copied(): CopiedSegment {
    const { projectId, firstSequence } = this.view.summary
    return { projectId, firstSequence, header: Uint8Array.from(this.view.header) }
  }

  /**
   * Returns whether `columns` contains every column that is to be moved, with the same bytes as the store. The keys of
   * `columns` are the names of the properties, and null for the elements.
   */
  isWhole(columns: ReadonlyMap<string | null, ColumnTexts>): boolean {
    const { view } = this
    return view.directory.columns.every((entry) => {
      if (staysHere(entry)) return true
      const found = columns.get(entry.role === ROLE_ELEMENTS ? null : entry.key)
      if (found === undefined) return false
      const made = columnOf(entry, found, view.summary.rows, 0)
      const parts = Buffer.concat([entry.index, entry.values].map((part) => view.partBytes(part)))
      return isSame(made.entry, entry) && parts.equals(made.group)
    })
  }

  #addColumn(found: TextRows, entry: ColumnEntry, index: ColumnIndex, next: Uint32Array): void {
    const { arena, keys, texts } = found
    const { view } = this
    const key = sizedChunk(arena, entry.key)
    const isMirror = entry.mode === MODE_MIRROR
    const stored = isMirror ? null : view.storedValues(entry)
    // For each value: the offset of its text. 0 means that the value is not written yet; no text has the offset 0. In a
    // mirror, the value of each row is its distinct_id, so a map finds the texts by distinct ID number.
    const starts = isMirror ? new Map<number, number>() : new Uint32Array(entry.valueCount)
    const { present, ids } = index
    for (let at = 0; at < present.length; at++) {
      const row = present[at] ?? 0
      let start: number
      if (starts instanceof Map) {
        const number = view.distinctIds[row] ?? 0
        start = starts.get(number) ?? 0
        if (start === 0) {
          start = sizedChunk(arena, JSON.stringify(this.#textOf(number)))
          starts.set(number, start)
        }
      } else {
        const id = ids[at] ?? 0
        start = starts[id] ?? 0
        if (start === 0 && stored !== null) {
          start = valueChunk(arena, entry, stored, id)
          starts[id] = start
        }
      }
      const position = next[row] ?? 0
      keys[position] = key
      texts[position] = start
      next[row] = position + 1
    }
  }
}

function countRows(present: Uint16Array, ends: Uint32Array): void {
  for (let index = 0; index < present.length; index++) {
    const row = present[index] ?? 0
    ends[row + 1] = (ends[row + 1] ?? 0) + 1
  }
}

/** Returns the properties that have no column of their own, each with its row. */
function sharedProperties(view: SegmentView) {
  const entry = view.special(ROLE_REST)
  if (entry === undefined) return []
  const { present, ids, values } = view.column(entry)
  return [...present].flatMap((row, index) => {
    // The cast is right: the column of shared properties contains only objects.
    const properties = values[ids[index] ?? 0] as Readonly<Record<string, unknown>>
    return Object.entries(properties).map(([key, value]) => ({ row, key, value }))
  })
}

function sizedChunk(arena: JsonBytes, text: string): number {
  const chunk = arena.beginChunk()
  writeSized(arena, text)
  arena.endChunk(chunk)
  return chunk
}

function valueChunk(
  arena: JsonBytes,
  entry: ColumnEntry,
  { bytes, places, numbers }: StoredValues,
  id: number,
): number {
  const chunk = arena.beginChunk()
  if (places !== null) {
    const start = places[id] ?? 0
    // The values form a JSON array. The byte before the next value is a comma or the closing bracket, so this value
    // ends before that byte.
    const end = (places[id + 1] ?? 0) - 1
    writeLength(arena, end - start)
    arena.writeBytes(bytes, start, end)
  } else if (numbers !== null) {
    // The text of a number has fewer than 128 bytes, so one byte is enough for its length.
    const at = arena.length
    arena.writeByte(0)
    arena.writeNumber(numbers[id] ?? 0)
    arena.bytes[at] = arena.length - at - 1
  } else {
    const width = entry.width / 2
    if (entry.encoding === VALUES_UUID) {
      writeLength(arena, 38)
      arena.writeUuid(bytes, id * width)
    } else {
      writeLength(arena, entry.width + 2)
      arena.writeHex(bytes, id * width, width)
    }
  }
  arena.endChunk(chunk)
  return chunk
}

/** Reads the segments of a store so that they can be copied, while other threads of the daemon use the store. */
export class StoredSegments {
  readonly #environment: Environment<EventsTable>
  readonly #tables: EventTables
  readonly #segments: SegmentTables
  /** The texts of distinct_ids of one project that stay cached, by distinct ID number. */
  readonly #texts = new Map<number, string>()
  #projectOfTexts = 0

  constructor(dataDir: string) {
    this.#environment = new Environment({
      dataDir,
      name: EVENTS_ENVIRONMENT,
      tables: EVENTS_TABLES,
      isReadOnly: false,
    })
    this.#tables = this.#environment.tables
    this.#segments = new SegmentTables(this.#tables)
  }

  /**
   * Returns, for each project, the sequence number of its newest event. Refreshes the snapshot first. Throws
   * `DamagedRecordError`.
   */
  projects(): ReadonlyMap<number, number> {
    this.#environment.refresh()
    const counters = [...loadAllCounters(this.#tables.projects)]
    return new Map(counters.map(([projectId, { rows }]) => [projectId, rows]))
  }

  /**
   * Yields the segments that still have all their columns and whose events all arrived by the time `arrivedMs`. Each is
   * given by its first sequence number.
   */
  *oldSegments(projectId: number, last: number, arrivedMs: number): Generator<number> {
    for (const summary of this.#segments.summaries(projectId, 1, last)) {
      const { firstSequence, isAway, lastArrivalMs } = summary
      if (!isAway && lastArrivalMs <= arrivedMs) yield firstSequence
    }
  }

  /**
   * Returns the segment that contains a sequence number, in the state of the last call of `projects`. Throws
   * `DamagedRecordError`.
   */
  segmentOf(projectId: number, sequence: number): SegmentTexts {
    const view = this.#segments.segmentOf(projectId, sequence)
    if (projectId !== this.#projectOfTexts || this.#texts.size > DISTINCT_TEXTS_KEPT_MAX) {
      this.#projectOfTexts = projectId
      this.#texts.clear()
    }
    const load = (id: number): string => loadDistinctText(this.#tables, projectId, id)
    return new SegmentTexts(view, (id) => getOrAdd(this.#texts, id, load))
  }

  /**
   * Returns which events an erasure erases, as long as ClickHouse may still have some of them. Returns null afterward.
   * Throws `DamagedRecordError`.
   */
  erasure(projectId: number, number: number): ErasureTarget | null {
    this.#environment.refresh()
    const { copied_erasures, deletion_jobs } = this.#tables
    const copied = loadCopied(copied_erasures, projectId, number)
    // `copied` is null if there was no copy when the erasure was ordered, or if an older version was running then. In
    // both cases, the job itself says which events it erases.
    return copied ?? loadJob(deletion_jobs, projectId, number)
  }

  close(): Promise<void> {
    return this.#environment.close()
  }
}
