/**
 * Copies of flags to other projects: what is copied, what is refused, and what a rehearsal shows.
 *
 * @lane quick
 */
import t from 'tap'
import { PERSONAL_KEY } from '../../fixtures/flags/decision-daemon.ts'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'

type Json = Readonly<Record<string, unknown>>

const COPY = '/api/organizations/@current/feature_flags/copy_flags/'
const REHEARSE = '/api/organizations/@current/feature_flags/rehearse_copy/'
const world = await shareDecisions(3)
const headers = { Authorization: `Bearer ${PERSONAL_KEY}` }
const person = (key: string, value: string) => ({ type: 'person', key, operator: 'exact', value })

async function made(path: string, project: number, json: object): Promise<number> {
  const { status, body } = await world.api('POST', path, project, json)
  if (status !== 201) throw new Error(`${path}: ${status} ${JSON.stringify(body)}`)
  return Number(body['id'])
}

function cohort(name: string, project: number, ...values: readonly object[]): Promise<number> {
  const filters = { properties: { type: 'OR', values: [{ type: 'AND', values }] } }
  return made('cohorts/', project, { name, filters })
}

function ask(path: string, key: string, targets: readonly number[], more: object = {}) {
  const json = {
    feature_flag_key: key,
    from_project: world.idOf(1),
    target_project_ids: targets.map((one) => world.idOf(one)),
    ...more,
  }
  return world.ask(path, { headers, json })
}

/** The flag of a project with a key. */
async function flagIn(project: number, key: string): Promise<Readonly<Record<string, unknown>>> {
  const { body } = await world.api('GET', `feature_flags/?search=${key}`, project)
  const [flag = {}] = body['results'] as Readonly<Record<string, unknown>>[]
  return flag
}

t.test('a copy has the cohorts and flags of its own project', async (t) => {
  const inner = await cohort('Pro users', 1, person('plan', 'pro'))
  const outer = await cohort('Pro in France', 1, person('country', 'FR'), {
    type: 'cohort',
    key: 'id',
    value: inner,
  })
  const base = await made('feature_flags/', 1, { key: 'base' })
  const groups = [
    {
      properties: [
        { type: 'cohort', key: 'id', value: outer },
        { type: 'flag', key: String(base), operator: 'flag_evaluates_to', value: true },
      ],
      rollout_percentage: 100,
    },
  ]
  await made('feature_flags/', 1, { key: 'shop', name: 'Shop', filters: { groups } })
  await world.capture(
    [
      { event: 'seen', distinct_id: 'f', properties: { $set: { plan: 'pro', country: 'FR' } } },
      { event: 'seen', distinct_id: 'g', properties: { $set: { plan: 'pro', country: 'DE' } } },
    ],
    2,
  )
  const refused = await ask(COPY, 'shop', [2])
  t.match(refused.body, {
    success: [],
    failed: [{ project_id: world.idOf(2), errors: /There is no flag "base"\. Copy it first/ }],
  })
  t.match((await world.api('GET', 'cohorts/', 2)).body, { count: 0 }, 'no cohort is left behind')
  const rehearsed = await ask(REHEARSE, 'shop', [2], { copy_dependencies: true })
  t.match(rehearsed.body, {
    failed: [],
    results: [
      {
        cohorts: [{ name: 'Pro in France', action: 'create', same: true }],
        plan: {
          flags: [
            { key: 'base', action: 'create', effect: { total: 2, changed: 2 } },
            { key: 'shop', action: 'create', effect: { total: 2, changed: 1 } },
          ],
        },
      },
    ],
  })
  const copied = await ask(COPY, 'shop', [2], { copy_dependencies: true })
  t.match(copied.body, { failed: [], success: [{ key: 'shop', name: 'Shop', version: 1 }] })
  const values = await Promise.all(
    ['f', 'g'].map(async (id) => {
      const { body } = await world.decide('/flags/?v=2', { distinct_id: id }, 2)
      return (body['flags'] as Record<string, { enabled: boolean }>)['shop']?.enabled
    }),
  )
  t.strictSame(values, [true, false])
  const again = await ask(COPY, 'shop', [2], { copy_dependencies: true })
  t.match(again.body, { success: [{ version: 1 }] }, 'a second copy changes nothing')
  const audit = await world.ask('/api/organizations/@current/audit_log/?limit=20', { headers })
  const entries = (audit.body['results'] as Record<string, unknown>[]).filter(
    ({ project_id: id }) => id === world.idOf(2),
  )
  t.strictSame(
    entries.map(({ object_id: id }) => String(id).replace(/\d+$/, '')).sort(),
    ['', '', 'cohort ', 'cohort '],
    'two flags and two cohorts',
  )
  const places = await world.ask('/api/organizations/@current/feature_flags/shop/', { headers })
  const teams = (places.body as unknown as { team_id: number }[]).map(({ team_id: id }) => id)
  t.strictSame(teams, [world.idOf(1), world.idOf(2)])
})

