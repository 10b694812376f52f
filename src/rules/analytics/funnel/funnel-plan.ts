/**
 * Turns a funnel request into a plan: its steps, which of them need a later event, the exclusions, and the wanted
 * actors. Source: docs/compatibility/analytics.md, "Funnels and correlation".
 */
import { invalidInput, ServiceError } from '../../../base/errors.ts'
import { allOf, type FilterGroup } from '../../filters/filter-group.ts'
import { propertyText } from '../../filters/property-text.ts'
import { analyticRange, globalFilter, type Inquiry, rangeRequest } from '../analytic-query.ts'
import { type Breakdown, readBreakdown } from '../breakdown.ts'
import type { DateRange } from '../date-range.ts'
import { SERIES_MAX, type SeriesMatch } from '../event-columns.ts'
import { FUNNEL_WINDOW_COUNT_MAX } from '../limits.ts'
import { eventSeries, isEqualOrBroader, readSeries, type Series } from '../series.ts'
import { WINDOW_UNITS, windowEnd } from './conversion-window.ts'
import type { AttemptRules, Entrance, FunnelOrder } from './funnel-attempts.ts'
import type { Attribution } from './funnel-breakdown.ts'
import { readExclusions, type StepExclusion } from './funnel-exclusions.ts'
import type { FunnelParameters } from './funnel-shapes.ts'
import { entranceAt } from './funnel-trends.ts'

const ORDERS = ['ordered', 'strict', 'unordered'] as const
const ATTRIBUTIONS = ['first_touch', 'last_touch', 'all_events', 'step'] as const
const WINDOW_DAYS_DEFAULT = 14

/** A breakdown by properties, with its attribution and the requested values. */
export interface PlannedBreakdown {
  readonly breakdown: Breakdown
  readonly attribution: Attribution
  readonly step: number
  readonly wanted: readonly string[] | null
}

/** A funnel request after its parameters were checked, ready to be computed. */
export interface FunnelPlan {
  readonly range: DateRange
  /** The filter for all events. */
  readonly filter: FilterGroup | null
  readonly steps: readonly Series[]
  /** The series to scan for: the steps, then the exclusions, then, for strict funnels, every event. */
  readonly series: readonly SeriesMatch[]
  readonly rules: AttemptRules
  readonly breakdown: PlannedBreakdown | null
  /** Whether an actor is wanted, indexed by the number of steps of its best attempt. Entry 0 is always false. */
  readonly isWanted: readonly boolean[]
  readonly entrance: Entrance | null
  /** The type of the groups that pass through the funnel. Null means persons. */
  readonly groupTypeIndex: number | null
}

/**
 * Returns the plan of a request. `stepDefault` is the step for a request that does not say which actors it wants. If
 * `stepDefault` is null, such a request is rejected. Throws 400 `invalid_input` and `required`, as the documentation
 * states for each parameter.
 */
export function planFunnel(
  inquiry: Inquiry<FunnelParameters>,
  stepDefault: number | null,
): FunnelPlan {
  const { parameters, context } = inquiry
  const steps = readSeries(parameters, context.actions)
  if (steps.length === 0) {
    throw new ServiceError('required', 'A funnel needs steps. Send `events`, a list of series.', {
      attr: 'events',
    })
  }
  const order = oneOf(ORDERS, parameters.orderType, 'funnel_order_type') ?? 'ordered'
  const exclusions = readExclusions(parameters.exclusions, steps, order, context.actions)
  const series = seriesOf(steps, exclusions, order)
  const { breakdown, cohorts } = planBreakdown(parameters, steps.length)
  return {
    range: analyticRange(inquiry, { isWidened: false, isRounded: true }),
    filter: allOf([globalFilter(inquiry), cohorts]),
    steps,
    series,
    rules: {
      order,
      stepCount: steps.length,
      needsLaterEvent: steps.map((step, index) => {
        const before = steps[index - 1]
        return before !== undefined && isEqualOrBroader(step, before)
      }),
      windowEnd: readWindow(parameters.window),
      exclusions: exclusions.map(({ fromStep, toStep }, index) => {
        return { bit: steps.length + index, fromStep, toStep }
      }),
    },
    breakdown,
    ...choiceOf(inquiry, steps.length, stepDefault),
    groupTypeIndex: parameters.groupTypeIndex,
  }
}

function seriesOf(
  steps: readonly Series[],
  exclusions: readonly StepExclusion[],
  order: FunnelOrder,
): readonly SeriesMatch[] {
  const all = [...steps, ...exclusions.map(({ series }) => series)]
  if (order === 'strict') all.push(eventSeries(null))
  if (all.length > SERIES_MAX) {
    const what = `together may be at most ${SERIES_MAX - 1}`
    throw invalidInput('events', what, 'Steps and exclusions')
  }
  return all.map(({ match }) => match)
}

