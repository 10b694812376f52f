/**
 * Tests every operator of property filters on every kind of value.
 *
 * @lane quick
 */
import fc from 'fast-check'
import t from 'tap'
import { compilePattern, PatternBudget } from '../../../src/base/pattern/pattern.ts'
import type { PropertyFilter } from '../../../src/rules/filters/filter-group.ts'
import { propertyTest } from '../../../src/rules/filters/property-filter.ts'
import { roundsOf, runsOf } from '../../fixtures/random-depth.ts'

/** Marks a property that the event does not have. */
const MISSING = undefined

/** Returns whether a value passes a filter, or null if the filter cannot be built. */
function passes(operator: string | undefined, wanted: unknown, value: unknown): boolean | null {
  const filter: PropertyFilter = {
    key: 'k',
    value: wanted,
    ...(operator === undefined ? {} : { operator }),
  }
  const test = propertyTest(filter)
  return test === null ? null : test(value)
}

type Case = readonly [operator: string | undefined, wanted: unknown, value: unknown, is: boolean]

const CASES: readonly Case[] = [
  [undefined, 'red car', 'red car', true],
  ['exact', 'red car', 'Red car', false],
  ['exact', ['Blue Car', 'boat'], 'boat', true],
  ['exact', [], 'boat', false],
  ['exact', '10', 10, true],
  ['exact', 10, '10', true],
  ['exact', 1, 1.0, true],
  ['exact', 'true', true, true],
  ['exact', true, 'true', true],
  ['exact', 'null', null, true],
  ['exact', '', MISSING, true],
  ['exact', '', null, false],
  ['exact', '{"a":[1]}', { a: [1] }, true],
  ['is_not', 'red car', 'boat', true],
  ['is_not', 'red car', 'red car', false],
  ['is_not', 'red car', MISSING, true],
  ['is_not', ['a', 'b'], 'b', false],
  ['icontains', 'CAR', 'red car', true],
  ['icontains', 'CAR', MISSING, false],
  ['icontains', ['x', 'red'], 'a Red one', true],
  ['icontains', 5, 1.5, true],
  ['not_icontains', 'CAR', 'red car', false],
  ['not_icontains', 'CAR', MISSING, true],
  ['regex', '^r.d', 'red car', true],
  ['regex', 'd c', 'red car', true],
  ['regex', '(?i)RED', 'a red car', true],
  ['regex', 'RED', 'a red car', false],
  ['regex', '([', 'anything', false],
  ['regex', '^$', MISSING, true],
  ['regex', '\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}', 'at 2024-01-02T03:04:05', true],
  ['regex', '(a+)+$', 'aaa', true],
  ['regex', '(a|a)*b', 'aab', true],
  ['regex', '(a|b){2,3}c', 'xabac', true],
  ['regex', '^(a|b){2,3}$', 'abab', false],
  ['regex', '\\bred\\b', 'a red car', true],
  ['regex', '\\bred\\b', 'a redder car', false],
  ['regex', '[^a-z ]', 'a red car', false],
  ['regex', '[]x]+y', 'x]y', true],
  ['regex', '^\\p{Lu}', 'Émile', true],
  ['regex', '(?i)É$', 'café', true],
  ['regex', '^.$', '😀', true],
  ['regex', 'a.b', 'a\nb', false],
  ['regex', '(?s)a.b', 'a\nb', true],
  ['regex', '(?m)^b$', 'a\nb', true],
  ['regex', '@example\\.(com|org)$', 'x@example.org', true],
  ['regex', 'a**', 'a', false],
  ['regex', '*', 'a', false],
  ['regex', '(a', 'a', false],
  ['regex', 'a)', 'a', false],
  ['regex', 'a{3,2}', 'aaa', false],
  ['regex', 'a{2000}', 'a', false],
  ['regex', '((a{100}){100}){100}', 'a', false],
  ['regex', '((){1000}){1000}', 'a', false],
  ['regex', '(?:)', 'a', true],
  ['regex', '(?=a)a', 'a', false],
  ['regex', '(a)\\1', 'aa', false],
  ['regex', 'x'.repeat(1001), 'x'.repeat(2000), false],
  ['regex', '.*.*.*.*.*=', '=', true],
  ['regex', '(ab){2}[(*+]', 'abab(', true],
  ['not_regex', '^r', 'boat', true],
  ['not_regex', '^r', 'red', false],
  ['not_regex', '^r', MISSING, true],
  ['not_regex', '([', 'boat', false],
  ['is_set', undefined, null, true],
  ['is_set', undefined, MISSING, false],
  ['is_not_set', undefined, MISSING, true],
  ['is_not_set', undefined, null, false],
  ['gt', 9, 10, true],
  ['gt', 9, '9', false],
  ['gt', '9', ' 1 0 ', true],
  ['gt', 9, 'many', false],
  ['gte', 9, '9', true],
  ['lt', 10, '9', true],
  ['lt', 10, MISSING, false],
  ['lt', 10, 'many', false],
  ['lt', 10, null, false],
  ['lt', 10, '0x1', false],
  ['lte', 10, 10, true],
  ['lte', 'many', 1, false],
  ['gt', -1, '-.5', true],
  ['lt', 1, '1e-3', true],
  ['is_date_before', '2023-05-02', '2023-05-01', true],
  ['is_date_before', '2023-05-02', '2023-05-02 10:00:00', false],
  ['is_date_before', '2023-05-02', '2023-05-01T23:59:59Z', true],
  ['is_date_before', '2023-05-02T10:00:00Z', '2023-05-02T09:59:59.999Z', true],
  ['is_date_before', '2023-05-02', MISSING, false],
  ['is_date_after', '2023-05-02', '2023-05-02 10:00:00', false],
  ['is_date_after', '2023-05-02', '2023-05-03', true],
  ['is_date_after', '2023-05-02', '2023-05-02T23:30:00-01:00', true],
  ['is_date_after', '2023-05-02T10:00:00+02:00', '2023-05-02T08:00:01Z', true],
  ['is_date_exact', '2023-05-02', '2023-05-02 10:00:00', true],
  ['is_date_exact', '2023-05-02', '2023-05-03', false],
  ['is_date_exact', '2023-05-02T10:00', '2023-05-02 10:00:00.000Z', true],
  ['is_date_exact', '2023-05-02', '2023-05-02 in the morning', true],
  ['is_date_exact', '2023-02-30', '2023-02-30', false],
  ['is_date_before', 'soon', '2023-05-01', false],
  ['is_date_before', '2023-05-02', 'soon', false],
]

