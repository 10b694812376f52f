/**
 * The kind `ExperimentQuery` computes the result of an experiment. The kind `ExperimentExposureQuery` computes how many
 * persons were exposed on each day. The events of both can be divided by persons. The result of a part has one row for
 * each exposed person. Source: docs/compatibility/queries.md, "ExperimentQuery" and "ExperimentExposureQuery".
 */
import type { Division, QueryKind, QueryShard } from '../query-kind.ts'
import { experimentPage, exposurePage } from './experiment-answer.ts'
import {
  type CountedMetric,
  type ExperimentPlan,
  type ExposurePlan,
  type ExposureQueryPlan,
  planExperiment,
  planExposures,
  rangeOfPlan,
} from './experiment-plan.ts'
import { type ExposedPersons, exposedPersons } from './exposed-persons.ts'
import { metricReturns, metricSteps } from './metric-steps.ts'
import { metricValues } from './metric-values.ts'
import {
  compacted,
  inOwnRows,
  mergedRows,
  type Numbers,
  type PersonRows,
  rowsWithout,
} from './person-rows.ts'

/** The kind for results of experiments. */
export const EXPERIMENT_QUERY: QueryKind<ExperimentPlan, PersonRows> = {
  dividedBy: ({ exposure }) => divisionOf(exposure),
  plan: planExperiment,
  rangeOf: rangeOfPlan,
  partPlan: ({ exposure, metrics }) => [exposure, metrics.map(({ counted }) => counted)],
  partial({ exposure, metrics }, shard) {
    const exposed = exposedPersons(exposure, shard)
    const columns = metrics.flatMap(({ counted }) =>
      metricColumns(counted, exposure, exposed, shard),
    )
    return rowsOf(exposed, columns)
  },
  merge: (_plan, parts, limits) => mergedRows(parts, limits),
  without: (_plan, part, persons, _theirs, limits) => rowsWithout(part, persons, limits),
  page: (plan, whole, { scanner }) => experimentPage(plan, whole, scanner),
}

/** The kind for exposures over time. */
export const EXPERIMENT_EXPOSURE_QUERY: QueryKind<ExposureQueryPlan, PersonRows> = {
  dividedBy: ({ exposure }) => (exposure === null ? 'persons' : divisionOf(exposure)),
  plan: planExposures,
  rangeOf: ({ exposure }) => exposure?.range ?? NO_RANGE,
  partPlan: ({ exposure }) => [exposure],
  partial({ exposure }, shard) {
    if (exposure === null) return NO_ROWS
    const exposed = exposedPersons(exposure, shard)
    return rowsOf(exposed, [exposed.firstMs.slice(0, exposed.count)])
  },
  merge: (_plan, parts, limits) => mergedRows(parts, limits),
  without: (_plan, part, persons, _theirs, limits) => rowsWithout(part, persons, limits),
  page: (plan, whole, { scanner }) => exposurePage(plan, whole, scanner),
}

/** The events of a group belong to several persons, so the events of an experiment with groups are not divided. */
function divisionOf({ groupTypeIndex }: ExposurePlan): Division {
  return groupTypeIndex === null ? 'persons' : 'nothing'
}

const NO_RANGE = { fromMs: 0, toMs: -1 }
const NO_ROWS: PersonRows = {
  persons: new Uint32Array(0),
  variants: new Uint8Array(0),
  columns: [],
  latestMs: 0,
  ungrouped: 0,
}

function metricColumns(
  counted: CountedMetric,
  exposure: ExposurePlan,
  exposed: ExposedPersons,
  shard: QueryShard,
): readonly Numbers[] {
  switch (counted.of) {
    case 'steps': {
      const { reached, before } = metricSteps(counted, exposure, exposed, shard)
      return before === null ? [reached] : [reached, before]
    }
    case 'returns':
      return [metricReturns(counted, exposure, exposed, shard)]
    case 'values':
      return counted.sources.flatMap((source) => {
        const { after, before } = metricValues(source, counted, exposure, exposed, shard)
        const both = before === null ? [after] : [after, before]
        return both.map(compacted)
      })
  }
}

function rowsOf(exposed: ExposedPersons, columns: readonly Numbers[]): PersonRows {
  const { count, persons, variants, firstMs, ungrouped } = exposed
  let latestMs = 0
  for (let row = 0; row < count; row++) latestMs = Math.max(latestMs, firstMs[row] ?? 0)
  return inOwnRows({
    persons: persons.slice(0, count),
    variants: variants.slice(0, count),
    columns,
    latestMs,
    ungrouped,
  })
}
