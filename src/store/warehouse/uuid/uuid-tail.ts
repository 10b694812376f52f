/** Events behind the last run of the uuid index, entered again into its table when a store is opened. */
import type { SegmentView } from '../format/segment-view.ts'
import type { UuidFingerprint } from './uuid-fingerprint.ts'
import type { UuidIndex } from './uuid-index.ts'

/** Enters the rows of a stored segment from `firstRow` on. */
export function indexRows(
  index: UuidIndex,
  fingerprint: UuidFingerprint,
  view: SegmentView,
  firstRow: number,
): void {
  const { projectId, firstSequence, rows } = view.summary
  const { names, distinctIds } = view
  const hashes = names.values.map((name) => fingerprint.hashName(String(name)))
  const uuid = new Uint8Array(16)
  for (let row = firstRow; row < rows; row++) {
    view.copyUuid(row, uuid, 0)
    const hash = hashes[names.ids[row] ?? 0] ?? 0
    fingerprint.compute(projectId, uuid, 0, distinctIds[row] ?? 0, hash)
    index.add(fingerprint.high, fingerprint.low, firstSequence + row)
  }
}
