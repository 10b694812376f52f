/**
 * Compares path queries of the query route with a naive evaluator, however the persons are divided, and tests which
 * requests are refused.
 *
 * @lane quick
 */
import t from 'tap'
import { planQuery } from '../../../src/rules/queries/kinds.ts'
import { PATH_EDGES_MAX } from '../../../src/rules/queries/limits.ts'
import { EdgeTable } from '../../../src/rules/queries/paths/path-edges.ts'
import { QueryFields } from '../../../src/rules/queries/query-fields.ts'
import type { QueryContext } from '../../../src/rules/queries/query-kind.ts'
import {
  type MemoryScanner,
  type ShortEvent,
  scannerOf,
} from '../../fixtures/analytics/memory-scanner.ts'
import { memoryShard } from '../../fixtures/queries/memory-shard.ts'
import { roundsOf } from '../../fixtures/random-depth.ts'
import { randomNumbers } from '../../fixtures/stored-events.ts'

type Json = Readonly<Record<string, unknown>>

const START_MS = Date.UTC(2024, 0, 10)
const MINUTE_MS = 60_000
const CONTEXT: QueryContext = {
  projectId: 1,
  timezone: 'UTC',
  nowMs: START_MS + 86_400_000,
  testAccountFilters: [],
  action: () => null,
  cohortName: () => null,
  firstEventMs: () => START_MS,
}
const RANGE = { date_from: '2024-01-10', date_to: '2024-01-10' }

interface Step {
  readonly item: string
  readonly timeMs: number
}

interface Wish {
  readonly types: readonly string[]
  readonly excluded: readonly string[]
  readonly groupings: readonly string[]
  readonly startPoint: string
  readonly endPoint: string
  readonly stepLimit: number
  readonly edgeLimit: number
  readonly min: number
  readonly max: number
}

function randomEvents(random: () => number): readonly ShortEvent[] {
  const pick = <Value>(values: readonly Value[]): Value =>
    values[Math.floor(random() * values.length)] as Value
  return Array.from({ length: 60 }, (): ShortEvent => {
    const name = pick(['$pageview', '$pageview', '$pageview', '$screen', 'tap', 'buy', '$set'])
    const $current_url = pick(['/', '/a', '/a/', '/b', '/p/1', '/p/2', ''])
    const properties =
      name === '$pageview'
        ? { $current_url }
        : name === '$screen' && random() < 0.8
          ? { $screen_name: pick(['Home', '/a', 'Cart/']) }
          : {}
    const at = new Date(START_MS + Math.floor(random() * 50) * 5 * MINUTE_MS).toISOString()
    return [pick(['a', 'b', 'c', 'd']), at, name, properties]
  })
}

function randomWish(random: () => number): Wish {
  const pick = <Value>(values: readonly Value[]): Value =>
    values[Math.floor(random() * values.length)] as Value
  return {
    types: pick([[], ['$pageview'], ['$screen', 'custom_event'], ['custom_event', '$pageview']]),
    excluded: pick([[], ['/b'], ['tap', '/p/*'], ['']]),
    groupings: pick([[], ['/p/*'], ['a', '/p']]),
    startPoint: pick(['', '', '/a/', '/', 'tap']),
    endPoint: pick(['', '', '/b', '/p/*', '/a']),
    stepLimit: pick([2, 3, 4, 5, 20]),
    edgeLimit: pick([1, 3, 8, 50]),
    min: pick([0, 0, 2]),
    max: pick([0, 0, 3]),
  }
}

function queryOf(wish: Wish, keys: Json = {}): Json {
  return {
    kind: 'PathsQuery',
    dateRange: RANGE,
    pathsFilter: {
      includeEventTypes: wish.types,
      excludeEvents: wish.excluded,
      pathGroupings: wish.groupings,
      startPoint: wish.startPoint,
      endPoint: wish.endPoint,
      stepLimit: wish.stepLimit,
      edgeLimit: wish.edgeLimit,
      minEdgeWeight: wish.min,
      maxEdgeWeight: wish.max,
      ...keys,
    },
  }
}

const withoutSlash = (text: string): string => (text === '/' ? text : text.replace(/\/$/, ''))

function itemOf(
  { types, excluded, groupings }: Wish,
  name: string,
  properties: Json,
): string | null {
  const isCustom = types.includes('custom_event') && !name.startsWith('$')
  if (types.length > 0 && !types.includes(name) && !isCustom) return null
  let item = name
  if (name === '$pageview') item = withoutSlash(String(properties['$current_url'] ?? ''))
  if (name === '$screen') item = String(properties['$screen_name'] ?? '')
  const patterns = groupings.map((text) => new RegExp(text.replaceAll('*', '.*')))
  const found = patterns.findIndex((pattern) => pattern.test(item))
  if (found >= 0) item = groupings[found] ?? ''
  return excluded.includes(item) ? null : item
}

