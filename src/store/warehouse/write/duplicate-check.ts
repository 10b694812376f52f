/**
 * Whether an event is stored or gathered already. The uuid index only says where to look: fingerprints of
 * different events can be the same.
 */
import type { SegmentTables } from '../format/segment-tables.ts'
import type { RowIdentity, SegmentView } from '../format/segment-view.ts'
import { DUPLICATE_VIEWS_MAX } from '../limits.ts'
import type { OpenProject } from './open-project.ts'

/** Whether an event counts as erased: its S, D, name and, when that matters, its time. */
export type ErasedTest = (
  projectId: number,
  sequence: number,
  row: RowIdentity,
  timestampMs: () => number,
) => boolean

/** Compares events with those at given places. */
export class DuplicateCheck {
  readonly #segments: SegmentTables
  readonly #isErased: ErasedTest
  #views: SegmentView[] = []

  constructor(segments: SegmentTables, isErased: ErasedTest) {
    this.#segments = segments
    this.#isErased = isErased
  }

  /** Whether the event is at one of these S of the project. Throws `DamagedRecordError`. */
  isAmong(sequences: readonly number[], project: OpenProject, row: RowIdentity): boolean {
    const { projectId } = project
    for (const sequence of sequences) {
      // Sequences of other projects with the same fingerprint may not exist in this one.
      if (sequence > project.rows) continue
      const pending = project.isPendingRow(sequence, row)
      if (pending === false) continue
      if (pending === true) {
        const timeOf = (): number => project.pendingTimeOf(sequence)
        if (this.#isErased(projectId, sequence, row, timeOf)) continue
        return true
      }
      const view = this.#viewOf(projectId, sequence)
      const index = sequence - view.summary.firstSequence
      if (!view.isRow(index, row)) continue
      const timeOf = (): number => view.timestamps[index] ?? 0
      if (!this.#isErased(projectId, sequence, row, timeOf)) return true
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
