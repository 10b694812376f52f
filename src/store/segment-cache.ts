/** The segments that a reader used last, with the columns that were decoded: the next page mostly needs them. */
import { pairKey } from './keys.ts'
import { missingSegment } from './segment-summaries.ts'
import { type SegmentTables, SegmentView } from './segment-view.ts'

/** A decoded segment takes some megabytes. */
const VIEWS_MAX = 8

/** Opens segments, or gives those that are open and have not changed. */
export class SegmentCache {
  readonly #tables: SegmentTables
  readonly #views = new Map<string, SegmentView>()

  constructor(tables: SegmentTables) {
    this.#tables = tables
  }

  /** The segment that holds S, which is one of the project's. Throws `DamagedRecordError`. */
  holding(projectId: number, sequence: number): SegmentView {
    const view = this.open(projectId, this.#tables.firstSequenceOf(projectId, sequence))
    if (!view.holds(projectId, sequence)) throw missingSegment(projectId, sequence)
    return view
  }

  /** The segment that begins at `firstSequence`, as its summary said. Throws `DamagedRecordError`. */
  open(projectId: number, firstSequence: number): SegmentView {
    const key = pairKey(projectId, firstSequence)
    const header = this.#tables.headerAt(projectId, firstSequence)
    const name = `${projectId} ${firstSequence}`
    let view = this.#views.get(name)
    this.#views.delete(name)
    // A merge replaces a segment under its key; an equal header means equal groups.
    if (view?.hasHeader(header) !== true) view = new SegmentView(this.#tables, key, header)
    this.#views.set(name, view)
    for (const oldest of this.#views.keys()) {
      if (this.#views.size <= VIEWS_MAX) break
      this.#views.delete(oldest)
    }
    return view
  }
}
