/**
 * Flag definitions, decoded by readers as strict as the SDKs for Rust, Go, .NET and Kotlin. No stored flag may break
 * the local evaluation of the others, and values without a meaning are refused when they are written.
 *
 * @lane quick
 */
import t from 'tap'
import type { JsonObject } from '../../../src/base/json.ts'
import { PERSONAL_KEY } from '../../fixtures/flags/decision-daemon.ts'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'
import { refusalOf, STRICT_DECODERS } from '../../fixtures/flags/strict-decoders.ts'

const world = await shareDecisions(4)
const FULL = { properties: [], rollout_percentage: 100 }
const AUTHORIZATION = { Authorization: `Bearer ${PERSONAL_KEY}` }

function onFilter(filter: JsonObject): JsonObject {
  return {
    groups: [{ properties: [{ key: 'a', type: 'person', ...filter }], rollout_percentage: 100 }],
  }
}

function withVariants(...variants: readonly JsonObject[]): JsonObject {
  return { groups: [FULL], multivariate: { variants } }
}

/** The API accepts them, as upstream does. */
const TAKEN: readonly JsonObject[] = [
  { groups: [FULL], early_exit: null },
  { groups: [FULL], payloads: null },
  { groups: [FULL], payloads: { true: null } },
  { groups: [FULL], multivariate: null },
  { groups: [FULL], multivariate: {} },
  { groups: [FULL], multivariate: { variants: null } },
  { groups: [FULL], super_groups: null, holdout: null, holdout_groups: null },
  { groups: [FULL], super_groups: [{ properties: null, rollout_percentage: null }] },
  { groups: [{ properties: null, rollout_percentage: 100 }] },
  { groups: [{ rollout_percentage: null, variant: null }] },
  { groups: [{ ...FULL, aggregation_group_type_index: null }], aggregation_group_type_index: null },
  withVariants({ key: 'a', rollout_percentage: 100 }, { key: 'b', rollout_percentage: null }),
  withVariants({ key: 'a', name: null, rollout_percentage: 100 }, { key: 'b' }),
  onFilter({ operator: 'is_set' }),
  onFilter({ operator: 'is_not_set' }),
  onFilter({ operator: 'is_set', value: null }),
  onFilter({ operator: 'is_set', value: {} }),
  onFilter({ operator: null, value: 'x' }),
  onFilter({ value: 'x', negation: null, group_type_index: null, dependency_chain: null }),
  onFilter({ operator: 'exact' }),
  onFilter({ operator: 'is_not', value: null }),
  onFilter({ operator: 'exact', value: { a: 1 } }),
  onFilter({ operator: 'exact', value: 1.5 }),
  onFilter({ operator: 'exact', value: 1e300 }),
  onFilter({ operator: 'exact', value: [1.5, true, null, {}, [], 'x'] }),
]

/** The API refuses them, because they have no meaning. */
const REFUSED: readonly JsonObject[] = [
  { groups: [FULL], early_exit: 'true' },
  { groups: [FULL], early_exit: 1 },
  { groups: [FULL], payloads: 'x' },
  { groups: [FULL], multivariate: [] },
  { groups: [{ properties: {}, rollout_percentage: 100 }] },
  { groups: [{ properties: [], rollout_percentage: '100' }] },
  { groups: [{ ...FULL, variant: 1 }] },
  { groups: [{ ...FULL, aggregation_group_type_index: '0' }] },
  withVariants({ key: 'a', name: 1, rollout_percentage: 100 }),
  withVariants({ key: 'a', rollout_percentage: '100' }),
  onFilter({ value: 'x', operator: 1 }),
  onFilter({ value: 'x', negation: 'true' }),
  onFilter({ value: 'x', group_type_index: '0' }),
  onFilter({ value: 'x', key: null }),
  onFilter({ value: 'x', type: 1 }),
]

/** Stored by an older version. */
const STORED: readonly JsonObject[] = [
  ...REFUSED,
  {},
  { groups: null },
  { groups: [null, FULL, 'x'] },
  { properties: [{ key: 'a', value: 1 }] },
  { groups: [FULL], payloads: { true: { a: 1 }, b: 5 } },
  { groups: [FULL], aggregation_group_type_index: 1.5 },
  withVariants({ key: null }, { key: 'a', rollout_percentage: 100 }),
  onFilter({ type: 'cohort', value: '7' }),
  onFilter({ type: 'cohort', value: null }),
  onFilter({ type: 'flag', key: 7, operator: 'flag_evaluates_to', value: true }),
]

