/**
 * The members of the answers to `ExperimentQuery` and `ExperimentExposureQuery`, for the API description. Source:
 * docs/compatibility/queries.md, "ExperimentQuery".
 */
import * as is from '../../server/schema.ts'

const SHARE = is.nullable(is.NUMBER)
const ENDS = is.nullable(is.object({ estimate: is.NUMBER, low: is.NUMBER, high: is.NUMBER }))
const INTERVALS = is.nullable(
  is.namedObject('ExperimentIntervals', {
    lift: is.about(ENDS, 'The relative change. Null if the baseline is too close to 0.'),
    difference: is.about(ENDS, 'The absolute change.'),
    p_value: is.NUMBER,
    corrected_p_value: is.about(
      SHARE,
      'The p-value, corrected for the number of metrics in the list.',
    ),
    significant: is.BOOLEAN,
  }),
)
const SUMS = {
  key: is.TEXT,
  number_of_samples: is.WHOLE,
  sum: is.NUMBER,
  sum_squares: is.NUMBER,
  validation_failures: is.list(is.TEXT),
  mean: is.about(SHARE, 'The mean of the values of all persons, or the conversion rate.'),
}
const OPTIONAL_SUMS = {
  step_counts: is.list(is.WHOLE),
  denominator_sum: is.NUMBER,
  denominator_sum_squares: is.NUMBER,
  numerator_denominator_sum_product: is.NUMBER,
  covariate_sum: is.NUMBER,
  covariate_sum_squares: is.NUMBER,
  covariate_sum_product: is.NUMBER,
}
const VARIANT = is.namedObject(
  'ExperimentVariantResult',
  {
    ...SUMS,
    method: is.choice('bayesian', 'frequentist'),
    verdict: is.about(
      is.choice('better', 'worse', 'open', 'not_enough_data'),
      'The conclusion, which stays valid however often the results are checked.',
    ),
    always_valid: is.about(INTERVALS, 'Valid however often the results are checked.'),
    fixed_horizon: is.about(
      INTERVALS,
      'Valid only if the results are checked once, at the planned end.',
    ),
    chance_to_be_better: SHARE,
    minimum_detectable_effect: SHARE,
    needed_persons: SHARE,
    days_left: SHARE,
  },
  {
    ...OPTIONAL_SUMS,
    not_enough_data: is.about(is.TEXT, 'The reason why there are no statistics.'),
    significant: is.BOOLEAN,
    p_value: is.NUMBER,
    confidence_interval: is.list(is.NUMBER),
    credible_interval: is.list(is.NUMBER),
    chance_to_win: is.NUMBER,
  },
)
const METRIC = {
  metric: is.JSON_OBJECT,
  baseline: is.object(SUMS, OPTIONAL_SUMS),
  variant_results: is.list(VARIANT),
  stats_method: is.choice('bayesian', 'frequentist'),
  outlier_bounds: is.list(is.ANY),
  cuped: is.JSON_OBJECT,
}
const { cuped: CUPED, ...METRIC_MEMBERS } = METRIC
const METRIC_RESULT = is.namedObject('ExperimentMetricResult', METRIC_MEMBERS, { cuped: CUPED })

/** The members that an answer may have in addition to those of every query. */
export const EXPERIMENT_ANSWER_MEMBERS = {
  kind: is.TEXT,
  ...METRIC,
  primary_metrics: is.list(METRIC_RESULT),
  secondary_metrics: is.list(METRIC_RESULT),
  alpha: is.NUMBER,
  start_date: is.TIME,
  end_date: is.nullable(is.TIME),
  timeseries: is.list(
    is.object({
      variant: is.TEXT,
      days: is.list(is.TEXT),
      exposure_counts: is.about(
        is.list(is.WHOLE),
        'The number of persons since the start, at the end of each day.',
      ),
    }),
  ),
  total_exposures: is.mapOf(is.WHOLE),
  date_range: is.object({
    date_from: is.nullable(is.TIME),
    date_to: is.nullable(is.TIME),
  }),
  exposed_persons: is.about(is.mapOf(is.WHOLE), 'The number of persons in each variant.'),
  persons_set_aside: is.about(
    is.WHOLE,
    'The number of persons who do not count, because they had several variants.',
  ),
  persons_in_several_variants: is.WHOLE,
  aggregation_group_type_index: is.about(
    is.WHOLE,
    'The group type whose groups are counted in place of persons. Absent if persons are counted.',
  ),
  exposures_without_group: is.about(
    is.WHOLE,
    'The number of exposures that do not count, because they have no group of this type.',
  ),
  sample_ratio_mismatch: is.object({ expected: is.mapOf(is.NUMBER), p_value: is.NUMBER }),
  sample_ratio: is.about(
    is.options({ is_mismatch: is.BOOLEAN, not_enough_data: is.TEXT }),
    'Whether the numbers of persons in the variants match the planned percentages.',
  ),
}
