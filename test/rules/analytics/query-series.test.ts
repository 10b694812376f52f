/**
 * Tests the series of charts: how they are parsed, how the series to which a link refers is found, and filters on
 * events.
 *
 * @lane quick
 */
import t from 'tap'
import { globalFilter } from '../../../src/rules/analytics/analytic-query.ts'
import { runQuestion } from '../../../src/rules/analytics/analytics.ts'
import type { ActionStepMatch } from '../../../src/rules/analytics/event-columns.ts'
import { readAnalyticParameters, readTruth } from '../../../src/rules/analytics/question-shapes.ts'
import { readQuestion } from '../../../src/rules/analytics/questions.ts'
import {
  eventSeries,
  readEntity,
  readSeries,
  targetSeries,
} from '../../../src/rules/analytics/series.ts'
import { readEventFilters, readStoredFilters } from '../../../src/rules/filters/filter-tree.ts'
import { contextOf, parametersOf, scannerOf } from '../../fixtures/analytics/memory-scanner.ts'

type Query = Readonly<Record<string, unknown>>

const STEP: ActionStepMatch = { name: 'click', url: null, urlMatching: 'contains', filter: null }
const ACTIONS = new Map([
  [7, [STEP]],
  [8, []],
])
const lookup = (id: number) => ACTIONS.get(id) ?? null

function seriesOf(events: unknown, actions?: unknown) {
  return readSeries({ events, actions }, lookup)
}

function target(query: Query) {
  return targetSeries(readQuestion('trends', parametersOf(query)).parameters, lookup)
}

t.test('series are sorted by order and numbered', async (t) => {
  const series = seriesOf(
    [
      { id: 'late', order: 3 },
      { id: 'first' },
      { id: 'also first', order: 0 },
      { id: 'middle', order: '1' },
      'bare',
      { id: 5, order: 'x' },
      { id: null, order: 9 },
    ],
    [{ id: 7, order: 2 }],
  )
  t.strictSame(
    series.map(({ id, index }) => [id, index]),
    [
      ['first', 0],
      ['also first', 1],
      ['bare', 2],
      ['5', 3],
      ['middle', 4],
      ['7', 5],
      ['late', 6],
      [null, 7],
    ],
  )
  t.equal(series[5]?.type, 'actions')
  t.strictSame(series[0]?.match, { names: ['first'], filter: null, steps: [] })
  t.strictSame(series[5]?.match, { names: null, filter: null, steps: [STEP] })
  t.strictSame(series[7]?.match, { names: null, filter: null, steps: [] }, 'every event')
  t.strictSame(seriesOf(undefined), [])
})

t.test('math and filters of a series are read', async (t) => {
  const [one] = seriesOf([
    {
      id: 'x',
      math: 'unique_group',
      math_group_type_index: '1',
      math_property: 'p',
      properties: [{ key: 'a', value: 1 }],
    },
  ])
  const { math, mathGroupTypeIndex, mathProperty, filter, match } = one ?? eventSeries(null)
  t.strictSame([math, mathGroupTypeIndex, mathProperty], ['unique_group', 1, 'p'])
  t.strictSame(filter, { type: 'AND', values: [{ key: 'a', type: 'event', value: 1 }] })
  t.equal(match.filter, filter)
  t.equal(seriesOf([{ id: 'x' }])[0]?.math, 'total')
})

t.test('invalid series are refused', async (t) => {
  const refused: readonly (readonly [unknown, unknown, string])[] = [
    ['x', undefined, 'events'],
    [{}, undefined, 'events'],
    [[5], undefined, 'events'],
    [[{ id: {} }], undefined, 'events'],
    [[{ id: 'x', properties: 'y' }], undefined, 'events'],
    [Array(32).fill('x'), undefined, 'events'],
    [Array(16).fill('x'), Array(16).fill({ id: 7 }), 'events'],
    [[], [{ id: 9 }], 'actions'],
    [[], [{ id: 'x' }], 'actions'],
    [[], [{}], 'actions'],
    [[], [{ id: '7.0' }], 'actions'],
  ]
  for (const [events, actions, attr] of refused) {
    const asked = () => seriesOf(events, actions)
    t.throws(asked, { code: 'invalid_input', attr }, JSON.stringify([events, actions]))
  }
  t.throws(() => readEntity({ id: 'x', type: 'moon' }, 'it', lookup), {
    code: 'invalid_input',
    attr: 'it',
  })
  t.equal(readEntity({ id: 7, type: 'actions' }, 'it', lookup).type, 'actions')
})

