/**
 * What requests to the analytic routes of persons say: the parameters that all of them share and those of
 * trends, lifecycle, retention and stickiness, as plain data that may cross threads. What they mean is
 * decided in the folder query. Source: docs/compatibility/analytics.md, "Analytic person routes".
 */
import { ServiceError } from '../../base/errors.ts'
import { QUESTION_ROWS_MAX } from './limits.ts'

/** Persons of a page when the request names no limit. */
const PAGE_ROWS_DEFAULT = 100
const TRUE_TEXTS: readonly string[] = ['true', 'y', 'yes', 't', 'on', '1']

/** Query and body of a request as one set of names; each method may throw 400 `invalid_input`. */
export interface ParameterSource {
  /** Any JSON of the body, else the text of the query; undefined when absent. */
  value(name: string): unknown
  /** Null when absent or empty. */
  text(name: string): string | null
  /** From 0; null when absent or empty. */
  wholeNumber(name: string): number | null
  /** JSON of the body, or the JSON that a text holds; undefined when absent or empty. */
  json(name: string): unknown
  /** `properties`, of which the query goes before the body. */
  properties(): unknown
}

/** Which rows of the whole result are wanted. */
export interface RowPage {
  readonly limit: number
  readonly offset: number
}

/** What every analytic route reads. */
export interface AnalyticParameters {
  readonly dateFrom: string | null
  readonly dateTo: string | null
  readonly interval: string | null
  /** Lists of series as clients write them; undefined when absent. */
  readonly events: unknown
  readonly actions: unknown
  readonly properties: unknown
  readonly isWithoutTestAccounts: boolean
  readonly search: string | null
  readonly page: RowPage
}

/** What splits a result by values of properties or by cohorts. */
export interface BreakdownParameters {
  /** A name, a number, or a list of them; undefined when absent. */
  readonly breakdown: unknown
  /** A list of `{property, type}`; undefined when absent. */
  readonly breakdowns: unknown
  readonly type: string | null
  readonly groupTypeIndex: number | null
  /** The value that is asked for; undefined when absent, and the empty text means without one. */
  readonly value: unknown
  /** Set when `value` is a range of numbers. */
  readonly binCount: number | null
}

/** Which series of a chart is meant. */
export interface TargetParameters {
  readonly id: string | null
  readonly type: string | null
  readonly order: number | null
  readonly math: string | null
  readonly mathProperty: string | null
  readonly mathGroupTypeIndex: number | null
}

/** Parameters of persons/trends. */
export interface TrendsParameters extends AnalyticParameters {
  readonly target: TargetParameters
  readonly breakdown: BreakdownParameters
}

/** Parameters of persons/stickiness. */
export interface StickinessParameters extends AnalyticParameters {
  readonly target: TargetParameters
  /** 0 when absent. */
  readonly stickinessDays: number
}

/** Parameters of persons/lifecycle. */
export interface LifecycleParameters extends AnalyticParameters {
  readonly targetDate: string
  readonly lifecycleType: string
}

/** Parameters of persons/retention. Series as clients write them; undefined when absent. */
export interface RetentionParameters extends AnalyticParameters {
  readonly targetEntity: unknown
  readonly returningEntity: unknown
  readonly retentionType: string | null
  readonly period: string | null
  readonly totalIntervals: number | null
  readonly selectedInterval: number | null
}

/** Reads what all routes share. Throws 400 `invalid_input`. */
export function readAnalyticParameters(source: ParameterSource): AnalyticParameters {
  return {
    dateFrom: source.text('date_from'),
    dateTo: source.text('date_to'),
    interval: source.text('interval'),
    events: source.json('events'),
    actions: source.json('actions'),
    properties: source.properties(),
    isWithoutTestAccounts: readTruth(source, 'filter_test_accounts'),
    search: source.text('search'),
    page: readRowPage(source, 'limit', 'offset'),
  }
}

