/**
 * A query stops when its time is over or its client has disconnected, at any point of its work.
 *
 * @lane quick
 */
import t from 'tap'
import { ServiceError } from '../../../src/base/errors.ts'
import { runQuestion } from '../../../src/rules/analytics/analytics.ts'
import type { EventScanRequest } from '../../../src/rules/analytics/event-columns.ts'
import { readQuestion } from '../../../src/rules/analytics/questions.ts'
import type { FilterGroup } from '../../../src/rules/filters/filter-group.ts'
import {
  contextOf,
  type MemoryScanner,
  parametersOf,
  scannerOf,
} from '../../fixtures/analytics/memory-scanner.ts'
import { PersonLog } from '../../fixtures/persons/person-log.ts'

const START_MS = Date.UTC(2023, 0, 2)
const RANGE = { date_from: '2023-01-01', date_to: '2023-01-07' }
const STEPS = [
  { id: 'a', order: 0 },
  { id: 'b', order: 1 },
]
const FUNNEL = { ...RANGE, events: STEPS, funnel_step: 1 }

const QUESTIONS = {
  trends: { entity_type: 'events', entity_id: 'a' },
  stickiness: { entity_type: 'events', entity_id: 'a', stickiness_days: 1 },
  lifecycle: { events: STEPS, target_date: '2023-01-02', lifecycle_type: 'new' },
  retention: { target_entity: { id: 'a' }, total_intervals: 7, selected_interval: 1 },
  funnel: FUNNEL,
  correlation: { ...FUNNEL, funnel_correlation_person_entity: { id: 'c' } },
  path: {},
} as const

function questionOf(kind: keyof typeof QUESTIONS) {
  const source = parametersOf({ ...RANGE, ...QUESTIONS[kind] })
  return readQuestion(kind, source)
}

/** One event for each of many persons: first all do a, then c, then b. */
function crowd(persons: number): MemoryScanner {
  const events = ['a', 'c', 'b'].flatMap((name, turn) =>
    Array.from({ length: persons }, (_, person) => {
      const at = new Date(START_MS + turn * 60_000).toISOString()
      return [`p${person}`, at, name] as const
    }),
  )
  return scannerOf(events)
}

t.test('every algorithm checks between its rows whether to go on', async (t) => {
  const names = ['trends', 'stickiness', 'lifecycle', 'retention', 'funnel', 'correlation', 'path']
  for (const name of names) {
    const kind = name as keyof typeof QUESTIONS
    const scanner = crowd(15)
    const page = runQuestion(questionOf(kind), contextOf({}), scanner)
    t.equal(page.actors.length, 15, `${name} finds every person`)
    const asked = scanner.limitChecks
    t.ok(asked > 0, `${name} checks whether to go on`)
    for (let last = 1; last <= asked; last++) {
      const stopping = crowd(15)
      let checks = 0
      stopping.checkLimits = () => {
        if (++checks === last) throw new ServiceError('query_timeout', 'over')
      }
      const run = () => runQuestion(questionOf(kind), contextOf({}), stopping)
      t.throws(run, { code: 'query_timeout' }, `${name} stops at check ${last}`)
    }
  }
})

t.test('a long list of persons is read in parts', async (t) => {
  const few = crowd(10)
  const many = crowd(5000)
  for (const scanner of [few, many]) {
    runQuestion(questionOf('funnel'), contextOf({}), scanner)
  }
  t.ok(many.limitChecks >= few.limitChecks + 5, 'once for every thousand persons')
})

t.test('a scan stops within a segment', async (t) => {
  const log = new PersonLog(t, t.testdir())
  const events = Array.from({ length: 1500 }, (_, index) => ({
    event: 'a',
    distinct_id: `p${index}`,
    timestamp: new Date(START_MS + index).toISOString(),
    properties: { page: `/page/${index}`, $set: { name: `n${index}` } },
  }))
  log.send(1, events)
  log.process()
  const request: EventScanRequest = {
    projectId: 1,
    fromMs: START_MS,
    toMs: START_MS + 100_000,
    filter: null,
    series: [{ names: ['a'], filter: null, steps: [] }],
    values: [],
    persons: null,
    nowMs: START_MS,
  }
  const all = (key: string, type: string): FilterGroup => ({
    type: 'AND',
    values: [{ key, type, operator: 'regex', value: '[0-9]+$' }],
  })
  const filters: readonly (readonly [string, FilterGroup])[] = [
    ['values of events', all('page', 'event')],
    ['persons', all('name', 'person')],
    ['distinct ids', all('distinct_id', 'event')],
  ]
  /** Returns the number of checks in a scan that is canceled at the check with this number. */
  const looksOf = (filter: FilterGroup | null, last: number): readonly [string, number] => {
    let looks = 0
    const isCanceled = (): boolean => ++looks >= last
    const limits = { deadlineMs: Number.POSITIVE_INFINITY, isCanceled }
    try {
      log.reader.scanner(limits).scan({ ...request, filter })
      return ['none', looks]
    } catch (error) {
      return [error instanceof ServiceError ? error.code : String(error), looks]
    }
  }
  const [, segments] = looksOf(null, Number.POSITIVE_INFINITY)
  t.equal(segments, 1, 'all rows are in one segment')
  for (const [name, filter] of filters) {
    const [code, looks] = looksOf(filter, 4)
    t.strictSame([code, looks], ['query_timeout', 4], name)
  }
})
