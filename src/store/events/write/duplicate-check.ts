/**
 * Checks whether an event is a duplicate of another event that is already stored or waits for the next commit. A
 * duplicate has the same uuid, name and distinct ID (`RowIdentity` in ../format/segment-view.ts). The uuid index
 * returns only candidates, because different events can have the same fingerprint. This class compares them with the
 * event.
 */
import type { SegmentTables } from '../format/segment-tables.ts'
import type { RowIdentity, SegmentView } from '../format/segment-view.ts'
import { DUPLICATE_VIEWS_MAX } from '../limits.ts'
import type { OpenProject } from './open-project.ts'

/**
 * Returns whether an event counts as erased. The test needs the event's sequence number, distinct ID number and name,
 * and sometimes its time.
 */
export type ErasedTest = (
  projectId: number,
  sequence: number,
  row: RowIdentity,
  timestampMs: () => number,
) => boolean

/** Compares an event with the events that have given sequence numbers. */
export class DuplicateCheck {
  readonly #segments: SegmentTables
  readonly #isErased: ErasedTest
  #views: SegmentView[] = []

  constructor(segments: SegmentTables, isErased: ErasedTest) {
    this.#segments = segments
    this.#isErased = isErased
  }

  /**
   * Returns whether one of the events with these sequence numbers has the identity `row` and does not count as erased.
   * Throws `DamagedRecordError`.
   */
  isAmong(sequences: readonly number[], project: OpenProject, row: RowIdentity): boolean {
    const { projectId } = project
    for (const sequence of sequences) {
      // Entries of the index do not name their project. So the candidate may belong to another project, and its
      // sequence number may be too large for this project.
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

  /** Discards the segments that stay decoded. Call it after segments were rewritten. */
  forget(): void {
    this.#views = []
  }

  /** Returns the stored segment that contains an event. The segments that were used last stay decoded. */
  #viewOf(projectId: number, sequence: number): SegmentView {
    const known = this.#views.find((view) => view.holds(projectId, sequence))
    if (known !== undefined) return known
    const view = this.#segments.segmentOf(projectId, sequence)
    this.#views.push(view)
    if (this.#views.length > DUPLICATE_VIEWS_MAX) this.#views.shift()
    return view
  }
}
