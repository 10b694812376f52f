/**
 * Builds the items of the answer: a line with its days, its labels, and the series or formula that it belongs to.
 * Source: docs/compatibility/queries.md, "TrendsQuery".
 */
import type { JsonObject } from '../../../base/json.ts'
import type { PersonsUrls } from '../persons-urls.ts'
import { bucketDays, bucketLabels, bucketStarts, bucketsOf } from '../query-buckets.ts'
import type { QueryContext } from '../query-kind.ts'
import type { QueryRange } from '../query-range.ts'
import { isOrderGiven, type Line, type Lines, type LineValue, sumOf } from './trend-lines.ts'
import { trendUrls } from './trend-urls.ts'
import type { TrendFormula, TrendSeries, TrendsPlan } from './trends-plan.ts'

/** Builds the items of one range. */
export class ItemMaker {
  readonly #plan: TrendsPlan
  readonly #context: QueryContext
  readonly #range: QueryRange
  readonly #urls: PersonsUrls | null
  /** Members that are the same in all items of the range. */
  readonly #rest: JsonObject
  readonly #days: readonly string[]
  readonly #labels: readonly string[]
  readonly #starts: readonly string[]

  /** If `urls` is null, the items contain no URLs of actors. */
  constructor(
    plan: TrendsPlan,
    range: QueryRange,
    context: QueryContext,
    urls: PersonsUrls | null,
  ) {
    this.#plan = plan
    this.#context = context
    this.#range = range
    this.#urls = urls
    // A total value has no buckets, however long its range is.
    const buckets = plan.isTotal ? null : bucketsOf(range)
    this.#days = buckets === null ? [] : bucketDays(range, buckets)
    this.#labels = buckets === null ? [] : bucketLabels(range, buckets)
    this.#starts = buckets === null ? [] : bucketStarts(range, buckets)
    const filter = { insight: 'TRENDS', interval: range.interval, ...rangeDates(range) }
    const isCurrent = range === plan.ranges[0]
    const compare_label = isCurrent ? 'current' : 'previous'
    this.#rest = { filter, ...(plan.ranges.length > 1 ? { compare: true, compare_label } : {}) }
  }

  /**
   * Returns the items of all series that exist. `linesOf` contains the lines of each series. Throws the same errors as
   * `PersonsUrls`.
   */
  ofSeries(linesOf: readonly Lines[]): readonly JsonObject[] {
    const { series, breakdown } = this.#plan
    const items = series.flatMap((one, index) => {
      const { lines = [], hasNullText = false } = linesOf[index] ?? {}
      return one.exists ? lines.map((line) => ({ one, line, hasNullText })) : []
    })
    if (isOrderGiven(this.#plan)) {
      const places = (breakdown?.cohorts ?? []).map(String)
      const placeOf = ({ line }: (typeof items)[number]) =>
        places.indexOf(line.value.texts[0] ?? '')
      items.sort((a, b) => placeOf(a) - placeOf(b))
    }
    return items.map(({ one, line, hasNullText }) => ({
      ...this.#seriesItem(one, line),
      ...(this.#urls === null
        ? {}
        : { persons_urls: trendUrls(this.#urls, this.#plan, one, this.#range, line, hasNullText) }),
    }))
  }

  ofFormula({ label }: TrendFormula, lines: readonly Line[]): readonly JsonObject[] {
    const { isTotal } = this.#plan
    return lines.map(({ value, data }) => ({
      ...(isTotal
        ? { data: null, days: [], count: 0, aggregated_value: data[0] ?? 0 }
        : { data, days: this.#days, labels: this.#labels, count: sumOf(data) }),
      label,
      action: null,
      ...this.#breakdownValue(value),
      ...this.#rest,
      ...(this.#urls === null ? {} : { persons_urls: data.map(() => null) }),
    }))
  }

  #seriesItem(series: TrendSeries, { value, data }: Line): JsonObject {
    const { isTotal, isCumulative, breakdown } = this.#plan
    const { label, type, id, order, customName, echo } = series
    return {
      ...(isTotal
        ? { data: [], days: [], count: 0, aggregated_value: data[0] ?? 0 }
        : {
            data,
            days: this.#days,
            labels: this.#labels,
            count: isCumulative ? (data.at(-1) ?? 0) : sumOf(data),
          }),
      label: breakdown === null ? label : this.#valueLabel(label, value),
      action: {
        id: type === 'actions' ? label : id,
        type: 'events',
        order,
        name: label,
        custom_name: customName,
        ...echo,
        properties: {},
        days: this.#starts,
      },
      ...this.#breakdownValue(value),
      ...this.#rest,
    }
  }

  #valueLabel(label: string, { texts, rank }: LineValue): string {
    const isCohort = (this.#plan.breakdown?.cohorts.length ?? 0) > 0 && rank === 'value'
    const text = isCohort ? this.#cohortLabel(texts[0] ?? '') : texts.join('::')
    return this.#plan.series.length > 1 ? `${label} - ${text}` : text
  }

  #cohortLabel(text: string): string {
    return text === 'all' ? 'all users' : (this.#context.cohortName(Number(text)) ?? text)
  }

  #breakdownValue({ texts, rank }: LineValue): JsonObject {
    const { breakdown } = this.#plan
    if (breakdown === null) return {}
    const [text = ''] = texts
    if (breakdown.cohorts.length > 0 && rank === 'value') {
      return { breakdown_value: text === 'all' ? text : Number(text) }
    }
    return { breakdown_value: breakdown.isList ? texts : text }
  }
}

/** Returns both ends of a range in ISO 8601 form. */
function rangeDates({ fromMs, toMs }: QueryRange) {
  return { date_from: new Date(fromMs).toISOString(), date_to: new Date(toMs).toISOString() }
}
