/**
 * Random cohorts by behavior against a slow count of the same events, in several time zones.
 *
 * @lane all
 */
import t from 'tap'
import { Dice } from '../../fixtures/dice.ts'
import { PERSONAL_KEY } from '../../fixtures/flags/decision-daemon.ts'
import {
  CohortProject,
  eventOf,
  NOW_MS,
  startAtNow,
} from '../../fixtures/queries/cohort-project.ts'
import {
  type NaivePerson,
  type NaiveWorld,
  naiveMembers,
} from '../../fixtures/queries/naive-cohort.ts'
import { roundsOf, seedOf } from '../../fixtures/random-depth.ts'

type Json = Readonly<Record<string, unknown>>

const HOUR_MS = 3_600_000
const EVENTS = ['view', 'buy', 'write'] as const
const PLANS = ['free', 'pro'] as const

t.test('random rules select the same persons as a slow count, in three zones', async (t) => {
  const zones = ['UTC', 'America/New_York', 'Asia/Kolkata']
  const daemon = await startAtNow(t, zones.length)
  for (const [index, timezone] of zones.entries()) {
    const project = new CohortProject(daemon, index + 1)
    const dice = new Dice(seedOf(70 + index))
    await daemon.ask(`/api/projects/${project.id}/`, {
      method: 'PATCH',
      headers: { Authorization: `Bearer ${PERSONAL_KEY}` },
      json: { timezone },
    })
    const persons = dice.list(40, (number): NaivePerson => {
      const properties = { plan: dice.pick(PLANS) }
      const events = dice.list(dice.between(1, 14), () => ({
        event: dice.pick(EVENTS),
        // Many events are near the edges of days and hours.
        atMs: NOW_MS - dice.between(0, 70 * 24) * HOUR_MS - dice.pick([0, 1, 1_800_000, 1_800_001]),
        properties: { page: dice.pick(['a', 'b']), n: number },
      }))
      return { name: `p${number}`, properties, events }
    })
    const sent = persons.flatMap(({ name, properties, events }) =>
      events.map(({ event, atMs, properties: own }) =>
        eventOf(name, event, atMs, { ...own, $set: properties }),
      ),
    )
    await project.capture(sent.toSorted(() => dice.below(3) - 1))
    const action = await project.api('POST', 'actions/', {
      name: 'A',
      steps: [{ event: 'buy' }],
    })
    const actionId = Number(action.body['id'])
    const world = { timezone, nowMs: NOW_MS, actions: new Map([[actionId, 'buy']]) }
    const cohorts = new Map<number, ReadonlySet<string>>()
    const wrong: unknown[] = []
    for (let round = 0; round < roundsOf(60, 12); round++) {
      const rule = randomRule(dice, actionId, [...cohorts.keys()])
      const id = await project.makeCohort({ properties: rule })
      const expected = naiveMembers(rule, persons, { ...world, cohorts } satisfies NaiveWorld)
      const found = await project.membersOf(id)
      const { body } = await project.api('GET', `cohorts/${id}/`)
      if (JSON.stringify(found) !== JSON.stringify(expected) || body['count'] !== expected.length) {
        wrong.push({ timezone, rule: JSON.stringify(rule), found, expected, count: body['count'] })
      }
      cohorts.set(id, new Set(expected))
    }
    t.strictSame(wrong, [])
  }
})

function randomRule(dice: Dice, actionId: number, cohorts: readonly number[]): Json {
  const leaf = (): Json => {
    const negation = dice.chance(0.3) ? { negation: true } : {}
    const [cohort] = dice.some(cohorts)
    if (dice.chance(0.15))
      return { type: 'person', key: 'plan', value: dice.pick(PLANS), operator: 'exact' }
    if (dice.chance(0.15) && cohort !== undefined)
      return { type: 'cohort', key: 'id', value: cohort, ...negation }
    return { ...randomBehavior(dice, actionId), ...negation }
  }
  const group = () => ({
    type: dice.pick(['AND', 'OR']),
    values: dice.list(dice.between(1, 3), leaf),
  })
  // At least one filter is on behavior, or the members would not be calculated.
  const first = { type: 'AND', values: [randomBehavior(dice, actionId)] }
  return { type: dice.pick(['AND', 'OR']), values: [first, ...dice.list(dice.below(3), group)] }
}

function randomBehavior(dice: Dice, actionId: number): Json {
  const isAction = dice.chance(0.2)
  const event = isAction
    ? { key: actionId, event_type: 'actions' }
    : { key: dice.pick(EVENTS), event_type: 'events' }
  const filters = dice.chance(0.4)
    ? {
        event_filters: [
          { type: 'event', key: 'page', value: dice.pick(['a', 'b']), operator: 'exact' },
        ],
      }
    : {}
  const base = { type: 'behavioral', ...event, ...filters }
  const length = (max: number) =>
    dice.pick([
      { time_value: dice.between(1, 24 * max), time_interval: 'hour' },
      { time_value: dice.between(1, 7 * max), time_interval: 'day' },
      { time_value: dice.between(1, max), time_interval: 'week' },
      { time_value: dice.between(1, max), time_interval: 'month' },
    ])
  const dated = () =>
    dice.pick([
      length(3),
      { explicit_datetime: `-${dice.between(1, 40)}d` },
      { explicit_datetime: '2026-10-20', explicit_datetime_to: '2026-11-01' },
    ])
  const count = {
    operator: dice.pick(['gte', 'lte', 'gt', 'lt', 'eq', 'exact']),
    operator_value: dice.between(1, 4),
  }
  const recent = { seq_time_value: dice.between(1, 10), seq_time_interval: 'day' }
  const whole = { time_value: dice.between(2, 6), time_interval: 'week' }
  return dice.pick([
    () => ({ ...base, value: 'performed_event', ...dated() }),
    () => ({ ...base, value: 'performed_event_multiple', ...dated(), ...count }),
    () => ({ ...base, value: 'performed_event_first_time', ...dated() }),
    () => ({
      ...base,
      value: 'performed_event_sequence',
      ...dated(),
      seq_event: 'write',
      seq_event_type: 'events',
      ...recent,
    }),
    () => ({
      ...base,
      value: 'performed_event_regularly',
      ...length(1),
      ...count,
      total_periods: 4,
      min_periods: dice.between(1, 4),
    }),
    () => ({ ...base, value: 'stopped_performing_event', ...whole, ...recent }),
    () => ({ ...base, value: 'restarted_performing_event', ...whole, ...recent }),
  ])()
}
