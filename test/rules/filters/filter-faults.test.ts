/**
 * Tests filters that can never match. Saving a flag, a cohort or an action with such a filter is refused with the
 * reason and the position. Objects that were stored earlier can still be read, changed and switched off, and `doctor`
 * names them.
 *
 * @lane quick
 */
import t, { type Test } from 'tap'
import type { JsonObject } from '../../../src/base/json.ts'
import type { ActionView } from '../../../src/rules/filters/actions.ts'
import type { Flag } from '../../../src/rules/flags/types.ts'
import { storeFlag } from '../../../src/store/catalog/flag-records.ts'
import { FlagStore } from '../../../src/store/catalog/flag-store.ts'
import { ProjectActions } from '../../../src/store/identity/action-store.ts'
import { ProjectCohorts } from '../../../src/store/identity/cohort-store.ts'
import { Environment } from '../../../src/store/lmdb/environment.ts'
import {
  EVENTS_ENVIRONMENT,
  EVENTS_TABLES,
  FLAGS_ENVIRONMENT,
  FLAGS_TABLES,
} from '../../../src/store/lmdb/keys.ts'
import { EMPTY_STEP } from '../../fixtures/action-step.ts'
import { linesOf, runCommand } from '../../fixtures/command-line.ts'
import { Differences } from '../../fixtures/differences.ts'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'
import { cohort, startPersons } from '../../fixtures/persons/persons-port.ts'

const daemon = await shareDecisions()
const api = (method: string, path: string, json?: unknown) => daemon.api(method, path, 1, json)
const FLAGS = 'feature_flags/'

function person(operator: unknown, value: unknown = 'x'): JsonObject {
  return { key: 'plan', type: 'person', operator, value }
}

/** Filters with the faulty property as the second property of their third condition. */
function third(property: JsonObject): JsonObject {
  const good = { properties: [person('exact')] }
  return { groups: [good, { properties: [] }, { properties: [person('is_set'), property] }] }
}

/** Patterns that match no text, with the expected error message. */
const BAD_PATTERNS: readonly (readonly [string, RegExp])[] = [
  ['(', /lacks a closing parenthesis/],
  ['a)', /extra closing parenthesis/],
  ['[a', /lacks a closing bracket/],
  ['*', /nothing to repeat in front of "\*"/],
  ['a**', /repeats twice/],
  ['a{2,1}', /repeats with "\{2,1\}"/],
  ['[z-a]', /invalid character class: "z-a"/],
  ['a\\', /ends with a single backslash/],
  ['\\y', /unknown escape: "\\\\y"/],
  ['(?P<', /group with an invalid name/],
  ['(?<n>a)(?<n>b)', /two groups with the name "n"/],
  ['(?#c)', /RE2 does not support/],
  ['(?=a)', /looks ahead or behind/],
  ['x(?!a)', /looks ahead or behind/],
  ['(?<=a)b', /looks ahead or behind/],
  ['(?<!a)b', /looks ahead or behind/],
  ['(a)\\1', /refers back/],
  ['(?P<n>a)(?P=n)', /refers back/],
  ['\\k<n>', /refers back/],
  ['a'.repeat(501), /has 501 characters, but at most 500 are allowed/],
  ['(a{30}){40}', /too large|repeats with/],
  ['(?:abc){400}', /too large/],
  ['a{600}b{600}', /too large/],
]
const BAD_OPERATORS: readonly unknown[] = [
  'exct',
  '',
  'EXACT',
  'in ',
  'constructor',
  '__proto__',
  'flag_evaluates_to',
  7,
  true,
  {},
  ['exact'],
  'x'.repeat(10_000),
]

