/**
 * Caches, on one thread, the results of queries over all events of a project. If a query is repeated, as most queries
 * of a dashboard are, only newer events are scanned. Source: docs/ARCHITECTURE.md, "Queries".
 */
import { keepNewest } from '../../../base/maps.ts'
import type { CachesOfThread } from '../../../base/memory/memory-board.ts'
import { ALWAYS, type DateRange } from '../../../rules/analytics/date-range.ts'
import type { EventPart, KnownEvents } from '../../../rules/analytics/event-columns.ts'
import { divisionOf, type PlannedQuery } from '../../../rules/queries/kinds.ts'
import {
  type QueryPage,
  type QueryShard,
  scanShardChunks,
} from '../../../rules/queries/query-kind.ts'
import {
  NEW_EVENTS_MAX,
  REMEMBERED_BYTES_MAX,
  REMEMBERED_PAGE_BYTES_MAX,
  REMEMBERED_PARTS_MAX,
} from '../limits.ts'

const EVERY_EVENT = { names: null, filter: null, steps: [] }

type DividedShard = QueryShard & { readonly part: EventPart }

interface RememberedPart {
  /** The state of the store from which the result was computed. */
  readonly state: string
  /**
   * Identifies the events that the result includes, and the persons to whom these events belonged when it was computed.
   */
  readonly known: KnownEvents
  readonly found: unknown
  /** The estimated number of bytes of the result and of `page`. */
  bytes: number
  /** The last answer that was made from the result. Members that every answer has, such as its time, are not in it. */
  page?: RememberedPage
}

interface RememberedPage {
  /** The query and the state of the store from which the page was made. */
  readonly name: string
  readonly page: QueryPage
}

/** The cached results of one thread. Each is the result of a query over all events. */
export class RememberedParts {
  readonly #parts = new Map<string, RememberedPart>()
  readonly #bytesMax: number
  #bytes = 0

  constructor(bytesMax: number = REMEMBERED_BYTES_MAX) {
    this.#bytesMax = bytesMax
  }

