/**
 * Tests the analytics threads: answers, a bounded queue, and abandoned queries.
 *
 * @lane quick
 */
import t from 'tap'
import { blockShares } from '../../src/base/shared-blocks.ts'
import { LongReads } from '../../src/engine/threads/long-reads.ts'
import type {
  QueryOutcome,
  QueryPart,
  QueryTask,
} from '../../src/engine/threads/queries/query-tasks.ts'
import type { AnalyticAnswer, AnalyticQuery } from '../../src/rules/analytics/analytics.ts'
import type { ActionStep } from '../../src/rules/filters/actions.ts'
import { EMPTY_STEP } from '../fixtures/action-step.ts'
import { answerRows } from '../fixtures/analytics/analytic-answers.ts'
import { PersonLog, threadSettings } from '../fixtures/persons/person-log.ts'

const START_MS = Date.UTC(2024, 0, 10)
const PAGE = { limit: 100, offset: 0 }

const QUERY: AnalyticQuery = {
  projectId: 1,
  timezone: 'UTC',
  nowMs: START_MS + 86_400_000,
  testAccountFilters: [],
  format: 'json',
  question: {
    kind: 'stickiness',
    parameters: {
      dateFrom: '2024-01-01',
      dateTo: null,
      interval: null,
      isExplicit: false,
      events: undefined,
      actions: [{ id: 1 }],
      properties: undefined,
      isWithoutTestAccounts: false,
      search: null,
      page: PAGE,
      target: {
        id: '1',
        type: 'actions',
        order: null,
        math: null,
        mathProperty: null,
        mathGroupTypeIndex: null,
      },
      stickinessDays: 1,
    },
  },
}

const QUESTION = { call: 'analytics', values: [QUERY] }

function openThreads(log: PersonLog, threadCount: number): LongReads {
  const analytics = blockShares(1_000_000, threadCount).map((cache) => ({
    queryMsMax: 30_000,
    cache,
  }))
  return new LongReads({
    kind: 'analytics',
    threads: threadSettings(log.dataDir),
    analytics,
    threadCount,
    onDeath: () => undefined,
  })
}

t.test('queries are answered one after another, and the queue is bounded', async (t) => {
  const log = new PersonLog(t, t.testdir())
  const step: ActionStep = { ...EMPTY_STEP, event: 'buy' }
  log.run(1, {
    kind: 'create_action',
    action: { name: 'a', description: '', tags: [], steps: [step] },
  })
  const timestamp = new Date(START_MS).toISOString()
  log.send(1, [
    { event: 'buy', distinct_id: 'a', timestamp, properties: { $set: { email: 'a@x.example' } } },
    { event: 'look', distinct_id: 'b', timestamp, properties: {} },
  ])
  log.process()
  const threads = openThreads(log, 1)
  const ask = () => threads.run(QUESTION, 0, () => undefined) as Promise<AnalyticAnswer>
  const answer = await ask()
  t.match(answer, { count: 1, isFull: false, missingPersons: 0 })
  t.match(answerRows(answer), [
    {
      type: 'person',
      name: 'a@x.example',
      distinct_ids: ['a'],
      created_at: '2024-01-10T00:00:00Z',
      value_at_data_point: null,
    },
  ])

  const canceled = threads.run(QUESTION, 0, (cancel) => cancel())
  await t.rejects(canceled, { code: 'query_timeout' }, 'no query waits')

  const many = await Promise.allSettled(Array.from({ length: 40 }, ask))
  const refused = many.filter(({ status }) => status === 'rejected')
  t.equal(refused.length, 40 - 33)
  t.match(refused[0], { reason: { code: 'server_error', retryAfterSeconds: 2 } })
  t.strictSame(await ask(), answer, 'there is room again')
  await threads.close()
})

t.test('unused threads close immediately, and a query ends with its threads', async (t) => {
  const log = new PersonLog(t, t.testdir())
  log.send(1, [{ event: 'buy', distinct_id: 'a', properties: {} }])
  log.process()
  await openThreads(log, 2).close()
  const threads = openThreads(log, 2)
  const questions = Array.from({ length: 3 }, () => threads.run(QUESTION, 0, () => undefined))
  const [, ...results] = await Promise.allSettled([threads.close(), ...questions])
  // There is no such action. A query that is not canceled is refused.
  for (const result of results) t.match(result, { status: 'rejected' })
})

t.test('parts of a query pass the main thread as bytes, and are merged', async (t) => {
  const log = new PersonLog(t, t.testdir())
  const timestamp = new Date(START_MS).toISOString()
  const event = (distinct_id: string) => ({ event: 'buy', distinct_id, timestamp, properties: {} })
  log.send(1, ['a', 'b', 'a', 'c'].map(event))
  log.process()
  const threads = openThreads(log, 2)
  t.teardown(() => threads.close())
  const ask = <Answer>(call: string, ...values: readonly unknown[]) =>
    threads.run({ call, values }, 0, () => undefined) as Promise<Answer>
  for (const math of ['total', 'dau']) {
    const breakdownFilter = { breakdown: '$browser' }
    const query = { kind: 'TrendsQuery', series: [{ event: 'buy', math }], breakdownFilter }
    const facts = { projectId: 1, timezone: 'UTC', nowMs: START_MS, testAccountFilters: [] }
    const task: QueryTask = { ...facts, query, format: 'json' }
    const whole = await ask<QueryOutcome>('query', task, false)
    const parts = await Promise.all(
      [0, 1].map((index) => ask<QueryPart>('queryPart', task, { by: 'persons', index, count: 2 })),
    )
    t.match(
      parts.map(({ found }) => found[0]?.text),
      [Uint8Array, Uint8Array],
    )
    const { text } = await ask<{ text: Uint8Array }>('queryMerge', task, parts)
    t.equal(whole.kind, 'answer')
    if (whole.kind === 'answer') t.strictSame(text, whole.text)
    t.match(Buffer.from(text).toString(), `"count":${math === 'dau' ? 3 : 4}`)
  }
})
