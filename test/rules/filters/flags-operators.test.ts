/**
 * Tests the operators of flag filters with the reference vectors, and with cases that the vectors do not cover.
 *
 * @lane quick
 */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { PatternBudget } from '../../../src/base/pattern/pattern.ts'
import { FLAG_OPERATORS, LIST_OPERATORS } from '../../../src/rules/filters/operator-names.ts'
import { propertyTest } from '../../../src/rules/filters/property-filter.ts'
import { EvaluationFailure } from '../../../src/rules/flags/evaluation-failure.ts'
import { flagPropertyTest } from '../../../src/rules/flags/flag-property-test.ts'
import { Differences } from '../../fixtures/differences.ts'

interface VectorFile {
  readonly vectors: readonly {
    readonly id: number
    readonly operator: string | null
    readonly filter_value: unknown
    readonly has_property: boolean
    readonly property: unknown
    readonly expected: boolean | 'error'
    readonly now?: string
    readonly timezone?: string
  }[]
}

const file = JSON.parse(
  readFileSync(
    new URL('../../fixtures/flags/property-match-vectors.json', import.meta.url),
    'utf8',
  ),
) as VectorFile

const MISSING = undefined
const NOW_MS = Date.parse('2024-03-31T12:00:00Z')

function passes(
  operator: unknown,
  wanted: unknown,
  property: unknown,
  { timezone = 'UTC', nowMs = NOW_MS }: { timezone?: string; nowMs?: number } = {},
): boolean {
  const patternBudget = new PatternBudget()
  return flagPropertyTest(operator, wanted, timezone)(property, { nowMs, patternBudget })
}

t.test('the vectors hold; values that cannot be compared do not match', async (t) => {
  const differences = new Differences()
  for (const {
    id,
    operator,
    filter_value,
    has_property,
    property,
    expected,
    ...place
  } of file.vectors) {
    const { now, timezone = 'UTC' } = place
    const nowMs = now === undefined ? NOW_MS : Date.parse(now)
    const value = has_property ? property : MISSING
    const got = passes(operator, filter_value, value, { timezone, nowMs })
    const name = `${id}: ${JSON.stringify(value)} ${operator} ${JSON.stringify(filter_value)}`
    differences.equal(got, expected === true, name)
  }
  t.strictSame(differences.list(), [], 'every vector holds')
  t.ok(file.vectors.length > 280)
})

t.test('exactly the operators that can be evaluated may be saved', async (t) => {
  const decidable = file.vectors.filter(({ expected }) => expected === true)
  const operators = new Set(decidable.map(({ operator }) => operator ?? 'exact'))
  t.strictSame([...operators].sort(), [...FLAG_OPERATORS].sort())
  t.strictSame(
    LIST_OPERATORS.filter(
      (operator) => !propertyTest({ key: 'a', value: '1', type: 'person', operator }),
    ),
    [],
    'every operator of lists can be tested',
  )
})

type Case = readonly [operator: unknown, wanted: unknown, property: unknown, is: boolean]

