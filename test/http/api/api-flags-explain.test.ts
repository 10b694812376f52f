/**
 * Explanations of flags over HTTP: the same as `tenrec flag explain`, for users with the necessary rights.
 *
 * @lane quick
 */
import t from 'tap'
import { linesOf, runCommand } from '../../fixtures/command-line.ts'
import { shareOrganization } from '../../fixtures/organization-daemon.ts'

const daemon = await shareOrganization(t, 1)
const { decisions } = daemon
const FLAGS = daemon.projectPath(1, 'feature_flags/')
const person = (key: string, value: unknown) => ({ key, value, operator: 'exact', type: 'person' })

await decisions.capture([
  { event: '$set', distinct_id: 'ann', properties: { $set: { plan: 'pro', city: 'Bonn' } } },
  {
    event: '$groupidentify',
    distinct_id: 'ann',
    properties: { $group_type: 'company', $group_key: 'acme', $group_set: { size: 5 } },
  },
])

async function create(key: string, filters: unknown): Promise<number> {
  const answer = await daemon.ask('POST', FLAGS, { key, filters })
  if (answer.status !== 201) throw new Error(JSON.stringify(answer.body))
  return Number(answer.body['id'])
}

const cohort = await daemon.ask('POST', daemon.projectPath(1, 'cohorts/'), {
  name: 'Pro',
  filters: { properties: { type: 'OR', values: [person('plan', 'pro')] } },
})
const base = await create('base', { groups: [{ properties: [], rollout_percentage: 100 }] })
const VARIANTS = ['control', 'test'].map((key) => ({ key, rollout_percentage: 50 }))
const many = await create('many', {
  groups: [
    { properties: [person('plan', 'free'), person('absent', 'x')], rollout_percentage: 30 },
    { properties: [], rollout_percentage: 1 },
    {
      properties: [
        { key: 'id', type: 'cohort', value: cohort.body['id'] },
        { key: String(base), type: 'flag', value: true, operator: 'flag_evaluates_to' },
        person('city', 'Bonn'),
      ],
      variant: 'test',
    },
    { properties: [], rollout_percentage: 100 },
  ],
  multivariate: { variants: VARIANTS },
  payloads: { test: '{"a":1}' },
})
const byGroup = await create('by-group', {
  aggregation_group_type_index: 0,
  groups: [
    {
      properties: [
        { key: 'size', value: 5, operator: 'exact', type: 'group', group_type_index: 0 },
      ],
    },
  ],
})
const off = await create('off', { groups: [{ properties: [] }] })
await daemon.ask('PATCH', `${FLAGS}${off}/`, { active: false })

function explain(id: number, query: Record<string, string>, key?: string) {
  const parameters = new URLSearchParams(query).toString()
  return daemon.ask('GET', `${FLAGS}${id}/explain/?${parameters}`, undefined, key)
}

t.test('the answer equals the output of the command line', async (t) => {
  const cases: readonly (readonly [number, string, Record<string, string>])[] = [
    [many, 'many', {}],
    [many, 'many', { person_properties: '{"plan":"free","absent":"x"}' }],
    [many, 'many', { person_properties: '{"city":"Köln"}' }],
    [byGroup, 'by-group', {}],
    [byGroup, 'by-group', { groups: '{"company":"acme"}' }],
    [
      byGroup,
      'by-group',
      { groups: '{"company":"acme"}', group_properties: '{"company":{"size":6}}' },
    ],
    [off, 'off', {}],
  ]
  for (const [id, key, query] of cases) {
    for (const distinctId of ['ann', 'nobody']) {
      const options = Object.entries(query).flatMap(([name, value]) => [
        `--${name.replace('_', '-')}`,
        value,
      ])
      const words = ['flag', 'explain', key, '--distinct-id', distinctId, ...options, '--json']
      const place = ['--data-dir', decisions.dataDir, '--project', String(decisions.idOf())]
      const told = linesOf(await runCommand(...words, ...place))
      const answer = await explain(id, { distinct_id: distinctId, ...query })
      t.equal(answer.status, 200)
      t.strictSame(told, [answer.body], `${words.join(' ')}`)
      const decided = await decisions.decide('/flags/?v=2', {
        distinct_id: distinctId,
        ...Object.fromEntries(
          Object.entries(query).map(([name, text]) => [name, JSON.parse(text)]),
        ),
      })
      const flags = decided.body['flags'] as Record<string, { enabled: boolean; variant?: string }>
      const value = flags[key]?.enabled === true ? (flags[key].variant ?? true) : false
      t.equal(answer.body['value'], value, 'the decision equals the one of /flags')
    }
  }
})