/** The paths of each person. */
function pathsOf(
  wish: Wish,
  events: readonly ShortEvent[],
): ReadonlyMap<string, readonly Step[][]> {
  const paths = new Map<string, Step[][]>()
  const previous = new Map<string, number>()
  const ordered = events
    .map(([who, at, name, properties = {}], sequence) => ({
      who,
      sequence,
      timeMs: Date.parse(at),
      item: itemOf(wish, name, properties),
    }))
    .sort((a, b) => a.timeMs - b.timeMs || a.sequence - b.sequence)
  for (const { who, timeMs, item } of ordered) {
    if (item === null) continue
    const own = paths.get(who) ?? []
    paths.set(who, own)
    const isNew = timeMs - (previous.get(who) ?? Number.NEGATIVE_INFINITY) >= 30 * MINUTE_MS
    previous.set(who, timeMs)
    if (isNew) own.push([])
    const path = own.at(-1) ?? []
    if (path.at(-1)?.item === item) path.pop()
    path.push({ item, timeMs })
  }
  return new Map([...paths].map(([who, own]) => [who, own.map((path) => cut(wish, path))]))
}

function cut({ startPoint, endPoint, stepLimit }: Wish, session: readonly Step[]): Step[] {
  let path = session.at(-1)?.item === '' ? session.slice(0, -1) : [...session]
  const place = (point: string, from: number): number =>
    path.findIndex(({ item }, index) => index >= from && item === withoutSlash(point))
  if (startPoint !== '') {
    const start = place(startPoint, 0)
    if (start < 0) return []
    path = path.slice(start)
  }
  if (endPoint === '') return path.slice(0, stepLimit)
  const end = place(endPoint, startPoint === '' ? 0 : 1)
  if (end < 0) return []
  path = path.slice(0, end + 1)
  if (path.length <= stepLimit) return path
  if (startPoint === '') return path.slice(-stepLimit)
  const half = Math.floor(stepLimit / 2)
  const fold = { item: '...', timeMs: path[half]?.timeMs ?? 0 }
  return [...path.slice(0, half), fold, ...path.slice(path.length - half)]
}

function edgesOf(path: readonly Step[]) {
  return path.slice(1).map(({ item, timeMs }, index) => {
    const { item: before = '', timeMs: beforeMs = 0 } = path[index] ?? {}
    return {
      source: `${index + 1}_${before}`,
      target: `${index + 2}_${item}`,
      tookMs: timeMs - beforeMs,
    }
  })
}

function expected(wish: Wish, events: readonly ShortEvent[]): unknown {
  const edges = new Map<
    string,
    { source: string; target: string; value: number; totalMs: number }
  >()
  for (const path of [...pathsOf(wish, events).values()].flat()) {
    for (const { source, target, tookMs } of edgesOf(path)) {
      const edge = edges.get(`${source} ${target}`) ?? { source, target, value: 0, totalMs: 0 }
      edges.set(`${source} ${target}`, edge)
      edge.value++
      edge.totalMs += tookMs
    }
  }
  const kept = [...edges.values()]
    .filter(({ value }) => value >= wish.min && value <= (wish.max || Number.POSITIVE_INFINITY))
    .sort(
      (a, b) =>
        b.value - a.value || (`${a.source}\0${a.target}` < `${b.source}\0${b.target}` ? -1 : 1),
    )
    .slice(0, wish.edgeLimit)
  const isReached = (source: string): boolean =>
    source.startsWith('1_') || kept.some((edge) => edge.target === source && isReached(edge.source))
  return kept
    .filter(({ source }) => isReached(source))
    .map(({ source, target, value, totalMs }) => ({
      source,
      target,
      value,
      average_conversion_time: totalMs / value,
    }))
}

function resultsOf(query: Json, scanner: MemoryScanner, count: number): unknown {
  const { kind, plan } = planQuery(query, CONTEXT)
  const parts = Array.from({ length: count }, (_, index): unknown =>
    kind.partial(plan, memoryShard(scanner, CONTEXT, { by: 'persons', index, count })),
  )
  const whole: unknown = kind.merge(plan, structuredClone(parts.toReversed()), scanner)
  return kind.page(plan, whole, memoryShard(scanner, CONTEXT)).results
}

t.test('paths equal those of a naive evaluator, however they are divided', async (t) => {
  const random = randomNumbers(20_240_110)
  for (let trial = 0; trial < roundsOf(400); trial++) {
    const events = randomEvents(random)
    const wish = randomWish(random)
    const right = JSON.stringify(expected(wish, events))
    const withUrls = { ...queryOf(wish), persons_urls: true }
    const [whole, divided] = [1, 3].map((count) =>
      JSON.stringify(resultsOf(withUrls, scannerOf(events), count)),
    )
    if (whole !== divided) {
      t.equal(divided, whole, `trial ${trial}: the actors are right`)
      return
    }
    for (const count of [1, 3]) {
      const found = JSON.stringify(resultsOf(queryOf(wish), scannerOf(events), count))
      if (found === right) continue
      t.equal(found, right, `trial ${trial}, ${JSON.stringify(wish)}`)
      return
    }
  }
  t.pass('all trials')
})

