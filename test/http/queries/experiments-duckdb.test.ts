/**
 * Compares the results of experiments over HTTP with DuckDB, which computes them in SQL from the exported events: ten
 * seeded data sets with late events, merged persons, persons in several variants, test accounts, bots and odd values.
 *
 * @lane all
 */
import { join } from 'node:path'
import t from 'tap'
import { runCommand } from '../../fixtures/command-line.ts'
import { Differences } from '../../fixtures/differences.ts'
import type { DecisionDaemon } from '../../fixtures/flags/decision-daemon.ts'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'
import {
  type DuckdbComparison,
  DuckdbExperiment,
  type DuckdbSums,
} from '../../fixtures/queries/duckdb-experiment.ts'
import {
  ALPHA,
  type DataSet,
  END_MS,
  experimentOf,
  FLAG,
  HORIZON_PERSONS,
  isNear,
  METRICS,
  randomEvents,
  SETS,
  START_MS,
  TEST_ACCOUNT_FILTERS,
  variantKeysOf,
} from '../../fixtures/queries/experiment-sets.ts'
import type { Json } from '../../fixtures/queries/query-cases.ts'

const BATCH_EVENTS = 1000

t.setTimeout(300_000)

/** Sends the events of a data set to a project, and returns its export in DuckDB. */
async function exportedTo(
  folder: string,
  daemon: DecisionDaemon,
  project: number,
  set: DataSet,
): Promise<DuckdbExperiment> {
  const timezone = set.timezone ?? 'UTC'
  const settings = { timezone, test_account_filters: TEST_ACCOUNT_FILTERS }
  const { status } = await daemon.api('PATCH', '', project, settings)
  if (status !== 200) throw new Error(`the settings were refused with ${status}`)
  const events = randomEvents(set)
  for (let start = 0; start < events.length; start += BATCH_EVENTS) {
    await daemon.capture(events.slice(start, start + BATCH_EVENTS), project)
  }
  const file = join(folder, `events-${set.seed}.parquet`)
  const options = ['--project', String(daemon.idOf(project)), '--format', 'parquet']
  const { exitCode, err } = await runCommand(
    'export',
    '--data-dir',
    daemon.dataDir,
    '--output',
    file,
    ...options,
  )
  if (exitCode !== 0) throw new Error(err)
  return DuckdbExperiment.open(file, {
    flag: FLAG,
    variants: variantKeysOf(set),
    startMs: START_MS,
    endMs: END_MS,
    isFirstSeen: set.isFirstSeen === true,
    exposureEvent: set.exposureEvent ?? null,
    timezone,
    lookbackDays: set.lookbackDays ?? null,
    alpha: ALPHA,
    horizonPersons: HORIZON_PERSONS,
  })
}

function variantsOf(answer: Json): readonly Json[] {
  return [answer['baseline'], ...(answer['variant_results'] as readonly Json[])] as Json[]
}

/** Compares the sums of all variants. `name` names the data set and the metric. */
function compareSums(
  answer: Json,
  wanted: readonly DuckdbSums[],
  name: string,
  differences: Differences,
): void {
  const found = variantsOf(answer)
  differences.equal(found.length, wanted.length, `${name} variants`)
  for (const [index, sums] of wanted.entries()) {
    const own = found[index] ?? {}
    const near = (member: string, value: number): void => {
      const isSame = isNear(own[member], value)
      differences.ok(
        isSame,
        () => `${name} ${sums.key} ${member}: ${String(own[member])} for ${value}`,
      )
    }
    differences.equal(own['key'], sums.key, name)
    differences.equal(own['number_of_samples'], sums.persons, `${name} ${sums.key} persons`)
    near('sum', sums.sum)
    near('sum_squares', sums.squares)
    if ('step_counts' in own)
      differences.same(own['step_counts'], sums.step_counts, `${name} steps`)
    if ('covariate_sum' in own) {
      near('covariate_sum', sums.second_sum)
      near('covariate_sum_squares', sums.second_squares)
      near('covariate_sum_product', sums.products)
    }
    if ('denominator_sum' in own) {
      near('denominator_sum', sums.second_sum)
      near('denominator_sum_squares', sums.second_squares)
      near('numerator_denominator_sum_product', sums.products)
    }
  }
}

/** Compares the intervals and p-values of the variants that have some. Returns their number. */
function compareIntervals(
  answer: Json,
  wanted: readonly DuckdbComparison[],
  name: string,
  differences: Differences,
): number {
  let compared = 0
  for (const own of answer['variant_results'] as readonly Json[]) {
    const alwaysValid = own['always_valid'] as Json | null
    if (alwaysValid === null) continue
    compared++
    const comparison = wanted.find(({ key }) => key === own['key'])
    const difference = alwaysValid['difference'] as Json
    const pairs: readonly (readonly [string, unknown, number | undefined])[] = [
      ['mean', own['mean'], comparison?.mean],
      ['difference', difference['estimate'], comparison?.difference],
      ['low', difference['low'], comparison?.low],
      ['high', difference['high'], comparison?.high],
      ['always-valid p-value', alwaysValid['p_value'], comparison?.always_valid_p],
      ['p-value', own['p_value'], comparison?.fixed_p],
    ]
    for (const [what, found, value = Number.NaN] of pairs) {
      differences.ok(
        isNear(found, value),
        () => `${name} ${String(own['key'])} ${what}: ${String(found)} for ${value}`,
      )
    }
  }
  return compared
}

t.test('results over HTTP agree with DuckDB over the exported events', async (t) => {
  const daemon = await shareDecisions(SETS.length)
  const folder = t.testdir()
  for (const [index, set] of SETS.entries()) {
    await t.test(`data set ${set.seed}`, async (t) => {
      const project = index + 1
      const exported = await exportedTo(folder, daemon, project, set)
      const experiment = experimentOf(set)
      const ask = async (query: Json): Promise<Json> => {
        const { status, body } = await daemon.api('POST', 'query/', project, { query })
        if (status !== 200) throw new Error(`a query was refused with ${status}`)
        return body
      }
      const { several, setAside } = await exported.severalVariants()
      const differences = new Differences()
      let compared = 0
      for (const metric of METRICS) {
        const name = `${set.seed} ${JSON.stringify(metric)}`
        const answer = await ask({ kind: 'ExperimentQuery', experiment, metric })
        differences.equal(answer['persons_set_aside'], setAside, `${name} set aside`)
        differences.equal(answer['persons_in_several_variants'], several, `${name} several`)
        compareSums(answer, await exported.sums(metric), name, differences)
        // With the period before, or as a ratio, a difference is not one of two means.
        if (set.lookbackDays !== undefined || metric['metric_type'] === 'ratio') continue
        const comparisons = await exported.comparisons(2 / set.variants.length)
        compared += compareIntervals(answer, comparisons, name, differences)
      }
      const exposures = await ask({ kind: 'ExperimentExposureQuery', experiment })
      const series = exposures['timeseries'] as readonly Json[]
      const byDay = await exported.days(series[0]?.['days'] as readonly string[])
      for (const { variant, exposure_counts } of series) {
        const wanted = byDay.filter(({ key }) => key === variant).map(({ persons }) => persons)
        const counts = exposure_counts as readonly number[]
        const isNobody = wanted.length === 0 && counts.every((count) => count === 0)
        if (!isNobody) differences.same(counts, wanted, `${set.seed} ${String(variant)} by day`)
      }
      t.strictSame(differences.list(), [])
      const hasIntervals = set.persons > 100 && set.withoutMetrics !== true
      t.equal(compared > 0, hasIntervals && set.lookbackDays === undefined, 'intervals compared')
    })
  }
})
