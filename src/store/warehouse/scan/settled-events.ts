/**
 * Which events of a project stay as they are: those in segments that are too large to be merged again, and
 * are followed by another such one (write/segment-merge.ts). What
 * was computed of them holds until one of these segments is erased from, or the owner of one of their
 * distinct_ids changes.
 */
import { keepNewest } from '../../../base/maps.ts'
import type { SettledEvents } from '../../../rules/analytics/event-columns.ts'
import type { OwnerTable } from '../../identity/person-owners.ts'
import type { SegmentSummary } from '../format/segment-format.ts'
import type { SegmentReader } from '../format/segment-reader.ts'
import { SCAN_PROJECTS_MAX, SETTLED_ROWS_MIN } from '../limits.ts'

interface KnownProject {
  readonly summaries: readonly SegmentSummary[]
  /** How many of them are settled. */
  count: number
  through: number
  owners: OwnerTable
  /** Never given twice, also to a project that was forgotten in between. */
  version: number
  /** The same of all events. */
  versionOfAll: number
  /** Events that erasures had removed. */
  erased: number
}

/** What is settled in the projects that were asked about last. */
export class SettledProjects {
  readonly #segments: SegmentReader
  readonly #known = new Map<number, KnownProject>()
  #lastVersion = 0

  constructor(segments: SegmentReader) {
    this.#segments = segments
  }

  /**
   * As of the snapshot of `owners`. Cost: a look at each settled segment after each merge, and one comparison
   * of the owners after each commit.
   */
  of(projectId: number, owners: OwnerTable): SettledEvents {
    const summaries = this.#segments.allSummaries(projectId)
    const before = this.#known.get(projectId)
    const known = before?.summaries === summaries ? before : this.#look(summaries, before, owners)
    const erased = this.#segments.erasedOf(projectId)
    if (known.erased !== erased) known.versionOfAll = ++this.#lastVersion
    known.erased = erased
    this.#extend(known)
    if (known.owners !== owners) {
      if (!startsWith(owners, known.owners)) {
        known.version = ++this.#lastVersion
        known.versionOfAll = ++this.#lastVersion
      }
      known.owners = owners
    }
    keepNewest(this.#known, projectId, known, SCAN_PROJECTS_MAX)
    const last = summaries.at(-1)
    const through = last === undefined ? 0 : last.firstSequence + last.rows - 1
    const all = { through, version: `${known.versionOfAll}` }
    return { through: known.through, version: `${known.version}`, all }
  }

  /** Takes what is known over when all settled segments are what they were. */
  #look(
    summaries: readonly SegmentSummary[],
    before: KnownProject | undefined,
    owners: OwnerTable,
  ): KnownProject {
    const { erased = 0, versionOfAll = ++this.#lastVersion } = before ?? {}
    const known = { summaries, count: 0, through: 0, owners, version: 0, versionOfAll, erased }
    let isSame = before !== undefined
    if (before !== undefined) {
      known.owners = before.owners
      for (let index = 0; index < before.count && isSame; index++) {
        isSame = summaries[index] === before.summaries[index]
      }
    }
    known.version = isSame && before !== undefined ? before.version : ++this.#lastVersion
    return known
  }

  #extend(known: KnownProject): void {
    while (this.#extendBy(known)) {}
  }

  /** False when the next segment is not settled: it may still take small ones that follow it. */
  #extendBy(known: KnownProject): boolean {
    const [next, following] = known.summaries.slice(known.count, known.count + 2)
    if (next === undefined || following === undefined) return false
    if (next.rows < SETTLED_ROWS_MIN || following.rows < SETTLED_ROWS_MIN) return false
    known.count++
    known.through = next.firstSequence + next.rows - 1
    return true
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
