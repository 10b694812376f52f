/**
 * Tests cached answers: they are returned as long as nothing is written and the query means the same.
 *
 * @lane quick
 */
import t, { type Test } from 'tap'
import type { LongTools } from '../../src/engine/threads/call-kinds.ts'
import { KEPT_ANSWER_BYTES_MAX } from '../../src/engine/threads/limits.ts'
import { KeptAnswers } from '../../src/engine/threads/queries/kept-answers.ts'
import { PieceCounts } from '../../src/engine/threads/queries/query-parts.ts'
import { type QueryTask, runQuery } from '../../src/engine/threads/queries/query-tasks.ts'
import { RememberedParts } from '../../src/engine/threads/queries/remembered-parts.ts'
import { EventReader } from '../../src/store/events/read/event-reader.ts'
import { Dice } from '../fixtures/dice.ts'
import { Differences } from '../fixtures/differences.ts'
import { PersonLog } from '../fixtures/persons/person-log.ts'
import { roundsOf, seedOf } from '../fixtures/random-depth.ts'

const NOW_MS = Date.UTC(2024, 0, 10, 12, 5)
const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const FACTS = {
  projectId: 1,
  testAccountFilters: [],
  pathCleaningFilters: [],
  channelTypeRules: [],
  timezone: 'UTC',
  nowMs: NOW_MS,
}
const TRENDS = { kind: 'TrendsQuery', series: [{ kind: 'EventsNode', event: 'view' }] }
const TASK: QueryTask = { ...FACTS, query: TRENDS, format: 'json' }

/** The tools of an analytics thread. */
function toolsOf(reader: EventReader): LongTools {
  const stores = {
    warehouse: reader,
    reader,
    queryMsMax: 60_000,
    remembered: new RememberedParts(),
    pieceCounts: new PieceCounts(),
    questionBytesMax: Number.POSITIVE_INFINITY,
    cachedBytes: 0,
  }
  return { stores: stores as unknown as LongTools['stores'], canceled: new Int32Array(1) }
}

function viewsAt(t: Test, times: readonly number[]): LongTools {
  const log = new PersonLog(t, t.testdir())
  const at = (timeMs: number) => ({
    event: 'view',
    distinct_id: 'ann',
    timestamp: new Date(timeMs).toISOString(),
  })
  log.send(1, times.map(at))
  log.process()
  const reader = new EventReader({ dataDir: log.dataDir })
  t.teardown(() => reader.close())
  return toolsOf(reader)
}

const textOf = (bytes: Uint8Array | null): string =>
  bytes === null ? '' : Buffer.from(bytes).toString()

t.test('an answer is cached until data is written or the query changes its meaning', async (t) => {
  const tools = viewsAt(t, [NOW_MS])
  let mark: number | null = 7
  const kept = new KeptAnswers(() => mark)
  const later = { ...TASK, nowMs: NOW_MS + MINUTE_MS }
  runQuery(tools, TASK, false)
  const answer = runQuery(tools, { ...TASK, asked: 'again' }, false)
  if (answer.kind !== 'answer') throw new Error('nothing is divided')
  t.equal(kept.find('a', TASK), null, 'no answer is cached')
  kept.keep('a', TASK, answer, mark)
  t.equal(textOf(kept.find('a', TASK)), textOf(answer.text))
  t.not(kept.find('a', TASK), answer.text, 'in memory of its own')
  const fresh = runQuery(tools, later, false)
  if (fresh.kind === 'answer') t.equal(textOf(kept.find('a', later)), textOf(fresh.text))
  t.not(textOf(kept.find('a', later)), textOf(answer.text), 'it says when it was given')
  t.equal(kept.find('b', TASK), null)
  t.equal(kept.find('a', { ...TASK, nowMs: answer.sameUntilMs + 1 }), null)
  t.equal(kept.find('a', { ...TASK, nowMs: NOW_MS - 1 }), null, 'a clock was set back')
  mark = null
  t.equal(kept.find('a', TASK), null, 'a write is in progress')
  mark = 8
  t.equal(kept.find('a', TASK), null, 'data was written')

  kept.keep('a', TASK, answer, 7)
  t.equal(kept.find('a', TASK), null, 'the answer was computed before')
  kept.keep('a', TASK, answer, null)
  t.equal(kept.find('a', TASK), null, 'the answer was computed during a write')
  const large = { ...answer, text: new Uint8Array(KEPT_ANSWER_BYTES_MAX + 1) }
  kept.keep('a', TASK, large, mark)
  kept.keep('', TASK, answer, mark)
  kept.keep('a', TASK, { ...answer, sameUntilMs: 0 }, mark)
  kept.keep('a', TASK, { kind: 'forgotten' }, mark)
  t.equal(kept.find('a', TASK), null)
  t.equal(kept.find('', TASK), null)
  kept.keep('a', TASK, answer, mark)
  kept.keep('b', TASK, answer, mark)
  t.ok(kept.find('a', TASK))
  mark = 9
  kept.keep('b', TASK, answer, mark)
  t.equal(kept.find('a', TASK), null, 'all answers are of one state')
  t.ok(kept.find('b', TASK))
  const table: QueryTask = { ...TASK, format: 'csv' }
  const rows = { ...answer, text: Buffer.from('day,label\r\n') as Uint8Array<ArrayBuffer> }
  kept.keep('c', table, rows, mark)
  t.equal(textOf(kept.find('c', { ...table, nowMs: NOW_MS + 1 })), 'day,label\r\n')
})

