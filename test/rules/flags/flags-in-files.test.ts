/**
 * Flags in the form of a file. Flags that are written to a file and read again stay the same, another project gets its
 * own ids, and a plan describes the changes in sentences.
 *
 * @lane quick
 */
import t from 'tap'
import type { JsonObject } from '../../../src/base/json.ts'
import { changeSentences } from '../../../src/rules/flags/edit/change-sentences.ts'
import { planFlags, plannedSet } from '../../../src/rules/flags/edit/flag-plan.ts'
import { readFlagsFile } from '../../../src/rules/flags/edit/flags-file.ts'
import {
  bodyOfPortable,
  hasNumbers,
  namesIn,
  portableFlag,
} from '../../../src/rules/flags/edit/portable-flag.ts'
import type { FlagCohort, FlagSet } from '../../../src/rules/flags/types.ts'
import { makeSet, type StoredFlag } from '../../fixtures/flags/flag-set.ts'

const NOW_MS = Date.parse('2026-11-30T07:00:00Z')

function cohorts(...named: readonly (readonly [number, string])[]): Map<number, FlagCohort> {
  return new Map(named.map(([id, name]) => [id, { id, name, isStatic: false, filters: {} }]))
}

const SHOP: StoredFlag = {
  id: 1,
  key: 'shop',
  filters: { groups: [{ properties: [], rollout_percentage: 50 }] },
}
const RICH: StoredFlag = {
  id: 7,
  key: 'rich',
  evaluation_runtime: 'client',
  evaluation_contexts: ['web'],
  filters: {
    groups: [
      {
        properties: [
          { type: 'cohort', key: 'id', value: 12, operator: 'in' },
          { type: 'flag', key: '1', operator: 'flag_evaluates_to', value: true },
          { type: 'person', key: 'plan', operator: 'exact', value: ['pro'] },
        ],
        rollout_percentage: 10,
        variant: 'b',
      },
      {
        aggregation_group_type_index: 1,
        properties: [
          { type: 'group', key: 'size', operator: 'gt', value: '5', group_type_index: 1 },
        ],
      },
    ],
    multivariate: {
      variants: [
        { key: 'a', rollout_percentage: 40 },
        { key: 'b', rollout_percentage: 60 },
      ],
    },
    payloads: { b: '{"x":1}' },
  },
}
const SET = makeSet([SHOP, RICH], { cohorts: cohorts([12, 'Testers'], [13, 'Others']) })

/** Returns the flag of a set with a key in the form of a file. */
function inFile(set: FlagSet, key: string): JsonObject {
  const flag = set.flags.find((one) => one.key === key)
  if (flag === undefined) throw new Error(`no flag ${key}`)
  return portableFlag(flag, set)
}

t.test('a file names objects, and a project gets its own flags back from its file', async (t) => {
  const file = SET.flags.map((flag) => portableFlag(flag, SET))
  t.notMatch(JSON.stringify(file), /group_type_index|"value":12/)
  t.match(
    JSON.stringify(file),
    /"cohort":"Testers".*"flag":"shop".*"aggregation_group_type":"project"/,
  )
  t.strictSame(readFlagsFile({ flags: file }, 'flags.yaml'), file, 'the schema accepts the file')
  t.strictSame(
    planFlags(file, SET, NOW_MS).flags.map(({ action }) => action),
    ['none', 'none'],
  )
})

t.test('another project gets the numbers of its own objects', async (t) => {
  const other = makeSet([{ ...SHOP, id: 900 }], {
    cohorts: cohorts([5, 'Testers']),
    groupTypes: new Map([
      [0, 'project'],
      [1, 'company'],
    ]),
  })
  const plan = planFlags([inFile(SET, 'rich')], other, NOW_MS)
  t.strictSame(plan.faults, [])
  const made = plannedSet(other, plan).flags.find(({ key }) => key === 'rich')
  t.match(made, {
    evaluationRuntime: 'client',
    evaluationContexts: ['web'],
    filters: {
      groups: [
        { properties: [{ value: 5 }, { key: '900' }, { key: 'plan' }] },
        { aggregation_group_type_index: 0, properties: [{ group_type_index: 0 }] },
      ],
    },
  })
  t.strictSame(inFile(plannedSet(other, plan), 'rich'), inFile(SET, 'rich'))
})

t.test('a name that is missing or not unique is said, and stays a number in a file', async (t) => {
  const nothing = { cohorts: cohorts(), groupTypes: new Map<number, string>() }
  const { faults } = bodyOfPortable(
    inFile(SET, 'rich'),
    namesIn(nothing, () => null),
  )
  t.strictSame(faults, [
    'There is no cohort "Testers"',
    'There is no flag "shop"',
    'There is no group type "project"',
  ])
  const twice = { ...SET, cohorts: cohorts([12, 'Testers'], [14, 'Testers']) }
  const flag = inFile(twice, 'rich')
  t.match(flag, { filters: { groups: [{ properties: [{ value: 12 }] }] } })
  t.ok(hasNumbers(flag))
  t.notOk(hasNumbers(inFile(SET, 'rich')))
  const named = bodyOfPortable(
    inFile(SET, 'rich'),
    namesIn(twice, () => 1),
  )
  t.strictSame(named.faults, ['Several cohorts have the name "Testers"'])
})

