/**
 * The uuid index of the writing thread: which events may have a fingerprint. The newest entries are a
 * table in memory; when it is full it becomes a run on disk (uuid-run.ts) in the commit that follows.
 * Eight runs of one level are merged into one of the next, a slice at a time. Each run has a Bloom
 * filter in memory (1.5 bytes an entry), so that a new event costs no read.
 *
 * An answer is a candidate: the caller reads the event and compares. After a crash the table is built
 * again from the events behind the last run, and a merge that was not finished begins anew.
 */
import { attempt, type DamageListener, refuseDamage } from '../../faults.ts'
import { numberKey } from '../../lmdb/keys.ts'
import type { SegmentView } from '../format/segment-view.ts'
import { UUID_REMOVED_CHUNKS_MAX, UUID_TABLE_ENTRIES_MAX } from '../limits.ts'
import { UuidFilter } from './uuid-filter.ts'
import type { UuidFingerprint } from './uuid-fingerprint.ts'
import {
  loadChunkRuns,
  loadFilter,
  loadRuns,
  RunCursor,
  RunWriter,
  removeChunks,
  type UuidRun,
  type UuidTables,
} from './uuid-run.ts'
import { UuidTable } from './uuid-table.ts'

const RUNS_PER_MERGE = 8
/** Entries between two looks at the clock. */
const SLICE_ENTRIES = 8192

/** Sizes, for tests, and whom to tell of damage. */
export interface UuidIndexOptions {
  /** Entries of the table in memory that make it a run. */
  readonly tableEntriesMax?: number
  readonly runsPerMerge?: number
  /** Told of damaged runs, which stay as they are. Without it damage throws `DamagedRecordError`. */
  readonly onDamage?: DamageListener
}

interface LoadedRun {
  readonly run: UuidRun
  readonly filter: UuidFilter
  readonly cursor: RunCursor
}

interface Merge {
  readonly sources: readonly LoadedRun[]
  /** The sources that have entries left, each on its next one; null before the first is read. */
  cursors: RunCursor[] | null
  readonly writer: RunWriter
  readonly level: number
}

/** The index as the writing thread sees it. */
export class UuidIndex {
  readonly #tables: UuidTables
  readonly #table = new UuidTable()
  readonly #tableEntriesMax: number
  readonly #runsPerMerge: number
  #runs: LoadedRun[]
  #merge: Merge | null = null
  /** Runs that merge with no others, because one of them is damaged. */
  readonly #unmergeable = new Set<LoadedRun>()
  readonly #onDamage: DamageListener
  /** Runs that are not published (any more) and still have chunks. */
  #leftovers: number[]
  #nextRun: number

  /** Loads directories and filters: about 2 ms a million entries. Throws `DamagedRecordError`. */
  constructor(tables: UuidTables, options: UuidIndexOptions = {}) {
    this.#tables = tables
    this.#tableEntriesMax = options.tableEntriesMax ?? UUID_TABLE_ENTRIES_MAX
    this.#runsPerMerge = options.runsPerMerge ?? RUNS_PER_MERGE
    this.#onDamage = options.onDamage ?? refuseDamage
    this.#runs = loadRuns(tables).map((run) => {
      const filter = attempt(() => loadFilter(tables, run), this.#onDamage)
      return this.#load(run, filter ?? makeFilter(tables, run))
    })
    const numbers = new Set(this.#runs.map(({ run }) => run.number))
    const stored = loadChunkRuns(tables)
    this.#leftovers = stored.filter((number) => !numbers.has(number))
    this.#nextRun = Math.max(0, ...numbers, ...stored) + 1
  }

  /** Entries in memory. */
  get tableEntries(): number {
    return this.#table.count
  }

