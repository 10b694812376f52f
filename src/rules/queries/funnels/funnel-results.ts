/**
 * Builds the results of a `FunnelsQuery`: the numbers of the steps and the times between them, the distribution of
 * conversion times, and the conversion over time. Source: docs/compatibility/queries.md, "FunnelsQuery".
 */
import type { JsonObject } from '../../../base/json.ts'
import { wallOf } from '../../../base/time-zone.ts'
import { rowsByActor } from '../../analytics/actor-rows.ts'
import { selectPlace } from '../../analytics/selection.ts'
import { checkPoints } from '../answer-formats.ts'
import { FUNNEL_OWN_BINS_MAX } from '../limits.ts'
import { PacedLimits, type QueryLimits } from '../paced-limits.ts'
import { PersonsUrls } from '../persons-urls.ts'
import { bucketCount, bucketDays, bucketsOf, dayLabel } from '../query-buckets.ts'
import type { QueryContext } from '../query-kind.ts'
import type { FunnelsPlan } from './funnel-request.ts'
import type { FunnelRows } from './funnel-rows.ts'
import { funnelUrls, OTHER_VALUE } from './funnel-urls.ts'

/** The width of a bin, in seconds, if all conversion times are the same. */
const BIN_SECONDS = 60

/** The rows of one breakdown value, or of all values that are shown together as `Other`. */
export interface ValueRows {
  readonly text: readonly string[]
  readonly rows: Uint32Array
}

/**
 * Returns the results of a funnel of steps: a list or, with a breakdown, one list for each value. Throws the same
 * errors as `EventScanner.checkLimits`.
 */
export function stepResults(
  plan: FunnelsPlan,
  found: FunnelRows,
  context: QueryContext,
  limits: QueryLimits,
): unknown {
  const urls = plan.hasPersonsUrls ? new PersonsUrls(context) : null
  const values = rankedValues(plan, found, limits)
  const starts = timeStarts(found)
  const pace = new PacedLimits(limits)
  const results = values.map(({ text, rows }) => {
    const named = valueMembers(plan, text, context)
    const urlOf = urls === null ? null : funnelUrls(urls, plan, found, text)
    return plan.steps.map((_step, step) => {
      pace.count(rows.length)
      return {
        ...stepResult(plan, found, starts, rows, step),
        ...named,
        ...(urlOf === null ? {} : { persons_urls: [urlOf(step)] }),
      }
    })
  })
  return plan.breakdown === null ? (results[0] ?? []) : results
}

/** Returns the distribution of conversion times. */
export function timeResults({ fromStep, toStep, binCount }: FunnelsPlan, found: FunnelRows) {
  const seconds = secondsBetween(found, timeStarts(found), allRows(found), fromStep, toStep)
  if (seconds.length === 0) {
    const bins = [
      [0, 0],
      [BIN_SECONDS, 0],
    ]
    return { bins, average_conversion_time: null }
  }
  const count = binCount ?? Math.min(FUNNEL_OWN_BINS_MAX, Math.ceil(Math.cbrt(seconds.length)))
  let [smallest, largest] = [Number.POSITIVE_INFINITY, 0]
  for (const one of seconds) {
    smallest = Math.min(smallest, one)
    largest = Math.max(largest, one)
  }
  const min = Math.floor(smallest)
  const width = Math.ceil((Math.ceil(largest) - min) / count) || BIN_SECONDS
  const bins = Array.from({ length: count + 1 }, (_, index) => [min + index * width, 0])
  for (const one of seconds) {
    const bin = bins[Math.floor((one - min) / width)]
    if (bin !== undefined) bin[1] = (bin[1] ?? 0) + 1
  }
  return { bins, average_conversion_time: meanOf(seconds) }
}

/**
 * Returns the results of a funnel over time: an item or, with a breakdown, one item for each value. Throws 400
 * `query_too_large`.
 */