const CASES: readonly Case[] = [
  ['constructor', 'a', 'a', false],
  [7, 'a', 'a', false],
  ['exact', { b: 1, a: [2] }, '{"a":[2],"b":1}', true],
  ['icontains', 'KELVIN', 'kelvin', true],
  ['icontains', 'K', '\u212a', false],
  ['not_starts_with', 'A', 'abc', false],
  ['regex', '^\\d+$', '١٢٣', true],
  ['regex', '^\\w+$', 'Straße_日本', true],
  ['regex', 'a\\sb', 'a\u2003b', true],
  ['regex', '^[\\w.]+$', 'é.ü', true],
  ['regex', '^[^\\s@]+@x$', 'é@x', true],
  ['regex', '^[^\\s@]+@x$', 'a\u2003b@x', false],
  ['regex', '^[\\S]$', '\u2003', false],
  ['regex', '^[\\D]$', '١', false],
  ['regex', '^\\W$', 'é', false],
  ['regex', '[[:alpha:]]\\u0041\\u{42}', 'xAB', true],
  ['regex', '[]a]', ']', true],
  ['regex', '[^]a]', ']', false],
  ['regex', '(?i)VALUE', 'a value', true],
  ['regex', '(?im)^VALUE$', 'a\nvalue\nb', true],
  ['regex', '(?<name>a)b', 'ab', true],
  ['regex', '(?=a)a', 'a', false],
  ['not_regex', '(?=a)a', 'b', false],
  ['regex', '(a)\\1', 'aa', false],
  ['regex', '\\Qa.b\\E', 'a.b', false],
  ['regex', 'x'.repeat(501), 'x'.repeat(600), false],
  ['regex', 5, 15, true],
  ['gt', '-inf', 0, true],
  ['gt', '5', 'nan', false],
  ['gt', '5', '6_0', false],
  ['between', ['1', '10'], 5, true],
  ['between', [1, 'nan'], 5, false],
  ['not_between', [1, 10], 'NaN', false],
  ['not_between', [10, 1], 5, false],
  ['not_between', [10, 1], MISSING, true],
  ['not_between', '1,10', MISSING, true],
  ['between', [10, 1], MISSING, false],
  ['is_date_before', '2024-06-01T00:00', '2024-05-31 23:59', true],
  ['is_date_exact', '2024-06-01T00:00:00+0530', '2024-05-31T18:30:00Z', true],
  ['is_date_before', '10000d', 0, false],
  ['is_date_before', '2024-06-01', 'inf', false],
  ['is_date_before', '2024-06-01', 1e300, false],
  ['is_date_before', '2024-06-01', ['2024-01-01'], false],
  ['is_date_exact', '2024-03-15 19:47:07 UTC', '03/15/2024 7:47:07 PM', true],
  ['is_date_exact', 'Fri, 15 Mar 2024 19:47:07 GMT', '2024-03-15 21:47:07 +02:00', true],
  ['is_date_before', '2030-01-01', '2024-2-9', true],
  ['is_date_before', '2030-01-01', '2024-12-1 9:05', true],
  ['is_date_before', '2030-01-01', '1 May 2024', true],
  ['is_date_after', '2024/05/01', 'May 2, 2024', true],
  ['is_date_exact', '2024-07-01T00:00:00Z', '2024-06-30T23:59:60.0000000000Z', true],
  ['is_date_before', '2030-01-01', '31/12/2024', false],
  // A property reads this as seconds. A filter does not accept it as a date.
  ['is_date_exact', '2024-05-01T12:30:05Z', '1714566605', true],
  ['is_date_before', '1714566605', '2024-01-01', false],
  ['is_date_before', '2100-01-01', 1714566605123, false],
  ['is_date_exact', '1w', '7d', true],
  ['is_date_exact', '1y', '2023-03-31T12:00:00Z', true],
  ['is_date_exact', '13m', '2023-02-28T12:00:00Z', true],
  ['semver_gt', '1.0.0', '1.0.0+b1', true],
  ['semver_lt', '1.0.0+b10', '1.0.0+b1', true],
  ['semver_lt', '1.0.0+10', '1.0.0+9', true],
  ['semver_lt', '1.0.0+010', '1.0.0+10', true],
  ['semver_eq', '1.2.3', 'vv1.2.3', false],
  ['semver_eq', '1.2.3', '1.2.3 ', true],
  ['semver_gt', '18446744073709551614.0.0', '18446744073709551615.0.0', true],
  ['semver_gt', '1.0.0', '18446744073709551616.0.0', false],
  ['semver_caret', '1.2.3-beta.2', '1.2.3-beta.10', true],
  ['semver_caret', '1.2.3-beta.2', '1.2.4-beta', false],
  ['semver_caret', '0.0.3', '0.0.4', false],
  ['semver_tilde', '1.2.3+build', '1.2.3', true],
  ['semver_wildcard', '0', '0.9.0', true],
  ['semver_wildcard', '0.0', '0.0.9', true],
  ['semver_wildcard', '0.0', '0.1.0', false],
  ['semver_wildcard', '*', '9.9.9', true],
  ['semver_wildcard', '1.2.*.*', '1.2.3', false],
  ['semver_wildcard', '1.*-a', '1.2.3', false],
  ['semver_wildcard', 'x', '1.2.3', true],
  ['semver_eq', '1.'.repeat(200), '1.0.0', false],
]

t.test('operators on values that the vectors do not cover', async (t) => {
  const differences = new Differences()
  for (const [operator, wanted, property, is] of CASES) {
    const name = `${JSON.stringify(property)} ${String(operator)} ${JSON.stringify(wanted).slice(0, 60)}`
    differences.equal(passes(operator, wanted, property), is, name)
  }
  t.strictSame(differences.list(), [], 'every case holds')
})

