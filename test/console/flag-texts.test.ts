/**
 * How the console puts flags into words: rules and changes as sentences, the problems of a draft, the shares of
 * variants, and the line in a payload that has an error.
 *
 * @lane quick
 */
import t from 'tap'
import {
  type Draft,
  draftOf,
  equalShares,
  moved,
  movedBorder,
  problemOf,
  type Rule,
  undoOf,
} from '../../src/console/pages/flag/draft.ts'
import { jsonFault } from '../../src/console/pages/flag/json-fault.ts'
import {
  audienceOf,
  type Names,
  sentenceOf,
  sentencesOfEdit,
  sentencesOfLog,
} from '../../src/console/pages/flag/sentences.ts'
import { Dice } from '../fixtures/dice.ts'
import { Differences } from '../fixtures/differences.ts'

const NAMES: Names = {
  subjects: 'people',
  cohort: (id) => ['', 'Founders', 'Staff'][id] ?? `${id}`,
  flag: (id) => `flag-${id}`,
}
const plan = (value: unknown) =>
  ({ key: 'plan', type: 'person', operator: 'exact', value }) as const
const inCohort = (value: number, more: object = {}) =>
  ({ key: 'id', type: 'cohort', value, ...more }) as const
const VARIANTS = ['control', 'test'].map((key) => ({ key, rollout_percentage: 50 }))
const DRAFT: Draft = {
  key: 'beta',
  name: '',
  active: true,
  tags: [],
  continuity: false,
  rules: [{ properties: [plan('pro')], rollout_percentage: 10 }, { properties: [] }],
  variants: [],
  payloads: {},
}

t.test('a rule is a sentence with the names of cohorts, flags and groups', async (t) => {
  const cases: readonly (readonly [Rule, string])[] = [
    [{}, 'Everyone'],
    [{ rollout_percentage: 10 }, '10 % of everyone'],
    [{ properties: [plan('pro')], rollout_percentage: 100 }, 'People where plan is pro'],
    [{ properties: [plan(['pro', 'team'])] }, 'People where plan is pro or team'],
    [
      { properties: [inCohort(1), plan('pro')], rollout_percentage: 50, variant: 'test' },
      '50 % of people in the cohort Founders where plan is pro, always test',
    ],
    [
      { properties: [inCohort(1), inCohort(2, { operator: 'not_in' })] },
      'People in the cohort Founders and not in the cohort Staff',
    ],
    [{ properties: [inCohort(2, { negation: true })] }, 'People not in the cohort Staff'],
    [
      { properties: [{ key: '7', type: 'flag', operator: 'flag_evaluates_to', value: true }] },
      'People where the flag flag-7 is on',
    ],
    [
      { properties: [{ key: 'email', type: 'person', operator: 'is_set', value: 'is_set' }] },
      'People where email is set',
    ],
    [{ properties: [{ ...plan('a'), key: 'distinct_id' }] }, 'People where distinct ID is a'],
  ]
  const differences = new Differences()
  for (const [rule, words] of cases) differences.equal(sentenceOf(rule, NAMES), words, words)
  t.strictSame(differences.list(), [])
  t.equal(audienceOf({}, { ...NAMES, subjects: 'companies' }), 'All companies')
})

t.test('a change is told in sentences', async (t) => {
  const say = (changes: Partial<Draft>, before: Partial<Draft> = {}) =>
    sentencesOfEdit({ ...DRAFT, ...before }, { ...DRAFT, ...before, ...changes }, NAMES)
  const [first = {}, second = {}] = DRAFT.rules
  t.strictSame(say({}), [])
  t.strictSame(say({ active: false }), ['Switched off.'])
  t.strictSame(say({ rules: [{ ...first, rollout_percentage: 50 }, second] }), [
    'Rule 1, people where plan is pro: 10 % → 50 %.',
  ])
  t.strictSame(say({ rules: [second, first] }), ['The order of the rules changed.'])
  t.strictSame(say({ rules: [second] }), ['Rule removed: 10 % of people where plan is pro.'])
  t.strictSame(say({ rules: [...DRAFT.rules, { properties: [inCohort(1)] }] }), [
    'Rule 3 added: People in the cohort Founders.',
  ])
  t.strictSame(say({ rules: [{ ...first, properties: [plan('team')] }, second] }), [
    'Rule 1: People where plan is pro → people where plan is team.',
  ])
  t.strictSame(say({ variants: VARIANTS }), ['Variants added: control (50 %), test (50 %).'])
  t.strictSame(say({ variants: movedBorder(VARIANTS, 0, 20) }, { variants: VARIANTS }), [
    'Shares of variants: control 50 % → 70 %, test 50 % → 30 %.',
  ])
  t.strictSame(say({ payloads: { true: '1' }, tags: ['a', 'b'], name: 'Beta', key: 'b' }), [
    'Payload added.',
    'Key: beta → b.',
    'Description: none → Beta.',
    'Tags: none → a, b.',
  ])
})

