/**
 * Reads the parameters of persons/funnel and persons/funnel/correlation into plain data that may be passed to another
 * thread. Source: docs/compatibility/analytics.md, "Funnels and correlation".
 */
import { invalidInput } from '../../../base/errors.ts'
import { FUNNEL_CUSTOM_STEPS_MAX } from '../limits.ts'
import {
  type ParameterSource,
  readAnalyticParameters,
  readBreakdownParameters,
  readRowPage,
  readTruth,
} from '../question-shapes.ts'

/** The parameters of persons/funnel. */
export type FunnelParameters = Readonly<ReturnType<typeof readFunnelParameters>>

/** The parameters of persons/funnel/correlation. */
export type CorrelationParameters = Readonly<ReturnType<typeof readCorrelationParameters>>

/**
 * The parameters of a funnel over time that select the period in which actors enter the funnel. Values that the request
 * does not contain are null.
 */
export type EntranceParameters = Readonly<NonNullable<ReturnType<typeof readEntrance>>>

/** Reads the parameters of persons/funnel. Throws 400 `invalid_input`. */
export function readFunnelParameters(source: ParameterSource) {
  return {
    ...readAnalyticParameters(source),
    orderType: source.text('funnel_order_type'),
    /**
     * The conversion window: the time that a person has for all steps. `days` is the older form and takes precedence.
     */
    window: {
      count: source.wholeNumber('funnel_window_interval'),
      unit: source.text('funnel_window_interval_unit'),
      days: source.wholeNumber('funnel_window_days'),
    },
    /**
     * A list of series, each with the two steps between which it must not occur, as the client sent it. Undefined when
     * absent.
     */
    exclusions: source.json('exclusions'),
    /**
     * The step that wanted actors have done. A negative number means actors that dropped off before that step. Null
     * when absent.
     */
    step: integerOf(source.text('funnel_step'), 'funnel_step'),
    customSteps: readCustomSteps(source.json('funnel_custom_steps')),
    breakdown: readBreakdownParameters(source),
    attributionType: source.text('breakdown_attribution_type'),
    /** The step whose events determine the breakdown value of an actor, counted from 0. */
    attributionStep: source.wholeNumber('breakdown_attribution_value'),
    /** A value of the breakdown or a list of values. Undefined when absent. */
    stepBreakdown: readStepBreakdown(source.value('funnel_step_breakdown')),
    /** The type of the groups that pass through the funnel instead of persons. */
    groupTypeIndex: source.wholeNumber('aggregation_group_type_index'),
    entrance: readEntrance(source),
  }
}

/** Reads the parameters of persons/funnel/correlation. Throws 400 `invalid_input`. */
export function readCorrelationParameters(source: ParameterSource) {
  const prefix = 'funnel_correlation_person'
  const isGiven = source.text(`${prefix}_converted`) !== null
  return {
    ...readFunnelParameters(source),
    page: readRowPage(source, `${prefix}_limit`, `${prefix}_offset`),
    correlationType: source.text('funnel_correlation_type'),
    /** A series as clients write it. Undefined when absent. */
    entity: source.json(`${prefix}_entity`),
    /** True if the actors that converted are wanted, and false if the other actors are. Null means both. */
    isConverted: isGiven ? readTruth(source, `${prefix}_converted`) : null,
    /** A list of property filters for the wanted actors. Undefined when absent. */
    propertyValues: source.json('funnel_correlation_property_values'),
  }
}

/** Reads the parameters of a funnel over time. Returns null for a funnel that is not shown over time. */
function readEntrance(source: ParameterSource) {
  const view = source.text('funnel_viz_type')
  const isOldForm = view === null && source.text('display') === 'ActionsLineGraph'
  if (view !== 'trends' && !isOldForm) return null
  return {
    isDropOff: source.text('drop_off') === null ? null : readTruth(source, 'drop_off', true),
    periodStart: source.text('entrance_period_start'),
    /** The steps that an actor goes from and to, counted from 0. */
    fromStep: source.wholeNumber('funnel_from_step'),
    toStep: source.wholeNumber('funnel_to_step'),
  }
}

/** Returns the value of a JSON text. A text that is not JSON is itself the value. */
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
    throw invalidInput(attr, `must be a list of at most ${FUNNEL_CUSTOM_STEPS_MAX} step numbers`)
  }
  // An empty list selects no step, so `funnel_step` decides.
  if (value.length === 0) return null
  return value.map((step: unknown) => integerOf(String(step), attr) ?? 0)
}

function integerOf(text: string | null, attr: string): number | null {
  if (text === null) return null
  if (!/^-?[0-9]{1,9}$/.test(text)) throw invalidInput(attr, 'must contain whole numbers only')
  return Number(text)
}
