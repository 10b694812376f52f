/**
 * The rules of cohorts in the console: converted to sentences, to form fields, and back to the form that the API
 * stores.
 *
 * @lane quick
 */
import t from 'tap'
import {
  type Condition,
  conditionOf,
  kindOf,
  oftenOf,
  problemOf,
  ruleOf,
  sentenceOfRule,
  treeOf,
  withEventFilters,
  withOften,
} from '../../src/console/pages/cohort/rule.ts'

const NAMES = {
  event: (name: string) => (name === '$pageview' ? 'Pageview' : name),
  action: (id: string) => `action ${id}`,
  cohort: (id: number) => `cohort ${id}`,
  filter: ({ key, value }: Condition) => `${key} is ${String(value)}`,
}
const DID: Condition = {
  type: 'behavioral',
  key: '$pageview',
  event_type: 'events',
  value: 'performed_event',
  time_value: 7,
  time_interval: 'day',
}
const OFTEN: Condition = {
  ...DID,
  value: 'performed_event_multiple',
  operator: 'gte',
  operator_value: 3,
}
const PRO: Condition = { type: 'person', key: 'plan', operator: 'exact', value: 'pro' }
const RECENT = { seq_time_value: 1, seq_time_interval: 'week' }
const ITSELF = '“Pageview”'

const sentence = (...values: readonly Condition[]) =>
  sentenceOfRule(ruleOf({ type: 'AND', values: [{ type: 'AND', values }] }), NAMES)

t.test('every condition is a part of a sentence', (t) => {
  const cases: readonly (readonly [Condition, string])[] = [
    [PRO, 'plan is pro'],
    [{ ...PRO, negation: true }, 'not plan is pro'],
    [DID, `did ${ITSELF} in the last 7 days`],
    [{ ...DID, time_value: 1 }, `did ${ITSELF} in the last 1 day`],
    [{ ...DID, negation: true }, `did not do ${ITSELF} in the last 7 days`],
    [{ ...DID, event_type: 'actions', key: '4' }, 'did the action “action 4” in the last 7 days'],
    [OFTEN, `did ${ITSELF} at least 3 times in the last 7 days`],
    [
      { ...OFTEN, operator: 'lt', operator_value: 1 },
      `did ${ITSELF} fewer than once in the last 7 days`,
    ],
    [{ ...DID, event_filters: [PRO] }, `did ${ITSELF} (plan is pro) in the last 7 days`],
    [
      { ...DID, explicit_datetime: '2026-01-01', explicit_datetime_to: '2026-02-01' },
      `did ${ITSELF} since 2026-01-01 until 2026-02-01`,
    ],
    [
      { ...DID, value: 'performed_event_first_time' },
      `did ${ITSELF} for the first time in the last 7 days`,
    ],
    [
      { ...DID, value: 'performed_event_sequence', seq_event: 'buy', ...RECENT },
      `did ${ITSELF} and within 1 week “buy”, in the last 7 days`,
    ],
    [
      {
        ...OFTEN,
        value: 'performed_event_regularly',
        time_value: 1,
        min_periods: 2,
        total_periods: 4,
      },
      `did ${ITSELF} at least 3 times in 2 of the last 4 periods of 1 day`,
    ],
    [
      { ...DID, value: 'stopped_performing_event', ...RECENT },
      `did ${ITSELF} in the last 7 days, but not in the last 1 week`,
    ],
    [
      { ...DID, value: 'restarted_performing_event', ...RECENT },
      `did ${ITSELF} again in the last 1 week after none in the last 7 days`,
    ],
    [{ type: 'cohort', key: 'id', value: 5 }, 'in “cohort 5”'],
    [{ type: 'cohort', key: 'id', value: 5, operator: 'not_in' }, 'not in “cohort 5”'],
    [{ type: 'cohort', key: 'id', value: 5, negation: true }, 'not in “cohort 5”'],
  ]
  for (const [condition, words] of cases) t.equal(sentence(condition), words)
  const or = {
    type: 'OR',
    values: [
      { type: 'AND', values: [PRO, DID] },
      { type: 'AND', values: [PRO] },
    ],
  }
  t.equal(
    sentenceOfRule(ruleOf(or), NAMES),
    `(plan is pro and did ${ITSELF} in the last 7 days) or plan is pro`,
  )
  t.end()
})

t.test('a stored tree keeps its meaning in the fields', (t) => {
  const two = {
    type: 'OR',
    values: [
      { type: 'AND', values: [PRO] },
      { type: 'OR', values: [DID] },
    ],
  }
  t.strictSame(treeOf(ruleOf(two)), { properties: two })
  t.strictSame(ruleOf({ type: 'OR', values: [PRO, DID] }).values, [
    { type: 'OR', values: [PRO, DID] },
  ])
  t.strictSame(ruleOf(undefined).values, [])
  const withEmpty = {
    type: 'OR' as const,
    values: [{ type: 'AND' as const, values: [] }, ...ruleOf(two).values],
  }
  t.strictSame(treeOf(withEmpty), { properties: two }, 'an empty group is left out')
  t.end()
})

