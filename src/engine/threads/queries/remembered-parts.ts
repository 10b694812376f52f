/**
 * What a thread has computed of events that stay as they are, so that a query that is asked again looks at
 * those that came since: a dashboard mostly asks what it asked before. Source: docs/ARCHITECTURE.md,
 * "Queries".
 */
import { divisionOf, type PlannedQuery } from '../../../rules/queries/kinds.ts'
import type { QueryShard } from '../../../rules/queries/query-kind.ts'
import { REMEMBERED_BYTES_MAX, REMEMBERED_PARTS_MAX } from '../limits.ts'

interface RememberedPart {
  readonly version: string
  /** The events up to this place in the order of arrival are in it. */
  readonly through: number
  readonly found: unknown
  readonly bytes: number
}

/** The parts that one thread remembers. */
export class RememberedParts {
  readonly #parts = new Map<string, RememberedPart>()
  #bytes = 0

  /**
   * Computes a part of a query, of the events that came since it was last computed where that is possible.
   * Throws as `EventScanner.scan`.
   */
  partial(planned: PlannedQuery, shard: QueryShard): unknown {
    const { kind, plan } = planned
    const { context, scanner } = shard
    const { by, index, count } = shard.part ?? wholePart(planned, shard)
    if (by !== 'segments') return kind.partial(plan, shard)
    const { through, version } = scanner.settled(context.projectId)
    if (through === 0) return kind.partial(plan, shard)
    const between = (after: number, end: number): unknown => {
      const part = { by, index, count, sequences: { after, through: end } }
      return kind.partial(plan, { ...shard, part })
    }
    const name = JSON.stringify([context.projectId, index, count, plan])
    let known = this.#parts.get(name)
    if (known === undefined || known.version !== version || known.through > through) {
      known = { version, through, found: between(0, through), bytes: 0 }
    } else if (known.through < through) {
      const found: unknown = kind.merge(
        plan,
        [known.found, between(known.through, through)],
        scanner,
      )
      known = { ...known, through, found }
    }
    // What may change without any of these events changing is computed each time.
    if (!scanner.looksAtPersons) this.#keep(name, known)
    return kind.merge(plan, [known.found, between(through, Number.POSITIVE_INFINITY)], scanner)
  }

  #keep(name: string, part: RememberedPart): void {
    this.#forget(name)
    const bytes = name.length * 2 + bytesOf(part.found)
    if (bytes > REMEMBERED_BYTES_MAX) return
    for (const [oldest] of this.#parts) {
      const isRoom = this.#bytes + bytes <= REMEMBERED_BYTES_MAX
      if (isRoom && this.#parts.size < REMEMBERED_PARTS_MAX) break
      this.#forget(oldest)
    }
    this.#bytes += bytes
    this.#parts.set(name, { ...part, bytes })
  }

  #forget(name: string): void {
    this.#bytes -= this.#parts.get(name)?.bytes ?? 0
    this.#parts.delete(name)
  }
}

/** All events as a part that is made as others are. */
function wholePart(planned: PlannedQuery, { context, scanner }: QueryShard) {
  const { lastPerson } = scanner.extent(context.projectId, null)
  return { by: divisionOf(planned, lastPerson), index: 0, count: 1 }
}

/** An estimate of the memory that plain data takes. */
function bytesOf(value: unknown): number {
  if (typeof value === 'string') return 24 + value.length * 2
  if (typeof value !== 'object' || value === null) return 8
  if (ArrayBuffer.isView(value)) return 64 + value.byteLength
  const inner =
    value instanceof Map
      ? [...value].flat()
      : value instanceof Set
        ? [...value]
        : Object.values(value)
  return inner.reduce((sum: number, one) => sum + 16 + bytesOf(one), 48)
}