t.test('a flag with a pattern or an operator that never matches is refused', async (t) => {
  const differences = new Differences()
  const refused = async (filters: JsonObject, code: string, detail: RegExp, what: string) => {
    const { status, body } = await api('POST', FLAGS, { key: 'refused', filters })
    const wanted = { type: 'validation_error', code, attr: 'filters', detail }
    differences.match({ status, body }, { status: 400, body: wanted }, what)
    const { length } = String(body['detail'])
    differences.ok(length < 800, `${what}: the detail has ${length} characters`)
  }
  for (const [pattern, reason] of BAD_PATTERNS) {
    for (const operator of ['regex', 'not_regex']) {
      const place = /^filters: groups\[2\]\.properties\[1\] \("plan"\) has a pattern that /
      const detail = new RegExp(`${place.source}.*(?:${reason.source})`)
      await refused(third(person(operator, pattern)), 'invalid_value', detail, pattern.slice(0, 40))
    }
  }
  for (const operator of BAD_OPERATORS) {
    const detail =
      /^filters: groups\[2\]\.properties\[1\] \("plan"\) (has the operator|needs a text)/
    const what = JSON.stringify(operator).slice(0, 40)
    await refused(third(person(operator)), 'invalid_operator', detail, what)
  }
  const group = { key: 'a', type: 'group', group_type_index: 0, operator: 'regex', value: '(' }
  const ofGroup = { aggregation_group_type_index: 0, groups: [{ properties: [group] }] }
  await refused(ofGroup, 'invalid_value', /groups\[0\]\.properties\[0\]/, 'of a group')
  const enrolled = { groups: [{}], super_groups: [{}, { properties: [person('exct')] }] }
  await refused(enrolled, 'invalid_operator', /super_groups\[1\]\.properties\[0\]/, 'enrollment')
  t.strictSame(differences.list(), [], 'every filter is refused with its place and the reason')
  t.match(await api('GET', FLAGS), { body: { count: 0 } }, 'nothing was stored')
})

t.test('patterns that can match are stored', async (t) => {
  const patterns = [
    '',
    '^a$',
    '(?i)x',
    '(?P<n>a)b',
    '(?<n>a)',
    '\\d+\\s\\w',
    '[\\w.-]+@x',
    'ü+',
    '{"a":1}',
    '\\p{L}{2,}',
    '^$',
  ]
  const filters = { groups: patterns.map((value) => ({ properties: [person('regex', value)] })) }
  const made = await api('POST', FLAGS, { key: 'good', filters })
  t.match(made, { status: 201, body: { filters } })
  t.notOk('status_details' in made.body)
  const listed = { key: 'id', type: 'cohort', value: 1, operator: 'is_not' }
  t.match(await api('POST', FLAGS, { key: 'c', filters: third(listed) }), { status: 400 })
})

t.test('a stored faulty filter is evaluated, read, reported and switched off', async (t) => {
  const bad = [person('exct'), person('regex', '(?=a)'), person('not_regex', '(')]
  const groups = bad.map((property) => ({ properties: [property], rollout_percentage: 100 }))
  const [flag] = await daemon.putFlags([{ key: 'stored', filters: { groups } }])
  const path = `${FLAGS}${flag?.id}/`
  const read = await api('GET', path)
  t.match(read, {
    status: 200,
    body: {
      filters: { groups },
      status: 'ACTIVE',
      status_details: [
        { path: 'filters.groups[0].properties[0]', reason: /has the operator "exct"/ },
        { path: 'filters.groups[1].properties[0]', reason: /looks ahead or behind/ },
        { path: 'filters.groups[2].properties[0]', reason: /lacks a closing parenthesis/ },
      ],
    },
  })
  const decided = await daemon.decide('/flags/?v=2', {
    distinct_id: 'a',
    person_properties: { plan: 'x' },
  })
  t.match(decided.body['flags'], { stored: { enabled: false } }, 'the flag is as before')
  t.match(await api('PATCH', path, { name: 'renamed' }), { status: 200, body: { name: 'renamed' } })
  const off = { ...read.body, active: false }
  t.match(
    await api('PUT', path, off),
    { status: 200, body: { active: false } },
    'the flag can be sent back whole',
  )
  t.match(await api('PATCH', path, { active: true }), { status: 200, body: { active: true } })
  const fewer = { groups: [...groups.slice(1).reverse(), { properties: [person('exact')] }] }
  t.match(
    await api('PATCH', path, { filters: fewer }),
    { status: 200 },
    'conditions can be moved while one is repaired',
  )
  const refused = { status: 400, body: { attr: 'filters', detail: /groups\[0\]/ } }
  for (const property of [bad[0], person('regex', '(?=b)')]) {
    const filters = { groups: [{ properties: [property] }, ...fewer.groups] }
    t.match(await api('PATCH', path, { filters }), refused, 'another faulty filter is refused')
  }
  const mended = { groups: [{ properties: [person('exact')] }] }
  t.notOk('status_details' in (await api('PATCH', path, { filters: mended })).body)
})