/** Reads a page from the parameters with these names. Throws 400 `invalid_input`. */
export function readRowPage(source: ParameterSource, limit: string, offset: string): RowPage {
  const rows = source.wholeNumber(limit) ?? 0
  return {
    limit: rows === 0 ? PAGE_ROWS_DEFAULT : Math.min(rows, QUESTION_ROWS_MAX),
    offset: Math.min(source.wholeNumber(offset) ?? 0, Number.MAX_SAFE_INTEGER),
  }
}

/** True and the text `true` in any case; with `isLenient` also y, yes, t, on and 1. */
export function readTruth(source: ParameterSource, name: string, isLenient = false): boolean {
  const text = String(source.value(name) ?? '').toLowerCase()
  return isLenient ? TRUE_TEXTS.includes(text) : text === 'true'
}

/** Reads `breakdown` and its companions. Throws 400 `invalid_input`. */
export function readBreakdownParameters(source: ParameterSource): BreakdownParameters {
  return {
    breakdown: listOrText(source, 'breakdown'),
    breakdowns: source.json('breakdowns'),
    type: source.text('breakdown_type'),
    groupTypeIndex: source.wholeNumber('breakdown_group_type_index'),
    value: source.value('breakdown_value'),
    binCount: source.wholeNumber('breakdown_histogram_bin_count'),
  }
}

/** Parameters of persons/trends. Throws 400 `invalid_input`. */
export function readTrendsParameters(source: ParameterSource): TrendsParameters {
  return {
    ...readAnalyticParameters(source),
    target: readTarget(source),
    breakdown: readBreakdownParameters(source),
  }
}

/** Parameters of persons/stickiness. Throws 400 `invalid_input`. */
export function readStickinessParameters(source: ParameterSource): StickinessParameters {
  return {
    ...readAnalyticParameters(source),
    target: readTarget(source),
    stickinessDays: source.wholeNumber('stickiness_days') ?? 0,
  }
}

/**
 * Parameters of persons/lifecycle. Throws 400 `invalid_input`, and 400 `required` for `target_date` and
 * `lifecycle_type`: see `lifecycleMessage`.
 */
export function readLifecycleParameters(source: ParameterSource): LifecycleParameters {
  return {
    targetDate: requiredText(source, 'target_date'),
    lifecycleType: requiredText(source, 'lifecycle_type'),
    ...readAnalyticParameters(source),
  }
}

/**
 * The member `message` that the body of an error of persons/lifecycle has besides the usual ones, or null
 * for an error without it.
 */
export function lifecycleMessage(error: ServiceError): string | null {
  const isMissing = error.attr === 'target_date' || error.attr === 'lifecycle_type'
  return error.code === 'required' && isMissing ? 'Missing parameter' : null
}

/** Parameters of persons/retention. Throws 400 `invalid_input`. */
export function readRetentionParameters(source: ParameterSource): RetentionParameters {
  return {
    ...readAnalyticParameters(source),
    targetEntity: source.json('target_entity'),
    returningEntity: source.json('returning_entity'),
    retentionType: source.text('retention_type'),
    period: source.text('period'),
    totalIntervals: source.wholeNumber('total_intervals'),
    selectedInterval: source.wholeNumber('selected_interval'),
  }
}

/** Links of older charts call them `entityId` and `type`. */
function readTarget(source: ParameterSource): TargetParameters {
  return {
    id: source.text('entity_id') ?? source.text('entityId'),
    type: source.text('entity_type') ?? source.text('type'),
    order: source.wholeNumber('entity_order'),
    math: source.text('entity_math'),
    mathProperty: source.text('math_property'),
    mathGroupTypeIndex: source.wholeNumber('math_group_type_index'),
  }
}

/** A text that begins as a JSON list is one; any other text stands for itself. */
function listOrText(source: ParameterSource, name: string): unknown {
  const value = source.value(name)
  if (typeof value !== 'string') return value ?? undefined
  return value.startsWith('[') ? source.json(name) : value
}

function requiredText(source: ParameterSource, name: string): string {
  const text = source.text(name)
  if (text !== null) return text
  const detail = `${name} is missing: send it in the query or the body`
  throw new ServiceError('required', detail, { attr: name })
}