t.test('the actors of an edge or an end are its persons, with their counts', async (t) => {
  const random = randomNumbers(5)
  for (let trial = 0; trial < roundsOf(150); trial++) {
    const events = randomEvents(random)
    const wish = { ...randomWish(random), min: 0, max: 0 }
    const scanner = scannerOf(events)
    const paths = pathsOf(wish, events)
    const all = [...paths.values()].flat()
    const [edge = { source: '1_x', target: '2_y' }] = all.flatMap(edgesOf)
    const last = all.find((path) => path.length > 0) ?? [{ item: 'x', timeMs: 0 }]
    const asked: readonly (readonly [keys: Json, isIn: (path: readonly Step[]) => boolean])[] = [
      [
        { pathStartKey: edge.source, pathEndKey: edge.target },
        (path) =>
          edgesOf(path).some(
            ({ source, target }) => source === edge.source && target === edge.target,
          ),
      ],
      [
        { pathStartKey: edge.source },
        (path) => edgesOf(path).some(({ source }) => source === edge.source),
      ],
      [
        { pathEndKey: edge.target },
        (path) => edgesOf(path).some(({ target }) => target === edge.target),
      ],
      [{ pathEndKey: edge.source.replace(/^\d+/, '1') }, () => false],
      [
        { pathDropoffKey: `${last.length}_${last.at(-1)?.item ?? ''}` },
        (path) => path.length === last.length && path.at(-1)?.item === last.at(-1)?.item,
      ],
    ]
    for (const [keys, isIn] of asked) {
      const { kind, plan } = planQuery(queryOf(wish, keys), CONTEXT)
      const shard = memoryShard(scanner, CONTEXT)
      const actors = kind.actors?.(plan, new QueryFields({}), shard)
      const found = actors?.persons.map((person, index) => [
        scanner.nameOf(person),
        actors.eventCounts?.[index],
      ])
      const right = [...paths]
        .map(([who, own]) => [who, own.filter(isIn).length] as const)
        .filter(([, count]) => count > 0)
      const hint = `trial ${trial}, ${JSON.stringify([wish, keys])}`
      if (JSON.stringify(found?.sort()) === JSON.stringify(right.sort())) continue
      t.strictSame(found?.sort(), right.sort(), hint)
      return
    }
  }
  t.pass('all trials')
})

t.test('many different edges are kept apart', async (t) => {
  const events = Array.from({ length: 5000 }, (_, index): ShortEvent => {
    const at = new Date(START_MS + index * 10_000).toISOString()
    return [`u${index >> 1}`, at, `e${index % 3000}`]
  })
  const query = { kind: 'PathsQuery', dateRange: RANGE, pathsFilter: { edgeLimit: 5000 } }
  const results = resultsOf(query, scannerOf(events), 1) as readonly Json[]
  t.equal(results.length, 1500)
  t.equal(
    results.reduce((sum, { value }) => sum + Number(value), 0),
    2500,
  )
})

t.test('the number of edges is limited', async (t) => {
  const edges = new EdgeTable()
  for (let edge = 0; edge < PATH_EDGES_MAX; edge++) edges.add(0, edge, edge >> 1, 1, 1)
  edges.add(0, 7, 3, 1, 1)
  t.throws(() => edges.add(1, 7, 3, 1, 1), { code: 'query_too_large' })
})

t.test('an invalid query is refused with the path of the member', async (t) => {
  const refusals: readonly (readonly [query: Json, attr: string])[] = [
    [{ funnelPathsFilter: { funnelStep: 1 } }, 'funnelPathsFilter'],
    [{ pathsFilter: { includeEventTypes: ['hogql'] } }, 'pathsFilter.includeEventTypes'],
    [
      { pathsFilter: { localPathCleaningFilters: [{ regex: 'a', alias: 'b' }] } },
      'pathsFilter.localPathCleaningFilters',
    ],
    [{ pathsFilter: { stepLimit: 0 } }, 'pathsFilter.stepLimit'],
    [{ pathsFilter: { excludeEvents: 'x' } }, 'pathsFilter.excludeEvents'],
    [{ pathsFilter: { pathGroupings: ['x'.repeat(2001)] } }, 'pathsFilter.pathGroupings'],
  ]
  for (const [query, attr] of refusals) {
    const full = { kind: 'PathsQuery', ...query }
    t.throws(() => planQuery(full, CONTEXT), { code: 'invalid_query', attr }, JSON.stringify(query))
  }
})
