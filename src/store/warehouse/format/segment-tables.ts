/**
 * Finds stored segments by their headers. Segments of a project lie side by side without gaps, so that a
 * header which is missing is noticed like one that is damaged.
 */
import { attempt, DamagedRecordError, type DamageListener, refuseDamage } from '../../faults.ts'
import { unseal } from '../../lmdb/codec.ts'
import type { Table } from '../../lmdb/environment.ts'
import { type EventTables, keysOf, numberInKey, pairKey } from '../../lmdb/keys.ts'
import { lastKey } from '../../lmdb/records.ts'
import { decodeSummary, type SegmentSummary } from './segment-format.ts'
import { damagedSegment, SegmentView } from './segment-view.ts'

/** The two tables that hold segments. */
export class SegmentTables {
  readonly headers: Table
  readonly groups: Table

  constructor(tables: Pick<EventTables, 'segment_headers' | 'segment_groups'>) {
    this.headers = tables.segment_headers
    this.groups = tables.segment_groups
  }

  /**
   * Summaries of the project's segments that hold S `from`, where one begins, to `through`, in order.
   * Damaged and missing ones are left out and reported to `onDamage`; without it they throw
   * `DamagedRecordError`.
   */
  *summaries(
    projectId: number,
    from: number,
    through: number,
    onDamage: DamageListener = refuseDamage,
  ): Generator<SegmentSummary> {
    const range = { ...keysOf(projectId), start: pairKey(projectId, from) }
    /** Where the next segment begins; null behind one that does not say. */
    let next: number | null = from
    for (const { key, value } of this.headers.getRange(range)) {
      const summary = attempt(() => this.#summaryOf(key, value), onDamage)
      if (summary !== null) {
        const { firstSequence, rows } = summary
        if (next !== null && firstSequence !== next) onDamage(this.#missing(projectId, next))
        yield summary
        next = firstSequence + rows
      } else next = null
    }
    if (next !== null && next <= through) onDamage(this.#missing(projectId, next))
  }

  /** The first S of the segment that holds S, judged by keys alone; S itself when there is none. */
  firstSequenceOf(projectId: number, sequence: number): number {
    const range = { start: pairKey(projectId, 0), end: pairKey(projectId, sequence) }
    const key = lastKey(this.headers, range)
    return key === undefined ? sequence : numberInKey(key, 4)
  }

  /** The segment that holds S, which is one of the project's. Throws `DamagedRecordError`. */
  segmentOf(projectId: number, sequence: number): SegmentView {
    const view = this.segmentAt(projectId, this.firstSequenceOf(projectId, sequence))
    if (view.holds(projectId, sequence)) return view
    throw this.#missing(projectId, sequence)
  }

  /** The segment that begins at S, as its summary said. Throws `DamagedRecordError`. */
  segmentAt(projectId: number, firstSequence: number): SegmentView {
    const header = this.headerAt(projectId, firstSequence)
    return new SegmentView(this.groups, pairKey(projectId, firstSequence), header)
  }

  /** The header of the segment that begins at S, as its summary said. Throws `DamagedRecordError`. */
  headerAt(projectId: number, firstSequence: number): Buffer {
    const header = this.headers.get(pairKey(projectId, firstSequence))
    if (header === undefined) throw this.#missing(projectId, firstSequence)
    return header
  }

  #summaryOf(key: Uint8Array, sealed: Buffer): SegmentSummary {
    const header = unseal(this.headers.name, key, sealed)
    try {
      return decodeSummary(numberInKey(key, 0), numberInKey(key, 4), header)
    } catch (cause) {
      throw damagedSegment(this.headers.name, key, cause)
    }
  }

  /** What is thrown when no segment holds an S of a project. */
  #missing(projectId: number, sequence: number): DamagedRecordError {
    const key = pairKey(projectId, sequence)
    return new DamagedRecordError(this.headers.name, key, 'the value is missing')
  }
}

/** The place of the first segment, in order, that holds an event behind S; their number when none does. */
export function placeBehind(summaries: readonly SegmentSummary[], sequence: number): number {
  let [low, high] = [0, summaries.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    const { firstSequence, rows } = summaries[middle] ?? { firstSequence: 0, rows: 0 }
    if (firstSequence + rows - 1 > sequence) high = middle
    else low = middle + 1
  }
  return low
}