t.test('an action matches the events of its steps; without steps it matches none', async (t) => {
  const scanner = scannerOf([
    ['a', '2023-01-02T10:00:00Z', 'click'],
    ['b', '2023-01-02T10:00:00Z', 'view'],
  ])
  const names = (id: number) => {
    const query = {
      entity_id: id,
      entity_type: 'actions',
      date_from: '2023-01-02',
      date_to: '2023-01-02',
    }
    const question = readQuestion('trends', parametersOf(query))
    const { actors } = runQuestion(question, contextOf({ actions: lookup }), scanner)
    return actors.map((actor) => (actor.kind === 'person' ? scanner.nameOf(actor.person) : ''))
  }
  t.strictSame(names(7), ['a'])
  t.strictSame(names(8), [])
  t.throws(() => names(9), { code: 'invalid_input', attr: 'entity_id' })
})

t.test('a link selects its series', async (t) => {
  const events = [
    { id: 'view', order: 0, properties: [{ key: 'a', value: 1 }] },
    { id: 'view', order: 1, math: 'dau', properties: [{ key: 'b', value: 1 }] },
    { id: null, order: 2, properties: [{ key: 'c', value: 1 }] },
  ]
  const keyOf = (query: Query) => {
    const { filter, id, math } = target({ events, ...query })
    const [first] = filter?.values ?? []
    return [id, math, first !== undefined && 'key' in first ? first.key : null]
  }
  t.strictSame(keyOf({ entity_id: 'view' }), ['view', 'total', 'a'])
  t.strictSame(keyOf({ entityId: 'view', type: 'events' }), ['view', 'total', 'a'], 'older names')
  t.strictSame(keyOf({ entity_id: 'view', entity_math: 'dau' }), ['view', 'dau', 'b'])
  t.strictSame(
    keyOf({ entity_id: 'view', entity_math: 'weekly_active' }),
    ['view', 'weekly_active', null],
    'a math that no series has loses the filters',
  )
  t.strictSame(keyOf({ entity_id: 'view', entity_order: 1 }), ['view', 'dau', 'b'])
  t.strictSame(keyOf({ entity_id: 'view', entity_order: 9 }), ['view', 'total', 'a'])
  t.strictSame(keyOf({ entity_type: 'events' }), [null, 'total', 'c'], 'all events')
  t.strictSame(keyOf({ entity_type: 'events', entity_order: 1 }), ['view', 'dau', 'b'])
  t.strictSame(keyOf({ entity_id: 'other' }), ['other', 'total', null])
  const alike = { entity_id: '7', entity_type: 'actions' }
  t.equal(target({ events: [{ id: '7' }], ...alike }).type, 'actions')
  for (const query of [{}, { entity_type: 'actions' }, { entity_order: 0 }]) {
    t.throws(() => target({ events, ...query }), { code: 'invalid_input', attr: null })
  }
  t.throws(() => target({ entity_id: 'x', entity_type: 'moon' }), {
    code: 'invalid_input',
    attr: 'entity_type',
  })
})