t.test('a copy over a flag changes it, and keeps the cohorts that the target has', async (t) => {
  const rule = await cohort('Testers', 1, person('tester', 'yes'))
  const own = await cohort('Testers', 3, person('tester', 'maybe'))
  const groups = [{ properties: [{ type: 'cohort', key: 'id', value: rule }] }]
  await made('feature_flags/', 1, { key: 'over', filters: { groups } })
  const id = await made('feature_flags/', 3, { key: 'over', active: false })
  const rehearsed = await ask(REHEARSE, 'over', [3])
  t.match(rehearsed.body, {
    results: [
      {
        cohorts: [{ name: 'Testers', action: 'keep', same: false }],
        plan: { flags: [{ action: 'update', version: 1, changes: [/switched on/, /Testers/] }] },
      },
    ],
  })
  const copied = await ask(COPY, 'over', [3])
  t.match(copied.body, { success: [{ id, version: 2, active: true }], failed: [] })
  t.match((await flagIn(3, 'over'))['filters'], { groups: [{ properties: [{ value: own }] }] })
})

t.test('a copy that cannot be made is refused, and the other targets get theirs', async (t) => {
  const people = await made('cohorts/', 1, { name: 'Listed', is_static: true })
  const groups = [{ properties: [{ type: 'cohort', key: 'id', value: people }] }]
  await made('feature_flags/', 1, { key: 'listed', filters: { groups } })
  await made('cohorts/', 3, { name: 'Listed', is_static: true })
  const answer = await ask(COPY, 'listed', [1, 2, 3])
  t.match(answer.body, {
    success: [{ key: 'listed', created_by: {} }],
    failed: [
      { project_id: world.idOf(1), errors: /has this flag already/ },
      { project_id: world.idOf(2), errors: /lacks the cohort "Listed"/ },
    ],
  })
  const wrong = { target_project_ids: [999_999] }
  t.match((await ask(COPY, 'listed', [], wrong)).body, { failed: [{ project_id: 999_999 }] })
  t.match((await ask(COPY, 'nothing', [2])).body, { code: 'does_not_exist' })
  t.match(await world.ask(COPY, { headers, json: { feature_flag_key: 'listed' } }), {
    status: 400,
    body: { code: 'required', attr: 'from_project' },
  })
  const other = COPY.replace('@current', '00000000-0000-4000-8000-000000000000')
  t.match(await ask(other, 'listed', [2]), { status: 404 })
})

const inHours = (hours: number) => new Date(Date.now() + hours * 3_600_000).toISOString()

function schedule(flagId: number, operation: string, value: unknown, more: object = {}) {
  const payload = { operation, value }
  const change = { record_id: flagId, model_name: 'FeatureFlag', payload, ...more }
  return made('scheduled_changes/', 1, change)
}

async function scheduledIn(project: number, flagId: unknown): Promise<readonly Json[]> {
  const path = `scheduled_changes/?record_id=${String(flagId)}`
  return (await world.api('GET', path, project)).body['results'] as readonly Json[]
}

