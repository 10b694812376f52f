/**
 * Counts the events of each name in a segment by reading only its header. With these counts, a scan can skip a segment
 * that has no events with a requested name. It can also count the events of a segment that lies completely within one
 * period.
 */
import { getOrAdd } from '../../../base/maps.ts'
import { pairKey } from '../../lmdb/keys.ts'
import { ERASED_NAME, type SegmentSummary } from '../format/segment-format.ts'
import type { SegmentTables } from '../format/segment-tables.ts'
import { SegmentView } from '../format/segment-view.ts'
import { SCAN_NAMES_MAX } from '../limits.ts'

/** The numbers of events in one segment. */
export interface NameCounts {
  /** The number of events by name, only for names with events. */
  readonly counts: ReadonlyMap<string, number>
  /** True if no event was erased. */
  readonly isWhole: boolean
}

/** Caches the counts of segments as long as their summaries exist. A segment whose rows change gets a new summary. */
export class SegmentCounts {
  readonly #tables: SegmentTables
  readonly #known = new WeakMap<SegmentSummary, NameCounts>()
  /** Each name once, so that equal names of different segments share one text in memory. */
  readonly #texts = new Map<string, string>()

  constructor(tables: SegmentTables) {
    this.#tables = tables
  }

  /** Returns the counts of a segment. The first call reads its header. Throws `DamagedRecordError`. */
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