export function trendResults(
  plan: FunnelsPlan,
  found: FunnelRows,
  context: QueryContext,
  limits: QueryLimits,
): readonly JsonObject[] {
  const { range, fromStep, toStep, breakdown } = plan
  const buckets = bucketsOf(range)
  const count = bucketCount(range, buckets)
  const days = bucketDays(range, buckets)
  const labels = days.map((_day, index) => dayLabel(wallOf(buckets.startMs(index), range.timezone)))
  const values =
    breakdown === null ? [{ text: [], rows: allRows(found) }] : rankedValues(plan, found, limits)
  checkPoints(values.length * count)
  const pace = new PacedLimits(limits)
  return values.map(({ text, rows }) => {
    pace.count(rows.length + count)
    const entered = new Uint32Array(count)
    const converted = new Uint32Array(count)
    for (const row of rows) {
      const period = found.periods[row] ?? 0
      const reached = found.reached[row] ?? 0
      if (reached > fromStep) entered[period] = (entered[period] ?? 0) + 1
      if (reached > toStep) converted[period] = (converted[period] ?? 0) + 1
    }
    const data = Array.from(entered, (all, period) => percentOf(converted[period] ?? 0, all))
    const named = valueMembers(plan, text, context)
    const urls = plan.hasPersonsUrls ? { persons_urls: data.map(() => null) } : {}
    return { count, data, days, labels, ...named, ...urls }
  })
}

/**
 * Returns the rows of each breakdown value. The values with most actors at the last step come first; ties are decided
 * by the step before it and so on, and finally by the value. Values beyond the limit are combined into one. The rows of
 * a funnel without a breakdown are one value. Throws the same errors as `EventScanner.checkLimits`.
 */
export function rankedValues(
  plan: FunnelsPlan,
  found: FunnelRows,
  limits: QueryLimits,
): readonly ValueRows[] {
  const { breakdown, rules } = plan
  if (breakdown === null)
    return found.reached.length === 0 ? [] : [{ text: [], rows: allRows(found) }]
  const isCohort = breakdown.cohorts.length > 0
  const pace = new PacedLimits(limits)
  const values = rowsByActor(
    found.labels.map((label) => label + 1),
    found.labels.length,
  )
  const ranked = Array.from(values.keys, (key, index) => {
    const rows = values.rows.subarray(values.starts[index], values.starts[index + 1])
    pace.count(1 + rows.length)
    const counts = new Uint32Array(rules.stepCount)
    for (const row of rows) {
      const step = (found.reached[row] ?? 0) - 1
      counts[step] = (counts[step] ?? 0) + 1
    }
    return { text: found.texts[key - 1] ?? [], rows, counts: counts.reverse() }
  }).sort((left, right) => {
    pace.count(1)
    const order = compareLists(right.counts, left.counts)
    if (order !== 0) return order
    return isCohort
      ? compareLists(left.text.map(cohortNumber), right.text.map(cohortNumber))
      : compareLists(left.text, right.text)
  })
  const limit = isCohort ? ranked.length : breakdown.limit
  if (ranked.length <= limit) return ranked
  const isOther = ({ text }: ValueRows): boolean => text.length === 1 && text[0] === OTHER_VALUE
  const kept = ranked.slice(0, limit).filter((value) => !isOther(value))
  // A value may have the same text as the label of the combined values. It is then combined with them.
  const isKept = new Set<ValueRows>(kept)
  const rest = ranked.filter((value) => !isKept.has(value))
  const rows = Uint32Array.from(rest.flatMap((value) => [...value.rows]))
  return [...kept, { text: [OTHER_VALUE], rows }]
}

/** Returns the number that stands for a cohort. It is 0 for the cohort of everybody. */
export function cohortNumber(text: string): number {
  return text === 'all' ? 0 : Number(text)
}

