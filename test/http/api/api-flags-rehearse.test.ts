/**
 * The persons whose value a change of a flag would flip, over HTTP, compared with decisions before and after the
 * change.
 *
 * @lane quick
 */
import t from 'tap'
import type { JsonObject } from '../../../src/base/json.ts'
import { Dice } from '../../fixtures/dice.ts'
import { shareOrganization } from '../../fixtures/organization-daemon.ts'

const PERSONS = 120
const PLANS = ['free', 'pro', 'team']
const COUNTRIES = ['DE', 'FR', 'US']
const daemon = await shareOrganization(t, 1)
const { decisions } = daemon
const FLAGS = daemon.projectPath(1, 'feature_flags/')
const REHEARSE = `${FLAGS}rehearse/`
const dice = new Dice(7)
const IDS = Array.from({ length: PERSONS }, (_, index) => `person-${index}`)
const SIZES = Array.from({ length: 9 }, (_, index) => index + 1)

await decisions.capture([
  ...IDS.map((id) => ({
    event: '$set',
    distinct_id: id,
    properties: { $set: { plan: dice.pick(PLANS), country: dice.pick(COUNTRIES) } },
  })),
  ...SIZES.map((size) => ({
    event: '$groupidentify',
    distinct_id: 'person-0',
    properties: { $group_type: 'company', $group_key: `c${size}`, $group_set: { size } },
  })),
])
const cohort = await daemon.ask('POST', daemon.projectPath(1, 'cohorts/'), {
  name: 'Germans',
  filters: { properties: { type: 'OR', values: [person('country', 'DE')] } },
})

function person(key: string, value: unknown) {
  return { key, value, operator: 'exact', type: 'person' }
}

type Value = string | boolean

interface Flip {
  readonly from: Value
  readonly to: Value
  readonly from_condition: number | null
  readonly to_condition: number | null
}

/** Returns the decision for every person, as `/flags` gives it, with the condition that matched. */
async function everybody(key: string, subjects: readonly JsonObject[]) {
  return Promise.all(
    subjects.map(async (subject) => {
      const { body } = await decisions.decide('/flags/?v=2', { ...subject, flag_keys: [key] })
      const flags = body['flags'] as Record<
        string,
        { enabled: boolean; variant?: string; reason: { condition_index: number | null } }
      >
      const flag = flags[key]
      if (flag?.enabled !== true) return { value: false, condition: null }
      return { value: flag.variant ?? true, condition: flag.reason.condition_index }
    }),
  )
}

async function create(key: string, filters: JsonObject): Promise<number> {
  const answer = await daemon.ask('POST', FLAGS, { key, filters })
  if (answer.status !== 201) throw new Error(JSON.stringify(answer.body))
  return Number(answer.body['id'])
}

function counted(flips: readonly Flip[]) {
  const counts = new Map<string, number>()
  for (const { from, to, from_condition, to_condition } of flips) {
    const name = JSON.stringify([from, to, from_condition, to_condition])
    counts.set(name, (counts.get(name) ?? 0) + 1)
  }
  return Object.fromEntries([...counts].sort())
}

const SHARES = (control: number) => ({
  multivariate: {
    variants: [
      { key: 'control', rollout_percentage: control },
      { key: 'test', rollout_percentage: 100 - control },
    ],
  },
})
const MEMBERS = { key: 'id', type: 'cohort', value: cohort.body['id'] }

/** The filters before and after the change. */
const CASES: readonly (readonly [JsonObject, JsonObject])[] = [
  [
    { groups: [{ properties: [], rollout_percentage: 30 }] },
    { groups: [{ properties: [], rollout_percentage: 55 }] },
  ],
  [
    {
      groups: [{ properties: [person('plan', 'pro')] }, { properties: [], rollout_percentage: 20 }],
    },
    { groups: [{ properties: [MEMBERS] }, { properties: [person('plan', ['pro', 'team'])] }] },
  ],
  [
    { groups: [{ properties: [], rollout_percentage: 80 }], ...SHARES(50) },
    {
      groups: [
        { properties: [person('plan', 'free')], variant: 'test' },
        { properties: [], rollout_percentage: 60 },
      ],
      ...SHARES(20),
    },
  ],
]

