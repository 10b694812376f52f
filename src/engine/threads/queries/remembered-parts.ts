/**
 * What a thread has computed of events that stay as they are, so that a query that is asked again looks at
 * those that came since: a dashboard mostly asks what it asked before. Source: docs/ARCHITECTURE.md,
 * "Queries".
 */
import type { DateRange } from '../../../rules/analytics/date-range.ts'
import type { EventPart } from '../../../rules/analytics/event-columns.ts'
import { divisionOf, type PlannedQuery } from '../../../rules/queries/kinds.ts'
import { type QueryShard, scanShardPieces } from '../../../rules/queries/query-kind.ts'
import { NEW_EVENTS_MAX, REMEMBERED_BYTES_MAX, REMEMBERED_PARTS_MAX } from '../limits.ts'

const ALWAYS = { fromMs: Number.NEGATIVE_INFINITY, toMs: Number.POSITIVE_INFINITY }
const EVERY_EVENT = { names: null, filter: null, steps: [] }

type DividedShard = QueryShard & { readonly part: EventPart }

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
    const part = shard.part ?? wholePart(planned, shard)
    if (part === null) return kind.partial(plan, shard)
    const name = JSON.stringify([context.projectId, part.by, part.index, part.count, plan])
    if (part.by === 'persons') return this.#ofPersons(name, planned, { ...shard, part })
    const { through, version } = scanner.settled(context.projectId)
    if (through === 0) return kind.partial(plan, shard)
    const between = (after: number, end: number): unknown => {
      return kind.partial(plan, { ...shard, part: { ...part, sequences: { after, through: end } } })
    }
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

  /** Computes it of those who have events that came since. */
  #ofPersons(name: string, { kind, plan }: PlannedQuery, shard: DividedShard): unknown {
    const { scanner, context, part } = shard
    if (kind.without === undefined) return kind.partial(plan, shard)
    const { through, version } = scanner.settled(context.projectId).all
    const known = this.#parts.get(name)
    const isKnown = known?.version === version && known.through <= through
    if (isKnown && known.through === through) return known.found
    const newer = isKnown ? personsBehind(known.through, kind.rangeOf?.(plan) ?? null, shard) : null
    let found: unknown = null
    if (isKnown && newer !== null) {
      const theirs = (end: number): unknown => {
        const sequences = { after: 0, through: end }
        return kind.partial(plan, { ...shard, part: { ...part, among: newer, sequences } })
      }
      const before = (): unknown => theirs(known.through)
      const rest: unknown = kind.without(plan, known.found, newer, before, scanner)
      found = rest === null ? null : kind.merge(plan, [rest, theirs(through)], scanner)
    }
    found ??= kind.partial(plan, shard)
    if (!scanner.looksAtPersons) this.#keep(name, { version, through, found, bytes: 0 })
    return found
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

/** All events as a part that is made as others are; null: there are no parts. */
function wholePart(planned: PlannedQuery, { context, scanner }: QueryShard): EventPart | null {
  const { lastPerson } = scanner.extent(context.projectId, null)
  const by = divisionOf(planned, lastPerson)
  return by === 'nothing' ? null : { by, index: 0, count: 1 }
}

/** 1 for each P with an event behind a place in the order of arrival; null: with too many of them. */
function personsBehind(after: number, range: DateRange | null, shard: DividedShard) {
  const { scanner, context } = shard
  const { fromMs, toMs } = range ?? ALWAYS
  const marks = new Uint8Array(scanner.extent(context.projectId, null).lastPerson + 1)
  const sequences = { after, through: Number.POSITIVE_INFINITY }
  let events = 0
  scanShardPieces(
    { ...shard, part: { by: 'segments', index: 0, count: 1, sequences } },
    { fromMs, toMs, series: [EVERY_EVENT], order: 'any', isPersonsOnly: true },
    ({ count, persons }) => {
      events += count
      for (const person of persons) marks[person] = 1
    },
  )
  return events > NEW_EVENTS_MAX ? null : marks
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
