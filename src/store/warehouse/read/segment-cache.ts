/** The segments that a reader used last, with the columns that were decoded: the next page mostly needs them. */
import { pairKey } from '../../lmdb/keys.ts'
import { type SegmentTables, SegmentView } from '../format/segment-view.ts'
import { SEGMENT_VIEWS_BYTES_MAX, SEGMENT_VIEWS_MAX } from '../limits.ts'
import { missingSegment } from './segment-summaries.ts'

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
    this.#trim()
    return view
  }

  #trim(): void {
    let bytes = 0
    for (const view of this.#views.values()) bytes += view.heldBytes
    for (const [oldest, view] of this.#views) {
      const { size } = this.#views
      if (size === 1 || (size <= SEGMENT_VIEWS_MAX && bytes <= SEGMENT_VIEWS_BYTES_MAX)) break
      bytes -= view.heldBytes
      this.#views.delete(oldest)
    }
  }
}
