/**
 * Tests which threads a query is sent to, and where its parts are cached.
 *
 * @lane quick
 */
import t from 'tap'
import { REMEMBERED_QUERY_UNITS_MAX } from '../../src/engine/threads/limits.ts'
import { DividedQueries } from '../../src/engine/threads/queries/divided-queries.ts'
import { packPart } from '../../src/engine/threads/queries/packed-part.ts'
import type { QueryTask, QueryTurn } from '../../src/engine/threads/queries/query-tasks.ts'
import type { CallOptions } from '../../src/ports/task-runner.ts'
import { planQuery } from '../../src/rules/queries/kinds.ts'

const START_MS = Date.UTC(2024, 0, 1)

const view = (rest: object = {}) => ({ kind: 'EventsNode', event: 'view', ...rest })
const CHEAP = { key: 'price', value: 3, operator: 'lt', type: 'event' }
const RICH = { key: 'plan', value: 'rich', operator: 'exact', type: 'person' }

t.test('the nine tables of a website go to one thread, other queries to any thread', async (t) => {
  const asked: (number | undefined)[] = []
  const pool = {
    analyticsThreads: 2,
    run: async (_call: string, _values: unknown, { thread }: { readonly thread?: number }) => {
      asked.push(thread)
      return { kind: 'answer', text: new Uint8Array(1) }
    },
  }
  const divided = new DividedQueries(
    pool as unknown as ConstructorParameters<typeof DividedQueries>[0],
  )
  const ask = (projectId: number, query: object) =>
    divided.answer({ projectId, query } as unknown as QueryTask, () => undefined)
  const overview = { kind: 'WebOverviewQuery' }
  await ask(3, overview)
  await ask(3, { kind: 'WebStatsTableQuery' })
  await ask(4, { kind: 'InsightVizNode', source: overview })
  await ask(3, { kind: 'TrendsQuery' })
  t.strictSame(asked, [1, 1, 0, undefined])
  await t.rejects(ask(3, { kind: 'x' }), { code: 'unsupported_kind' })
})

/** A pool that reports its calls. Queries that name a `light` event are not divided. */
function startDivided() {
  const asked: string[] = []
  const state = { partsAreStale: 0, areStatesApart: false, given: [] as readonly unknown[] }
  const givenUp: number[] = []
  const run = async (
    call: string,
    values: readonly unknown[],
    { thread, onTurn, onLeave }: CallOptions,
  ) => {
    asked.push(`${call} ${thread}`)
    onTurn?.(thread ?? 1)
    onLeave?.(() => givenUp.push(thread ?? -1))
    const [{ query }, , turn] = values as [QueryTask, boolean, QueryTurn?]
    const isLight = JSON.stringify(query).includes('light')
    const answer = { kind: 'answer', text: new Uint8Array(1), sameUntilMs: 0 }
    const partOf = (index = 0) => ({
      isLasting: true,
      found: [packPart(null)],
      state: state.areStatesApart && turn !== undefined ? `${index}` : 'a',
    })
    if (call === 'query' && isLight)
      return turn?.isAnswerer === false ? { kind: 'nothing' } : answer
    if (call === 'query') {
      const part = turn === undefined ? {} : { part: partOf(turn.index) }
      return { kind: 'divide', by: 'segments', ...part }
    }
    if (call === 'queryPart') return partOf()
    state.given = values
    return state.partsAreStale-- > 0 ? { kind: 'stale' } : answer
  }
  const pool = { analyticsThreads: 2, run } as unknown
  const divided = new DividedQueries(pool as ConstructorParameters<typeof DividedQueries>[0])
  const ask = async (event: string, math?: string) => {
    asked.length = 0
    givenUp.length = 0
    const query = { kind: 'TrendsQuery', series: [{ event, math }] }
    await divided.answer({ projectId: 1, query } as unknown as QueryTask, () => undefined)
    return asked.join(', ')
  }
  return { ask, state, givenUp }
}

const PARTS = 'queryPart 0, queryPart 1'
const ALL = 'query 0, query 1'

