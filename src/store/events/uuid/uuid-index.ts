/**
 * The uuid index of the writing thread, by which duplicates are found. For the fingerprint of an event
 * (uuid-fingerprint.ts), the index returns the stored events that may have the same fingerprint. The newest entries are
 * in a table in memory. A full table becomes a run on the disk (uuid-run.ts) after the next commit. Eight runs of one
 * level are merged into one run of the next level, step by step. Each run has a Bloom filter in memory (1.5 bytes per
 * entry), so a new event usually costs no read.
 *
 *   table in memory  --flush-->  runs of level 0  --merge 8-->  runs of level 1  --merge 8-->  ...
 *
 * A result is only a candidate: the caller must read the event and compare it. After a crash, the table is built again
 * from the events after the last run, and an unfinished merge starts again.
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
/** The number of entries after which a merge checks whether its time is over. */
const SLICE_ENTRIES = 8192

/** The options of the index. The sizes are for tests. */
export interface UuidIndexOptions {
  /** When the table in memory has this number of entries, it becomes a run. */
  readonly tableEntriesMax?: number
  readonly runsPerMerge?: number
  /**
   * Receives an error for each damaged run. The run stays as it is. Without this function, damage throws
   * `DamagedRecordError`.
   */
  readonly onDamage?: DamageListener
}

interface LoadedRun {
  readonly run: UuidRun
  readonly filter: UuidFilter
  readonly cursor: RunCursor
}

interface Merge {
  readonly sources: readonly LoadedRun[]
  /**
   * For each run that still has entries to merge: a cursor at the next of these entries. Null until the merge begins to
   * read.
   */
  cursors: RunCursor[] | null
  readonly writer: RunWriter
  readonly level: number
}

/** The uuid index of the writing thread. There is one for each store. */
export class UuidIndex {
  readonly #tables: UuidTables
  readonly #table = new UuidTable()
  /** When the table in memory has this number of entries, it becomes a run. */
  readonly tableEntriesMax: number
  readonly #runsPerMerge: number
  #runs: LoadedRun[]
  #merge: Merge | null = null
  /** Runs that must not be merged any more, because a merge with them has met damage. */
  readonly #unmergeable = new Set<LoadedRun>()
  readonly #onDamage: DamageListener
  /**
   * The numbers of runs whose chunks must be removed: those that were never published (uuid-run.ts), and those that
   * were merged into a later run.
   */
  #leftovers: number[]
  #nextRun: number

  /**
   * Reads the directories and filters of all runs, which takes about 2 ms for a million entries. Throws
   * `DamagedRecordError`.
   */
  constructor(tables: UuidTables, options: UuidIndexOptions = {}) {
    this.#tables = tables
    this.tableEntriesMax = options.tableEntriesMax ?? UUID_TABLE_ENTRIES_MAX
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

  /** The number of entries in the table in memory. */
  get tableEntries(): number {
    return this.#table.count
  }

  /**
   * The number of bytes of the table in memory and of all filters. `bytesMax` is the largest size of the table plus the
   * present size of the filters, because only the table has a limit. The filters grow with the number of events. The
   * table exceeds its limit only within a commit of very many events, and while the disk has no space for a run.
   */
  get memory(): { readonly bytes: number; readonly bytesMax: number } {
    const filters = this.#runs.reduce((sum, { filter }) => sum + filter.words.byteLength, 0)
    const tableMax = UuidTable.bytesOf(this.tableEntriesMax)
    return { bytes: filters + this.#table.bytes, bytesMax: filters + tableMax }
  }

  get runCount(): number {
    return this.#runs.length
  }

  /** Adds an event. The halves of its fingerprint are signed numbers. */
  add(high: number, low: number, sequence: number): void {
    this.#table.add(high, low, sequence)
  }

  /** Adds the events in the rows of a stored segment, from `firstRow` on. */
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

  /**
   * Appends the sequence numbers of all events that may have the fingerprint to `found`. The halves are signed numbers.
   */
  find(high: number, low: number, found: number[]): void {
    this.#table.find(high, low, found)
    for (const loaded of this.#runs) {
      if (loaded.filter.mayHave(high, low)) loaded.cursor.collect(high >>> 0, low >>> 0, found)
    }
  }

  /** True if the table is full. `flush` must then be called after the commit. */
  get isFull(): boolean {
    return this.#table.count >= this.tableEntriesMax
  }

  /**
   * Writes the table in memory to the disk as a run. `transaction` must call its parameter once within a write
   * transaction, and in the same transaction update `indexedRows` of every project that has events in the table. If
   * `transaction` throws because the transaction was rolled back, the index is as it was before.
   */
  flush(transaction: (write: () => void) => void): void {
    const writer = new RunWriter(this.#tables, this.#nextRun, this.#table.count)
    let run: UuidRun | null = null
    transaction(() => {
      this.#table.visitSorted((high, low, sequence) => writer.add(high, low, sequence))
      run = writer.publish(0)
    })
    if (run === null) throw new Error('the transaction of the index wrote nothing')
    this.#nextRun++
    this.#table.clear(this.tableEntriesMax)
    this.#runs.push(this.#load(run, writer.filter))
  }

  /** True if `maintain` has work to do. */
  get hasWork(): boolean {
    return this.#merge !== null || this.#leftovers.length > 0 || this.#mergeable() !== null
  }

  /**
   * Does one step: removes some chunks that are no longer needed, or if there are none, merges runs until `isOver`
   * returns true. Call it only within a write transaction.
   */
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

  /**
   * Merges entries until `isOver` returns true. Returns whether the merge has read all its entries. Throws
   * `DamagedRecordError`.
   */
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

  /**
   * Gives up a merge that has met damage. Its runs stay as they are and are still searched. A search that meets the
   * damage reports it.
   */
  #abandon({ sources, writer }: Merge): void {
    for (const source of sources) this.#unmergeable.add(source)
    this.#leftovers.push(writer.number)
    this.#merge = null
  }

  #load(run: UuidRun, filter: UuidFilter): LoadedRun {
    return { run, filter, cursor: new RunCursor(this.#tables, run) }
  }

  /**
   * Returns the runs to merge next: the oldest ones of the lowest level that has enough runs. Returns null if no level
   * has enough.
   */
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

/** Creates the filter of a run from the run's entries. Throws `DamagedRecordError`. */
function makeFilter(tables: UuidTables, run: UuidRun): UuidFilter {
  const filter = UuidFilter.forEntries(run.entries)
  const cursor = new RunCursor(tables, run)
  while (cursor.next()) filter.add(cursor.high | 0, cursor.low | 0)
  return filter
}