t.test('an entry of the log is told like the change that made it', async (t) => {
  const filters = (share: number) => ({
    groups: [{ properties: [inCohort(1, { cohort_name: 'Founders' })], rollout_percentage: share }],
  })
  const logged = { groups: [{ properties: [inCohort(1)], rollout_percentage: 20 }] }
  t.strictSame(
    sentencesOfLog(
      [
        { field: 'filters', before: filters(10), after: logged },
        { field: 'active', before: false, after: true },
        { field: 'evaluation_runtime', before: 'all', after: 'client' },
      ],
      NAMES,
    ),
    [
      'Switched on.',
      'Rule 1, people in the cohort Founders: 10 % → 20 %.',
      'Evaluation runtime changed.',
    ],
  )
  t.strictSame(sentencesOfLog([{ field: 'filters' }], NAMES), ['Filters changed.'])
})

t.test('a draft that cannot be saved names its problem', async (t) => {
  t.equal(problemOf(DRAFT), null)
  t.equal(problemOf({ ...DRAFT, key: ' ' }), 'The key is empty.')
  t.match(problemOf({ ...DRAFT, rules: [{ properties: [plan('')] }] }), /^Rule 1 has a condition/)
  t.match(
    problemOf({ ...DRAFT, variants: equalShares(VARIANTS).slice(1) }),
    /variants add up to 50 %/,
  )
  t.equal(
    problemOf({ ...DRAFT, payloads: { true: '{\n"a": 1,\n}' } }),
    'The payload is not JSON: line 3, there is an extra comma before }.',
  )
  t.equal(problemOf({ ...DRAFT, payloads: { gone: '{' } }), null, 'of a variant that is gone')
})

t.test('the shares of variants stay whole while borders move', async (t) => {
  const three = equalShares([...VARIANTS, { key: 'third', rollout_percentage: 0 }])
  t.strictSame(
    three.map(({ rollout_percentage: share }) => share),
    [33.34, 33.33, 33.33],
  )
  const differences = new Differences()
  const dice = new Dice(5)
  let variants = three
  for (let round = 0; round < 500; round++) {
    variants = movedBorder(variants, dice.below(3), dice.between(-40, 40))
    const shares = variants.map(({ rollout_percentage: share }) => share)
    const sum = shares.reduce((all, share) => all + share, 0)
    differences.equal(Math.round(sum * 100), 10_000, `the sum of ${shares.join()}`)
    differences.equal(Math.min(...shares) >= 0, true, `no share below 0: ${shares.join()}`)
  }
  t.strictSame(differences.list(), [])
  t.strictSame(moved(['a', 'b', 'c'], 0, 2), ['b', 'c', 'a'])
  t.strictSame(moved(['a', 'b', 'c'], 2, 0), ['c', 'a', 'b'])
  t.strictSame(moved(['a'], 0, 1), ['a'], 'there is no such position')
})

t.test('taking a change back restores only the fields that it changed', async (t) => {
  const flag = { key: 'a', name: 'before', active: true, version: 3 } as never
  const body = { name: 'after', version: 3, original_flag: {}, note: 'why' }
  const after = { key: 'a', name: 'after', active: true, version: 4 } as never
  t.strictSame(undoOf(flag, body, after), { name: 'before', version: 4, original_flag: after })
  t.equal(draftOf({ key: 'a', name: '', active: true, tags: [], filters: {} }).rules.length, 0)
})

t.test('the first error of a payload has its line', async (t) => {
  const cases: readonly (readonly [string, number, RegExp])[] = [
    ['{"a": 1', 1, /comma or }/],
    ['{\n  "a": 1\n  "b": 2\n}', 3, /comma or }/],
    ['{\n  a: 1\n}', 2, /name in double quotes/],
    ["{'a': 1}", 1, /name in double quotes/],
    ["['a']", 1, /double quotes/],
    ['[1,\n2,\n]', 3, /extra comma/],
    ['{"a" 1}', 1, /colon/],
    ['', 1, /missing at the end/],
    ['nope', 1, /cannot begin with n/],
    ['1 2', 1, /nothing may follow/],
    ['{"a": }', 1, /value is missing before }/],
    ['"\n"', 1, /does not end/],
  ]
  const differences = new Differences()
  for (const [text, line, words] of cases) {
    const fault = jsonFault(text)
    differences.equal(fault?.line, line, `the line of ${JSON.stringify(text)}`)
    differences.equal(words.test(fault?.words ?? ''), true, `${text}: ${fault?.words}`)
  }
  t.strictSame(differences.list(), [])
})

t.test('a payload has an error exactly if the browser refuses it', async (t) => {
  const parses = (text: string) => {
    try {
      JSON.parse(text)
      return true
    } catch {
      return false
    }
  }
  const dice = new Dice(11)
  const parts = [
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
    '"a"',
    '"\\n"',
    '1',
    '-0.5e3',
    'true',
    ' ',
    '\n',
    '01',
  ]
  const differences = new Differences()
  for (let round = 0; round < 20_000; round++) {
    const text = dice.list(dice.between(1, 7), () => dice.pick(parts)).join('')
    differences.equal(jsonFault(text) === null, parses(text), JSON.stringify(text))
  }
  t.strictSame(differences.list(), [])
})
