/**
 * The summaries of a project's segments, kept between reads: only what was committed since the last
 * read is read, and everything again after a merge. About 3 us a segment.
 */
import type { Table } from '../../lmdb/environment.ts'
import { loadCounters } from '../format/event-projects.ts'
import type { SegmentSummary } from '../format/segment-format.ts'
import type { SegmentTables } from '../format/segment-view.ts'
import { CATALOGUE_PROJECTS_MAX } from '../limits.ts'

interface ProjectSummaries {
  readonly generation: number
  readonly summaries: SegmentSummary[]
}

/** Keeps summaries for one reader. */
export class SegmentCatalogue {
  readonly #tables: SegmentTables
  readonly #projects: Table
  readonly #known = new Map<number, ProjectSummaries>()

  /** `projects`: the table with the counters of projects. */
  constructor(tables: SegmentTables, projects: Table) {
    this.#tables = tables
    this.#projects = projects
  }

  /**
   * All summaries of a project in order of S, as of the reader's snapshot. Throws `DamagedRecordError` when
   * one cannot be read or is not there: nobody knows what it would say.
   */
  summaries(projectId: number): readonly SegmentSummary[] {
    const counters = loadCounters(this.#projects, projectId)
    if (counters === null) return []
    let known = this.#known.get(projectId)
    this.#known.delete(projectId)
    if (known === undefined || known.generation !== counters.generation) {
      known = { generation: counters.generation, summaries: [] }
    }
    const last = known.summaries.at(-1)
    const covered = last === undefined ? 0 : last.firstSequence + last.rows - 1
    if (covered < counters.rows) {
      const { rows } = counters
      for (const summary of this.#tables.summaries(projectId, covered + 1, rows)) {
        known.summaries.push(summary)
      }
    }
    this.#known.set(projectId, known)
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= CATALOGUE_PROJECTS_MAX) break
      this.#known.delete(oldest)
    }
    return known.summaries
  }
}
