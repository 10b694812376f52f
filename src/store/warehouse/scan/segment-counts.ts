/**
 * How many events of each name a segment has, from its header alone: enough to pass over those without a name
 * that is asked for, and to count those that lie in one period as a whole without opening them.
 */
import { getOrAdd } from '../../../base/maps.ts'
import { pairKey } from '../../lmdb/keys.ts'
import { ERASED_NAME, type SegmentSummary } from '../format/segment-format.ts'
import type { SegmentTables } from '../format/segment-tables.ts'
import { SegmentView } from '../format/segment-view.ts'
import { SCAN_NAMES_MAX } from '../limits.ts'

/** Events of one segment. */
export interface NameCounts {
  /** Only names that events have. */
  readonly counts: ReadonlyMap<string, number>
  /** None of its events was erased. */
  readonly isWhole: boolean
}

/** Keeps the counts of segments for as long as their summaries live: rows that change get another summary. */
export class SegmentCounts {
  readonly #tables: SegmentTables
  readonly #known = new WeakMap<SegmentSummary, NameCounts>()
  /** Each text once: segments mostly have the same names. */
  readonly #texts = new Map<string, string>()

  constructor(tables: SegmentTables) {
    this.#tables = tables
  }

  /** Cost: reads the header once. Throws `DamagedRecordError`. */
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
