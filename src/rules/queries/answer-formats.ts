/**
 * Writes the answer of a query, which consists of the results and further members: as JSON, as a table (CSV or HTML),
 * or in the form that an insight contains. Source: docs/compatibility/queries.md, "Answers".
 */
import { toCsv } from '../../base/csv.ts'
import { ServiceError } from '../../base/errors.ts'
import { isObject, type JsonObject, objectsOf } from '../../base/json.ts'
import type { RowFormat } from '../../base/pages.ts'
import { wallOf } from '../../base/time-zone.ts'
import { resultHtml } from '../saved/result-html.ts'
import { CHART_POINTS_MAX, INSIGHT_RESULT_BYTES_MAX, QUERY_ANSWER_BYTES_MAX } from './limits.ts'
import { bucketDay, tableDays } from './query-buckets.ts'
import type { QueryContext, QueryPage, QueryShard } from './query-kind.ts'

/**
 * The format of an answer. `insight` means the members of an insight, as JSON without the enclosing braces. `html`
 * means a table of a shared page.
 */
export type AnswerFormat = RowFormat | 'insight' | 'html'

/**
 * Returns the text of an answer. `shard` supplies the project, its time zone and the time of the answer. Throws 400
 * `query_too_large`.
 */
export function answerText(
  page: QueryPage,
  shard: QueryShard,
  format: AnswerFormat,
): Uint8Array<ArrayBuffer> {
  const bytes = new TextEncoder().encode(textOf(page, shard, format))
  const isOfInsight = format === 'insight' || format === 'html'
  if (isOfInsight && bytes.length > INSIGHT_RESULT_BYTES_MAX) {
    throw answerTooLarge(INSIGHT_RESULT_BYTES_MAX)
  }
  if (bytes.length > QUERY_ANSWER_BYTES_MAX) throw answerTooLarge()
  return bytes
}

function textOf(page: QueryPage, { context }: QueryShard, format: AnswerFormat): string {
  const { results, members } = page
  switch (format) {
    case 'csv':
      return toCsv(tableRows({ members, results: withDays(results, context.timezone) }))
    case 'html': {
      const shown = withDays(results, context.timezone)
      const flat = Array.isArray(shown) ? shown.map(flatFigures) : shown
      return resultHtml({ results: flat, columns: members['columns'] })
    }
    case 'insight': {
      const { columns = null, hasMore = null } = members
      return JSON.stringify({ result: results ?? null, columns, hasMore }).slice(1, -1)
    }
    case 'json':
      return JSON.stringify({ results, ...members, ...surroundings(context) })
  }
}

/** Returns the error 400 `query_too_large`: the answer has more than `bytesMax` bytes. */
export function answerTooLarge(bytesMax = QUERY_ANSWER_BYTES_MAX): ServiceError {
  const detail = `The answer has more than ${bytesMax} bytes. Request fewer rows, values or periods.`
  return new ServiceError('query_too_large', detail)
}

/**
 * Throws 400 `query_too_large` if all series of a chart together would have too many points. Call it before the points
 * are computed.
 */
export function checkPoints(count: number): void {
  if (count <= CHART_POINTS_MAX) return
  const detail = `The chart would have ${count} points in all its series, but at most ${CHART_POINTS_MAX} are allowed. Choose a longer interval, a shorter range, or fewer series or breakdown values.`
  throw new ServiceError('query_too_large', detail, { attr: 'interval' })
}

const A_CODE = 65

/** The smallest number of bytes that one number of a table takes in an answer, together with its date and label. */
const DATED_NUMBER_BYTES = 26

/**
 * Throws 400 `query_too_large` if a table would have too many numbers, each with its date and label, to fit into an
 * answer. Call it before the numbers are computed.
 */
export function checkDatedNumbers(count: number): void {
  if (count * DATED_NUMBER_BYTES > QUERY_ANSWER_BYTES_MAX) throw answerTooLarge()
}

/** The project of an answer, and the time at which the answer was given. */
type AnswerFacts = Pick<QueryContext, 'projectId' | 'timezone' | 'nowMs'>

/**
 * Returns a copy of an answer in which the time is replaced by `nowMs`. `text` must be the result of `answerText` in
 * `format`, for the same project and time zone. The cost is linear in the number of bytes.
 */
export function answerAt(
  text: Uint8Array,
  { format, ...facts }: AnswerFacts & { readonly format: AnswerFormat },
  nowMs: number,
): Uint8Array<ArrayBuffer> {
  const copy = new Uint8Array(text)
  if (format !== 'json') return copy
  const end = new TextEncoder().encode(endText({ ...facts, nowMs }))
  copy.set(end, copy.length - end.length)
  return copy
}

/**
 * Returns the last part of a JSON answer, which contains the time of the answer. Until the year 2286, this part has the
 * same length for every time, so `answerAt` can overwrite it in a copy.
 */
function endText(facts: AnswerFacts): string {
  return JSON.stringify(surroundings(facts)).slice(1)
}