function stepResult(
  { steps, rules }: FunnelsPlan,
  found: FunnelRows,
  starts: Uint32Array,
  rows: Uint32Array,
  order: number,
): JsonObject {
  const { reached } = found
  let count = 0
  for (let index = 0; index < rows.length; index++) {
    count += (reached[rows[index] ?? 0] ?? 0) > order ? 1 : 0
  }
  // The times of actors that did two steps at the same moment are left out of the average and the median.
  const seconds =
    order === 0
      ? new Float64Array(0)
      : secondsBetween(found, starts, rows, order - 1, order, Number.MIN_VALUE)
  const { id = null, label = '', customName = null, type = 'events' } = steps[order] ?? {}
  const isUnordered = rules.order === 'unordered'
  return {
    action_id: isUnordered ? null : id,
    name: isUnordered ? `Completed ${order + 1} step${order === 0 ? '' : 's'}` : label,
    custom_name: isUnordered ? null : customName,
    order,
    people: [],
    count,
    type,
    average_conversion_time: meanOf(seconds),
    median_conversion_time: medianOf(seconds),
  }
}

/** Returns the members of an item that describe its breakdown value. There are none without a breakdown. */
function valueMembers(
  { breakdown }: FunnelsPlan,
  text: readonly string[],
  context: QueryContext,
): JsonObject {
  if (breakdown === null) return {}
  if (breakdown.cohorts.length === 0) return { breakdown: text, breakdown_value: text }
  const id = cohortNumber(text[0] ?? '')
  return { breakdown: id === 0 ? 'all users' : context.cohortName(id), breakdown_value: id }
}

function allRows({ reached }: FunnelRows): Uint32Array {
  const rows = new Uint32Array(reached.length)
  for (let row = 0; row < rows.length; row++) rows[row] = row
  return rows
}

/** Returns the index in `timesMs` of each row's first time. */
function timeStarts({ reached }: FunnelRows): Uint32Array {
  const starts = new Uint32Array(reached.length)
  for (let row = 1; row < starts.length; row++) {
    starts[row] = (starts[row - 1] ?? 0) + (reached[row - 1] ?? 0)
  }
  return starts
}

/**
 * Returns the seconds from step `from` to step `to`, for each of the rows that reached `to`. Times below `least` are
 * left out.
 */
function secondsBetween(
  { reached, timesMs }: FunnelRows,
  starts: Uint32Array,
  rows: Uint32Array,
  from: number,
  to: number,
  least = Number.NEGATIVE_INFINITY,
): Float64Array {
  const seconds = new Float64Array(rows.length)
  let count = 0
  for (let index = 0; index < rows.length; index++) {
    const row = rows[index] ?? 0
    if ((reached[row] ?? 0) <= to) continue
    const first = starts[row] ?? 0
    const took = ((timesMs[first + to] ?? 0) - (timesMs[first + from] ?? 0)) / 1000
    if (took >= least) seconds[count++] = took
  }
  return seconds.subarray(0, count)
}

/**
 * Returns the mean, or null for an empty list. The rounding errors are added up separately, so that the result does not
 * depend on the order of the numbers.
 */
function meanOf(numbers: Float64Array): number | null {
  if (numbers.length === 0) return null
  let [sum, rest] = [0, 0]
  for (const one of numbers) {
    const next = sum + one
    rest += Math.abs(sum) >= Math.abs(one) ? sum - next + one : one - next + sum
    sum = next
  }
  return (sum + rest) / numbers.length
}

/** Returns the median, or null for an empty list. It changes the order of the list. */
function medianOf(numbers: Float64Array): number | null {
  if (numbers.length === 0) return null
  const below = selectPlace(numbers, Math.floor((numbers.length - 1) / 2))
  return (below + selectPlace(numbers, Math.ceil((numbers.length - 1) / 2))) / 2
}

/**
 * Returns a percentage with two decimal places. A half is rounded to the even digit. If `all` is 0, the result is 0.
 */
function percentOf(part: number, all: number): number {
  if (all === 0) return 0
  const hundredths = (part / all) * 10_000
  const floor = Math.floor(hundredths)
  const isHalf = hundredths - floor === 0.5
  return (isHalf ? floor + (floor % 2) : Math.round(hundredths)) / 100
}

/** Compares two lists by the first entry in which they differ. */
function compareLists<Value extends string | number>(
  left: ArrayLike<Value>,
  right: ArrayLike<Value>,
): number {
  for (let index = 0; index < left.length; index++) {
    const [a, b] = [left[index], right[index]]
    if (a !== undefined && b !== undefined && a !== b) return a < b ? -1 : 1
  }
  return 0
}
