/**
 * Answers of the persons, groups and cohorts routes as JSON or as a table. Source:
 * docs/COMPATIBILITY.md, "CSV".
 */
import { ServiceError } from '../../base/errors.ts'
import { CSV_TYPE, toCsv } from '../csv.ts'
import type { RequestParameters } from '../parameters.ts'
import type { Answer } from '../respond.ts'
import { type ApiRequest, json } from '../router.ts'

/** How an answer is written. */
export type Format = 'json' | 'csv'

/**
 * The format that a request asks for: the parameter, else the header Accept, else JSON. Throws 404
 * `not_found` for any other.
 */
export function formatOf(request: ApiRequest, parameters: RequestParameters): Format {
  const text = parameters.text('format')
  if (text === null) return acceptsCsvFirst(request.accept) ? 'csv' : 'json'
  if (text === 'json' || text === 'csv') return text
  throw new ServiceError('not_found', 'there is no such format; use format=json or format=csv')
}

/** One object: as it is, or as a header and one line. */
export function answerOne(format: Format, value: object, status = 200): Promise<Answer> {
  return answerRows(format, value, [value], status)
}

/** A list: `body` as JSON, or `rows` as a table. */
export async function answerRows(
  format: Format,
  body: unknown,
  rows: readonly object[],
  status = 200,
): Promise<Answer> {
  if (format === 'json') return json(body, status)
  return { status, contentType: CSV_TYPE, body: await toCsv(rows) }
}

/** Tables are asked for by name: a browser that accepts anything gets JSON. */
function acceptsCsvFirst(accept: string): boolean {
  const types = accept.toLowerCase().split(',')
  const named = types.map((type) => type.split(';')[0]?.trim())
  const csv = named.indexOf('text/csv')
  const other = named.indexOf('application/json')
  return csv >= 0 && (other < 0 || csv < other)
}