t.test('a member that a file leaves out gets its usual value', async (t) => {
  const [planned] = planFlags([{ key: 'rich' }], SET, NOW_MS).flags
  t.match(planned, {
    action: 'update',
    after: {
      evaluationRuntime: 'all',
      evaluationContexts: [],
      filters: { groups: [{ properties: [], rollout_percentage: 100 }] },
    },
  })
})

/** A flag in the form of a file that depends on other flags. */
function on(key: string, ...flags: readonly string[]): JsonObject {
  const properties = flags.map((flag) => {
    return { type: 'flag', flag, operator: 'flag_evaluates_to', value: true }
  })
  return { key, filters: { groups: [{ properties }] } }
}

t.test('a circle of dependencies is a fault of each of its flags', async (t) => {
  const wanted = [on('a', 'shop', 'b'), on('b', 'a'), { key: 'c' }]
  const { flags, faults } = planFlags(wanted, SET, NOW_MS)
  t.strictSame(
    flags.map(({ key }) => key),
    ['c'],
  )
  t.strictSame(faults, [
    { key: 'a', detail: 'The flags `a`, `b` depend on each other in a circle.' },
    { key: 'b', detail: 'The flags `b`, `a` depend on each other in a circle.' },
  ])
})

t.test(
  'a flag that cannot be created says which circle it needs, and what else it lacks',
  async (t) => {
    const wanted = [
      on('self', 'self'),
      on('user', 'self', 'absent'),
      on('one', 'broken', 'two'),
      on('two', 'three'),
      on('three', 'one'),
      { key: 'broken', filters: { groups: [{ rollout_percentage: 'half' }] } },
      on('needs-broken', 'broken'),
    ]
    const { flags, faults } = planFlags(wanted, SET, NOW_MS)
    t.strictSame(flags, [])
    const details = Object.fromEntries(faults.map(({ key, detail }) => [key, detail]))
    t.match(details, {
      self: 'The flag `self` depends on itself.',
      user: 'There is no flag "absent". It depends on the flag `self`, which depends on itself.',
      one: 'The flags `one`, `two`, `three` depend on each other in a circle.',
      two: 'The flags `two`, `three`, `one` depend on each other in a circle.',
      three: 'The flags `three`, `one`, `two` depend on each other in a circle.',
      'needs-broken': 'There is no flag "broken".',
    })
    t.notMatch(details['broken'], /circle|no flag/)
    t.equal(faults.length, wanted.length)
  },
)

t.test('a circle with a flag that exists is named by the change that closes it', async (t) => {
  const { flags, faults } = planFlags([on('new', 'shop'), on('shop', 'new')], SET, NOW_MS)
  t.strictSame(
    flags.map(({ key }) => key),
    ['new'],
  )
  t.match(faults, [{ key: 'shop', detail: /in a circle/ }])
})

t.test('each change has a sentence', async (t) => {
  const before = inFile(SET, 'rich')
  const filters = before['filters'] as JsonObject
  const [first, second] = filters['groups'] as [JsonObject, JsonObject]
  const after = {
    ...before,
    active: false,
    tags: ['x'],
    filters: {
      ...filters,
      groups: [{ ...first, rollout_percentage: 25, variant: 'a' }, second, { properties: [] }],
      multivariate: {
        variants: [
          { key: 'a', rollout_percentage: 30 },
          { key: 'c', rollout_percentage: 70 },
        ],
      },
      payloads: { c: '1' },
      early_exit: true,
    },
  }
  t.strictSame(changeSentences(before, after), [
    'The flag is switched off.',
    'Tags: nothing becomes ["x"].',
    'Condition 1: 10 % becomes 25 %.',
    'Condition 1, variant: "b" becomes "a".',
    'Condition 3 is new: everyone, 100 %.',
    'Variant "a": 40 % becomes 30 %.',
    'Variant "c" is new: 70 %.',
    'Variant "b" is removed.',
    'Payload of "b": "{\\"x\\":1}" becomes nothing.',
    'Payload of "c": nothing becomes "1".',
    'early_exit: nothing becomes true.',
  ])
  t.match(changeSentences(null, before), [
    'The flag is new.',
    'Condition 1 is new: in the cohort "Testers" and flag "shop" is true and "plan" exact ["pro"], 10 %, variant "b".',
  ])
  const turned = {
    ...filters,
    multivariate: {
      variants: [
        { key: 'b', rollout_percentage: 60 },
        { key: 'a', rollout_percentage: 40 },
      ],
    },
  }
  t.strictSame(changeSentences(before, { ...before, filters: turned }), [
    'The variants have another order, which moves persons.',
  ])
  t.strictSame(changeSentences(before, before), [])
})

t.test('a file of many flags reads the cohorts of the project once', async (t) => {
  let reads = 0
  const named = Array.from({ length: 50 }, (_, index): readonly [number, FlagCohort] => {
    const id = index + 1
    const name = () => {
      reads++
      return `Cohort ${id}`
    }
    return [
      id,
      Object.defineProperty({ id, name: '', isStatic: false, filters: {} }, 'name', { get: name }),
    ]
  })
  const flags = Array.from({ length: 50 }, (_, index) => ({ ...SHOP, id: index, key: `f${index}` }))
  const set: FlagSet = { ...makeSet(flags), cohorts: new Map(named) }
  for (const flag of set.flags) portableFlag(flag, set)
  t.ok(reads > 0 && reads <= 4 * named.length, `${reads} reads of ${named.length} cohorts`)
})