t.test('the listed persons are exactly those with another decision after the change', async (t) => {
  for (const [index, [before, after]] of CASES.entries()) {
    const key = `flag-${index}`
    const id = await create(key, before)
    const subjects = IDS.map((id) => ({ distinct_id: id }))
    const was = await everybody(key, subjects)
    const rehearsed = await daemon.ask('POST', REHEARSE, { id, filters: after })
    t.equal(rehearsed.status, 200)
    t.strictSame(await everybody(key, subjects), was, 'nothing has changed')
    t.equal((await daemon.ask('PATCH', `${FLAGS}${id}/`, { filters: after })).status, 200)
    const is = await everybody(key, subjects)
    const flips = was.flatMap((one, at) => {
      const other = is[at]
      if (other === undefined || one.value === other.value) return []
      const [from_condition, to_condition] = [one.condition, other.condition]
      return [{ id: IDS[at], from: one.value, to: other.value, from_condition, to_condition }]
    })
    t.ok(flips.length > 20, 'at least one value flips')
    t.match(rehearsed.body, {
      is_new: false,
      group_type_index: null,
      total: PERSONS,
      sampled: PERSONS,
      changed: flips.length,
      failed: 0,
    })
    const told = rehearsed.body['flips'] as (Flip & { count: number })[]
    t.strictSame(
      counted(told.flatMap((flip) => Array.from({ length: flip.count }, () => flip))),
      counted(flips as Flip[]),
    )
    const values = rehearsed.body['values'] as { value: Value; before: number; after: number }[]
    for (const { value, before: earlier, after: later } of values) {
      t.equal(earlier, was.filter((one) => one.value === value).length, `${value} before`)
      t.equal(later, is.filter((one) => one.value === value).length, `${value} after`)
    }
    const examples = rehearsed.body['examples'] as (Flip & {
      readonly distinct_id: string
      readonly group_key: string | null
    })[]
    t.equal(examples.length, 20)
    for (const { distinct_id, group_key, ...flip } of examples) {
      t.strictSame(
        [{ id: distinct_id, ...flip }],
        flips.filter((one) => one.id === distinct_id),
      )
      t.equal(group_key, null)
    }
    const again = await daemon.ask('POST', REHEARSE, { key, filters: after })
    t.match(again.body, { changed: 0, flips: [], examples: [] }, 'the change was made')
  }
})

t.test('disabling a flag, a new flag, and flags of groups can be rehearsed', async (t) => {
  const everyone = { groups: [{ properties: [] }] }
  const id = await create('all', everyone)
  t.match(await daemon.ask('POST', REHEARSE, { id, active: false }), {
    status: 200,
    body: { changed: PERSONS, flips: [{ from: true, to: false, count: PERSONS }] },
  })
  const fresh = { key: 'fresh', filters: { groups: [{ properties: [person('plan', 'pro')] }] } }
  const { body } = await daemon.ask('POST', REHEARSE, fresh)
  const pro = await daemon.ask('POST', `${FLAGS}user_blast_radius/`, {
    condition: { properties: [person('plan', 'pro')] },
  })
  t.match(body, { is_new: true, sampled: PERSONS, changed: pro.body['users_affected'] })
  const filtersOf = (least: number) => ({
    aggregation_group_type_index: 0,
    groups: [
      {
        properties: [
          { key: 'size', value: String(least), operator: 'gt', type: 'group', group_type_index: 0 },
        ],
      },
    ],
  })
  const grouped = await create('grouped', filtersOf(2))
  const rehearsed = await daemon.ask('POST', REHEARSE, { id: grouped, filters: filtersOf(6) })
  t.match(rehearsed, {
    status: 200,
    body: {
      group_type_index: 0,
      total: 9,
      changed: 4,
      examples: [3, 4, 5, 6].map((size) => ({ distinct_id: null, group_key: `c${size}` })),
    },
  })
})

t.test('a sample is spread over all persons and marked as a sample', async (t) => {
  const id = await create('sampled', { groups: [{ properties: [] }] })
  const { body } = await daemon.ask('POST', REHEARSE, { id, active: false, sample: 20 })
  t.match(body, { total: PERSONS, sampled: 20, changed: 20 })
  const examples = body['examples'] as { distinct_id: string }[]
  const numbers = examples.map(({ distinct_id }) => Number(distinct_id.split('-')[1]))
  t.ok(Math.max(...numbers) > PERSONS - 10, 'not only the oldest persons')
  const key = daemon.keyOf({ scopes: ['feature_flag:read'] })
  await daemon.settled()
  t.match(await daemon.ask('POST', REHEARSE, { id, active: false }, key), {
    status: 200,
    body: { changed: PERSONS, examples: [] },
  })
})

t.test('invalid changes get the same errors as a real change', async (t) => {
  const id = await create('wrong', { groups: [{ properties: [] }] })
  const cases: readonly (readonly [unknown, number, string, string | null])[] = [
    [{}, 400, 'required', 'id'],
    [{ id: 'x' }, 400, 'required', 'id'],
    [{ id: 999_999 }, 404, 'not_found', null],
    [{ key: 'not a key' }, 400, 'invalid_key', 'key'],
    [{ id, sample: 0 }, 400, 'invalid_input', 'sample'],
    [{ id, sample: 100_001 }, 400, 'invalid_input', 'sample'],
    [{ id, filters: 5 }, 400, 'not_a_dict', 'filters'],
    [{ id, filters: { groups: 5 } }, 400, 'invalid_input', 'filters'],
    [{ id, active: 'perhaps' }, 400, 'invalid_input', 'active'],
    [[], 400, 'invalid_input', null],
  ]
  for (const [body, status, code, attr] of cases) {
    const answer = await daemon.ask('POST', REHEARSE, body)
    t.match(answer, { status, body: { code, attr } }, JSON.stringify(body))
  }
  const list = await daemon.ask('GET', `organizations/@current/audit_log/`)
  t.notMatch(JSON.stringify(list.body), /rehearse/, 'it changes nothing and is not logged')
})