t.test('the blast radius of a condition is checked by the rules for saving', async (t) => {
  const condition = { properties: [person('exct')] }
  const answer = await api('POST', `${FLAGS}user_blast_radius/`, { condition })
  t.match(answer, { status: 400, body: { code: 'invalid_operator', attr: null } })
})

t.test('the command line reports the same faults', async (t) => {
  const dataDir = t.testdir()
  await runCommand('init', '--data-dir', dataDir)
  const run = (...words: readonly string[]) => runCommand(...words, '--data-dir', dataDir)
  await run('flag', 'create', 'x')
  for (const [property, detail] of [
    [person('exct'), /groups\[0\]\.properties\[0\] \("plan"\) has the operator "exct"/],
    [person('regex', '(?=a)'), /groups\[0\]\.properties\[0\] \("plan"\) has a pattern that looks/],
  ] as const) {
    const filters = JSON.stringify({ groups: [{ properties: [property] }] })
    for (const words of [
      ['create', 'y'],
      ['set', 'x'],
    ]) {
      const { exitCode, err } = await run('flag', ...words, '--filters', filters)
      t.equal(exitCode, 1)
      t.match(err, detail)
    }
  }
})

t.test('a cohort that never matches is refused, a stored one can be changed', async (t) => {
  const { store, ask } = await startPersons(t)
  const tree = (leaf: JsonObject) => ({
    type: 'OR',
    values: [
      { type: 'AND', values: [person('exact')] },
      { type: 'AND', values: [person('is_set'), leaf] },
    ],
  })
  const inCohort = { key: 'id', type: 'cohort', value: 1, operator: 'inn' }
  const rows: readonly (readonly [JsonObject, RegExp])[] = [
    ...BAD_PATTERNS.map(([value, reason]) => [person('regex', value), reason] as const),
    [person('regex', ['a', '(']), /lacks a closing parenthesis/],
    [person('not_regex', []), /[\s\S]/],
    [person('regex', '\\Qa\\E'), /has \\Q or \\C/],
    [person('exct'), /has the operator "exct"/],
    [person('starts_with'), /has the operator "starts_with", which is not supported here/],
    [person(7), /needs a text as operator/],
    [inCohort, /has the operator "inn".*Use one of in, not_in/],
  ]
  store.cohorts = [cohort(1)]
  for (const [leaf, reason] of rows) {
    const body = { name: 'c', filters: { properties: tree(leaf) } }
    const answer = await ask('1/cohorts/', { method: 'POST', body })
    const detail = new RegExp(`^filters: values\\[1\\]\\.values\\[1\\] .*(?:${reason.source})`)
    t.match(
      answer,
      { status: 400, body: { code: 'invalid_input', attr: 'filters', detail } },
      JSON.stringify(leaf).slice(0, 80),
    )
  }
  const list = await ask('1/cohorts/', {
    method: 'POST',
    body: { name: 'c', filters: [person('regex', '(')] },
  })
  t.match(list.body, { detail: /^filters: \[0\] \("plan"\)/ })
  const stored = tree(person('regex', '(?=a)'))
  store.cohorts = [cohort(1, { filters: { properties: stored } })]
  const change = (body: object) => ask('1/cohorts/1/', { method: 'PATCH', body })
  t.equal((await change({ name: 'n' })).status, 200)
  t.equal((await change({ name: 'n', filters: { properties: stored } })).status, 200)
  t.equal((await change({ filters: { properties: tree(person('regex', '(?=b)')) } })).status, 400)
  t.equal((await ask('1/cohorts/1/')).status, 200)
  const referring = { key: 'id', type: 'cohort', value: 1 }
  const other = await ask('1/cohorts/', {
    method: 'POST',
    body: { name: 'o', filters: [referring] },
  })
  t.equal(other.status, 201, 'another cohort may refer to it')
})