t.test('scheduled changes are copied with a flag, once', async (t) => {
  const owls = await cohort('Night owls', 1, person('awake', 'yes'))
  const base = await made('feature_flags/', 1, { key: 'needed-later' })
  const id = await made('feature_flags/', 1, { key: 'scheduled', active: false })
  const groups = [
    {
      properties: [
        { type: 'cohort', key: 'id', value: owls },
        { type: 'flag', key: String(base), operator: 'flag_evaluates_to', value: true },
      ],
      rollout_percentage: 50,
    },
  ]
  await schedule(id, 'add_release_condition', { groups }, { scheduled_at: inHours(1) })
  const daily = { is_recurring: true, recurrence_interval: 'daily', end_date: inHours(100) }
  await schedule(id, 'update_status', true, { scheduled_at: inHours(2), ...daily })
  const paused = await schedule(id, 'update_status', false, {
    scheduled_at: inHours(3),
    is_recurring: true,
    recurrence_interval: 'weekly',
  })
  await world.api('PATCH', `scheduled_changes/${paused}/`, 1, { is_recurring: false })
  const steps = [{ rollout_percentage: 10 }, { rollout_percentage: 100, after_seconds: 60 }]
  const ramp = { steps, guards: [{ tolerance: 0.01 }] }
  await schedule(id, 'ramp', ramp, { scheduled_at: inHours(4) })

  t.match((await ask(COPY, 'scheduled', [2])).body, { failed: [], success: [{ key: 'scheduled' }] })
  const { id: plain } = await flagIn(2, 'scheduled')
  t.strictSame(await scheduledIn(2, plain), [], 'only if it is asked for')
  const wish = { copy_schedule: true }
  for (const path of [COPY, REHEARSE]) {
    t.match((await ask(path, 'scheduled', [2], wish)).body, {
      failed: [{ errors: /There is no flag "needed-later"\. Copy it first/ }],
    })
  }
  t.strictSame(await scheduledIn(2, plain), [])
  const all = { ...wish, copy_dependencies: true }
  t.match((await ask(REHEARSE, 'scheduled', [2], all)).body, {
    failed: [],
    results: [{ cohorts: [{ name: 'Night owls', action: 'create' }] }],
  })
  t.match((await ask(COPY, 'scheduled', [2], all)).body, { failed: [], success: [{ id: plain }] })
  const own = (await world.api('GET', 'cohorts/', 2)).body['results'] as readonly Json[]
  const copied = await scheduledIn(2, plain)
  const source = await scheduledIn(1, id)
  const timesOf = (changes: readonly Json[]) => changes.map(({ scheduled_at: at }) => at)
  t.strictSame(timesOf(copied), timesOf(source.filter((change) => change['id'] !== paused)))
  t.match(copied, [
    { payload: { operation: 'ramp', value: ramp }, ramp: { state: 'running' } },
    { payload: { operation: 'update_status', value: true }, ...daily, end_date: String },
    {
      payload: {
        operation: 'add_release_condition',
        value: {
          groups: [
            {
              properties: [
                { type: 'cohort', value: own.find(({ name }) => name === 'Night owls')?.['id'] },
                { type: 'flag', key: String((await flagIn(2, 'needed-later'))['id']) },
              ],
              rollout_percentage: 50,
            },
          ],
        },
      },
      created_by: { email: String },
    },
  ])
  await ask(COPY, 'scheduled', [2], all)
  t.strictSame(await scheduledIn(2, plain), copied, 'a second copy schedules nothing again')
  const audit = await world.ask('/api/organizations/@current/audit_log/?limit=20', { headers })
  const entries = (audit.body['results'] as readonly Json[]).filter(({ object_id: object }) => {
    return object === `scheduled change of flag ${String(plain)}`
  })
  t.strictSame(
    entries.map(({ project_id: project }) => project),
    Array.from({ length: 3 }, () => world.idOf(2)),
  )
})

t.test('a ramp is copied once, with the length of its steps', async (t) => {
  const id = await made('feature_flags/', 1, { key: 'ramped' })
  const [first, second] = [inHours(1), inHours(3)]
  const steps = [
    { rollout_percentage: 10, at: first },
    { rollout_percentage: 50, at: second },
    { rollout_percentage: 100, after_seconds: 60 },
  ]
  const guarded = { steps, guards: [{ tolerance: 0.01 }] }
  await schedule(id, 'ramp', guarded)
  const begun = {
    steps: [{ rollout_percentage: 20 }, { rollout_percentage: 30, after_seconds: 9 }],
  }
  await schedule(id, 'ramp', begun, { scheduled_at: inHours(0) })
  const wish = { copy_schedule: true }
  await ask(COPY, 'ramped', [2])
  const { id: own } = await flagIn(2, 'ramped')
  await Promise.all(Array.from({ length: 3 }, () => ask(COPY, 'ramped', [2], wish)))
  const copied = await scheduledIn(2, own)
  t.equal(copied.length, 2, 'three copies at the same time schedule each ramp once')
  const rampIn = ({ payload }: Json) => (payload as { readonly value: Json }).value
  const later = copied.find((change) => 'guards' in rampIn(change)) ?? {}
  const seconds = (Date.parse(second) - Date.parse(first)) / 1000
  t.strictSame(rampIn(later)['steps'], [
    { rollout_percentage: 10 },
    { rollout_percentage: 50, after_seconds: seconds },
    { rollout_percentage: 100, after_seconds: 60 },
  ])
  const path = `scheduled_changes/${String(later['id'])}/`
  t.equal((await world.api('PATCH', path, 2, { state: 'halted' })).status, 200)
  t.match(await ask(COPY, 'ramped', [2], wish), { body: { failed: [] } })
  const again = await scheduledIn(2, own)
  t.equal(again.length, 2, 'a ramp that was halted stays halted')
})

