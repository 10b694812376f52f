/**
 * What requests to persons/funnel and persons/funnel/correlation say, as plain data that may cross
 * threads. What it means is decided in the folder query. Source: docs/compatibility/analytics.md, "Funnels and
 * correlation".
 */
import { invalidInput } from '../../../base/errors.ts'
import { FUNNEL_CUSTOM_STEPS_MAX } from '../limits.ts'
import {
  type AnalyticParameters,
  type BreakdownParameters,
  type ParameterSource,
  readAnalyticParameters,
  readBreakdownParameters,
  readRowPage,
  readTruth,
} from '../question-shapes.ts'

/** How long a person has for the steps; null for what the request does not say. */
export interface WindowParameters {
  readonly count: number | null
  readonly unit: string | null
  /** The older form, in days, which wins. */
  readonly days: number | null
}

/** Which entrances of a funnel over time are meant; null for what the request does not say. */
export interface EntranceParameters {
  readonly isDropOff: boolean | null
  readonly periodStart: string | null
  /** Steps from 0. */
  readonly fromStep: number | null
  readonly toStep: number | null
}

/** Parameters of persons/funnel. */
export interface FunnelParameters extends AnalyticParameters {
  readonly orderType: string | null
  readonly window: WindowParameters
  /** A list of series with their steps, as clients write it; undefined when absent. */
  readonly exclusions: unknown
  /** Negative for those who dropped off before a step; null when absent. */
  readonly step: number | null
  /** Null when absent. */
  readonly customSteps: readonly number[] | null
  readonly breakdown: BreakdownParameters
  readonly attributionType: string | null
  /** Step from 0. */
  readonly attributionStep: number | null
  /** A value of the breakdown or a list of them; undefined when absent. */
  readonly stepBreakdown: unknown
  /** Groups of this type pass through the funnel instead of persons. */
  readonly groupTypeIndex: number | null
  /** Null unless the funnel is shown over time. */
  readonly entrance: EntranceParameters | null
}

/** Parameters of persons/funnel/correlation. */
export interface CorrelationParameters extends FunnelParameters {
  readonly correlationType: string | null
  /** Series as clients write it; undefined when absent. */
  readonly entity: unknown
  /** Null: whether or not they converted. */
  readonly isConverted: boolean | null
  /** A list of filters; undefined when absent. */
  readonly propertyValues: unknown
}

/** Parameters of persons/funnel. Throws 400 `invalid_input`. */
export function readFunnelParameters(source: ParameterSource): FunnelParameters {
  return {
    ...readAnalyticParameters(source),
    orderType: source.text('funnel_order_type'),
    window: {
      count: source.wholeNumber('funnel_window_interval'),
      unit: source.text('funnel_window_interval_unit'),
      days: source.wholeNumber('funnel_window_days'),
    },
    exclusions: source.json('exclusions'),
    step: integerOf(source.text('funnel_step'), 'funnel_step'),
    customSteps: readCustomSteps(source.json('funnel_custom_steps')),
    breakdown: readBreakdownParameters(source),
    attributionType: source.text('breakdown_attribution_type'),
    attributionStep: source.wholeNumber('breakdown_attribution_value'),
    stepBreakdown: readStepBreakdown(source.value('funnel_step_breakdown')),
    groupTypeIndex: source.wholeNumber('aggregation_group_type_index'),
    entrance: readEntrance(source),
  }
}

/** Whether a request for the persons of a funnel is one for correlated persons. */
export function isCorrelationRequest(source: ParameterSource): boolean {
  return source.json('funnel_correlation_person_entity') !== undefined
}

/** Parameters of persons/funnel/correlation. Throws 400 `invalid_input`. */
export function readCorrelationParameters(source: ParameterSource): CorrelationParameters {
  const converted = source.text('funnel_correlation_person_converted')
  return {
    ...readFunnelParameters(source),
    page: readRowPage(
      source,
      'funnel_correlation_person_limit',
      'funnel_correlation_person_offset',
    ),
    correlationType: source.text('funnel_correlation_type'),
    entity: source.json('funnel_correlation_person_entity'),
    isConverted:
      converted === null ? null : readTruth(source, 'funnel_correlation_person_converted'),
    propertyValues: source.json('funnel_correlation_property_values'),
  }
}

function readEntrance(source: ParameterSource): EntranceParameters | null {
  const view = source.text('funnel_viz_type')
  const isOldForm = view === null && source.text('display') === 'ActionsLineGraph'
  if (view !== 'trends' && !isOldForm) return null
  return {
    isDropOff: source.text('drop_off') === null ? null : readTruth(source, 'drop_off', true),
    periodStart: source.text('entrance_period_start'),
    fromStep: source.wholeNumber('funnel_from_step'),
    toStep: source.wholeNumber('funnel_to_step'),
  }
}

/** JSON, or a text that stands for itself. */
function readStepBreakdown(value: unknown): unknown {
  if (typeof value !== 'string') return value ?? undefined
  try {
    return JSON.parse(value)
  } catch {
    return value
  }
}

function readCustomSteps(value: unknown): readonly number[] | null {
  if (value === undefined || value === null) return null
  const attr = 'funnel_custom_steps'
  if (!Array.isArray(value) || value.length > FUNNEL_CUSTOM_STEPS_MAX) {
    throw invalidInput(
      attr,
      `must be a list of at most ${FUNNEL_CUSTOM_STEPS_MAX} numbers of steps`,
    )
  }
  // An empty list chooses nothing; then the other parameter does.
  if (value.length === 0) return null
  return value.map((step: unknown) => integerOf(String(step), attr) ?? 0)
}

function integerOf(text: string | null, attr: string): number | null {
  if (text === null) return null
  if (!/^-?[0-9]{1,9}$/.test(text)) throw invalidInput(attr, 'must hold whole numbers only')
  return Number(text)
}