t.test('an answer states the time until which only a write can change it', async (t) => {
  const rounds = roundsOf(400)
  const dice = new Dice(seedOf(5))
  const times = dice.list(400, () => NOW_MS + dice.between(-70 * 24 * HOUR_MS, 3 * HOUR_MS))
  const tools = viewsAt(t, times)
  const kinds = {
    TrendsQuery: { ...TRENDS, interval: 'minute' },
    StickinessQuery: { series: TRENDS.series },
    LifecycleQuery: { series: TRENDS.series },
    FunnelsQuery: { series: [...TRENDS.series, ...TRENDS.series] },
    RetentionQuery: {
      retentionFilter: {
        targetEntity: { id: 'view', type: 'events' },
        returningEntity: { id: 'view', type: 'events' },
        totalIntervals: 5,
      },
    },
    PathsQuery: { pathsFilter: {} },
  }
  const froms = ['-7d', '-24h', '-1h', 'dStart', 'wStart', 'mStart', '-1mStart', '-1w', 'all', null]
  const zones = ['UTC', 'Asia/Kathmandu', 'Australia/Lord_Howe', 'America/St_Johns']
  let told = 0
  const differences = new Differences()
  for (let round = 0; round < rounds; round++) {
    const kind = dice.pick(Object.keys(kinds)) as keyof typeof kinds
    const dates = {
      date_from: dice.pick(froms),
      ...(dice.chance(0.3) ? { date_to: dice.pick(['-1d', '-1h', '2024-01-09', null]) } : {}),
      ...(dice.chance(0.1) ? { explicitDate: true } : {}),
    }
    const interval = dice.pick(['hour', 'day', 'week', 'month', 'minute'])
    const query = { ...kinds[kind], kind, interval, dateRange: dates }
    // Mostly near a boundary.
    const edgeMs = Math.floor(NOW_MS / HOUR_MS) * HOUR_MS + dice.pick([0, 15, 30, 45]) * MINUTE_MS
    const nowMs = edgeMs + dice.between(-20, 20) * MINUTE_MS + dice.between(-3, 3)
    const task: QueryTask = { ...FACTS, timezone: dice.pick(zones), nowMs, query, format: 'json' }
    const ask = (asked: QueryTask) => {
      try {
        return runQuery(tools, asked, false)
      } catch {
        // Some of these queries are invalid.
        return null
      }
    }
    ask(task)
    const answer = ask({ ...task, asked: 'again' })
    if (answer?.kind !== 'answer' || answer.sameUntilMs === 0) continue
    told++
    const resultsAt = (atMs: number): string => {
      const other = ask({ ...task, nowMs: atMs })
      const { results } = JSON.parse(other?.kind === 'answer' ? textOf(other.text) : '{}') as {
        readonly results: unknown
      }
      return JSON.stringify(results)
    }
    const now = resultsAt(nowMs)
    for (let look = 0; look < 4; look++) {
      const atMs = look === 0 ? answer.sameUntilMs : dice.between(nowMs, answer.sameUntilMs)
      differences.equal(resultsAt(atMs), now, () => `${JSON.stringify(task)} at ${atMs}`)
    }
  }
  t.strictSame(differences.list(), [], 'the results are the same until then')
  t.ok(told > rounds / 4, `${told} answers had a time`)
})
