/**
 * Whether the events of a project are what they were: what was computed of them holds, however segments are
 * merged, until some are erased, or the owner of one of their distinct_ids changes.
 */
import { keepNewest } from '../../../base/maps.ts'
import type { KnownEvents } from '../../../rules/analytics/event-columns.ts'
import type { OwnerTable } from '../../identity/owner-table.ts'
import type { SegmentReader } from '../format/segment-reader.ts'
import { SCAN_PROJECTS_MAX } from '../limits.ts'

interface KnownProject {
  owners: OwnerTable
  /** Events that erasures had removed. */
  erased: number
  /** Never given twice, also to a project that was forgotten in between. */
  version: number
}

/** What is known of the projects that were asked about last. */
export class KnownProjects {
  readonly #segments: SegmentReader
  readonly #known = new Map<number, KnownProject>()
  #lastVersion = 0

  constructor(segments: SegmentReader) {
    this.#segments = segments
  }

  /** As of the snapshot of `owners`. Cost: one comparison of the owners after each commit. */
  of(projectId: number, owners: OwnerTable): KnownEvents {
    const last = this.#segments.allSummaries(projectId).at(-1)
    const erased = this.#segments.erasedOf(projectId)
    const before = this.#known.get(projectId)
    const isSame =
      before?.erased === erased && (before.owners === owners || startsWith(owners, before.owners))
    const version = isSame ? before.version : ++this.#lastVersion
    keepNewest(this.#known, projectId, { owners, erased, version }, SCAN_PROJECTS_MAX)
    const through = last === undefined ? 0 : last.firstSequence + last.rows - 1
    return { through, version: `${version}` }
  }
}

/** Whether all distinct_ids of `before` have the owners that they had. */
function startsWith(owners: OwnerTable, before: OwnerTable): boolean {
  if (owners.lastDistinctId < before.lastDistinctId) return false
  if (owners.since.size !== before.since.size) return false
  for (const [distinctId, sequence] of before.since) {
    if (owners.since.get(distinctId) !== sequence) return false
  }
  const bytes = (before.lastDistinctId + 1) * Uint32Array.BYTES_PER_ELEMENT
  const part = ({ words }: OwnerTable) => Buffer.from(words.buffer, words.byteOffset, bytes)
  return part(owners).equals(part(before))
}