t.test('filters select events', async (t) => {
  const kept: readonly unknown[] = [
    { key: 'a', type: 'event', value: 1 },
    { key: 'a', type: 'person', value: 1, operator: 'gt' },
    { key: 'a', type: 'group', value: 1, group_type_index: 2 },
    { key: 'id', type: 'cohort', value: 5 },
    { key: 'tag_name', type: 'element', value: 'a', operator: 'is_not' },
    { key: 'text', type: 'element', value: 'a', operator: 'icontains' },
    { key: 'a', type: 'event', operator: 'is_set' },
  ]
  t.strictSame(readEventFilters(kept, 'properties'), { type: 'AND', values: kept })
  t.strictSame(readEventFilters([{ key: 'a', value: 1 }], 'properties'), {
    type: 'AND',
    values: [{ key: 'a', type: 'event', value: 1 }],
  })
  t.strictSame(readEventFilters({ a__gt: 1, b: 'x' }, 'properties'), {
    type: 'AND',
    values: [
      { key: 'a', type: 'event', operator: 'gt', value: 1 },
      { key: 'b', type: 'event', value: 'x' },
    ],
  })
  const dropped: readonly unknown[] = [
    { value: 1 },
    { key: 'a' },
    { key: 'a', value: null },
    { key: 'a', value: 1, type: 'moon', operator: 'like' },
    { key: 'a', value: 1, type: 'behavioral' },
    { key: 'a', value: 1, type: 'group' },
    { key: 'style', value: 1, type: 'element' },
    { type: 'cohort' },
  ]
  for (const filter of dropped) {
    t.equal(readEventFilters([filter], 'properties'), null, JSON.stringify(filter))
  }
  const refused: readonly unknown[] = [
    'text',
    [5],
    {
      type: 'AND',
      values: [
        { key: 'a', value: 1 },
        { type: 'OR', values: [] },
      ],
    },
    { type: 'XOR', values: [] },
    [{ key: '$session_duration', type: 'session', value: 1, operator: 'gt' }],
    [{ key: 'selector', type: 'element', value: 'a', operator: 'icontains' }],
    [{ key: 'tag_name', type: 'element', operator: 'is_set' }],
    [{ key: 'a', value: 1, operator: 'like' }],
    { type: 'OR', values: [{ key: 'a', type: 'group', value: 1, operator: 5 }] },
  ]
  for (const tree of refused) {
    const asked = () => readEventFilters(tree, 'properties')
    t.throws(asked, { code: 'invalid_input', attr: 'properties' }, JSON.stringify(tree))
  }
  const stored = [
    { key: 'a', value: 1, operator: 'like' },
    { key: 'b', value: 1 },
  ]
  t.match(readStoredFilters(stored, 'steps'), { values: [{ key: 'b' }] })
})

t.test('some filters hold for every event', async (t) => {
  const filters = (query: Query, testAccountFilters: readonly unknown[] = []) =>
    globalFilter({
      parameters: readAnalyticParameters(parametersOf(query)),
      context: contextOf({ testAccountFilters }),
    })
  const internal = { key: 'email', type: 'person', operator: 'not_icontains', value: '@own.io' }
  t.equal(filters({}, [internal]), null)
  t.equal(filters({ filter_test_accounts: 'false' }, [internal]), null)
  t.equal(filters({ filter_test_accounts: true }), null)
  const tree = filters({ filter_test_accounts: 'TRUE' }, [internal])
  t.strictSame(tree, { type: 'AND', values: [internal] })
  const both = filters({ filter_test_accounts: true, properties: { a: 1 }, search: 'x' }, [
    internal,
  ])
  t.equal(both?.type, 'AND')
  t.equal(both?.values.length, 3)
  t.throws(() => filters({ properties: '{' }), { code: 'invalid_input', attr: 'properties' })
  t.throws(() => filters({ events: '[' }), { code: 'invalid_input', attr: 'events' })
})

t.test('paging parameters and words for true are read', async (t) => {
  const page = (query: Query) => readAnalyticParameters(parametersOf(query)).page
  t.strictSame(page({}), { limit: 100, offset: 0 })
  t.strictSame(page({ limit: 0, offset: 5 }), { limit: 100, offset: 5 })
  t.strictSame(page({ limit: 20000 }), { limit: 10000, offset: 0 })
  const words = ['true', 'True', 'y', 'YES', 't', 'on', '1', 'false', '0', '']
  const truths = (isLenient: boolean) =>
    words.filter((word) => readTruth(parametersOf({ word }), 'word', isLenient))
  t.strictSame(truths(false), ['true', 'True'])
  t.strictSame(truths(true), ['true', 'True', 'y', 'YES', 't', 'on', '1'])
})