async function definitionsOf(projectId: number): Promise<readonly JsonObject[]> {
  const paths = [
    `/flags/definitions?token=${world.key(projectId)}`,
    `/api/feature_flag/local_evaluation?token=${world.key(projectId)}&send_cohorts`,
    `${world.path(projectId, 'feature_flags/local_evaluation/')}?send_cohorts`,
  ]
  const answers = await Promise.all(
    paths.map((path) => world.ask(path, { headers: AUTHORIZATION })),
  )
  return answers.map(({ status, body }) => {
    if (status !== 200) throw new Error(JSON.stringify(body))
    return body as JsonObject
  })
}

/** Decodes complete answers. The Rust decoder does not know cohorts in the form of upstream either. */
function refusals(answers: readonly JsonObject[]): readonly string[] {
  return answers.flatMap((answer, place) =>
    Object.entries(STRICT_DECODERS).flatMap(([language, decode]) => {
      const refusal = refusalOf(decode, answer)
      return refusal === null ? [] : [`${language}, path ${place}: ${refusal}`]
    }),
  )
}

t.test('every SDK decodes every filter that the API accepts', async (t) => {
  for (const [index, filters] of TAKEN.entries()) {
    const answer = await world.api('POST', 'feature_flags/', 1, { key: `taken-${index}`, filters })
    t.equal(answer.status, 201, JSON.stringify([filters, answer.body]))
  }
  const [first] = await world.putFlags([{ key: 'none', ensureExperienceContinuity: null }], 1)
  t.ok(first)
  const answers = await definitionsOf(1)
  t.strictSame(refusals(answers), [])
  const flags = answers[0]?.['flags'] as readonly { key: string; filters: JsonObject }[]
  t.equal(flags.length, TAKEN.length + 1)
  for (const { key, filters } of flags) {
    for (const { properties } of filters['groups'] as readonly { properties: JsonObject[] }[]) {
      for (const { value } of properties) t.not(value ?? null, null, `${key} has a value`)
    }
  }
})

t.test('a meaningless value is refused, and the error names the member', async (t) => {
  for (const filters of REFUSED) {
    const answer = await world.api('POST', 'feature_flags/', 2, { key: 'refused', filters })
    t.equal(answer.status, 400, JSON.stringify(filters))
    t.match(answer.body, { type: 'validation_error', attr: 'filters' }, JSON.stringify(filters))
  }
})

t.test(
  'definitions of any stored flag can be decoded, and the flag can still be changed',
  async (t) => {
    const drafts = STORED.map((filters, index) => ({ key: `stored-${index}`, filters }))
    const stored = await world.putFlags(drafts, 3)
    t.strictSame(refusals(await definitionsOf(3)), [])
    const exit = stored.find(({ filters }) => filters['early_exit'] === 'true')
    const change = { filters: exit?.filters, active: false }
    const answer = await world.api('PATCH', `feature_flags/${exit?.id}/`, 3, change)
    t.equal(answer.status, 200, JSON.stringify(answer.body))
    const others = { filters: { groups: [FULL], early_exit: 'no' } }
    const fresh = (await world.api('POST', 'feature_flags/', 3, { key: 'fresh' })).body['id']
    t.equal((await world.api('PATCH', `feature_flags/${String(fresh)}/`, 3, others)).status, 400)
  },
)

t.test('cohort trees have groups of one kind, and behavioral cohorts are left out', async (t) => {
  const leaf = { key: 'plan', type: 'person', value: 'pro', operator: 'exact' }
  const trees: readonly unknown[] = [
    { properties: { type: 'OR', values: [{ type: 'AND', values: [leaf] }] } },
    { properties: { type: 'AND', values: [{ ...leaf, operator: 'is_set', value: null }] } },
    { properties: { values: [leaf] } },
    { properties: [leaf] },
    { properties: { type: 'AND', values: [{ ...leaf, value: 1.5, negation: true }] } },
  ]
  for (const [index, filters] of trees.entries()) {
    const made = await world.api('POST', 'cohorts/', 4, { name: `c${index}`, filters })
    t.equal(made.status, 201, JSON.stringify(made.body))
    const inCohort = onFilter({ type: 'cohort', key: 'id', value: String(made.body['id']) })
    const flag = { key: `in-${index}`, filters: inCohort }
    t.equal((await world.api('POST', 'feature_flags/', 4, flag)).status, 201)
  }
  const answers = await definitionsOf(4)
  const withoutRust = refusals(answers).filter((refusal) => !refusal.startsWith('rust'))
  t.strictSame(withoutRust, [])
  t.equal(Object.keys(answers[0]?.['cohorts'] as object).length, trees.length)
})