t.test('conditions that the fields cannot show are of another kind', (t) => {
  const cases: readonly (readonly [Condition, string])[] = [
    [PRO, 'person'],
    [DID, 'did'],
    [OFTEN, 'did'],
    [{ ...DID, negation: true }, 'not'],
    [{ ...DID, value: 'performed_event_first_time' }, 'first'],
    [{ type: 'cohort', key: 'id', value: 5 }, 'in'],
    [{ type: 'cohort', key: 'id', value: 5, negation: true }, 'out'],
    [{ ...PRO, negation: true }, 'other'],
    [{ ...OFTEN, negation: true }, 'other'],
    [{ ...OFTEN, operator: 'gt' }, 'did'],
    [{ ...DID, event_type: 'actions' }, 'did'],
    [{ ...DID, time_interval: 'year' }, 'did'],
    [{ ...DID, value: 'performed_event_sequence', seq_event: 'buy', ...RECENT }, 'sequence'],
    [
      { ...OFTEN, value: 'performed_event_regularly', min_periods: 1, total_periods: 2 },
      'regularly',
    ],
    [{ ...DID, value: 'stopped_performing_event', ...RECENT }, 'stopped'],
    [{ ...DID, value: 'restarted_performing_event', ...RECENT }, 'again'],
    [{ ...DID, value: 'stopped_performing_event', ...RECENT, negation: true }, 'other'],
    [{ ...DID, time_value: undefined, explicit_datetime: '-7d' }, 'other'],
    [{ ...DID, value: 'performed_event_at_night' }, 'other'],
  ]
  for (const [condition, kind] of cases) t.equal(kindOf(condition), kind, JSON.stringify(condition))
  t.end()
})

t.test('a change of a condition keeps what both forms have', (t) => {
  const filtered = withEventFilters(DID, [PRO])
  t.strictSame(conditionOf('not', withOften(filtered, { operator: 'lte', times: 2 }), null), {
    ...filtered,
    negation: true,
  })
  t.strictSame(withEventFilters(filtered, []), DID)
  t.strictSame(withOften(DID, { operator: 'gte', times: 3 }), OFTEN)
  t.strictSame(withOften(OFTEN, { operator: 'gte', times: 1 }), DID, 'at least once')
  t.strictSame(oftenOf(DID), { operator: 'gte', times: 1 })
  t.strictSame(oftenOf(OFTEN), { operator: 'gte', times: 3 })
  t.strictSame(oftenOf({ ...OFTEN, operator: 'eq' }), { operator: 'exact', times: 3 })
  const stopped = conditionOf('stopped', { ...filtered, event_type: 'actions', key: '4' }, null)
  t.match(stopped, { key: '4', event_type: 'actions', event_filters: [PRO], seq_time_value: 7 })
  const regularly = conditionOf('regularly', OFTEN, null)
  t.match(regularly, { value: 'performed_event_regularly', time_value: 1, time_interval: 'week' })
  t.match(withOften(regularly, { operator: 'gte', times: 1 }), { ...regularly, operator_value: 1 })
  t.match(conditionOf('again', regularly, null), { time_value: 30, time_interval: 'day' })
  t.match(conditionOf('person', DID, null), { type: 'person', key: '' })
  t.match(conditionOf('in', DID, 4), { value: 4, operator: 'in' })
  t.match(conditionOf('out', { type: 'cohort', key: 'id', value: 6 }, 4), {
    value: 6,
    operator: 'not_in',
  })
  t.end()
})

t.test('an incomplete rule says what is missing', (t) => {
  const problem = (...values: readonly Condition[]) =>
    problemOf({ type: 'AND', values: [{ type: 'AND', values }] })
  t.match(problem(), /Add a condition/)
  t.match(problem({ ...DID, key: '' }), /Choose an event/)
  t.match(problem({ ...PRO, key: '' }), /Choose a property/)
  t.match(problem({ type: 'cohort', key: 'id', value: '' }), /Choose a cohort/)
  t.match(problem({ ...DID, time_value: 0 }), /whole number/)
  t.match(problem({ ...DID, event_filters: [{ ...PRO, key: '' }] }), /remove the event filter/)
  t.match(problem({ ...OFTEN, operator_value: 1.5 }), /whole number/)
  const then = conditionOf('sequence', DID, null)
  t.match(problem(then), /Choose an event/)
  t.equal(problem({ ...then, seq_event: 'buy' }), null)
  const regularly = conditionOf('regularly', DID, null)
  t.match(problem({ ...regularly, min_periods: 5 }), /more periods than there are/)
  t.match(problem({ ...regularly, total_periods: 0 }), /whole number/)
  const stopped = conditionOf('stopped', { ...DID, time_value: 30 }, null)
  t.match(problem({ ...stopped, seq_time_interval: 'week' }), /must be shorter/)
  t.equal(problem(PRO, OFTEN, stopped, regularly), null)
  t.end()
})
