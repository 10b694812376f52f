/**
 * Tests repeated queries: the cached results of a thread for unchanged events are never visible in an answer.
 *
 * @lane quick
 */
import t, { type Test } from 'tap'
import { blockShares } from '../../src/base/shared-blocks.ts'
import { NEW_EVENTS_MAX } from '../../src/engine/threads/limits.ts'
import { LongReads } from '../../src/engine/threads/long-reads.ts'
import type { QueryOutcome, QueryTask } from '../../src/engine/threads/queries/query-tasks.ts'
import { RememberedParts } from '../../src/engine/threads/queries/remembered-parts.ts'
import type { EventPart } from '../../src/rules/analytics/event-columns.ts'
import type { PlannedQuery } from '../../src/rules/queries/kinds.ts'
import type { AnyQueryKind, QueryShard } from '../../src/rules/queries/query-kind.ts'
import { PersonLog, threadSettings } from '../fixtures/persons/person-log.ts'

const START_MS = Date.UTC(2024, 0, 10)
const DAY_MS = 86_400_000
const TIMESTAMP = new Date(START_MS).toISOString()
/** Enough events for a segment that is not merged again, and another one after it. */
const MANY = 20_000
const PERSONS = 10
/** One project more than the cache holds facts about. */
const OTHER_PROJECTS = [2, 3, 4, 5, 6]

const VISITORS = {
  kind: 'TrendsQuery',
  series: [{ event: 'view', math: 'dau' }],
  dateRange: { date_from: '2024-01-10', date_to: '2024-01-10' },
  trendsFilter: { display: 'BoldNumber' },
}

interface Answer {
  readonly results: readonly { readonly aggregated_value: number; readonly data: number[] }[]
}

function sendViews(log: PersonLog, projectId: number, count: number): void {
  log.send(
    projectId,
    Array.from({ length: count }, (_, index) => {
      return { event: 'view', distinct_id: `d${index % PERSONS}`, timestamp: TIMESTAMP }
    }),
  )
  log.process()
}

function openThread(t: Test, log: PersonLog) {
  const analytics = blockShares(1_000_000, 1).map((cache) => ({ queryMsMax: 30_000, cache }))
  const threads = new LongReads({
    kind: 'analytics',
    threads: threadSettings(log.dataDir),
    analytics,
    threadCount: 1,
    onDeath: () => undefined,
  })
  t.teardown(() => threads.close())
  return async (projectId: number, query: object = VISITORS): Promise<Answer['results']> => {
    const rest = { timezone: 'UTC', nowMs: START_MS, testAccountFilters: [], format: 'json' }
    const task = { projectId, query, ...rest } as QueryTask
    const call = { call: 'query', values: [task, false] }
    const outcome = (await threads.run(call, 0, () => undefined)) as QueryOutcome
    if (outcome.kind !== 'answer') throw new Error('nothing is divided')
    const { results } = JSON.parse(Buffer.from(outcome.text).toString()) as Answer
    return results
  }
}

/** Queries a single number. */
function openCounter(t: Test, log: PersonLog) {
  const ask = openThread(t, log)
  return async (projectId: number): Promise<number> =>
    (await ask(projectId))[0]?.aggregated_value ?? Number.NaN
}

t.test('merged persons count as one, however many projects were queried', async (t) => {
  const log = new PersonLog(t, t.testdir())
  sendViews(log, 1, MANY)
  for (const projectId of OTHER_PROJECTS) sendViews(log, projectId, 1)
  const ask = openCounter(t, log)
  t.equal(await ask(1), PERSONS)
  for (const projectId of OTHER_PROJECTS) t.equal(await ask(projectId), 1)
  log.send(1, [{ event: '$merge_dangerously', distinct_id: 'd1', properties: { alias: 'd2' } }])
  log.process()
  t.equal(await ask(1), PERSONS - 1, 'nothing else is cached for the project')
  log.send(1, [{ event: '$merge_dangerously', distinct_id: 'd1', properties: { alias: 'd3' } }])
  log.process()
  t.equal(await ask(1), PERSONS - 2, 'the earlier persons are cached')
})

