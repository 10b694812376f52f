/**
 * Whether an event is stored or gathered already. The uuid index only says where to look: fingerprints of
 * different events can be the same.
 */
import type { SegmentTables } from '../format/segment-tables.ts'
import type { RowIdentity, SegmentView } from '../format/segment-view.ts'
import { DUPLICATE_VIEWS_MAX } from '../limits.ts'
import type { OpenProject } from './open-project.ts'

/** Compares events with those at given places. */
export class DuplicateCheck {
  readonly #segments: SegmentTables
  #views: SegmentView[] = []

  constructor(segments: SegmentTables) {
    this.#segments = segments
  }

  /** Whether the event is at one of these S of the project. Throws `DamagedRecordError`. */
  isAmong(sequences: readonly number[], project: OpenProject, row: RowIdentity): boolean {
    for (const sequence of sequences) {
      // Sequences of other projects with the same fingerprint may not exist in this one.
      if (sequence > project.rows) continue
      const pending = project.isPendingRow(sequence, row)
      if (pending === true) return true
      if (pending !== null) continue
      const view = this.#viewOf(project.projectId, sequence)
      if (view.isRow(sequence - view.summary.firstSequence, row)) return true
    }
    return false
  }

  /** Segments were rewritten: what is decoded may be outdated. */
  forget(): void {
    this.#views = []
  }

  /** The stored segment of an event; those used last stay decoded. */
  #viewOf(projectId: number, sequence: number): SegmentView {
    const known = this.#views.find((view) => view.holds(projectId, sequence))
    if (known !== undefined) return known
    const view = this.#segments.segmentOf(projectId, sequence)
    this.#views.push(view)
    if (this.#views.length > DUPLICATE_VIEWS_MAX) this.#views.shift()
    return view
  }
}
