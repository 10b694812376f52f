/**
 * What one reader keeps of segments between reads: the segments that it used last, with the columns that
 * were decoded, because the next page mostly needs them; and the summaries of projects, of which only what
 * was committed since the last read is read, and everything again after a merge: about 3 us a segment.
 */
import { keepNewest } from '../../../base/maps.ts'
import type { Table } from '../../lmdb/environment.ts'
import { type EventTables, pairKey } from '../../lmdb/keys.ts'
import { CATALOGUE_PROJECTS_MAX, SEGMENT_VIEWS_BYTES_MAX, SEGMENT_VIEWS_MAX } from '../limits.ts'
import { loadCounters } from './event-projects.ts'
import type { SegmentSummary } from './segment-format.ts'
import { SegmentTables } from './segment-tables.ts'
import { SegmentView } from './segment-view.ts'

interface ProjectSummaries {
  readonly generation: number
  readonly summaries: SegmentSummary[]
}

/** Opens segments, or gives those that are open and have not changed. */
export class SegmentReader extends SegmentTables {
  readonly #projects: Table
  readonly #known = new Map<number, ProjectSummaries>()
  readonly #views = new Map<string, SegmentView>()

  constructor(tables: EventTables) {
    super(tables)
    this.#projects = tables.projects
  }

  /**
   * All summaries of a project in order of S, as of the reader's snapshot; the same list until a merge.
   * Throws `DamagedRecordError` when one cannot be read or is not there: nobody knows what it would say.
   */
  allSummaries(projectId: number): readonly SegmentSummary[] {
    const counters = loadCounters(this.#projects, projectId)
    if (counters === null) return []
    const { rows, generation } = counters
    let known = this.#known.get(projectId)
    if (known?.generation !== generation) known = { generation, summaries: [] }
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
      if (this.#views.size === 1 || bytes <= SEGMENT_VIEWS_BYTES_MAX) break
      bytes -= heldBytes
      this.#views.delete(oldest)
    }
    return view
  }
}
