/**
 * The kind `PathsQuery`: which step followed which, and how often. Source: docs/compatibility/queries.md, "PathsQuery".
 */
import type { JsonObject } from '../../../base/json.ts'
import { orderRows, rowsByActor } from '../../analytics/actor-rows.ts'
import { ITEM_VALUES, ItemTable, PAGEVIEW, SCREEN } from '../../analytics/path/path-items.ts'
import { type PathEvents, PathFinder, PathWalker } from '../../analytics/path/path-sessions.ts'
import { selectPlace } from '../../analytics/selection.ts'
import { PacedLimits, type QueryLimits } from '../paced-limits.ts'
import {
  NO_URLS,
  type PersonsUrl,
  PersonsUrls,
  rangeParameters,
  type UrlMaker,
} from '../persons-urls.ts'
import { resolvedRange } from '../query-buckets.ts'
import type { QueryActors, QueryContext, QueryKind, QueryShard } from '../query-kind.ts'
import { scanShard } from '../query-kind.ts'
import { EdgeTable, type PathEdges } from './path-edges.ts'
import { itemRules, type PathsPlan, planPaths, seriesOf } from './path-request.ts'

/** The loop over persons checks the time limit of the query once for this number of persons. */
const CHECK_EVERY = 1024
/**
 * Microseconds in a millisecond. Times are added up as whole microseconds, so that the order of adding does not change
 * the sum.
 */
const MICROSECONDS = 1000

/** The kind for paths: how often one step followed another. */
export const PATHS_QUERY: QueryKind<PathsPlan, PathEdges> = {
  dividedBy: 'persons',
  plan: planPaths,
  rangeOf: ({ fromMs, range }) => ({ fromMs, toMs: range.toMs }),
  partial: edgesOf,
  merge: (_plan, parts, limits) => mergeEdges(parts, limits),
  // With `hasPersonsUrls`, a part lists the edges that an actor followed several times, but not which actor. So it
  // cannot be determined which of these edges remain in the list without the removed persons.
  without: (plan, part, _persons, theirs, limits) =>
    plan.hasPersonsUrls ? null : mergeEdges([part, negative(theirs())], limits),
  page(plan, whole, { context, scanner }) {
    const urlOf = plan.hasPersonsUrls ? urlsOf(plan, context) : null
    const results = connected(largest(plan, whole, urlOf, scanner))
    return { results, members: resolvedRange(plan.range) }
  },
  actors: (plan, _pick, shard) => actorsOf(plan, shard),
}

/** Calls `visit` once for each person, with those events of the person that may be steps, in order. */
function eachPerson(
  plan: PathsPlan,
  shard: QueryShard,
  table: ItemTable,
  visit: (person: number, events: PathEvents, start: number, end: number) => void,
): void {
  const { fromMs, range, filter, types } = plan
  if (fromMs > range.toMs) return
  const hasAll = types.length === 0 || types.includes(SCREEN)
  const valueCount = hasAll ? ITEM_VALUES.length : types.includes(PAGEVIEW) ? 2 : 1
  const columns = scanShard(shard, {
    fromMs,
    filter,
    toMs: range.toMs,
    series: [seriesOf(plan)],
    values: ITEM_VALUES.slice(0, valueCount),
    order: 'unsorted',
  })
  const items = table.itemsOf(columns)
  const actors = rowsByActor(columns.persons, columns.count)
  orderRows(actors, columns, shard.scanner)
  const { keys, starts, rows } = actors
  const events = { rows, items, timesMs: columns.timesMs }
  for (let index = 0; index < keys.length; index++) {
    if (index % CHECK_EVERY === 0) shard.scanner.checkLimits()
    visit(keys[index] ?? 0, events, starts[index] ?? 0, starts[index + 1] ?? 0)
  }
  shard.scanner.releaseResults()
}

function edgesOf(plan: PathsPlan, shard: QueryShard): PathEdges {
  const table = new ItemTable(itemRules(plan))
  const path = new PathWalker(plan.cut, table)
  const edges = new EdgeTable()
  const repeated = new Set<number>()
  /** For each edge, the last person that followed it. Only filled if the query asks for URLs. */
  const lastPersons: number[] = []
  let walker = 0
  const addPath = (): boolean => {
    for (let step = 0; step + 1 < path.length; step++) {
      const tookMs = path.timeMsAt(step + 1) - path.timeMsAt(step)
      const tookUs = Math.round(tookMs * MICROSECONDS)
      const edge = edges.add(step, path.itemAt(step), path.itemAt(step + 1), 1, tookUs)
      if (!plan.hasPersonsUrls) continue
      if (lastPersons[edge] === walker) repeated.add(edge)
      lastPersons[edge] = walker
    }
    return false
  }
  eachPerson(plan, shard, table, (person, events, start, end) => {
    walker = person
    path.walk(events, start, end, addPath)
  })
  return edges.edges(table.texts, repeated)
}