t.test('a visitor who becomes the person of the same number was not a person before', async (t) => {
  const log = new PersonLog(t, t.testdir())
  const dates = { date_from: '2024-01-10', date_to: '2024-01-11' }
  const query = { kind: 'LifecycleQuery', series: [{ event: 'view' }], dateRange: dates }
  const visit = (day: number, more: object): void => {
    const timestamp = new Date(START_MS + day * DAY_MS).toISOString()
    log.send(1, [{ event: 'view', distinct_id: 'd1', timestamp, ...more }])
    log.process()
  }
  visit(0, { properties: { $process_person_profile: false } })
  const ask = openThread(t, log)
  const statuses = async () => (await ask(1, query)).map(({ data }) => data)
  t.strictSame((await statuses()).flat(), new Array(8).fill(0))
  visit(1, {})
  const [fresh, returning] = await statuses()
  t.strictSame(returning, [0, 1])
  t.strictSame(fresh, [0, 0], 'its events of before are its own, so it is not new')
})

t.test('parts by persons are computed again for persons with newer events', async (t) => {
  const parts = new RememberedParts()
  const state = { through: 10, version: 'a', moves: 0, newPersons: [] as number[] }
  const looks: (readonly [among: string, through: number | undefined])[] = []
  let isTold = true
  const kind = {
    dividedBy: 'persons',
    partial: (_: unknown, { part }: { readonly part: EventPart }) => {
      looks.push([part.among?.join('') ?? 'all', part.sequences?.through])
      return `${looks.length}`
    },
    merge: (_: unknown, found: readonly string[]) => found.join('+'),
    without: (_: unknown, part: string, _persons: Uint8Array, theirs: () => string) =>
      isTold ? `${part}-${theirs()}` : null,
  } as unknown as AnyQueryKind
  const scanner = {
    known: () => ({ ...state }),
    movedBehind: () => new Uint32Array(0),
    extent: () => ({ lastPerson: 3 }),
    scanChunks: (_: unknown, visit: (chunk: object) => void) =>
      visit({ count: state.newPersons.length, persons: Uint32Array.from(state.newPersons) }),
    looksAtPersons: false,
  }
  const shard = {
    context: { projectId: 1, nowMs: START_MS },
    scanner,
    part: null,
  } as unknown as QueryShard
  const planned = { kind, plan: {} } satisfies PlannedQuery
  const ask = (): unknown => parts.again(planned, shard)
  t.equal(ask(), null)
  parts.keep(planned, shard, '1')
  t.equal(ask(), '1', 'there are no new events')
  Object.assign(state, { through: 12, newPersons: [2, 3, 2] })
  t.equal(ask(), '1-1+2')
  t.strictSame(looks, [
    ['0011', 10],
    ['0011', 12],
  ])
  Object.assign(state, { version: 'b' })
  t.equal(ask(), null, 'an event was erased, or has another owner')
  parts.keep(planned, shard, '3')
  Object.assign(state, { through: 13, newPersons: [1] })
  isTold = false
  t.equal(ask(), null, 'the earlier results of the person are unknown')
  isTold = true
  t.equal(ask(), '3-3+4')
  Object.assign(state, { through: 14 + NEW_EVENTS_MAX })
  t.equal(ask(), null, 'too many events are new')
  t.equal(looks.length, 4)
})

t.test('evicted small parts make room for large ones', async (t) => {
  const parts = new RememberedParts()
  const kind = { dividedBy: 'segments' } as unknown as AnyQueryKind
  const shard = {
    context: { projectId: 1 },
    part: null,
    scanner: {
      known: () => ({ through: 1, version: '1', moves: 0 }),
      extent: () => ({ lastPerson: 3 }),
      looksAtPersons: false,
    },
  } as unknown as QueryShard
  const keep = (name: string, bytes: number): void =>
    parts.keep({ kind, plan: { name } }, shard, new Uint8Array(bytes))
  const isKept = (name: string): boolean => parts.again({ kind, plan: { name } }, shard) !== null
  for (let number = 0; number < 40_000; number++) keep(`small ${number}`, 1000)
  keep('first', 7_000_000)
  keep('second', 7_000_000)
  t.ok(isKept('first'))
  t.ok(isKept('second'))
  t.notOk(isKept('small 0'))
})