  /** The size of the cache. */
  get caches(): CachesOfThread {
    return { remembered_parts: { bytes: this.#bytes, bytesMax: this.#bytesMax } }
  }

  /**
   * Returns the result of a query over all events: the cached result, to which newer events were added. Returns null if
   * nothing is cached, or if the whole result must be computed again, for example because too many events have arrived.
   * Throws the errors of `EventScanner.scan`.
   */
  again(planned: PlannedQuery, shard: QueryShard): unknown {
    const part = wholePart(planned, shard)
    if (part === null) return null
    const name = nameOf(planned, shard, part)
    const before = this.#parts.get(name)
    if (before === undefined) return null
    if (part.by === 'sessions') return before.state === stateOf(shard) ? before.found : null
    const now = shard.scanner.known(shard.context.projectId)
    if (before.known.version !== now.version) return null
    const newer = now.through - before.known.through
    if (newer === 0 && now.moves === before.known.moves) {
      keepNewest(this.#parts, name, before, REMEMBERED_PARTS_MAX)
      return before.found
    }
    if (newer < 0 || newer > NEW_EVENTS_MAX) return null
    const found =
      part.by === 'segments'
        ? withNewEvents(before, now, planned, { ...shard, part })
        : withNewPersons(before, now, planned, { ...shard, part })
    if (found !== null) this.keep(planned, shard, found)
    return found
  }

  /**
   * Caches the result of a query over all current events. `isLasting` is true if the result depends only on the events
   * and on which person each event belongs to, and not on properties of persons.
   */
  keep(
    planned: PlannedQuery,
    shard: QueryShard,
    found: unknown,
    isLasting = !shard.scanner.looksAtPersons,
  ): void {
    const { scanner, context } = shard
    const part = wholePart(planned, shard)
    if (part === null) return
    // A result that may change without new events is not cached.
    if (part.by !== 'sessions' && !isLasting) return
    if (part.by === 'persons' && planned.kind.without === undefined) return
    const name = nameOf(planned, shard, part)
    this.#forget(name)
    const bytes = name.length * 2 + bytesOf(found)
    if (bytes > this.#bytesMax) return
    for (const [oldest] of this.#parts) {
      const isRoom = this.#bytes + bytes <= this.#bytesMax
      if (isRoom && this.#parts.size < REMEMBERED_PARTS_MAX) break
      this.#forget(oldest)
    }
    this.#bytes += bytes
    this.#parts.set(name, {
      state: stateOf(shard),
      known: scanner.known(context.projectId),
      found,
      bytes,
    })
  }

  /**
   * Makes the answer of a query from the result over all events, without the members that every answer has. If nothing
   * has changed, returns the last answer again. Throws the errors of `QueryKind.page`.
   */
  page(planned: PlannedQuery, shard: QueryShard, whole: unknown): QueryPage {
    const { kind, plan } = planned
    const part = wholePart(planned, shard)
    const known = part === null ? undefined : this.#parts.get(nameOf(planned, shard, part))
    if (known === undefined || known.found !== whole) return kind.page(plan, whole, shard)
    const { timezone, testAccountFilters, pathCleaningFilters, channelTypeRules } = shard.context
    const settings = [timezone, testAccountFilters, pathCleaningFilters, channelTypeRules]
    const name = JSON.stringify([stateOf(shard), plan, settings])
    if (known.page?.name === name) return known.page.page
    const page: QueryPage = kind.page(plan, whole, shard)
    this.#keepPage(known, { name, page })
    return page
  }

  #keepPage(known: RememberedPart, remembered: RememberedPage): void {
    const before = known.page === undefined ? 0 : pageBytes(known.page)
    const bytes = pageBytes(remembered)
    if (bytes > REMEMBERED_PAGE_BYTES_MAX) return
    if (this.#bytes - before + bytes > this.#bytesMax) return
    this.#bytes += bytes - before
    known.bytes += bytes - before
    known.page = remembered
  }

  #forget(name: string): void {
    this.#bytes -= this.#parts.get(name)?.bytes ?? 0
    this.#parts.delete(name)
  }
}

/** Returns the part that contains all events, or null if the query cannot be divided. */
export function wholePart(
  planned: PlannedQuery,
  { context, scanner }: QueryShard,
): EventPart | null {
  const { lastDistinctId } = scanner.extent(context.projectId)
  const by = divisionOf(planned, lastDistinctId)
  return by === 'nothing' ? null : { by, index: 0, count: 1 }
}

function nameOf({ kind, plan }: PlannedQuery, { context }: QueryShard, { by }: EventPart): string {
  const { projectId, pathCleaningFilters, channelTypeRules } = context
  const rules = by === 'sessions' ? [pathCleaningFilters, channelTypeRules] : []
  return JSON.stringify([projectId, by, kind.partPlan?.(plan) ?? plan, ...rules])
}

/**
 * Returns a text that identifies the state of the store. If two texts are equal, nothing has changed between the two
 * calls.
 */
function stateOf({ scanner, context }: QueryShard): string {
  return scanner.extent(context.projectId).state
}

/**
 * Adds the newer events to a result. Call it only for queries whose result does not depend on the persons to whom the
 * events belong. Such queries look up persons only when an answer is made from the result.
 */
function withNewEvents(
  { known, found }: RememberedPart,
  now: KnownEvents,
  { kind, plan }: PlannedQuery,
  shard: DividedShard,
): unknown {
  if (now.through === known.through) return found
  const sequences = { after: known.through, through: now.through }
  const newer: unknown = kind.partial(plan, { ...shard, part: { ...shard.part, sequences } })
  return kind.merge(plan, [found, newer], shard.scanner)
}

/**
 * Updates a result for the persons who have newer events, or who gained or lost a distinct_id. Their former
 * contribution is removed, and a new one is computed from all of their events.
 */
function withNewPersons(
  { known, found }: RememberedPart,
  now: KnownEvents,
  { kind, plan }: PlannedQuery,
  shard: DividedShard,
): unknown {
  const { scanner, part } = shard
  const moved = scanner.movedBehind(shard.context.projectId, known.moves)
  const among = marksOf(shard, moved)
  markPersonsAfter(known.through, kind.rangeOf?.(plan) ?? null, shard, among)
  const theirs = (through: number, owners: object): unknown => {
    const sequences = { after: 0, through }
    return kind.partial(plan, { ...shard, part: { ...part, among, sequences, ...owners } })
  }
  const ownersAt = moved.length === 0 ? {} : { ownersAt: known.moves }
  const before = (): unknown => theirs(known.through, ownersAt)
  const rest: unknown = kind.without?.(plan, found, among, before, scanner) ?? null
  return rest === null ? null : kind.merge(plan, [rest, theirs(now.through, {})], scanner)
}

/** Returns an array with one entry for each person number: 1 for the numbers in the list, and 0 for all others. */
function marksOf({ scanner, context }: DividedShard, persons: Uint32Array): Uint8Array {
  const { lastPerson } = scanner.extent(context.projectId)
  const marks = new Uint8Array(persons.reduce((most, one) => Math.max(most, one), lastPerson) + 1)
  for (const person of persons) marks[person] = 1
  return marks
}

/** Sets the entry in `marks` to 1 for each person who has an event with a sequence number above `after`. */
function markPersonsAfter(
  after: number,
  range: DateRange | null,
  shard: DividedShard,
  marks: Uint8Array,
): void {
  const { fromMs, toMs } = range ?? ALWAYS
  const sequences = { after, through: Number.POSITIVE_INFINITY }
  scanShardChunks(
    { ...shard, part: { by: 'segments', index: 0, count: 1, sequences } },
    { fromMs, toMs, series: [EVERY_EVENT], order: 'any', isPersonsOnly: true },
    ({ persons }) => {
      for (const person of persons) marks[person] = 1
    },
  )
}

function pageBytes({ name, page }: RememberedPage): number {
  return 2 * (name.length + JSON.stringify(page).length)
}

/** Returns an estimate of the number of bytes that plain data occupies in memory. */
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