/** Returns the members that every answer has beside its results. */
function surroundings({ projectId, timezone, nowMs }: AnswerFacts): JsonObject {
  return {
    timezone,
    is_cached: false,
    last_refresh: new Date(nowMs).toISOString(),
    next_allowed_client_refresh: new Date(nowMs).toISOString(),
    cache_key: `q_${projectId}_${nowMs}`,
    cache_target_age: null,
    calculation_trigger: null,
    query_status: null,
    error: null,
    hogql: null,
    timings: [],
    modifiers: null,
  }
}

/**
 * Returns results in the form that a table shows. The rows of retention contain days in the time zone of the project
 * instead of moments in UTC, because the date of such a moment in UTC may be the day before. If clocks show an hour
 * twice, both hours get their offsets from UTC.
 */
function withDays(results: unknown, timezone: string): unknown {
  if (!Array.isArray(results)) return results
  const instants = new Map<string, string>()
  for (const item of objectsOf(results)) {
    const { date, label, values } = item
    if (typeof date !== 'string' || !Array.isArray(values)) continue
    const interval = String(label).startsWith('Hour ') ? 'hour' : 'day'
    instants.set(date, bucketDay(wallOf(Date.parse(date), timezone), interval))
  }
  const texts = tableDays([...instants.values()], timezone)
  const shown = new Map([...instants.keys()].map((instant, index) => [instant, texts[index]]))
  return results.map((item: unknown) => {
    if (!isObject(item)) return item
    const { date, days, values } = item
    if (Array.isArray(days)) return { ...item, days: tableDays(days, timezone) }
    if (typeof date !== 'string' || !Array.isArray(values)) return item
    return { ...item, date: shown.get(date) }
  })
}

/**
 * Returns the rows of a table. A result over time has a row for each bucket, a result with columns has its own rows,
 * and any other result has a row for each item.
 */
function tableRows({ results, members }: QueryPage): readonly JsonObject[] {
  const items = Array.isArray(results) ? results.flat() : [results]
  const { columns } = members
  if (Array.isArray(columns) && Array.isArray(results)) {
    return results.map((row: readonly unknown[]) =>
      Object.fromEntries(columns.map((column, index) => [String(column), row[index]])),
    )
  }
  const orders = objectsOf(items).map((item) => actionOf(item)['order'])
  const hasSeveral = new Set(orders).size > 1
  return items.flatMap((item: unknown) =>
    isObject(item) ? rowsOf(item, seriesCells(item, hasSeveral)) : [{ value: item }],
  )
}

/**
 * Returns the cells that distinguish the series of an item: the letter of the series in formulas, its math, and its
 * custom name.
 */
function seriesCells(item: JsonObject, hasSeveral: boolean): JsonObject {
  const { order, math, custom_name } = actionOf(item)
  return {
    ...(hasSeveral && typeof order === 'number'
      ? { series: String.fromCharCode(A_CODE + order), math: math ?? 'total' }
      : {}),
    ...(typeof custom_name === 'string' && custom_name !== '' ? { custom_name } : {}),
  }
}

function actionOf({ action }: JsonObject): JsonObject {
  return isObject(action) ? action : {}
}

function rowsOf(item: JsonObject, series: JsonObject): readonly JsonObject[] {
  const { data, days, label, breakdown_value, compare_label, status } = item
  if (Array.isArray(item['values'])) return [retentionRow(item, objectsOf(item['values']))]
  if (!Array.isArray(data) || !Array.isArray(days) || days.length === 0) {
    const { action: _, filter: __, persons_urls: ___, persons_url: ____, ...plain } = item
    if (isObject(plain['metrics'])) return [figuresRow(plain)]
    return [{ ...plain, ...series }]
  }
  const values: readonly unknown[] = data
  return days.map((day: unknown, index) => ({
    day,
    label,
    ...series,
    ...(breakdown_value === undefined ? {} : { breakdown_value }),
    ...(compare_label === undefined ? {} : { compare_label }),
    ...(status === undefined ? {} : { status }),
    value: values[index],
  }))
}

/** If an item has metrics, returns a row with a column for each metric. Returns any other item unchanged. */
function flatFigures(item: unknown): unknown {
  return isObject(item) && isObject(item['metrics']) ? figuresRow(item) : item
}

/** Returns a row with a column for each metric, and a column for each metric of the comparison range. */
function figuresRow({ metrics, previous, ...plain }: JsonObject): JsonObject {
  const before = isObject(previous) ? previous : {}
  const numbers = isObject(before['metrics']) ? Object.entries(before['metrics']) : []
  const cells: readonly (readonly [string, unknown])[] = [
    ...Object.entries({ ...plain, ...(metrics as JsonObject) }),
    ...(isObject(previous) ? [['previous_bucket', before['bucket']] as const] : []),
    ...numbers.map(([name, number]) => [`previous_${name}`, number] as const),
  ]
  return Object.fromEntries(cells)
}

/** Returns a row with a column for each period, named by the label of the period. */
function retentionRow(
  { date, breakdown_value }: JsonObject,
  values: readonly JsonObject[],
): JsonObject {
  const counts = values.map(({ label, count }): [string, unknown] => [String(label), count])
  return { date, breakdown_value, ...Object.fromEntries(counts) }
}
