/**
 * Builds the URLs that list the actors behind the steps of a funnel. A URL leads to `persons/funnel`, whose rules
 * differ from those of the query. There is a URL only where both rules give the same number. Source:
 * docs/compatibility/queries.md, "Who is behind a number".
 */
import { FUNNEL_VALUES_MAX, FUNNEL_WINDOW_COUNT_MAX } from '../../analytics/limits.ts'
import { allOf } from '../../filters/filter-group.ts'
import {
  breakdownFilter,
  type PersonsUrl,
  type PersonsUrls,
  rangeParameters,
  seriesParameters,
} from '../persons-urls.ts'
import type { FunnelsPlan } from './funnel-request.ts'
import type { FunnelRows } from './funnel-rows.ts'

/** The label of all breakdown values beyond the limit. */
export const OTHER_VALUE = 'Other'

const MINUTE_MS = 60_000
const DAY_MS = 1440 * MINUTE_MS

/**
 * Returns a function that takes a step, counted from 0, and builds the URL that lists the actors of this step with one
 * breakdown value. The function throws the same errors as `UrlMaker`.
 */
export function funnelUrls(
  urls: PersonsUrls,
  plan: FunnelsPlan,
  found: FunnelRows,
  text: readonly string[],
): (step: number) => PersonsUrl {
  const { steps, rules, range, groupTypeIndex } = plan
  const window = windowParameters(rules.windowMs)
  const value = valueParameters(plan, found, text)
  if (rules.exclusions.length > 0 || window === null || value === null) return () => null
  const urlOf = urls.of({
    route: 'funnel',
    filter: allOf([plan.filter, value.filter]),
    series: steps,
    parameters: {
      ...seriesParameters(steps),
      ...rangeParameters(range),
      funnel_order_type: rules.order,
      ...window,
      aggregation_group_type_index: groupTypeIndex,
      ...value.parameters,
    },
  })
  // At the first step, the query and `persons/funnel` always give the same number. At later steps, the numbers may
  // differ if `FunnelDoubts.hasShared` is true.
  return (step) => (step > 0 && found.doubts.hasShared ? null : urlOf({ funnel_step: step + 1 }))
}

/** Returns the conversion window as parameters, or null if `persons/funnel` has no window of this length. */
function windowParameters(windowMs: number) {
  const [unit, unitMs] =
    windowMs % DAY_MS === 0 ? (['day', DAY_MS] as const) : (['minute', MINUTE_MS] as const)
  const count = windowMs / unitMs
  if (!Number.isInteger(count) || count > FUNNEL_WINDOW_COUNT_MAX) return null
  return { funnel_window_interval: count, funnel_window_interval_unit: unit }
}

/**
 * Returns the filter and parameters that select the actors with one breakdown value, or null if `persons/funnel` cannot
 * select them. If all events of an actor have the value, a filter on the value selects the actor. Otherwise the route
 * must find out which of the values counts for the actor.
 */
function valueParameters(plan: FunnelsPlan, found: FunnelRows, text: readonly string[]) {
  const { breakdown, attribution, attributionStep, groupTypeIndex, rules } = plan
  if (breakdown === null) return { filter: null, parameters: {} }
  const { properties, cohorts } = breakdown
  if (text.length === 1 && text[0] === OTHER_VALUE) return null
  const isOfPerson =
    groupTypeIndex === null && properties.every(({ value }) => value.kind === 'person_property')
  const isOfFirstStep = attribution !== 'step' || attributionStep === 0
  if (cohorts.length > 0 || attribution === 'all_events' || (isOfPerson && isOfFirstStep)) {
    const own = cohorts.length > 0 ? text : text.map((one) => (one === '' ? null : one))
    const hasNullText = found.texts.some((one) => one.includes('null'))
    const filter = breakdownFilter(breakdown, own, hasNullText)
    return filter === undefined ? null : { filter, parameters: {} }
  }
  const isSeenAlike =
    rules.order !== 'strict' && found.texts.length <= FUNNEL_VALUES_MAX && !found.doubts.hasNull
  const [first, second] = properties
  if (attribution === 'step' || !isSeenAlike || first === undefined || second !== undefined) {
    return null
  }
  const { value, isUrlNormalized } = first
  if (!('key' in value) || isUrlNormalized) return null
  const parameters = {
    breakdowns: [{ property: value.key, type: value.kind.replace('_property', '') }],
    breakdown_group_type_index: 'typeIndex' in value ? value.typeIndex : null,
    breakdown_attribution_type: attribution,
    funnel_step_breakdown: text,
  }
  return { filter: null, parameters }
}
