/**
 * Reads the parameters of the analytic routes of persons into plain data. This file contains the functions that read
 * them, and the parameters that several routes share. Source: docs/compatibility/analytics.md, "Analytic person
 * routes".
 */
import { invalidInput } from '../../base/errors.ts'
import { QUESTION_ROWS_MAX } from './limits.ts'

/** The number of persons on a page if the request does not contain a limit. */
const PAGE_ROWS_DEFAULT = 100
const TRUE_TEXTS: readonly string[] = ['true', 'y', 'yes', 't', 'on', '1']

/** The parameters of a request, from its query and its body together. Each method may throw 400 `invalid_input`. */
export interface ParameterSource {
  /**
   * Returns the value of a parameter: any JSON if it is in the body, or a text if it is in the query. Undefined when
   * absent.
   */
  value(name: string): unknown
  /** Returns a text. Null when absent or empty. */
  text(name: string): string | null
  /** Returns a whole number of at least 0. Null when absent or empty. */
  wholeNumber(name: string): number | null
  /**
   * Returns a JSON value. If the value of the parameter is a text, it is parsed as JSON. Undefined when absent or
   * empty.
   */
  json(name: string): unknown
  /** Returns `properties`. If both the query and the body contain them, the query takes precedence. */
  properties(): unknown
}

/**
 * Reads the members of an object within a request as if they were parameters. Errors contain the name of the member as
 * `attr`.
 */
export class JsonParameters implements ParameterSource {
  readonly #members: ReadonlyMap<string, unknown>

  constructor(object: Readonly<Record<string, unknown>>) {
    this.#members = new Map(Object.entries(object))
  }

  value(name: string): unknown {
    return this.#members.get(name)
  }

  text(name: string): string | null {
    const value = this.value(name)
    if (value === undefined || value === null || value === '') return null
    if (typeof value === 'object') throw invalidInput(name, 'must be a text')
    return String(value)
  }

  wholeNumber(name: string): number | null {
    const text = this.text(name)
    if (text === null) return null
    if (!/^[0-9]{1,20}$/.test(text)) throw invalidInput(name, 'must be a whole number')
    return Number(text)
  }

  json(name: string): unknown {
    const value = this.value(name)
    if (typeof value !== 'string') return value ?? undefined
    if (value === '') return undefined
    try {
      return JSON.parse(value)
    } catch {
      throw invalidInput(name, 'must be JSON')
    }
  }

  properties(): unknown {
    return this.json('properties')
  }
}

/** The requested rows of the whole result. */
export type RowPage = Readonly<ReturnType<typeof readRowPage>>

/** The parameters that every analytic route reads. */
export type AnalyticParameters = Readonly<ReturnType<typeof readAnalyticParameters>>

/** The parameters that split a result by values of properties or by cohorts. */
export type BreakdownParameters = Readonly<ReturnType<typeof readBreakdownParameters>>

/** Reads the parameters that all routes share. Throws 400 `invalid_input`. */
export function readAnalyticParameters(source: ParameterSource) {
  return {
    dateFrom: source.text('date_from'),
    dateTo: source.text('date_to'),
    interval: source.text('interval'),
    /** If true, dates are exactly the moments that they name, and neither end is moved. */
    isExplicit: readTruth(source, 'explicit_date'),
    /** Lists of series as clients write them. Undefined when absent. */
    events: source.json('events'),
    actions: source.json('actions'),
    properties: source.properties(),
    isWithoutTestAccounts: readTruth(source, 'filter_test_accounts'),
    search: source.text('search'),
    page: readRowPage(source, 'limit', 'offset'),
  }
}

/** Reads the requested page; `limit` and `offset` are the names of the two parameters. Throws 400 `invalid_input`. */
export function readRowPage(source: ParameterSource, limit: string, offset: string) {
  const rows = source.wholeNumber(limit) ?? 0
  return {
    limit: rows === 0 ? PAGE_ROWS_DEFAULT : Math.min(rows, QUESTION_ROWS_MAX),
    offset: Math.min(source.wholeNumber(offset) ?? 0, Number.MAX_SAFE_INTEGER),
  }
}

/**
 * Returns true if the parameter is true or the text `true`, in upper or lower case. If `isLenient` is true, the texts
 * y, yes, t, on and 1 count too.
 */
export function readTruth(source: ParameterSource, name: string, isLenient = false): boolean {
  const text = String(source.value(name) ?? '').toLowerCase()
  return isLenient ? TRUE_TEXTS.includes(text) : text === 'true'
}

/** Reads `breakdown` and the parameters that belong to it. Throws 400 `invalid_input`. */
export function readBreakdownParameters(source: ParameterSource) {
  return {
    /** A name, a number, or a list of them. Undefined when absent. */
    breakdown: listOrText(source, 'breakdown'),
    /** A list of `{property, type}`. Undefined when absent. */
    breakdowns: source.json('breakdowns'),
    type: source.text('breakdown_type'),
    groupTypeIndex: source.wholeNumber('breakdown_group_type_index'),
    /** The requested value. Undefined when absent. An empty text means that the property is missing or empty. */
    value: source.value('breakdown_value'),
    /** The number of ranges of a histogram. If it is set, `value` is a pair of numbers: the range that is selected. */
    binCount: source.wholeNumber('breakdown_histogram_bin_count'),
  }
}

/**
 * Returns the value of a parameter. A text that begins with `[` is parsed as a JSON list. Throws 400 `invalid_input`.
 */
function listOrText(source: ParameterSource, name: string): unknown {
  const value = source.value(name)
  if (typeof value !== 'string') return value ?? undefined
  return value.startsWith('[') ? source.json(name) : value
}