t.test('a change that the target refuses is reported, and the flag is copied', async (t) => {
  const everybody = { properties: [], rollout_percentage: 100 }
  const filters = { groups: [everybody, everybody] }
  const id = await made('feature_flags/', 1, { key: 'half-copied', filters })
  const steps = [{ rollout_percentage: 10 }]
  await schedule(id, 'ramp', { steps, condition: 1 }, { scheduled_at: inHours(1) })
  await world.api('PATCH', `feature_flags/${id}/`, 1, { filters: { groups: [everybody] } })
  const answer = await ask(COPY, 'half-copied', [2], { copy_schedule: true })
  const errors = /was copied, but not all of its scheduled changes: .*names condition 1/
  t.match(answer.body, { success: [], failed: [{ project_id: world.idOf(2), errors }] })
  t.match(await flagIn(2, 'half-copied'), { key: 'half-copied', active: true })
})

t.test('a rule with a cohort that has no name of its own is not copied', async (t) => {
  const refersTo = (id: number) => ({ type: 'cohort', key: 'id', value: id })
  await cohort('Twice', 1, person('plan', 'free'))
  const twice = await cohort('Twice', 1, person('plan', 'pro'))
  const gone = await cohort('Gone', 1, person('plan', 'pro'))
  const outer = await cohort('With twice', 1, refersTo(twice))
  const other = await cohort('With gone', 1, refersTo(gone))
  await world.api('PATCH', `cohorts/${gone}/`, 1, { deleted: true })
  for (const [key, id] of [
    ['with-twice', outer],
    ['with-gone', other],
  ] as const) {
    const groups = [{ properties: [refersTo(id)] }]
    await made('feature_flags/', 1, { key, filters: { groups } })
    const refusal = [{ project_id: world.idOf(2), errors: /deleted, .*whose name another/ }]
    t.match((await ask(REHEARSE, key, [2])).body, { results: [], failed: refusal }, key)
    t.match((await ask(COPY, key, [2])).body, { success: [], failed: refusal }, key)
  }
  const { body } = await world.api('GET', 'cohorts/?limit=100', 2)
  const names = (body['results'] as readonly { readonly name: string }[]).map(({ name }) => name)
  t.notOk(names.some((name) => ['Twice', 'With twice', 'With gone'].includes(name)))
})

t.test('two changes at the same time make no circle of cohorts', async (t) => {
  const refersTo = (id: number) => ({ type: 'cohort', key: 'id', value: id })
  const rule = (...values: readonly object[]) => ({
    filters: { properties: { type: 'OR', values: [{ type: 'AND', values }] } },
  })
  for (let tries = 0; tries < 5; tries++) {
    const ids = [
      await cohort(`Left ${tries}`, 1, person('plan', 'a')),
      await cohort(`Right ${tries}`, 1, person('plan', 'b')),
    ]
    const answers = await Promise.all(
      ids.map((id, index) =>
        world.api('PATCH', `cohorts/${id}/`, 1, rule(refersTo(ids[1 - index] ?? 0))),
      ),
    )
    const statuses = answers.map(({ status }) => status).sort((a, b) => a - b)
    t.strictSame(statuses, [200, 400])
    const refused = answers.find(({ status }) => status === 400)
    t.match(refused?.body, { code: 'invalid_input', attr: 'filters' })
  }
})

t.test('a key may copy only between its own projects', async (t) => {
  const key = await world.ask('/api/personal_api_keys/', {
    headers,
    json: {
      label: 'copies',
      scopes: ['feature_flag:write'],
      scoped_teams: [world.idOf(1), world.idOf(3)],
    },
  })
  t.equal(key.status, 201)
  const limited = { Authorization: `Bearer ${String(key.body['value'])}` }
  await made('feature_flags/', 1, { key: 'mine' })
  const json = {
    feature_flag_key: 'mine',
    from_project: world.idOf(1),
    target_project_ids: [world.idOf(2), world.idOf(3)],
  }
  t.match((await world.ask(COPY, { headers: limited, json })).body, {
    success: [{ key: 'mine' }],
    failed: [{ project_id: world.idOf(2), errors: /may not use it/ }],
  })
  const stranger = { ...json, from_project: world.idOf(2) }
  t.match((await world.ask(COPY, { headers: limited, json: stranger })).body, {
    code: 'does_not_exist',
  })
})