  /** Bytes of the table and of all filters; what is allowed is about the table, filters grow with the events. */
  get memory(): { readonly bytes: number; readonly bytesMax: number } {
    const filters = this.#runs.reduce((sum, { filter }) => sum + filter.words.byteLength, 0)
    const tableMax = UuidTable.bytesOf(this.#tableEntriesMax)
    return { bytes: filters + this.#table.bytes, bytesMax: filters + tableMax }
  }

  get runCount(): number {
    return this.#runs.length
  }

  /** Notes an event. Halves are signed. */
  add(high: number, low: number, sequence: number): void {
    this.#table.add(high, low, sequence)
  }

  /** Notes the events of a stored segment from `firstRow` on. */
  addRows(view: SegmentView, firstRow: number, fingerprint: UuidFingerprint): void {
    const { projectId, firstSequence, rows } = view.summary
    const { names, distinctIds } = view
    const hashes = names.values.map((name) => fingerprint.hashName(String(name)))
    const uuid = new Uint8Array(16)
    for (let row = firstRow; row < rows; row++) {
      view.copyUuid(row, uuid, 0)
      const hash = hashes[names.ids[row] ?? 0] ?? 0
      fingerprint.compute(projectId, uuid, 0, distinctIds[row] ?? 0, hash)
      this.add(fingerprint.high, fingerprint.low, firstSequence + row)
    }
  }

  /** Appends the S of every event that may have that fingerprint. Halves are signed. */
  find(high: number, low: number, found: number[]): void {
    this.#table.find(high, low, found)
    for (const loaded of this.#runs) {
      if (loaded.filter.mayHave(high, low)) loaded.cursor.collect(high >>> 0, low >>> 0, found)
    }
  }

  /** Whether the table is full: then `flush` in this commit. */
  get isFull(): boolean {
    return this.#table.count >= this.#tableEntriesMax
  }

  /** Makes the table a run. Only in a write transaction; the caller moves `indexedRows` in the same one. */
  flush(): void {
    const writer = new RunWriter(this.#tables, this.#nextRun++, this.#table.count)
    this.#table.visitSorted((high, low, sequence) => writer.add(high, low, sequence))
    const run = writer.publish(0)
    this.#table.clear()
    this.#runs.push(this.#load(run, writer.filter))
  }

  /** Whether `maintain` has something to do. */
  get hasWork(): boolean {
    return this.#merge !== null || this.#leftovers.length > 0 || this.#mergeable() !== null
  }

  /** One slice of merging or cleaning. Only in a write transaction; ends after `isOver` turned true. */
  maintain(isOver: () => boolean): void {
    const leftover = this.#leftovers[0]
    if (leftover !== undefined) {
      if (removeChunks(this.#tables, leftover, UUID_REMOVED_CHUNKS_MAX)) this.#leftovers.shift()
      return
    }
    this.#merge ??= this.#beginMerge()
    const merge = this.#merge
    if (merge === null) return
    const isRead = attempt(() => this.#readSlices(merge, isOver), this.#onDamage)
    if (isRead === null) this.#abandon(merge)
    else if (isRead) this.#publish(merge)
  }

  /** Whether all entries of a merge were read before time was over. Throws `DamagedRecordError`. */
  #readSlices(merge: Merge, isOver: () => boolean): boolean {
    merge.cursors ??= merge.sources
      .map(({ run }) => new RunCursor(this.#tables, run))
      .filter((cursor) => cursor.next())
    const { cursors, writer } = merge
    for (let moved = 1; ; moved++) {
      let least = cursors[0]
      if (least === undefined) return true
      for (const cursor of cursors) if (cursor.isBelow(least.high, least.low)) least = cursor
      writer.add(least.high, least.low, least.sequence)
      if (!least.next()) cursors.splice(cursors.indexOf(least), 1)
      if (moved % SLICE_ENTRIES === 0 && isOver()) return cursors.length === 0
    }
  }

  /** The runs stay as they are: they are still searched, and what is damaged is told when it is met. */
  #abandon({ sources, writer }: Merge): void {
    for (const source of sources) this.#unmergeable.add(source)
    this.#leftovers.push(writer.number)
    this.#merge = null
  }

  #load(run: UuidRun, filter: UuidFilter): LoadedRun {
    return { run, filter, cursor: new RunCursor(this.#tables, run) }
  }

  /** The oldest runs of the lowest level that has enough of them. */
  #mergeable(): readonly LoadedRun[] | null {
    const sound = this.#runs.filter((run) => !this.#unmergeable.has(run))
    const levels = [...new Set(sound.map(({ run }) => run.level))].sort((a, b) => a - b)
    for (const level of levels) {
      const runs = sound.filter(({ run }) => run.level === level)
      if (runs.length >= this.#runsPerMerge) return runs.slice(0, this.#runsPerMerge)
    }
    return null
  }

  #beginMerge(): Merge | null {
    const sources = this.#mergeable()
    if (sources === null) return null
    const entries = sources.reduce((sum, { run }) => sum + run.entries, 0)
    return {
      sources,
      cursors: null,
      writer: new RunWriter(this.#tables, this.#nextRun++, entries),
      level: (sources[0]?.run.level ?? 0) + 1,
    }
  }

  #publish(merge: Merge): void {
    const run = merge.writer.publish(merge.level)
    const merged = new Set(merge.sources)
    for (const { run: source } of merge.sources) {
      void this.#tables.uuid_runs.remove(numberKey(source.number))
      this.#leftovers.push(source.number)
    }
    this.#runs = this.#runs.filter((loaded) => !merged.has(loaded))
    this.#runs.push(this.#load(run, merge.writer.filter))
    this.#merge = null
  }
}

/** The filter of a run, made of its entries. Throws `DamagedRecordError`. */
function makeFilter(tables: UuidTables, run: UuidRun): UuidFilter {
  const filter = UuidFilter.forEntries(run.entries)
  const cursor = new RunCursor(tables, run)
  while (cursor.next()) filter.add(cursor.high | 0, cursor.low | 0)
  return filter
}