t.test('each condition is returned with the values that its filters compare', async (t) => {
  const { body } = await explain(many, { distinct_id: 'ann' })
  t.match(body, { value: 'test', reason: 'condition_match', payload: '{"a":1}' })
  t.equal(body['condition_index'], 2)
  const conditions = body['conditions'] as Record<string, unknown>[]
  t.match(conditions[0], {
    outcome: 'filter_failed',
    matched: false,
    rollout_percentage: 30,
    condition: { rollout_percentage: 30 },
    properties: [
      { filter: { key: 'plan' }, value: 'pro', passes: false },
      { filter: { key: 'absent' }, passes: false },
    ],
  })
  t.notMatch(
    conditions[0],
    { properties: [{}, { value: /^/ }] },
    'the stored value does not appear',
  )
  t.match(conditions[1], { outcome: 'rollout_excluded', hash: Number })
  t.match(conditions[2], {
    outcome: 'matched',
    matched: true,
    hash: null,
    properties: [
      { filter: { type: 'cohort' }, value: true, passes: true },
      { filter: { type: 'flag' }, value: true, passes: true },
      { filter: { key: 'city' }, value: 'Bonn', passes: true },
    ],
  })
  t.match(conditions[3], { outcome: 'not_reached', matched: false, properties: [] })
})

t.test('the answer says whether there is a person with the distinct ID', async (t) => {
  for (const [distinctId, isThere] of [
    ['ann', true],
    ['nobody', false],
    ['ann@shop.example', false],
  ] as const) {
    const { body } = await explain(many, { distinct_id: distinctId })
    t.equal(body['person_exists'], isThere, distinctId)
  }
  t.equal((await explain(off, { distinct_id: 'ann' })).body['person_exists'], null)
})

t.test('a key that may not read persons sees no stored values', async (t) => {
  const key = daemon.keyOf({ scopes: ['feature_flag:read'] })
  await daemon.settled()
  const answer = await explain(many, { distinct_id: 'ann' }, key)
  t.equal(answer.status, 200)
  t.notMatch(JSON.stringify(answer.body['conditions']), /"value":"(pro)"|"value":true,"passes/)
  const conditions = answer.body['conditions'] as { properties: object[] }[]
  for (const filter of conditions.flatMap(({ properties }) => properties)) {
    t.strictSame(Object.keys(filter).sort(), ['filter', 'passes'])
  }
  for (const distinctId of ['ann', 'nobody']) {
    const { body } = await explain(many, { distinct_id: distinctId }, key)
    t.equal(body['person_exists'], null, `${distinctId}: nor whether there is a person`)
  }
})

t.test('invalid requests are refused with a reason', async (t) => {
  t.match(await explain(many, {}), { status: 400, body: { code: 'required', attr: 'distinct_id' } })
  t.match(await explain(999, { distinct_id: 'a' }), { status: 404, body: { code: 'not_found' } })
  for (const name of ['groups', 'person_properties', 'group_properties']) {
    for (const wrong of ['[]', '5', '{', 'null']) {
      t.match(await explain(many, { distinct_id: 'a', [name]: wrong }), {
        status: 400,
        body: { code: 'invalid_input', attr: name },
      })
    }
  }
  const wrong = { distinct_id: 'a', group_properties: '{"company":5}' }
  t.match(await explain(many, wrong), { status: 400, body: { attr: 'group_properties' } })
  const key = daemon.keyOf({ scopes: ['person:read'] })
  await daemon.settled()
  t.match(await explain(many, { distinct_id: 'a' }, key), { status: 403 })
})