t.test('dates without an offset are in the time zone of the project', async (t) => {
  const timezone = 'America/New_York'
  t.equal(passes('is_date_exact', '2024-07-01', '2024-07-01T04:00:00Z', { timezone }), true)
  t.equal(passes('is_date_exact', '2024-01-01', '2024-01-01T05:00:00Z', { timezone }), true)
  t.equal(passes('is_date_exact', '2024-01-01', '2024-01-01', { timezone }), true)
  t.equal(passes('is_date_exact', '7/1/2024', '2024-07-01 04:00:00 UTC', { timezone }), true)
  t.equal(passes('is_date_exact', '2024-01-01T00:00:00Z', '2024-01-01', { timezone }), false)
  const skipped = ['2024-03-10T02:30:00', '2024-03-10T07:30:00Z'] as const
  t.equal(passes('is_date_exact', ...skipped, { timezone }), true, 'a time that the clock skips')
  const twice = ['2024-11-03T01:30:00', '2024-11-03T05:30:00Z'] as const
  t.equal(
    passes('is_date_exact', ...twice, { timezone }),
    true,
    'a time that the clock shows twice',
  )
  t.equal(passes('is_date_exact', '2024-01-01', 1704067200, { timezone: 'No/Where' }), true)
})

t.test('the patterns of a request share a budget; a flag fails when it is used up', async (t) => {
  const moment = { nowMs: NOW_MS, patternBudget: new PatternBudget() }
  const text = Array.from({ length: 5000 }, (_, i) => 'ab'[(Math.imul(i, 40503) >>> 7) & 1]).join(
    '',
  )
  const huge = flagPropertyTest('not_regex', '(a|b)*a(a|b){240}[cd]', 'UTC')
  t.throws(
    () => huge(text, moment),
    new EvaluationFailure('pattern_limit'),
    'the pattern is not tried',
  )
  const hostile = flagPropertyTest('not_regex', '(a|b)*a(a|b){60}[cd]', 'UTC')
  let searches = 0
  t.throws(() => {
    for (; searches < 1000; searches++) hostile(text.slice(searches, searches + 300), moment)
  }, new EvaluationFailure('pattern_limit'))
  t.ok(searches > 0, `${searches} searches`)
  t.equal(
    flagPropertyTest('regex', 'b', 'UTC')('abc', moment),
    true,
    'a cheap pattern still fits into the budget',
  )
  const friendly = flagPropertyTest('regex', '@(example|test)\\.(com|org)$', 'UTC')
  const fresh = { nowMs: NOW_MS, patternBudget: new PatternBudget() }
  for (let count = 0; count < 5000; count++) friendly('someone@example.com', fresh)
  t.pass('thousands of searches with a plain pattern are no problem')
})

t.test(
  'long properties use up the budget, so no request reads them thousands of times',
  async (t) => {
    const text = 'z'.repeat(200_000)
    const list = Array.from({ length: 20_000 }, (_, index) => index)
    const many = Array.from({ length: 1000 }, (_, index) => `z${index}`)
    const filters = [
      flagPropertyTest('icontains_multi', many, 'UTC'),
      flagPropertyTest('not_icontains', 'zzy', 'UTC'),
      flagPropertyTest('exact', 'pro', 'UTC'),
      flagPropertyTest('gt', '5', 'UTC'),
    ]
    for (const property of [text, list]) {
      for (const filter of filters) {
        const moment = { nowMs: NOW_MS, patternBudget: new PatternBudget() }
        t.throws(() => {
          for (let count = 0; count < 1000; count++) filter(property, moment)
        }, new EvaluationFailure('pattern_limit'))
      }
    }
    const moment = { nowMs: NOW_MS, patternBudget: new PatternBudget() }
    const [multi] = filters
    t.equal(
      multi?.('buzz7', moment),
      true,
      'thousands of values against a short text fit into the budget',
    )
    t.equal(
      flagPropertyTest('exact', text, 'UTC')(text, moment),
      true,
      'a long text that is read once fits into the budget',
    )
    t.equal(flagPropertyTest('is_set', 1, 'UTC')(list, moment), true)
  },
)
