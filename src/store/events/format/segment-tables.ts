/**
 * Finds stored segments by their headers. The segments of a project follow each other without gaps. So a missing header
 * can be detected, like a damaged one.
 */
import { attempt, DamagedRecordError, type DamageListener, refuseDamage } from '../../faults.ts'
import { unseal } from '../../lmdb/codec.ts'
import type { Table } from '../../lmdb/environment.ts'
import { type EventTables, keysOf, numberInKey, pairKey } from '../../lmdb/keys.ts'
import { lastKey } from '../../lmdb/records.ts'
import { decodeSummary, type SegmentSummary } from './segment-format.ts'
import { damagedSegment, SegmentView } from './segment-view.ts'

/** The tables in which segments are stored: one for headers, one for groups. */
export class SegmentTables {
  readonly headers: Table
  readonly groups: Table

  constructor(tables: Pick<EventTables, 'segment_headers' | 'segment_groups'>) {
    this.headers = tables.segment_headers
    this.groups = tables.segment_groups
  }

  /**
   * Yields the summaries of a project's segments in order, from the segment that begins with the sequence number `from`
   * to the last one. A segment that is damaged is reported to `onDamage` and skipped. So is a gap, including one
   * between the last segment and the sequence number `through`. Without `onDamage`, `DamagedRecordError` is thrown.
   */
  *summaries(
    projectId: number,
    from: number,
    through: number,
    onDamage: DamageListener = refuseDamage,
  ): Generator<SegmentSummary> {
    const range = { ...keysOf(projectId), start: pairKey(projectId, from) }
    /**
     * The sequence number with which the next segment must begin. Null after a damaged segment, whose length is
     * unknown.
     */
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

  /**
   * Returns the sequence number with which the segment that contains `sequence` begins. Reads only keys. If there is no
   * such segment, returns `sequence` itself.
   */
  firstSequenceOf(projectId: number, sequence: number): number {
    const range = { start: pairKey(projectId, 0), end: pairKey(projectId, sequence) }
    const key = lastKey(this.headers, range)
    return key === undefined ? sequence : numberInKey(key, 4)
  }

  /** Returns the segment that contains a sequence number of the project. Throws `DamagedRecordError`. */
  segmentOf(projectId: number, sequence: number): SegmentView {
    const view = this.segmentAt(projectId, this.firstSequenceOf(projectId, sequence))
    if (view.holds(projectId, sequence)) return view
    throw this.#missing(projectId, sequence)
  }

  /** Returns the segment that begins with the sequence number `firstSequence`. Throws `DamagedRecordError`. */
  segmentAt(projectId: number, firstSequence: number): SegmentView {
    const header = this.headerAt(projectId, firstSequence)
    return new SegmentView(this.groups, pairKey(projectId, firstSequence), header)
  }

  /**
   * Returns the header of the segment that begins with the sequence number `firstSequence`. Throws
   * `DamagedRecordError`.
   */
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

  /** Returns the error that says that no segment contains a sequence number of a project. */
  #missing(projectId: number, sequence: number): DamagedRecordError {
    const key = pairKey(projectId, sequence)
    return new DamagedRecordError(this.headers.name, key, 'the value is missing')
  }
}

/**
 * Returns the index of the first segment that contains an event after the sequence number `sequence`. If there is none,
 * returns the number of segments.
 */
export function segmentIndexAfter(summaries: readonly SegmentSummary[], sequence: number): number {
  let [low, high] = [0, summaries.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    const { firstSequence, rows } = summaries[middle] ?? { firstSequence: 0, rows: 0 }
    if (firstSequence + rows - 1 > sequence) high = middle
    else low = middle + 1
  }
  return low
}