t.test('a cached answer is returned only to a query of the same project', async (t) => {
  const asked: number[] = []
  const pool = {
    analyticsThreads: 1,
    writeMark: 1,
    run: async (_call: string, [{ projectId }]: readonly [QueryTask]) => {
      asked.push(projectId)
      return { kind: 'answer', text: Uint8Array.of(projectId), sameUntilMs: START_MS }
    },
  }
  const divided = new DividedQueries(
    pool as unknown as ConstructorParameters<typeof DividedQueries>[0],
  )
  const query = { kind: 'TrendsQuery', series: [view()] }
  const rest = { query, format: 'csv', nowMs: START_MS }
  const answers: number[] = []
  for (const projectId of [1, 2, 1, 2]) {
    const task = { projectId, ...rest } as unknown as QueryTask
    answers.push(...(await divided.answer(task, () => undefined)))
  }
  t.strictSame(answers, [1, 2, 1, 2])
  t.strictSame(asked, [1, 2], 'each project has its own cached answer')
})

t.test('a divided query is repeated on the thread that merged it', async (t) => {
  const { ask, state } = startDivided()
  t.equal(await ask('a', 'dau'), `query undefined, ${PARTS}, queryMerge 0`)
  t.equal(await ask('b', 'sum'), `query undefined, ${PARTS}, queryMerge 1`)
  t.equal(await ask('a', 'dau'), `query 0, ${PARTS}, queryMerge 0`)
  t.equal(await ask('b', 'sum'), `query 1, ${PARTS}, queryMerge 1`)
  state.partsAreStale = 1
  t.equal(await ask('b', 'sum'), `query 1, ${PARTS}, queryMerge 1, ${PARTS}, queryMerge 1`)
  t.equal(await ask('light'), 'query undefined')
  t.equal(await ask('light'), 'query 1', 'so is a query that any thread has answered')
  const long = 'x'.repeat(REMEMBERED_QUERY_UNITS_MAX)
  t.match(await ask(long), /^query undefined/u)
  t.match(await ask(long), /^query 0, query 1/u)
})

t.test('a query similar to a divided one is sent to all threads at once', async (t) => {
  const { ask, state, givenUp } = startDivided()
  await ask('a', 'dau')
  t.equal(await ask('b', 'dau'), `${ALL}, queryMerge 1`)
  t.equal((state.given[1] as readonly unknown[]).length, 2, 'both parts are sent')
  t.equal(
    await ask('c', 'sum'),
    `query undefined, ${PARTS}, queryMerge 0`,
    'a query of another kind is not',
  )
  t.equal(await ask('b', 'dau'), `query 1, ${PARTS}, queryMerge 1`)
  state.areStatesApart = true
  t.equal(await ask('d', 'dau'), `${ALL}, ${PARTS}, queryMerge 0`, 'events arrived in between')
  t.equal(await ask('light', 'dau'), ALL)
  t.strictSame(givenUp, [0, 1], 'who computes a part of what another answers is given up')
  t.equal(await ask('light', 'dau'), 'query 1', 'it was the turn of this thread')
  t.equal(
    await ask('e', 'dau'),
    `query undefined, ${PARTS}, queryMerge 1`,
    'the last query was not divided',
  )
})

