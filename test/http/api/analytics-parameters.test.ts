/**
 * Every parameter of the analytic routes has its documented effect or is documented to have none. An invalid value is
 * refused as the reference says.
 *
 * @lane quick
 */
import t from 'tap'
import { ServiceError } from '../../../src/base/errors.ts'
import { ANALYTIC_RESOURCE } from '../../../src/http/routes/persons/person-analytics.ts'
import { runQuestion } from '../../../src/rules/analytics/analytics.ts'
import {
  type AnalyticQuestion,
  isCorrelationRequest,
  readQuestion,
} from '../../../src/rules/analytics/questions.ts'
import { contextOf, parametersOf, scannerOf } from '../../fixtures/analytics/memory-scanner.ts'
import { Differences } from '../../fixtures/differences.ts'
import {
  PARAMETER_EVENTS,
  PARAMETER_PERSONS,
  type ParameterRoute,
} from '../../fixtures/parameter-row.ts'
import { IDLE_ROWS, SERIES_ROWS } from '../../fixtures/parameter-rows-series.ts'
import { WAY_ROWS } from '../../fixtures/parameter-rows-ways.ts'

type Query = Readonly<Record<string, unknown>>

const RANGE = { date_from: '2023-01-01', date_to: '2023-01-07' }
/** Parameters of every request to a route, unless its row sets others. */
const DEFAULTS: Readonly<Record<ParameterRoute, Query>> = {
  trends: RANGE,
  stickiness: RANGE,
  lifecycle: RANGE,
  retention: { date_to: '2023-01-07', total_intervals: 7 },
  funnel: { ...RANGE, funnel_step: 2 },
  'funnel/correlation': RANGE,
  path: RANGE,
}

/** Parameters that each route requires. */
const NEEDED: Readonly<Record<ParameterRoute, Query>> = {
  trends: { entity_id: 'a', entity_type: 'events' },
  stickiness: { entity_id: 'a', entity_type: 'events', stickiness_days: 1 },
  lifecycle: { events: [{ id: 'a' }], target_date: '2023-01-02', lifecycle_type: 'new' },
  retention: {},
  funnel: { events: [{ id: 'a' }] },
  'funnel/correlation': { events: [{ id: 'a' }], funnel_correlation_person_entity: { id: 'c' } },
  path: {},
}
const MIXED = {
  type: 'AND',
  values: [
    { key: 'a', value: 1 },
    { type: 'OR', values: [{ key: 'b', value: 1 }] },
  ],
}

function questionOf(route: ParameterRoute, query: Query): AnalyticQuestion {
  const source = parametersOf(query)
  const isCorrelation = route === 'funnel' && isCorrelationRequest(source)
  const kind = isCorrelation || route === 'funnel/correlation' ? 'correlation' : route
  return readQuestion(kind, source)
}

/** Returns the found persons with values and appearances, in order, or a refusal as `code attr`. */
function seen(route: ParameterRoute, query: Query): string {
  const scanner = scannerOf(PARAMETER_EVENTS, PARAMETER_PERSONS, {
    groups: new Map([['0 acme', { size: 'large' }]]),
    cohorts: new Map([[7, new Set([2])]]),
  })
  const context = contextOf({
    testAccountFilters: [{ key: 'plan', type: 'person', value: 'free' }],
    actions: (id) =>
      id === 3 ? [{ name: 'b', url: null, urlMatching: 'contains', filter: null }] : null,
  })
  try {
    const page = runQuestion(questionOf(route, query), context, scanner)
    const texts = page.actors.map((actor, index) => {
      const name = actor.kind === 'person' ? scanner.nameOf(actor.person) : actor.key
      const value = actor.value === null ? '' : `:${actor.value}`
      return `${name}${value}${page.appearances?.[index]?.join('').replace(/^/, ':') ?? ''}`
    })
    return texts.join(' ')
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    return `${error.code} ${String(error.attr)}`
  }
}

const ROWS = [...SERIES_ROWS, ...IDLE_ROWS, ...WAY_ROWS]

for (const { name, route, base, without, given, found, wrong } of ROWS) {
  t.test(`${name} of persons/${route}`, async (t) => {
    const query = { ...DEFAULTS[route], ...base }
    const differences = new Differences()
    differences.equal(seen(route, query), without, 'without it')
    differences.equal(seen(route, { ...query, [name]: given }), found, 'with it')
    for (const [value, answer] of wrong ?? []) {
      differences.equal(seen(route, { ...query, [name]: value }), answer, JSON.stringify(value))
    }
    t.strictSame(differences.list(), [], 'it has the effect of its row')
  })
}

t.test('every parameter has a row', async (t) => {
  const named = new Set(ROWS.map(({ name }) => name))
  // Its effect is visible in the response body outside of the list of persons.
  named.add('include_total')
  const described = ANALYTIC_RESOURCE.routes.flatMap(({ query = {}, body = {} }) =>
    [query, body].flatMap(({ properties = {} }) => Object.keys(properties as object)),
  )
  t.ok(described.includes('funnel_step_breakdown'))
  t.strictSame(
    [...new Set(described)].filter((name) => !named.has(name)),
    [],
  )
})