t.test('an action that never matches is refused, a stored one can be changed', async (t) => {
  const { store, ask } = await startPersons(t)
  const rows: readonly (readonly [JsonObject, RegExp])[] = [
    [{ url: '(', url_matching: 'regex' }, /^steps\[1\]\.url \("url"\) has a pattern that lacks/],
    [{ text: '(?=a)', text_matching: 'regex' }, /^steps\[1\]\.text .*looks ahead/],
    [{ href: '(a)\\1', href_matching: 'regex' }, /^steps\[1\]\.href .*refers back/],
    [{ properties: [person('regex', '[')] }, /^steps\[1\]\.properties\[0\] \("plan"\)/],
    [{ properties: [person('exct')] }, /^steps\[1\]\.properties\[0\] .*operator "exct"/],
    [
      { properties: { type: 'OR', values: [{ key: 'a', operator: 'exct', value: 1 }] } },
      /^steps\[1\]\.properties\.values\[0\] \("a"\)/,
    ],
    [{ properties: { plan__regex: '(' } }, /^steps\[1\]\.properties\[0\] \("plan"\)/],
  ]
  const steps = (step: JsonObject) => [{ event: 'e' }, step]
  for (const [step, detail] of rows) {
    const body = { name: 'a', steps: steps(step) }
    const answer = await ask('1/actions/', { method: 'POST', body })
    const expected = { status: 400, body: { code: 'invalid_input', attr: 'steps', detail } }
    t.match(answer, expected, JSON.stringify(step))
  }
  const many = Array.from({ length: 21 }, () => ({ url: 'a'.repeat(250), url_matching: 'regex' }))
  const wide = await ask('1/actions/', { method: 'POST', body: { name: 'a', steps: many } })
  t.match(wide, { status: 400, body: { attr: 'steps', detail: /200 regular expressions/ } })
  t.strictSame(store.commands, [])
  for (const [step] of rows) {
    store.actions = [actionOf(steps(step))]
    const whole = { method: 'PUT', body: { ...actionOf(steps(step)), name: 'new' } }
    t.equal((await ask('1/actions/1/', whole)).status, 200, JSON.stringify(step))
    const worse = { steps: [...steps(step), { url: '[', url_matching: 'regex' }] }
    t.match(await ask('1/actions/1/', { method: 'PATCH', body: worse }), {
      status: 400,
      body: { detail: /^steps\[2\]/ },
    })
    t.equal((await ask('1/actions/9/', { method: 'PATCH', body: worse })).status, 404)
  }
})

function actionOf(steps: readonly JsonObject[]): ActionView {
  return {
    id: 1,
    name: 'a',
    description: '',
    tags: [],
    deleted: false,
    is_calculating: false,
    steps: steps.map((step) => ({ ...EMPTY_STEP, ...step })),
    created_at: '2023-01-02T10:00:00Z',
    created_by: null,
  }
}

t.test('lists and analytics queries refuse unknown operators', async (t) => {
  const { ask } = await startPersons(t)
  const query = (filters: unknown) => `properties=${encodeURIComponent(JSON.stringify(filters))}`
  const leaf = { key: 'plan', operator: 'exct', value: 'x' }
  const tree = { type: 'OR', values: [{ type: 'AND', values: [leaf] }] }
  for (const [filters, detail] of [
    [
      [{ ...leaf, operator: 'exact' }, leaf],
      /^properties: \[1\] \("plan"\) has the operator "exct"/,
    ],
    [tree, /^properties: values\[0\]\.values\[0\] /],
    [[{ ...leaf, operator: 7 }], /needs a text as operator/],
    [[{ type: 'cohort', key: 'id', value: 1, operator: 'inn' }], /operator "inn"/],
  ] as const) {
    const answer = await ask(`1/persons/?${query(filters)}`)
    t.match(answer, { status: 400, body: { code: 'invalid_input', attr: 'properties', detail } })
  }
  const other = [{ type: 'event', ...leaf }]
  t.equal(
    (await ask(`1/persons/?${query(other)}`)).status,
    200,
    'a filter that is skipped anyway is accepted',
  )
  for (const route of ['trends', 'stickiness']) {
    const answer = await api(
      'GET',
      `persons/${route}/?entity_type=events&entity_id=e&${query([leaf])}`,
    )
    t.match(answer, { status: 400, body: { code: 'invalid_input', attr: 'properties' } }, route)
  }
  const events = encodeURIComponent(JSON.stringify([{ id: 'e', properties: [leaf] }]))
  const series = await api('GET', `persons/trends/?entity_type=events&entity_id=e&events=${events}`)
  t.match(series, { status: 400, body: { attr: 'events', detail: /^events: \[0\] \("plan"\)/ } })
  const stored = { test_account_filters: [leaf] }
  t.equal((await daemon.ask(daemon.path(1, ''), owned('PATCH', stored))).status, 200)
  const without = 'persons/trends/?entity_type=events&entity_id=e&filter_test_accounts=true'
  t.equal((await api('GET', without)).status, 200, 'stored filters are read without it')
})

