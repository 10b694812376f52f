/**
 * Tells how many events of a segment have each name, by reading only its header. With these numbers, a scan can skip a
 * segment without any requested name. It can also count events without opening a segment, if all times of the segment
 * are in the same period.
 */
import { getOrAdd } from '../../../base/maps.ts'
import { pairKey } from '../../lmdb/keys.ts'
import { ERASED_NAME, type SegmentSummary } from '../format/segment-format.ts'
import type { SegmentTables } from '../format/segment-tables.ts'
import { SegmentView } from '../format/segment-view.ts'
import { SCAN_NAMES_MAX } from '../limits.ts'

/** The numbers of events in one segment, by name. */
export interface NameCounts {
  /** The number of events with each name. Names without events are missing. */
  readonly counts: ReadonlyMap<string, number>
  /** True if no event was erased. */
  readonly isWhole: boolean
}

/**
 * Caches the numbers of events by name, as long as the summaries of the segments exist. If the rows of a segment
 * change, the segment gets a new summary.
 */
export class SegmentCounts {
  readonly #tables: SegmentTables
  readonly #known = new WeakMap<SegmentSummary, NameCounts>()
  /** Each name once. Equal names of different segments then share one text in memory. */
  readonly #texts = new Map<string, string>()

  constructor(tables: SegmentTables) {
    this.#tables = tables
  }

  /**
   * Returns the numbers of events in a segment by name. Only the first call for a segment reads its header. Throws
   * `DamagedRecordError`.
   */
  of(summary: SegmentSummary): NameCounts {
    const known = this.#known.get(summary)
    if (known !== undefined) return known
    const { projectId, firstSequence, rows } = summary
    const sealed = this.#tables.headerAt(projectId, firstSequence)
    const view = new SegmentView(this.#tables.groups, pairKey(projectId, firstSequence), sealed)
    const counts = new Map<string, number>()
    let named = 0
    for (const [name, count] of view.directory.names) {
      if (count > 0) counts.set(this.#textOf(name), count)
      if (name !== ERASED_NAME) named += count
    }
    const found = { counts, isWhole: named === rows }
    this.#known.set(summary, found)
    return found
  }

  #textOf(name: string): string {
    if (this.#texts.size >= SCAN_NAMES_MAX) this.#texts.clear()
    return getOrAdd(this.#texts, name, () => name)
  }
}
