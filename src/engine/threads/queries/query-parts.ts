/**
 * If a part of a query needs more memory than a query may use, its thread computes the part in several pieces, one
 * after the other. This is slower, because the segments are scanned again for each piece, but it works on a small
 * machine.
 */
import { ServiceError } from '../../../base/errors.ts'
import { keepNewest } from '../../../base/maps.ts'
import { ALWAYS } from '../../../rules/analytics/date-range.ts'
import type { EventPart } from '../../../rules/analytics/event-columns.ts'
import type { PlannedQuery } from '../../../rules/queries/kinds.ts'
import type { QueryShard } from '../../../rules/queries/query-kind.ts'
import { QUERY_PIECES_MAX, QUERY_SHAPES_MAX } from '../limits.ts'
import { type WorkingMemory, WorkingMemoryFullError } from './working-memory.ts'

/** The number of bytes of memory that each session needs while its events are scanned. */
const SESSION_BYTES = 120

/**
 * For each query, the number of pieces into which its parts had to be divided. When the query is sent again, its parts
 * are divided into this number of pieces from the start.
 */
export class PieceCounts {
  readonly #counts = new Map<string, number>()

  of(name: string): number {
    return this.#counts.get(name) ?? 1
  }

  keep(name: string, count: number): void {
    keepNewest(this.#counts, name, count, QUERY_SHAPES_MAX)
  }
}

/** The tools for computing a part. */
export interface PartTools {
  readonly memory: WorkingMemory
  readonly counts: PieceCounts
}

/**
 * Returns the results of a part: one for each piece, or a single one if they were merged here. Results of pieces by
 * sessions are merged here only if the kind of query has `combine`. Without it, they can be merged only once, on the
 * thread that merges all parts. `part` is null if the query cannot be divided. Throws the errors of
 * `QueryKind.partial`, and 400 `query_too_large`.
 */
export function foundInPart(
  planned: PlannedQuery,
  shard: QueryShard,
  part: EventPart | null,
  { memory, counts }: PartTools,
): readonly unknown[] {
  const { kind, plan } = planned
  if (part === null || kind.isWhole?.(plan) === true) {
    return [kind.partial(plan, { ...shard, part })]
  }
  const name = JSON.stringify([shard.context.projectId, plan])
  const first = Math.max(counts.of(name), piecesAtFirst(planned, shard, part, memory))
  let count = Math.min(first, QUERY_PIECES_MAX)
  /** The part has `count` pieces. This list contains the numbers of the pieces that are still to be computed. */
  let left = Array.from({ length: count }, (_, piece) => piece)
  const found: unknown[] = []
  for (let piece = left[0]; piece !== undefined; piece = left[0]) {
    try {
      memory.isLimited = true
      const own = pieceOf(planned, shard, part, { piece, count })
      const result: unknown = kind.partial(plan, { ...shard, part: own })
      memory.isLimited = false
      left.shift()
      add(result, found, planned, shard, part)
    } catch (error) {
      if (!(error instanceof WorkingMemoryFullError)) throw error
      if (2 * count > QUERY_PIECES_MAX) throw tooLarge()
      // The results so far are kept. All remaining pieces are halved, because they are probably as large as this one.
      left = left.flatMap((whole) => halvesOf(part, whole, count))
      count *= 2
    } finally {
      memory.isLimited = false
    }
    if (left.length > 0) shard.scanner.startOver?.(shard.context.projectId)
  }
  counts.keep(name, count)
  return found
}

/**
 * Returns the number of pieces to begin with. A part by sessions may begin with several pieces, because it needs memory
 * for each session, and in the worst case each event is a session of its own. The pieces cover consecutive periods and
 * thus have few events in common, so several of them cost hardly more than one. Any other part is first tried
 * undivided.
 */
function piecesAtFirst(
  { kind, plan }: PlannedQuery,
  { scanner, context }: QueryShard,
  { by, count }: EventPart,
  { bytesMax }: WorkingMemory,
): number {
  if (by !== 'sessions') return 1
  const events = scanner.eventsWithin(context.projectId, kind.rangeOf?.(plan) ?? ALWAYS)
  return Math.max(1, Math.ceil(((events / count) * SESSION_BYTES) / bytesMax))
}

/**
 * Adds the result of a piece to `found`. Merges it with the result so far, if the merged result can later be merged
 * again.
 */
function add(
  result: unknown,
  found: unknown[],
  { kind, plan }: PlannedQuery,
  { scanner }: QueryShard,
  { by }: EventPart,
): void {
  found.push(result)
  if (found.length === 1) return
  if (by !== 'sessions') found.splice(0, 2, kind.merge(plan, found, scanner))
  else if (kind.combine !== undefined) found.splice(0, 2, kind.combine(found))
}

/**
 * Returns the numbers of the two pieces into which a piece is halved when the number of pieces is doubled. The two
 * pieces contain the same events as the undivided one. For example, if pieces are by sessions, piece 1 of 2 becomes the
 * pieces 2 and 3 of 4.
 */
function halvesOf({ by }: EventPart, piece: number, count: number): readonly number[] {
  return by === 'sessions' ? [2 * piece, 2 * piece + 1] : [piece, piece + count]
}

function pieceOf(
  { kind, plan }: PlannedQuery,
  { scanner, context }: QueryShard,
  part: EventPart,
  { piece, count: pieces }: { readonly piece: number; readonly count: number },
): EventPart {
  const count = part.count * pieces
  const isPiece = pieces > 1
  if (part.by !== 'sessions') {
    return { ...part, index: part.index + part.count * piece, count, isPiece }
  }
  // The part is divided by time, because sessions that began at about the same time are in the same segments.
  const range = kind.rangeOf?.(plan) ?? ALWAYS
  const bounds = scanner.sessionBounds(context.projectId, range, count)
  return { ...part, index: part.index * pieces + piece, count, bounds, isPiece }
}

function tooLarge(): ServiceError {
  const detail =
    'The query needs more memory than is available, even when it is run in parts. Choose a shorter time range or fewer events, or raise the setting `memory_max`.'
  return new ServiceError('query_too_large', detail)
}