function mergeEdges(parts: readonly PathEdges[], limits: QueryLimits): PathEdges {
  const [first] = parts
  if (first !== undefined && parts.length === 1) return first
  const numbers = new Map<string, number>()
  const all = new EdgeTable()
  const pace = new PacedLimits(limits)
  const allRepeated = new Set<number>()
  for (const { texts, steps, sources, targets, counts, totalsUs, repeated } of parts) {
    const numberOf = Uint32Array.from(texts, (text) => {
      const number = numbers.get(text) ?? numbers.size
      numbers.set(text, number)
      return number
    })
    for (let edge = 0; edge < steps.length; edge++) {
      pace.count(1)
      const source = numberOf[sources[edge] ?? 0] ?? 0
      const target = numberOf[targets[edge] ?? 0] ?? 0
      const [step = 0, count = 0, totalUs = 0] = [steps[edge], counts[edge], totalsUs[edge]]
      const merged = all.add(step, source, target, count, totalUs)
      if (repeated.has(edge)) allRepeated.add(merged)
    }
  }
  return all.edges([...numbers.keys()], allRepeated)
}

/** Returns the edges with negative counts and times. Merging them with a part subtracts them from the part. */
function negative(edges: PathEdges): PathEdges {
  return {
    ...edges,
    counts: edges.counts.map((count) => -count),
    totalsUs: edges.totalsUs.map((total) => -total),
  }
}

/** An edge of the answer. */
interface ShownEdge extends JsonObject {
  readonly source: string
  readonly target: string
  readonly value: number
  readonly average_conversion_time: number
  readonly persons_url?: PersonsUrl
}

/**
 * Returns the maker of the URLs that list the persons behind an edge. There are no URLs if the query takes all events
 * and excludes `$pageview` or `$screen`. The query then still counts page views by address and screens by screen name,
 * but the persons route would leave these events out.
 */
function urlsOf(plan: PathsPlan, context: QueryContext): UrlMaker {
  const { types, excluded, groupings, cut, fromMs, range, filter } = plan
  const isByName = types.length === 0 && (excluded.includes(PAGEVIEW) || excluded.includes(SCREEN))
  if (isByName) return NO_URLS
  return new PersonsUrls(context).of({
    route: 'path',
    filter,
    series: [],
    parameters: {
      ...rangeParameters({ fromMs, toMs: range.toMs }),
      include_event_types: types,
      exclude_events: excluded,
      path_groupings: groupings,
      start_point: cut.startPoint,
      end_point: cut.endPoint,
      step_limit: cut.stepLimit,
    },
  })
}

/** Returns the edges that occur most often, among those whose number of occurrences is within the requested bounds. */
function largest(
  { weightMin, weightMax, edgesMax }: PathsPlan,
  { texts, steps, sources, targets, counts, totalsUs, repeated }: PathEdges,
  urlOf: UrlMaker | null,
  limits: QueryLimits,
) {
  const pace = new PacedLimits(limits)
  const kept: number[] = []
  for (let edge = 0; edge < counts.length; edge++) {
    const count = counts[edge] ?? 0
    // After a subtraction (see `negative`), an edge may have no occurrences left.
    if (count > 0 && count >= weightMin && count <= weightMax) kept.push(edge)
  }
  const least =
    kept.length < edgesMax
      ? 0
      : selectPlace(
          Float64Array.from(kept, (edge) => counts[edge] ?? 0),
          kept.length - edgesMax,
        )
  const shown = kept.flatMap((edge): readonly ShownEdge[] => {
    const value = counts[edge] ?? 0
    if (value < least) return []
    pace.count(1)
    const step = (steps[edge] ?? 0) + 1
    const source = `${step}_${texts[sources[edge] ?? 0] ?? ''}`
    const target = `${step + 1}_${texts[targets[edge] ?? 0] ?? ''}`
    const shownEdge = {
      source,
      target,
      value,
      average_conversion_time: (totalsUs[edge] ?? 0) / MICROSECONDS / value,
    }
    if (urlOf === null) return [shownEdge]
    const keys = { path_start_key: source, path_end_key: target }
    return [{ ...shownEdge, persons_url: repeated.has(edge) ? null : urlOf(keys) }]
  })
  const compared = shown.sort((left, right) => {
    pace.count(1)
    return compareEdges(left, right)
  })
  return compared.slice(0, edgesMax)
}

function compareEdges(left: ShownEdge, right: ShownEdge): number {
  if (left.value !== right.value) return right.value - left.value
  if (left.source !== right.source) return left.source < right.source ? -1 : 1
  return left.target < right.target ? -1 : 1
}

/** Returns the edges that can be reached from a first step through other edges of the list. */
function connected(edges: readonly ShownEdge[]): readonly ShownEdge[] {
  const reached = new Set(edges.flatMap(({ source }) => (source.startsWith('1_') ? [source] : [])))
  // In the order of steps, the edges that lead to a step come before the edges that leave it.
  const stepOf = ({ source }: ShownEdge): number => Number.parseInt(source, 10)
  for (const { source, target } of [...edges].sort((a, b) => stepOf(a) - stepOf(b))) {
    if (reached.has(source)) reached.add(target)
  }
  return edges.filter(({ source }) => reached.has(source))
}

function actorsOf(plan: PathsPlan, shard: QueryShard): QueryActors {
  const table = new ItemTable(itemRules(plan))
  const finder = new PathFinder({ ...plan.cut, ...plan.keys }, table)
  const persons: number[] = []
  const eventCounts: number[] = []
  eachPerson(plan, shard, table, (person, events, start, end) => {
    const count = finder.countPaths(events, start, end)
    if (count === 0) return
    persons.push(person)
    eventCounts.push(count)
  })
  return { groupTypeIndex: null, persons, groupKeys: [], eventCounts }
}