t.test('operators compare texts, numbers and dates', async (t) => {
  for (const [operator, wanted, value, is] of CASES) {
    const name = `${JSON.stringify(value)} ${operator ?? 'exact'} ${JSON.stringify(wanted)}`
    t.equal(passes(operator, wanted, value), is, name)
  }
})

t.test('a filter that cannot be built is left out', async (t) => {
  t.equal(passes('exact', undefined, 'a'), null)
  t.equal(passes('exact', null, 'a'), null)
  t.equal(passes('constructor', 'a', 'a'), null)
  t.equal(propertyTest({ key: '', value: 'a' }), null)
})

t.test('negation uses the opposite operator', async (t) => {
  const negated = (operator: string, wanted: unknown, value: unknown): boolean | undefined =>
    propertyTest({ key: 'k', operator, value: wanted, negation: true })?.(value)
  t.equal(negated('exact', 'a', 'a'), false)
  t.equal(negated('is_not', 'a', 'a'), true)
  t.equal(negated('is_set', undefined, 'a'), false)
  t.equal(negated('gt', 5, 5), true)
  t.equal(negated('lte', 5, 6), true)
  t.equal(negated('lt', 5, 'many'), false)
  t.equal(negated('is_date_before', '2023-05-02', '2023-05-04'), true)
})

t.test('a hostile pattern that does not match a long text gets an answer', async (t) => {
  for (const pattern of ['a*a*a*a*a*b', '(a*)*b', '(a|a)+$b', '(.*)x(.*)y', '(a?){40}a{40}b']) {
    t.equal(passes('regex', pattern, 'a'.repeat(100_000)), false, pattern)
  }
})

/** Patterns in the syntax that both engines share, without the prefix flags. */
const somePattern = fc.letrec<{ pattern: string; atom: string }>((tie) => ({
  pattern: fc
    .array(
      fc.tuple(
        tie('atom'),
        fc.constantFrom('', '', '', '*', '+', '?', '{2}', '{1,2}', '{1,}', '|'),
      ),
      {
        maxLength: 5,
      },
    )
    .map((parts) => parts.map(([atom, repeat]) => atom + repeat).join('')),
  atom: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom('a', 'b', 'ab', '.', '[ab]', '[^a]', '\\d', '\\W', '\\b', '^', '$', '\\.', 'é'),
    tie('pattern').map((inner) => `(${inner})`),
    tie('pattern').map((inner) => `(?:${inner})`),
  ),
})).pattern

t.test('a pattern matches the same texts as in JavaScript', async (t) => {
  let compared = 0
  fc.assert(
    fc.property(
      somePattern,
      fc.string({ unit: fc.constantFrom('a', 'b', '.', '1', ' ', 'é', '\n'), maxLength: 8 }),
      (pattern, text) => {
        let expression: RegExp
        try {
          expression = new RegExp(pattern, 'u')
        } catch {
          return
        }
        compared++
        const got = compilePattern(pattern, 'ascii')?.isFoundIn(text, new PatternBudget())
        const expected = expression.test(text)
        if (got !== expected) throw new Error(`${pattern} on ${JSON.stringify(text)}: ${got}`)
      },
    ),
    runsOf(3000),
  )
  t.ok(compared > roundsOf(1000), `${compared} comparisons were made`)
})

t.test('a pattern with too many repetitions is invalid, whatever else it contains', (t) => {
  t.equal(compilePattern('\\w{100}'.repeat(60), 'unicode'), null)
  t.equal(compilePattern('(a{100}){11}', 'ascii'), null)
  t.ok(compilePattern('a{2,10}b{3}', 'ascii'))
  t.ok(
    compilePattern('[{5000}]\\{5000}', 'ascii'),
    'braces in a class or after an escape repeat nothing',
  )
  t.end()
})
