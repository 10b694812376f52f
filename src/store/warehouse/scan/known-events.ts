/**
 * Whether the events of a project are what they were: what was computed of them holds, however segments are
 * merged, until some are erased. Which distinct_ids got another owner meanwhile is known one by one, so that
 * what was computed is corrected for these.
 */
import { keepNewest } from '../../../base/maps.ts'
import { type KnownEvents, OWNER_BITS } from '../../../rules/analytics/event-columns.ts'
import type { OwnerTable } from '../../identity/owner-table.ts'
import type { SegmentReader } from '../format/segment-reader.ts'
import { OWNER_MOVES_MAX, SCAN_PROJECTS_MAX } from '../limits.ts'

/** Numbers of a change: D, whose it was, whose it is. */
const MOVE_NUMBERS = 3
/** D that are compared at once. */
const COMPARED_WORDS = 1024

interface KnownProject {
  readonly owners: OwnerTable
  /** Events that erasures had removed. */
  readonly erased: number
  /** That of `ProjectFacts`. */
  readonly groupTypesVersion: string
  /** Never given twice, also to a project that was forgotten in between. */
  readonly version: number
  /** All changes of owners since the version began, `MOVE_NUMBERS` each. */
  readonly moves: readonly number[]
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
  of(projectId: number, owners: OwnerTable, groupTypesVersion = ''): KnownEvents {
    const last = this.#segments.allSummaries(projectId).at(-1)
    const erased = this.#segments.erasedOf(projectId)
    const before = this.#known.get(projectId)
    const isSame = before?.erased === erased && before.groupTypesVersion === groupTypesVersion
    const moves = isSame ? movesUntil(before, owners) : null
    const known: KnownProject =
      before === undefined || moves === null
        ? { owners, erased, groupTypesVersion, version: ++this.#lastVersion, moves: [] }
        : { ...before, owners, moves }
    keepNewest(this.#known, projectId, known, SCAN_PROJECTS_MAX)
    const through = last === undefined ? 0 : last.firstSequence + last.rows - 1
    return { through, version: `${known.version}`, moves: known.moves.length / MOVE_NUMBERS }
  }

  /** As `EventScanner.movedBehind`, of the owners that `of` was told last. */
  movedBehind(projectId: number, moves: number): Uint32Array {
    const all = this.#known.get(projectId)?.moves ?? []
    const later = all.slice(moves * MOVE_NUMBERS)
    return Uint32Array.from(later.filter((_, place) => place % MOVE_NUMBERS !== 0))
  }

  /** The owners as they were behind the first `moves` changes. Cost: a copy of them. */
  ownersAt(projectId: number, owners: OwnerTable, moves: number): OwnerTable {
    const all = this.#known.get(projectId)?.moves ?? []
    const words = owners.words.slice()
    let { lastPerson } = owners
    for (let at = all.length - MOVE_NUMBERS; at >= moves * MOVE_NUMBERS; at -= MOVE_NUMBERS) {
      const [distinctId = 0, person = 0] = [all[at], all[at + 1]]
      words[distinctId] = ((words[distinctId] ?? 0) & ~OWNER_BITS) | person
      lastPerson = Math.max(lastPerson, person)
    }
    return { ...owners, words, lastPerson }
  }
}

/**
 * All changes of owners, with those up to `owners`. Null: that is not all there is to say, or too much, and
 * what was computed before does not help.
 */
function movesUntil(
  { owners: before, moves }: KnownProject,
  owners: OwnerTable,
): readonly number[] | null {
  if (before === owners) return moves
  if (owners.lastDistinctId < before.lastDistinctId) return null
  // A number that was a visitor's may be a person's now.
  if (owners.firstPersonless !== before.firstPersonless && before.hasPersonless) return null
  if (owners.since.size !== before.since.size) return null
  for (const [distinctId, sequence] of before.since) {
    if (owners.since.get(distinctId) !== sequence) return null
  }
  const all = [...moves]
  for (let start = 0; start <= before.lastDistinctId; start += COMPARED_WORDS) {
    const end = Math.min(start + COMPARED_WORDS, before.lastDistinctId + 1)
    if (bytesOf(before, start, end).equals(bytesOf(owners, start, end))) continue
    for (let distinctId = start; distinctId < end; distinctId++) {
      const was = (before.words[distinctId] ?? 0) & OWNER_BITS
      const is = (owners.words[distinctId] ?? 0) & OWNER_BITS
      if (was !== is) all.push(distinctId, was, is)
    }
  }
  return all.length > OWNER_MOVES_MAX * MOVE_NUMBERS ? null : all
}

function bytesOf({ words }: OwnerTable, start: number, end: number): Buffer {
  const { buffer, byteOffset } = words.subarray(start, end)
  return Buffer.from(buffer, byteOffset, (end - start) * Uint32Array.BYTES_PER_ELEMENT)
}