function readWindow({
  count,
  unit,
  days,
}: FunnelParameters['window']): (startMs: number) => number {
  const given = oneOf(WINDOW_UNITS, unit, 'funnel_window_interval_unit') ?? 'day'
  const length = days ?? count ?? WINDOW_DAYS_DEFAULT
  if (length > FUNNEL_WINDOW_COUNT_MAX) {
    const attr = days === null ? 'funnel_window_interval' : 'funnel_window_days'
    throw invalidInput(attr, `may be at most ${FUNNEL_WINDOW_COUNT_MAX}`)
  }
  return windowEnd({ count: length, unit: days === null ? given : 'day' })
}

function choiceOf(
  inquiry: Inquiry<FunnelParameters>,
  stepCount: number,
  stepDefault: number | null,
): Pick<FunnelPlan, 'isWanted' | 'entrance'> {
  const { entrance: period, customSteps, step } = inquiry.parameters
  const wantedIf = (isWanted: (count: number) => boolean): readonly boolean[] =>
    Array.from({ length: stepCount + 1 }, (_, count) => count > 0 && isWanted(count))
  if (period !== null) {
    const entrance = entranceAt(period, rangeRequest(inquiry))
    const from = (period.fromStep ?? 0) + 1
    const to = period.toStep === null ? stepCount : period.toStep + 1
    const [least, most] = period.isDropOff === true ? [from, to - 1] : [to, stepCount]
    return {
      isWanted: wantedIf((count) => entrance !== null && count >= least && count <= most),
      entrance,
    }
  }
  if (customSteps !== null) {
    return { isWanted: wantedIf((count) => customSteps.includes(count)), entrance: null }
  }
  const wanted = step ?? stepDefault
  if (wanted === null) {
    const detail = '`funnel_step` is missing. Send the number of a step, or `funnel_custom_steps`.'
    throw new ServiceError('required', detail, { attr: 'funnel_step' })
  }
  // A negative number means the actors that did all steps before that step, but not the step itself. For example, -3
  // means the actors that did exactly two steps.
  const isWanted = wantedIf((count) => (wanted >= 0 ? count >= wanted : count === -wanted - 1))
  return { isWanted, entrance: null }
}

function planBreakdown(
  parameters: FunnelParameters,
  stepCount: number,
): { readonly breakdown: PlannedBreakdown | null; readonly cohorts: FilterGroup | null } {
  const breakdown = readBreakdown(parameters.breakdown)
  if (breakdown === null) return { breakdown: null, cohorts: null }
  const { stepBreakdown } = parameters
  if (breakdown.type === 'cohort') {
    return { breakdown: null, cohorts: cohortFilter(breakdown, stepBreakdown) }
  }
  const type = parameters.attributionType
  const attribution = oneOf(ATTRIBUTIONS, type, 'breakdown_attribution_type') ?? 'first_touch'
  const step = parameters.attributionStep ?? 0
  if (attribution === 'step' && step >= stepCount) {
    throw invalidInput('breakdown_attribution_value', 'must be the number of a step, from 0')
  }
  const wanted = stepBreakdown === undefined ? null : wantedTexts(stepBreakdown)
  return { breakdown: { breakdown, attribution, step, wanted }, cohorts: null }
}

function wantedTexts(value: unknown): readonly string[] {
  const list: readonly unknown[] = Array.isArray(value) ? value : [value]
  return list.length === 0 ? [''] : list.map((one) => propertyText(one ?? undefined))
}

/**
 * Returns the filter for the persons in the wanted cohorts, or null for everybody. The attribution does not matter,
 * because the cohorts of a person do not depend on an event.
 */
function cohortFilter({ keys }: Breakdown, wanted: unknown): FilterGroup | null {
  const list: readonly unknown[] = Array.isArray(wanted) ? wanted : [wanted]
  const asked = wanted === undefined ? keys : list.map(String).filter((id) => keys.includes(id))
  if (asked.some(isEverybody)) return null
  // If no wanted cohort is part of the breakdown, the filter asks for cohort 0. No cohort has this number, so nobody is
  // found.
  const ids = asked.length === 0 ? ['0'] : asked
  return {
    type: 'OR',
    values: ids.map((id) => ({ key: 'id', type: 'cohort', value: id })),
  }
}

/** Charts write `all` or `0` for the cohort that contains everybody. */
function isEverybody(id: string): boolean {
  return id === 'all' || id === '0'
}

function oneOf<Text extends string>(
  known: readonly Text[],
  text: string | null,
  attr: string,
): Text | null {
  if (text === null) return null
  const found = known.find((one) => one === text)
  if (found === undefined) throw invalidInput(attr, `must be one of ${known.join(', ')}`)
  return found
}
