/**
 * All kinds of questions of the analytic routes of persons, each with the reader of its parameters, in one table. The
 * questions are plain data that may be passed to another thread. `analytics.ts` answers them. Source:
 * docs/compatibility/analytics.md, "Analytic person routes".
 */
import { ServiceError } from '../../base/errors.ts'
import { readCorrelationParameters, readFunnelParameters } from './funnel/funnel-shapes.ts'
import { readPathParameters } from './path/path-shapes.ts'
import {
  type ParameterSource,
  readAnalyticParameters,
  readBreakdownParameters,
} from './question-shapes.ts'

const READERS = {
  trends: readTrendsParameters,
  funnel: readFunnelParameters,
  correlation: readCorrelationParameters,
  lifecycle: readLifecycleParameters,
  path: readPathParameters,
  retention: readRetentionParameters,
  stickiness: readStickinessParameters,
} as const

/** The kinds of questions. */
export type AnalyticKind = keyof typeof READERS

/** The parameters of a kind. */
export type ParametersOf<Kind extends AnalyticKind> = Readonly<ReturnType<(typeof READERS)[Kind]>>

/** A question: its kind and its parameters. */
export type AnalyticQuestion = {
  readonly [Kind in AnalyticKind]: { readonly kind: Kind; readonly parameters: ParametersOf<Kind> }
}[AnalyticKind]

/**
 * Reads a question of a kind from its parameters. Throws 400 `invalid_input`. A lifecycle question also throws 400
 * `required` for `target_date` and `lifecycle_type`; see `lifecycleMessage`.
 */
export function readQuestion<Kind extends AnalyticKind>(kind: Kind, source: ParameterSource) {
  // The reader of a kind returns the parameters of this kind, which TypeScript cannot see.
  return { kind, parameters: READERS[kind](source) } as Extract<AnalyticQuestion, { kind: Kind }>
}

/** Returns whether a request to the funnel route of persons asks for the persons of a correlation. */
export function isCorrelationRequest(source: ParameterSource): boolean {
  return source.json('funnel_correlation_person_entity') !== undefined
}

/**
 * Returns the additional member `message` in the body of an error of persons/lifecycle, or null for an error without
 * it.
 */
export function lifecycleMessage(error: ServiceError): string | null {
  const isMissing = error.attr === 'target_date' || error.attr === 'lifecycle_type'
  return error.code === 'required' && isMissing ? 'Missing parameter' : null
}

function readTrendsParameters(source: ParameterSource) {
  return {
    ...readAnalyticParameters(source),
    target: readTarget(source),
    breakdown: readBreakdownParameters(source),
  }
}

function readStickinessParameters(source: ParameterSource) {
  return {
    ...readAnalyticParameters(source),
    target: readTarget(source),
    stickinessDays: source.wholeNumber('stickiness_days') ?? 0,
  }
}

function readLifecycleParameters(source: ParameterSource) {
  return {
    targetDate: requiredText(source, 'target_date'),
    lifecycleType: requiredText(source, 'lifecycle_type'),
    ...readAnalyticParameters(source),
  }
}

function readRetentionParameters(source: ParameterSource) {
  return {
    ...readAnalyticParameters(source),
    /** A series as clients write it. Undefined when absent. */
    targetEntity: source.json('target_entity'),
    returningEntity: source.json('returning_entity'),
    retentionType: source.text('retention_type'),
    period: source.text('period'),
    totalIntervals: source.wholeNumber('total_intervals'),
    selectedInterval: source.wholeNumber('selected_interval'),
    /**
     * Restricts the cohort to persons with a returning event in one period: 3, for example, means three periods later.
     * Null and 0 mean the whole cohort.
     */
    appearsIn: source.wholeNumber('appears_in'),
  }
}

/** Reads which series of a chart is meant. Links from older charts use the names `entityId` and `type`. */
function readTarget(source: ParameterSource) {
  return {
    id: source.text('entity_id') ?? source.text('entityId'),
    type: source.text('entity_type') ?? source.text('type'),
    order: source.wholeNumber('entity_order'),
    math: source.text('entity_math'),
    mathProperty: source.text('math_property'),
    mathGroupTypeIndex: source.wholeNumber('math_group_type_index'),
  }
}

function requiredText(source: ParameterSource, name: string): string {
  const text = source.text(name)
  if (text !== null) return text
  const detail = `\`${name}\` is missing. Send it in the query or the body.`
  throw new ServiceError('required', detail, { attr: name })
}