function owned(method: string, json: object) {
  return { method, json, headers: { Authorization: 'Bearer phx_owner_of_everything' } }
}

/** Returns a store with one sound and one faulty flag, cohort and action. */
async function faultyStore(t: Test): Promise<string> {
  const dataDir = t.testdir()
  await runCommand('init', '--data-dir', dataDir)
  const store = new FlagStore(dataDir)
  const actor = { userId: 0, firstName: 'System', email: '' }
  const context = { projectId: 1, actor, nowMs: 1, cohort: () => null }
  store.create(context, { key: 'sound', filters: { groups: [{ properties: [person('exact')] }] } })
  const flag: Flag = store.create(context, { key: 'faulty' })
  await store.close()
  const flags = new Environment({ dataDir, name: FLAGS_ENVIRONMENT, tables: FLAGS_TABLES })
  const groups = [{ properties: [person('regex', '(?=a)'), person('exct')] }]
  flags.write(() => storeFlag(flags.table('flags'), { ...flag, filters: { groups } }, 2))
  await flags.close()
  const events = new Environment({ dataDir, name: EVENTS_ENVIRONMENT, tables: EVENTS_TABLES })
  const cohorts = new ProjectCohorts(1, events.tables)
  const actions = new ProjectActions(1, events.table('actions'))
  const made = { description: '', createdAt: '2023-01-02T10:00:00Z', createdBy: null }
  const sets = { isStatic: false, isDeleted: false, changedAt: null, count: 0 }
  for (const [id, value] of [
    [1, 'fine'],
    [2, '(a)\\1'],
  ] as const) {
    const leaf = { key: 'plan', type: 'person', operator: 'regex', value }
    const filters = { type: 'AND', values: [{ type: 'AND', values: [leaf] }] } as const
    cohorts.put({ ...made, ...sets, id, name: `c${id}`, filters })
    const { steps } = actionOf([{ url: value, url_matching: 'regex' }])
    actions.put({ ...made, id, name: `a${id}`, tags: [], steps, isDeleted: false })
  }
  events.write(() => {
    cohorts.store()
    actions.store()
  })
  await events.close()
  return dataDir
}

t.test('doctor names filters that can never match', async (t) => {
  const dataDir = await faultyStore(t)
  const outcome = await runCommand('doctor', '--data-dir', dataDir, '--json')
  const found = linesOf(outcome).filter(({ check }) => check === 'stored_filters')
  t.match(found, [
    {
      verdict: 'warning',
      message:
        /^A filter of flag faulty in project 1 .*filters\.groups\[0\]\.properties\[0\] \("plan"\) .*looks ahead/,
    },
    {
      verdict: 'warning',
      message: /^A filter of flag faulty .*properties\[1\] \("plan"\) has the operator "exct"/,
    },
    {
      verdict: 'warning',
      message:
        /^A filter of cohort 2 \(c2\) .*filters\.properties\.values\[0\]\.values\[0\] .*refers back/,
    },
    { verdict: 'warning', message: /^A filter of action 2 \(a2\) .*steps\[0\]\.url .*refers back/ },
  ])
  t.equal(found.length, 4)
  const [shown] = linesOf(
    await runCommand('flag', 'show', 'faulty', '--data-dir', dataDir, '--json'),
  )
  t.match(shown, { status: 'ACTIVE', status_details: [{ path: /groups\[0\]/ }, {}] })
  const empty = t.testdir({ other: {} })
  await runCommand('init', '--data-dir', `${empty}/other`)
  const sound = linesOf(await runCommand('doctor', '--data-dir', `${empty}/other`, '--json'))
  t.match(
    sound.find(({ check }) => check === 'stored_filters'),
    { verdict: 'ok' },
  )
})
