/**
 * What one reader keeps of segments between reads: the segments that it used last, with the columns that
 * were decoded, because the next page mostly needs them; and the summaries of projects, of which only what
 * was committed or merged since the last read is read, and everything again after an erasure: about 3 us a
 * segment.
 */
import { keepNewest } from '../../../base/maps.ts'
import { erasedRows } from '../../identity/erasure-records.ts'
import type { Table } from '../../lmdb/environment.ts'
import { type EventTables, keysOf, numberInKey, pairKey } from '../../lmdb/keys.ts'
import { CATALOGUE_PROJECTS_MAX, SEGMENT_VIEWS_BYTES_MAX, SEGMENT_VIEWS_MAX } from '../limits.ts'
import { loadCounters } from './event-projects.ts'
import type { SegmentSummary } from './segment-format.ts'
import { SegmentTables } from './segment-tables.ts'
import { SegmentView } from './segment-view.ts'

interface ProjectSummaries {
  readonly generation: number
  /** Events that erasures have removed. */
  readonly erased: number
  readonly summaries: SegmentSummary[]
}

/** Opens segments, or gives those that are open and have not changed. */
export class SegmentReader extends SegmentTables {
  readonly #projects: Table
  readonly #jobs: Table
  readonly #viewBytesMax: number
  readonly #known = new Map<number, ProjectSummaries>()
  readonly #views = new Map<string, SegmentView>()

  /** `viewBytesMax`: of the segments that stay open. */
  constructor(tables: EventTables, viewBytesMax: number = SEGMENT_VIEWS_BYTES_MAX) {
    super(tables)
    this.#viewBytesMax = viewBytesMax
    this.#projects = tables.projects
    this.#jobs = tables.deletion_jobs
  }

  /**
   * All summaries of a project in order of S, as of the reader's snapshot; the same list until a merge, and
   * the same object for a segment whose rows are the same. Cost: after a merge 0.3 us for each segment. Throws `DamagedRecordError` when one cannot be read or is not there: nobody knows what it would say.
   */
  allSummaries(projectId: number): readonly SegmentSummary[] {
    const counters = loadCounters(this.#projects, projectId)
    if (counters === null) return []
    const { rows, generation } = counters
    let known = this.#known.get(projectId)
    if (known?.generation !== generation) {
      // Nothing else changes the rows of a segment.
      const erased = erasedRows(this.#jobs, projectId)
      const summaries = known?.erased === erased ? this.#unmerged(projectId, known.summaries) : []
      known = { generation, erased, summaries }
    }
    const last = known.summaries.at(-1)
    const covered = last === undefined ? 0 : last.firstSequence + last.rows - 1
    if (covered < rows) {
      // One by one: what was read stays when a later one is damaged.
      for (const summary of this.summaries(projectId, covered + 1, rows)) {
        known.summaries.push(summary)
      }
    }
    keepNewest(this.#known, projectId, known, CATALOGUE_PROJECTS_MAX)
    return known.summaries
  }

  /** How many events erasures had removed when `allSummaries` was asked last. */
  erasedOf(projectId: number): number {
    return this.#known.get(projectId)?.erased ?? 0
  }

  /** The summaries before the first segment that a merge has replaced, judged by keys alone. */
  #unmerged(projectId: number, before: readonly SegmentSummary[]): SegmentSummary[] {
    let count = 0
    let next = 1
    /** Those that are as long as they were: the one behind them begins where they ended. */
    let unmerged = 0
    for (const key of this.headers.getKeys(keysOf(projectId))) {
      if (numberInKey(key, 4) !== next) break
      unmerged = count
      const known = before[count]
      if (known?.firstSequence !== next) break
      next += known.rows
      count++
    }
    return before.slice(0, unmerged)
  }

  /** Bytes of the segments that are open, and how many they may take. */
  get held(): { readonly bytes: number; readonly bytesMax: number } {
    let bytes = 0
    for (const { heldBytes } of this.#views.values()) bytes += heldBytes
    return { bytes, bytesMax: this.#viewBytesMax }
  }

  /** Closes all segments. */
  release(): void {
    this.#views.clear()
  }

  override segmentAt(projectId: number, firstSequence: number): SegmentView {
    const header = this.headerAt(projectId, firstSequence)
    const name = `${projectId} ${firstSequence}`
    let view = this.#views.get(name)
    // A merge replaces a segment under its key; an equal header means equal groups.
    if (view?.hasHeader(header) !== true) {
      view = new SegmentView(this.groups, pairKey(projectId, firstSequence), header)
    }
    keepNewest(this.#views, name, view, SEGMENT_VIEWS_MAX)
    let bytes = 0
    for (const each of this.#views.values()) bytes += each.heldBytes
    for (const [oldest, { heldBytes }] of this.#views) {
      if (this.#views.size === 1 || bytes <= this.#viewBytesMax) break
      bytes -= heldBytes
      this.#views.delete(oldest)
    }
    return view
  }
}
