/**
 * The summaries of a project's segments, as their headers say them. Segments lie side by side without
 * gaps, so that a header which is missing is noticed like one that is damaged.
 */

import { attempt, DamagedRecordError, type DamageListener } from '../../faults.ts'
import { unseal } from '../../lmdb/codec.ts'
import type { Table } from '../../lmdb/environment.ts'
import { numberInKey, pairKey } from '../../lmdb/keys.ts'
import { decodeSummary, type SegmentSummary } from '../format/segment-format.ts'

const HEADERS = 'segment_headers'

/**
 * Summaries of the segments that hold S `from`, where one begins, to `through`, in order. Damaged and
 * missing ones are left out and reported to `onDamage`.
 */
export function* readSummaries(
  headers: Table,
  projectId: number,
  from: number,
  through: number,
  onDamage: DamageListener,
): Generator<SegmentSummary> {
  const range = { start: pairKey(projectId, from), end: pairKey(projectId + 1, 0) }
  /** Where the next segment begins; null behind one that does not say. */
  let next: number | null = from
  for (const { key, value } of headers.getRange(range)) {
    const summary = attempt(() => readSummary(key, value), onDamage)
    if (summary !== null) {
      const { firstSequence, rows } = summary
      if (next !== null && firstSequence !== next) onDamage(missingSegment(projectId, next))
      yield summary
      next = firstSequence + rows
    } else next = null
  }
  if (next !== null && next <= through) onDamage(missingSegment(projectId, next))
}

/** What is thrown when no segment holds an S of a project. */
export function missingSegment(projectId: number, sequence: number): DamagedRecordError {
  return new DamagedRecordError(HEADERS, pairKey(projectId, sequence), 'the value is missing')
}

function readSummary(key: Uint8Array, sealed: Buffer): SegmentSummary {
  const header = unseal(HEADERS, key, sealed)
  try {
    return decodeSummary(numberInKey(key, 0), numberInKey(key, 4), header)
  } catch (cause) {
    throw damagedSegment(HEADERS, key, cause)
  }
}

/** A record of a segment that cannot be understood although its checksum fits. */
export function damagedSegment(table: string, key: Uint8Array, cause: unknown): DamagedRecordError {
  return new DamagedRecordError(
    table,
    key,
    cause instanceof Error ? cause.message : 'cannot be read',
  )
}
