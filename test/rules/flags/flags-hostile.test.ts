/**
 * Tests hostile flags over HTTP: patterns with exponential run time, filters of the maximum size, circular references,
 * and ids of other projects. Each is refused, or evaluated within the budget of one request.
 *
 * @lane all
 */
import t, { type Test } from 'tap'
import type { JsonObject } from '../../../src/base/json.ts'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'

const FLAGS = 'feature_flags/'
const EVIL = 'a'.repeat(1990)
const PATTERN_LIMIT = 'pattern_limit'
const MATCH = 'condition_match'
const NO_MATCH = 'no_condition_match'

const daemon = await shareDecisions(2)
const api = (method: string, path: string, json?: unknown, projectId = 1) =>
  daemon.api(method, path, projectId, json)

function withPatterns(patterns: readonly string[], operator = 'regex'): JsonObject {
  const properties = patterns.map((value) => ({ key: 'text', type: 'person', operator, value }))
  return { groups: properties.map((property) => ({ properties: [property] })) }
}

/** Checks that a flag is answered with this reason, which is `pattern_limit` if the evaluation would cost too much. */
async function isAnswered(t: Test, key: string, filters: JsonObject, code: string): Promise<void> {
  const id = await storedAs(t, key, filters)
  const answer = await daemon.decide('/flags/?v=2', {
    distinct_id: 'ann',
    person_properties: { text: `${EVIL}!` },
  })
  t.equal(answer.status, 200)
  t.match(Reflect.get(answer.body['flags'] as object, key), { reason: { code } })
  t.equal(answer.body['errorsWhileComputingFlags'], code === PATTERN_LIMIT)
  t.equal((await api('PATCH', `${FLAGS}${id}/`, { deleted: true })).status, 200)
}

/** Saves a flag, or writes it to the store directly if the API refuses it today. */
async function storedAs(t: Test, key: string, filters: JsonObject): Promise<number> {
  const { status, body } = await api('POST', FLAGS, { key, filters })
  if (status === 201) return Number(body['id'])
  t.match({ status, body }, { status: 400, body: { code: 'invalid_value', attr: 'filters' } })
  const [flag] = await daemon.putFlags([{ key, filters }])
  return flag?.id ?? 0
}

/** Patterns, with the reason of the answer when each has to match and when it must not match. */
type Row = readonly [name: string, found: string, notFound: string, patterns: readonly string[]]

t.test('patterns with exponential run time in other engines', async (t) => {
  const each = (pattern: string, count: number): string[] =>
    Array.from({ length: count }, (_, index) => `${pattern}${index}`)
  const rows: readonly Row[] = [
    [
      'nested',
      MATCH,
      MATCH,
      ['(a+)+$', '(a*)*$', '((a+)+)+!', '(a|a)+$', '(a|aa)+$', '(.*a){20}!'],
    ],
    ['bounded', MATCH, NO_MATCH, ['(a{1,30}){1,30}$', 'a{0,500}a{500}$', '(?:a?){30}a{30}']],
    ['states', PATTERN_LIMIT, PATTERN_LIMIT, ['(a|b)*a(a|b){60}[cd]', '[ab]*a[ab]{200}c']],
    ['many', PATTERN_LIMIT, MATCH, each('(a|b)*a[ab]{9}c', 200)],
    ['classes', PATTERN_LIMIT, MATCH, each('\\p{L}+\\w+\\p{Lu}*', 200)],
    ['back references and look-around', NO_MATCH, NO_MATCH, ['(a+)\\1+$', '(?=a+)+$', '(?<!a)b']],
    ['no patterns at all', NO_MATCH, NO_MATCH, ['(', '[', 'a{2,1}', '(?P<', '\\', '*']],
  ]
  for (const [name, found, notFound, patterns] of rows) {
    for (const [operator, code] of [
      ['regex', found],
      ['not_regex', notFound],
    ] as const) {
      const key = `evil-${name.replaceAll(' ', '-')}-${operator}`
      await t.test(`${name}, ${operator}`, (t) =>
        isAnswered(t, key, withPatterns(patterns, operator), code),
      )
    }
  }
})

t.test('too many patterns, and a pattern that is too long', async (t) => {
  const refused = { status: 400, body: { code: 'invalid_input', attr: 'filters' } }
  const many = withPatterns(Array.from({ length: 201 }, (_, index) => `a${index}`))
  t.match(await api('POST', FLAGS, { key: 'many', filters: many }), refused)
  t.match(
    await api('POST', FLAGS, { key: 'long', filters: withPatterns(['a'.repeat(5001)]) }),
    refused,
  )
  const leaf = (value: string) => ({ key: 'text', type: 'person', operator: 'regex', value })
  const cohort = (patterns: readonly string[]) => ({
    name: 'patterns',
    filters: { properties: { type: 'OR', values: patterns.map(leaf) } },
  })
  t.match(
    await api('POST', 'cohorts/', cohort(['a'.repeat(5001)])),
    refused,
    'the limit holds for cohorts, too',
  )
  const made = await api('POST', 'cohorts/', cohort(['(a+)+$']))
  t.equal(made.status, 201)
  const path = `cohorts/${String(made.body['id'])}/`
  const patterns = Array.from({ length: 201 }, (_, index) => `a${index}`)
  t.match(await api('PATCH', path, cohort(patterns)), refused)
  const properties = [{ key: 'id', type: 'cohort', operator: 'in', value: made.body['id'] }]
  await isAnswered(t, 'by-cohort', { groups: [{ properties }] }, NO_MATCH)
})

