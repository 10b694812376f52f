/**
 * A part of a query in pieces, one after the other, when the memory that a query may take is too little for all of
 * it at once. It is slower, because each piece looks at the segments again, and it is what a small machine can do.
 */
import { ServiceError } from '../../../base/errors.ts'
import { keepNewest } from '../../../base/maps.ts'
import { ALWAYS } from '../../../rules/analytics/date-range.ts'
import type { EventPart } from '../../../rules/analytics/event-columns.ts'
import type { PlannedQuery } from '../../../rules/queries/kinds.ts'
import type { QueryShard } from '../../../rules/queries/query-kind.ts'
import { QUERY_PIECES_MAX, QUERY_SHAPES_MAX } from '../limits.ts'
import { type WorkingMemory, WorkingMemoryFullError } from './working-memory.ts'

/** What a session takes while its events are looked at: its number, and what is noted of it. */
const SESSION_BYTES = 120

/** Into how many pieces parts of queries had to be divided, by query. */
export class PieceCounts {
  readonly #counts = new Map<string, number>()

  of(name: string): number {
    return this.#counts.get(name) ?? 1
  }

  keep(name: string, count: number): void {
    keepNewest(this.#counts, name, count, QUERY_SHAPES_MAX)
  }
}

/** What a part is computed with. */
export interface PartTools {
  readonly memory: WorkingMemory
  readonly counts: PieceCounts
}

/**
 * What was found in a part: a list, because what is found of sessions is put together once, by who merges. `part` null:
 * the query cannot be divided. Throws as `QueryKind.partial`, and 400 `query_too_large`.
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
  for (let count = Math.min(first, QUERY_PIECES_MAX); count <= QUERY_PIECES_MAX; count *= 2) {
    try {
      memory.isLimited = true
      const found = foundInPieces(planned, shard, part, count)
      counts.keep(name, count)
      return found
    } catch (error) {
      if (!(error instanceof WorkingMemoryFullError)) throw error
      shard.scanner.startOver?.(shard.context.projectId)
    } finally {
      memory.isLimited = false
    }
  }
  const detail =
    'the query needs more memory than there is, also in parts: ask for a shorter range of time or fewer events, or raise the setting memory_max'
  throw new ServiceError('query_too_large', detail)
}

/**
 * Pieces to begin with. A part by sessions needs memory for each of them, and each event may be one of its own; its
 * pieces lie side by side, so that several hardly cost more than one. Any other part is tried as a whole.
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

function foundInPieces(
  { kind, plan }: PlannedQuery,
  shard: QueryShard,
  part: EventPart,
  count: number,
): readonly unknown[] {
  const { scanner, context } = shard
  const found: unknown[] = []
  for (let piece = 0; piece < count; piece++) {
    if (piece > 0) scanner.startOver?.(context.projectId)
    found.push(
      kind.partial(plan, { ...shard, part: pieceOf(part, piece, count, kind, plan, shard) }),
    )
    // What is merged of sessions need not be a part again.
    if (part.by === 'sessions' || found.length === 1) continue
    found.splice(0, 2, kind.merge(plan, found, scanner))
  }
  return found
}

function pieceOf(
  part: EventPart,
  piece: number,
  pieces: number,
  kind: PlannedQuery['kind'],
  plan: unknown,
  { scanner, context }: QueryShard,
): EventPart {
  const count = part.count * pieces
  if (part.by !== 'sessions') return { ...part, index: part.index + part.count * piece, count }
  // Pieces of a part lie side by side: sessions that began at the same time are in the same segments.
  const range = kind.rangeOf?.(plan) ?? ALWAYS
  const bounds = scanner.sessionBounds(context.projectId, range, count)
  return { ...part, index: part.index * pieces + piece, count, bounds }
}
