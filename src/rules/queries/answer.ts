/**
 * The answer of a query: the members around its results, as JSON or as a table. Source:
 * docs/compatibility/queries.md, "Answers".
 */
import { toCsv } from '../../base/csv.ts'
import { ServiceError } from '../../base/errors.ts'
import { isObject, type JsonObject, objectsOf } from '../../base/json.ts'
import type { RowFormat } from '../../base/pages.ts'
import { QUERY_ANSWER_BYTES_MAX } from './limits.ts'
import type { QueryPage, QueryShard } from './query-kind.ts'

/** The text of an answer. Throws 400 `query_too_large`. `shard` is whole. */
export function answerText(
  page: QueryPage,
  shard: QueryShard,
  format: RowFormat,
): Uint8Array<ArrayBuffer> {
  const text = format === 'csv' ? toCsv(tableRows(page)) : JSON.stringify(envelope(page, shard))
  const bytes = new TextEncoder().encode(text)
  if (bytes.length <= QUERY_ANSWER_BYTES_MAX) return bytes
  throw answerTooLarge()
}

/** 400 `query_too_large` for an answer of more than `QUERY_ANSWER_BYTES_MAX`. */
export function answerTooLarge(): ServiceError {
  const detail = `the answer has more than ${QUERY_ANSWER_BYTES_MAX} bytes: ask for fewer rows, values or periods`
  return new ServiceError('query_too_large', detail)
}

/** What a number over time, its day and its label take in an answer at least, with what is around them. */
const DATED_NUMBER_BYTES = 26

/**
 * 400 `query_too_large` for so many numbers over time, each with its day and label, that no answer has room
 * for them: before they are made. `bytesEach`: what each takes at least.
 */
export function checkDatedNumbers(count: number, bytesEach = DATED_NUMBER_BYTES): void {
  if (count * bytesEach > QUERY_ANSWER_BYTES_MAX) throw answerTooLarge()
}

/** What stands around the results of every kind. */
function envelope({ results, members }: QueryPage, { context }: QueryShard): JsonObject {
  return {
    results,
    ...members,
    timezone: context.timezone,
    is_cached: false,
    last_refresh: new Date(context.nowMs).toISOString(),
    next_allowed_client_refresh: new Date(context.nowMs).toISOString(),
    cache_key: `q_${context.projectId}_${context.nowMs}`,
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
 * Results as rows of a table: of what is counted over time a row for each bucket, of rows with columns one
 * each, of anything else one for each item.
 */
function tableRows({ results, members }: QueryPage): readonly JsonObject[] {
  const items = Array.isArray(results) ? results.flat() : [results]
  const { columns } = members
  if (Array.isArray(columns) && Array.isArray(results)) {
    return results.map((row: readonly unknown[]) =>
      Object.fromEntries(columns.map((column, index) => [String(column), row[index]])),
    )
  }
  return items.flatMap((item: unknown) => (isObject(item) ? rowsOf(item) : [{ value: item }]))
}

function rowsOf(item: JsonObject): readonly JsonObject[] {
  const { data, days, label, breakdown_value, compare_label, status } = item
  if (Array.isArray(item['values'])) return [retentionRow(item, objectsOf(item['values']))]
  if (!Array.isArray(data) || !Array.isArray(days) || days.length === 0) {
    const { action: _, filter: __, persons_urls: ___, persons_url: ____, ...plain } = item
    return [plain]
  }
  const values: readonly unknown[] = data
  return days.map((day: unknown, index) => ({
    day,
    label,
    ...(breakdown_value === undefined ? {} : { breakdown_value }),
    ...(compare_label === undefined ? {} : { compare_label }),
    ...(status === undefined ? {} : { status }),
    value: values[index],
  }))
}

/** A column for each period, by its label. */
function retentionRow(
  { date, breakdown_value }: JsonObject,
  values: readonly JsonObject[],
): JsonObject {
  const counts = values.map(({ label, count }): [string, unknown] => [String(label), count])
  return { date, breakdown_value, ...Object.fromEntries(counts) }
}