t.test('filters of almost 1 MB are stored and evaluated, larger ones are refused', async (t) => {
  const values = Array.from({ length: 1000 }, (_, index) => `${index}-${'v'.repeat(1000)}`)
  const property = { key: 'text', type: 'person', operator: 'exact', value: values }
  await isAnswered(t, 'large', { groups: [{ properties: [property] }] }, NO_MATCH)
  const twice = { groups: [{ properties: [property] }, { properties: [property] }] }
  t.match(await api('POST', FLAGS, { key: 'larger', filters: twice }), {
    status: 400,
    body: { code: 'invalid_input', attr: 'filters' },
  })
})

t.test('filters with too many levels or parts are refused or cost too much', async (t) => {
  const leaf = { key: 'text', type: 'person', operator: 'exact', value: 'x' }
  let deep: object = leaf
  for (let level = 0; level < 1000; level++) deep = { type: 'AND', values: [deep] }
  const rows: readonly (readonly [string, string, object])[] = [
    ['a flag, 1000 deep', FLAGS, { key: 'deep', filters: { groups: [{ properties: [deep] }] } }],
    ['a cohort, 1000 deep', 'cohorts/', { name: 'deep', filters: { properties: deep } }],
    [
      '5000 conditions of a cohort',
      'cohorts/',
      { name: 'wide', filters: { properties: { type: 'OR', values: Array(5000).fill(leaf) } } },
    ],
  ]
  for (const [what, path, body] of rows) {
    const answer = await api('POST', path, body)
    t.equal(answer.status, 400, what)
    t.match(answer.body, { type: 'validation_error', code: String, detail: /./ }, what)
  }
  await isAnswered(t, 'wide', { groups: Array(5000).fill({ properties: [leaf] }) }, PATTERN_LIMIT)
  const value = Array.from({ length: 100_000 }, (_, index) => `v${index}`)
  const many = { groups: [{ properties: [{ ...leaf, value }] }] }
  const refused = await api('POST', FLAGS, { key: 'values', filters: many })
  t.match(
    refused,
    { status: 400, body: { attr: 'filters', detail: /\d/ } },
    'the error names the limit',
  )
  const path = (filters: unknown): string =>
    `events/?properties=${encodeURIComponent(JSON.stringify(filters))}`
  t.equal((await api('GET', path([deep]))).status, 400)
})

t.test('circles are refused, and a stored circle is evaluated as an error', async (t) => {
  const dependsOn = (id: unknown) => ({
    groups: [
      {
        properties: [{ key: String(id), type: 'flag', operator: 'flag_evaluates_to', value: true }],
      },
    ],
  })
  const one = await api('POST', FLAGS, { key: 'one' })
  const two = await api('POST', FLAGS, { key: 'two', filters: dependsOn(one.body['id']) })
  t.equal(two.status, 201)
  const refused = { status: 400, body: { code: 'invalid_input', attr: 'filters' } }
  for (const id of [one.body['id'], two.body['id']]) {
    const path = `${FLAGS}${String(one.body['id'])}/`
    t.match(await api('PATCH', path, { filters: dependsOn(id) }), refused)
  }
  await daemon.putFlags([{ id: 77, key: 'self', filters: dependsOn(77) }])
  const { body } = await daemon.decide('/flags/?v=2', { distinct_id: 'ann' })
  t.match(body, {
    errorsWhileComputingFlags: true,
    flags: {
      self: { enabled: false, reason: { code: 'missing_dependency' } },
      two: { enabled: true },
    },
  })
})

t.test('flags of another project are not found', async (t) => {
  const made = await api('POST', FLAGS, { key: 'theirs' }, 2)
  const path = `${FLAGS}${String(made.body['id'])}/`
  const rows: readonly (readonly [string, string, JsonObject?])[] = [
    ['GET', path],
    ['PATCH', path, { active: false }],
    ['PUT', path, { key: 'mine' }],
    ['GET', `${path}activity/`],
    ['POST', `${path}dashboard/`],
    ['GET', `${path}remote_config/`],
  ]
  for (const [method, route, body] of rows) {
    t.equal((await api(method, route, body)).status, 404, `${method} ${route}`)
  }
  t.strictSame((await api('GET', `${path}role_access/`)).body['results'], [])
  t.match((await api('GET', path, undefined, 2)).body, { key: 'theirs', active: true })
  const filters = {
    groups: [
      {
        properties: [
          {
            key: String(made.body['id']),
            type: 'flag',
            value: true,
            operator: 'flag_evaluates_to',
          },
        ],
      },
    ],
  }
  t.match(await api('POST', FLAGS, { key: 'borrowed', filters }), {
    status: 400,
    body: { code: 'invalid_input', attr: 'filters' },
  })
})