t.test(
  'queries are not divided while as many of them are answered as there are threads',
  async (t) => {
    const asked: string[] = []
    const started: (() => void)[] = []
    const run = async (call: string, [{ query }, mayDivide]: [QueryTask, boolean]) => {
      const { name } = query as { name: string }
      const way = call === 'query' && !mayDivide ? 'whole' : call
      asked.push(`${name} ${way}`)
      if (way === 'query' || name === 'slow') {
        await new Promise<void>((resolve) => started.push(resolve))
      }
      if (way === 'query') return { kind: 'divide', by: 'segments' }
      const part = { isLasting: true, found: [packPart(null)], state: 'a' }
      return call === 'queryPart'
        ? part
        : { kind: 'answer', text: Uint8Array.of(1), sameUntilMs: 0 }
    }
    const pool = { analyticsThreads: 2, run } as unknown
    const divided = new DividedQueries(pool as ConstructorParameters<typeof DividedQueries>[0])
    const ask = (name: string) => {
      const query = { kind: 'TrendsQuery', name, series: [view()] }
      return divided.answer({ projectId: 1, query } as unknown as QueryTask, () => undefined)
    }
    const takeAsked = () => asked.splice(0).join(', ')

    const first = ask('first')
    const second = ask('second')
    t.equal(takeAsked(), 'first query, second whole')
    await second
    for (const start of started.splice(0)) start()
    await first
    t.equal(takeAsked(), 'first queryPart, first queryPart, first queryMerge', 'alone again')

    const third = ask('third')
    t.equal(takeAsked(), 'third query, third query', 'the last query of this form was divided')
    const slow = ask('slow')
    t.equal(takeAsked(), 'slow whole')
    const [, , endSlow] = started
    for (const start of started.splice(0, 2)) start()
    await third
    t.equal(takeAsked(), 'third whole', 'another query has joined')
    endSlow?.()
    await slow
  },
)

t.test('the time limit of a query does not include waiting for threads', async (t) => {
  let nowMs = 0
  const { now } = performance
  performance.now = () => nowMs
  t.teardown(() => {
    performance.now = now
  })
  const spent: unknown[] = []
  const run = async (
    call: string,
    [{ spentMs }]: readonly [QueryTask],
    { onTurn, thread }: CallOptions,
  ) => {
    spent.push(`${call} ${String(spentMs)}`)
    nowMs += 20_000
    onTurn?.(thread ?? 0)
    nowMs += 1000
    if (call === 'query') return { kind: 'divide', by: 'segments' }
    // The states of the first two parts differ.
    if (call === 'queryPart')
      return { isLasting: true, found: [], state: String(spent.length < 4 && thread) }
    return { kind: 'answer', text: Uint8Array.of(1), sameUntilMs: 0 }
  }
  const pool = { analyticsThreads: 2, run } as unknown
  const divided = new DividedQueries(pool as ConstructorParameters<typeof DividedQueries>[0])
  const query = { kind: 'TrendsQuery', series: [view()] }
  await divided.answer({ projectId: 1, query } as unknown as QueryTask, () => undefined)
  t.strictSame(spent, [
    'query undefined',
    'queryPart 0',
    'queryPart 0',
    'queryPart 1000',
    'queryPart 1000',
    'queryMerge 2000',
  ])
})

t.test('a query that only counts is divided later than one that reads events', async (t) => {
  const workOf = (query: object): string | undefined => {
    const context = { timezone: 'UTC', nowMs: START_MS, testAccountFilters: [] }
    const { kind, plan } = planQuery({ kind: 'TrendsQuery', ...query }, context as never)
    return kind.workOf?.(plan)
  }
  t.equal(workOf({ series: [view(), view({ math: 'total' })] }), 'counts')
  t.equal(workOf({ series: [view(), view({ math: 'dau' })] }), 'simple')
  t.equal(workOf({ series: [view({ properties: [CHEAP] })] }), 'much', 'a number has to be read')
  const here = { key: 'shop', value: 'here', operator: 'exact', type: 'event' }
  t.equal(workOf({ series: [view({ properties: [here] })] }), 'simple')
  t.equal(workOf({ series: [view()], properties: [here] }), 'simple')
  t.equal(workOf({ series: [view({ math: 'dau' })], properties: [here] }), 'simple')
  t.equal(workOf({ series: [view()], properties: [RICH] }), 'much', 'persons have to be read')
  const split = (breakdown_type: string) => ({ breakdown: 'shop', breakdown_type })
  t.equal(workOf({ series: [view()], breakdownFilter: split('event') }), 'simple')
  t.equal(workOf({ series: [view()], breakdownFilter: split('person') }), 'much')
  t.equal(workOf({ series: [view({ math: 'dau' })], breakdownFilter: split('event') }), 'much')
  t.equal(workOf({ series: [view({ math: 'sum', math_property: 'price' })] }), 'much')
})
