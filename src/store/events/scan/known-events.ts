/**
 * Tells whether earlier results about the events of a project are still right. Merges of segments do not matter. An
 * erasure makes results wrong. If a distinct ID number has got another owner, this is recorded, so that earlier results
 * can be corrected.
 */
import { keepNewest } from '../../../base/maps.ts'
import { type KnownEvents, OWNER_BITS } from '../../../rules/analytics/event-columns.ts'
import type { OwnerTable } from '../../identity/owner-table.ts'
import type { SegmentReader } from '../format/segment-reader.ts'
import { OWNER_MOVES_MAX, SCAN_PROJECTS_MAX } from '../limits.ts'

/** The number of array elements that describe one change of an owner: distinct ID number, old owner, new owner. */
const MOVE_NUMBERS = 3
/** Owners are compared in blocks. This is the number of distinct ID numbers in a block. */
const COMPARED_WORDS = 1024

interface KnownProject {
  readonly owners: OwnerTable
  /** The number of events that erasures had removed from the project. */
  readonly erased: number
  /** The text `groupTypesVersion` of `ProjectFacts`, which changes when a group type is deleted. */
  readonly groupTypesVersion: string
  /**
   * The number of the version of the project's events. A new version begins when earlier results can no longer be
   * corrected. A number is never used twice, even if the project is evicted and cached again.
   */
  readonly version: number
  /** All changes of owners since the version began. Each change takes `MOVE_NUMBERS` elements. */
  readonly moves: readonly number[]
}

/** Caches the state of the projects that were queried last. */
export class KnownProjects {
  readonly #segments: SegmentReader
  readonly #known = new Map<number, KnownProject>()
  #lastVersion = 0

  constructor(segments: SegmentReader) {
    this.#segments = segments
  }

  /**
   * Returns the state of a project's events in the snapshot of `owners`. After a commit, the first call compares all
   * owners.
   */
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

  /**
   * Returns the old and the new owner of each change after the first `moves` changes; see `EventScanner.movedBehind`.
   * Changes after the last call of `of` are not included.
   */
  movedBehind(projectId: number, moves: number): Uint32Array {
    const all = this.#known.get(projectId)?.moves ?? []
    const later = all.slice(moves * MOVE_NUMBERS)
    return Uint32Array.from(later.filter((_, place) => place % MOVE_NUMBERS !== 0))
  }

  /** Returns a copy of the table of owners, in the state that it had after the first `moves` changes. */
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
 * Returns all changes of owners since the version began, up to the state `owners`. Returns null if earlier results
 * cannot be corrected: if something else has changed too, or if there are too many changes.
 */
function movesUntil(
  { owners: before, moves }: KnownProject,
  owners: OwnerTable,
): readonly number[] | null {
  if (before === owners) return moves
  if (owners.lastDistinctId < before.lastDistinctId) return null
  // An owner number (owner-table.ts) that once stood for a distinct_id without a person may now be the number of a
  // person.
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