t.test('the routes refuse invalid requests', async (t) => {
  const events = [{ id: 'a' }]
  const cases: readonly (readonly [ParameterRoute, Query, string])[] = [
    ['trends', {}, 'invalid_input null'],
    ['stickiness', {}, 'invalid_input null'],
    ['trends', { entity_type: 'events', entity_math: 'p90' }, 'required math_property'],
    ['stickiness', { entity_type: 'events', entity_math: 'sum' }, 'required math_property'],
    [
      'trends',
      { entity_type: 'events', entity_math: 'unique_group' },
      'required math_group_type_index',
    ],
    ['funnel', { events, funnel_step: '' }, 'required funnel_step'],
    ['funnel', {}, 'required events'],
    ['funnel', { events, funnel_viz_type: 'trends', drop_off: true }, 'invalid_input null'],
    [
      'funnel',
      { events, funnel_viz_type: 'trends', entrance_period_start: '2023-01-02' },
      'invalid_input null',
    ],
    ['funnel/correlation', { events }, 'invalid_input null'],
    [
      'funnel/correlation',
      { events, funnel_correlation_type: 'event_with_properties' },
      'invalid_input null',
    ],
    ['funnel/correlation', { events, funnel_correlation_type: 'properties' }, 'invalid_input null'],
    ['lifecycle', { events, lifecycle_type: 'new' }, 'required target_date'],
    ['lifecycle', { events, target_date: '2023-01-02' }, 'required lifecycle_type'],
    ['lifecycle', { target_date: '2023-01-02', lifecycle_type: 'new' }, 'invalid_input null'],
    [
      'path',
      { include_event_types: ['custom_event'], include_custom_events: ['a'] },
      'invalid_input null',
    ],
    ['retention', { period: 'Decade' }, 'invalid_input null'],
    ['retention', { selected_interval: 7 }, 'invalid_input null'],
  ]
  const differences = new Differences()
  for (const [route, query, answer] of cases) {
    const found = seen(route, { ...DEFAULTS[route], ...query })
    differences.equal(found, answer, JSON.stringify([route, query]))
  }
  for (const [route, defaults] of Object.entries(DEFAULTS) as [ParameterRoute, Query][]) {
    const query = { ...defaults, ...NEEDED[route] }
    const expect = (changes: Query, refusal: string): void =>
      differences.equal(seen(route, { ...query, ...changes }), refusal, `${route}: ${refusal}`)
    const refusal = /^(invalid_input|required) .*/.exec(seen(route, query))?.[0]
    differences.equal(refusal, undefined, `${route} is refused`)
    expect({ properties: '{' }, 'invalid_input properties')
    expect({ properties: MIXED }, 'invalid_input properties')
    const prefix = route === 'funnel/correlation' ? 'funnel_correlation_person_' : ''
    for (const name of [`${prefix}limit`, `${prefix}offset`]) {
      expect({ [name]: '1.5' }, `invalid_input ${name}`)
    }
    if (route === 'retention') continue
    expect({ interval: 'year' }, 'invalid_input interval')
  }
  t.strictSame(differences.list(), [], 'exactly the invalid requests are refused')
})

t.test('the members of a property filter', async (t) => {
  const cases: readonly (readonly [Query, string])[] = [
    [{ key: 'tier', value: 'gold' }, 'ann:1'],
    [{ key: 'tier', value: ['gold', 'iron'] }, 'ann:1 cy:1'],
    [{ key: 'tier', operator: 'is_set' }, 'ann:1 cy:1'],
    [{ key: 'tier', value: 'gold', operator: 'is_not' }, 'ann:1 bob:1 cy:1'],
    [{ key: 'tier', value: 'gold', negation: true }, 'ann:1 bob:1 cy:1'],
    [{ key: 'amount', value: 15, operator: 'gt', negation: true }, 'ann:2'],
    [{ key: 'plan', value: 'pro', type: 'person' }, 'ann:2'],
    [{ key: 'size', value: 'large', type: 'group', group_type_index: 0 }, 'ann:1'],
    [{ key: 'id', value: 7, type: 'cohort' }, 'bob:1'],
    [{ key: 'distinct_id', value: 'cy', type: 'event' }, 'cy:1'],
    [{ value: 'no key' }, 'ann:2 bob:1 cy:1'],
    [{ key: 'x', value: 1, type: 'nothing known' }, 'ann:2 bob:1 cy:1'],
    [
      { key: '$session_duration', value: 1, operator: 'gt', type: 'session' },
      'invalid_input properties',
    ],
    [{ key: 'href', value: 'a', operator: 'icontains', type: 'element' }, ''],
    [
      { key: 'selector', value: 'a', operator: 'icontains', type: 'element' },
      'invalid_input properties',
    ],
  ]
  const differences = new Differences()
  for (const [filter, found] of cases) {
    const query = { ...RANGE, ...NEEDED.trends, properties: [filter] }
    differences.equal(seen('trends', query), found, JSON.stringify(filter))
  }
  t.strictSame(differences.list(), [], 'every member of a filter has its effect')
})
