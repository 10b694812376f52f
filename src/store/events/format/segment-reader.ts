/**
 * Caches segments and their summaries for one reader. The segments that were used last stay open with their decoded
 * columns, because the next page usually needs the same segments. After new events, only the summaries of new segments
 * are read. After a merge, the summaries from the first merged segment on are read again, and after an erasure, all
 * summaries of the project. Reading a summary takes about 3 us.
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
  /** The number of events that erasures had removed from the project when the summaries were read. */
  readonly erased: number
  readonly summaries: SegmentSummary[]
}

/** Opens segments, or returns cached ones that have not changed. */
export class SegmentReader extends SegmentTables {
  readonly #projects: Table
  readonly #jobs: Table
  readonly #viewBytesMax: number
  readonly #known = new Map<number, ProjectSummaries>()
  readonly #views = new Map<string, SegmentView>()

  /** `viewBytesMax` is the largest number of bytes that the cached segments may have. */
  constructor(tables: EventTables, viewBytesMax: number = SEGMENT_VIEWS_BYTES_MAX) {
    super(tables)
    this.#viewBytesMax = viewBytesMax
    this.#projects = tables.projects
    this.#jobs = tables.deletion_jobs
  }

  /**
   * Returns the summaries of all segments of a project, in the order of their sequence numbers, in the reader's
   * snapshot. Callers may compare the results by identity: the list is the same object until the next merge, and the
   * summary of a segment is the same object until the rows of the segment change. The first call after a merge takes
   * 0.3 us for each segment. Throws `DamagedRecordError` if a summary cannot be read or is missing.
   */
  allSummaries(projectId: number): readonly SegmentSummary[] {
    const counters = loadCounters(this.#projects, projectId)
    if (counters === null) return []
    const { rows, generation } = counters
    let known = this.#known.get(projectId)
    if (known?.generation !== generation) {
      // Only merges and erasures change the rows of a segment.
      const erased = erasedRows(this.#jobs, projectId)
      const summaries = known?.erased === erased ? this.#unmerged(projectId, known.summaries) : []
      known = { generation, erased, summaries }
    }
    const last = known.summaries.at(-1)
    const covered = last === undefined ? 0 : last.firstSequence + last.rows - 1
    if (covered < rows) {
      // Add the summaries one by one, so that the earlier ones stay cached if a later one is damaged.
      for (const summary of this.summaries(projectId, covered + 1, rows)) {
        known.summaries.push(summary)
      }
    }
    keepNewest(this.#known, projectId, known, CATALOGUE_PROJECTS_MAX)
    return known.summaries
  }

  /**
   * Returns the number of events that erasures had removed when `allSummaries` last read the summaries of the project.
   */
  erasedOf(projectId: number): number {
    return this.#known.get(projectId)?.erased ?? 0
  }

  /**
   * Returns the cached summaries that are still right, which are those before the first segment that a merge has
   * changed. Reads only the keys of the segments.
   */
  #unmerged(projectId: number, before: readonly SegmentSummary[]): SegmentSummary[] {
    let count = 0
    let next = 1
    /**
     * The number of segments that are certainly unchanged. A segment is unchanged if the next segment still begins with
     * the same sequence number as before.
     */
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

  /** The number of bytes of the cached segments, and the largest number that they may have. */
  get held(): { readonly bytes: number; readonly bytesMax: number } {
    let bytes = 0
    for (const { heldBytes } of this.#views.values()) bytes += heldBytes
    return { bytes, bytesMax: this.#viewBytesMax }
  }

  /** Evicts all segments. */
  release(): void {
    this.#views.clear()
  }

  override segmentAt(projectId: number, firstSequence: number): SegmentView {
    const header = this.headerAt(projectId, firstSequence)
    const name = `${projectId} ${firstSequence}`
    let view = this.#views.get(name)
    // The key alone is not enough, because a merge replaces a segment under the same key. If the headers are equal, the
    // groups are equal too.
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
