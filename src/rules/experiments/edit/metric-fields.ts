/**
 * The metrics of experiments in request bodies. The schema of a metric checks it and also describes it in the
 * documentation of the API. Source: docs/compatibility/experiments.md, "Metrics".
 */
import { invalidInput, ServiceError } from '../../../base/errors.ts'
import { faultWords, type OwnRefusal, ownRefusal } from '../../../base/input-faults.ts'
import { isObject, type JsonObject } from '../../../base/json.ts'
import { compileInput, type InputFault } from '../../../base/validator.ts'
import { checkMetricQuery } from '../../queries/experiments/check-metric.ts'
import { EXPERIMENT_MEMBER_UNITS_MAX, METRIC_STEPS_MAX, METRICS_OF_LIST_MAX } from './limits.ts'

/** The members of an experiment that are lists of metrics. */
export const METRIC_LISTS = ['metrics', 'metrics_secondary', 'metrics_guard'] as const

/** One of `METRIC_LISTS`. */
export type MetricList = (typeof METRIC_LISTS)[number]

const TEXT = { type: 'string' }
const NUMBER = { type: 'number' }
const SHARE = { type: 'number', minimum: 0, maximum: 1 }
const LENGTH = { type: 'integer', minimum: 1 }
const UNIT = { enum: ['second', 'minute', 'hour', 'day', 'week', 'month'] }
const PROPERTIES = { type: ['array', 'null'] }
/** The schema of an event or an action. */
const EVENT = {
  type: 'object',
  required: ['kind'],
  properties: {
    kind: { enum: ['EventsNode', 'ActionsNode'] },
    event: { type: ['string', 'null'] },
    id: { type: 'integer' },
    properties: PROPERTIES,
  },
}
/** The schema of an event or an action with the value that is read from it. */
const SOURCE = {
  ...EVENT,
  properties: {
    ...EVENT.properties,
    math: { enum: ['total', 'sum', 'avg', 'min', 'max', 'unique_session', 'dau'] },
    math_property: { type: ['string', 'null'] },
  },
}
const OUTLIERS = {
  lower_bound_percentile: { ...SHARE, type: ['number', 'null'] },
  upper_bound_percentile: { ...SHARE, type: ['number', 'null'] },
  ignore_zeros: { type: 'boolean' },
}
const COMMON = {
  kind: { enum: ['ExperimentMetric'] },
  uuid: TEXT,
  name: { type: ['string', 'null'] },
  goal: { enum: ['increase', 'decrease'] },
  conversion_window: { ...LENGTH, type: ['integer', 'null'] },
  conversion_window_unit: UNIT,
  tolerance: {
    ...SHARE,
    description:
      'For guard metrics: the relative change for the worse that is accepted. 0.02 is 2 %. The default is 0.',
  },
}
const NO_STEP: OwnRefusal = [
  'invalid_input',
  'A funnel metric needs at least one event in `series`. The exposure is its first step by itself.',
  'minItems',
]

/** The schema of each type of metric. */
export const METRIC_SCHEMAS = {
  funnel: metric('funnel', ['series'], {
    series: {
      type: 'array',
      items: EVENT,
      minItems: 1,
      maxItems: METRIC_STEPS_MAX,
      refusals: [NO_STEP],
    },
    funnel_order_type: { enum: ['ordered', 'unordered', 'strict'] },
  }),
  mean: metric('mean', ['source'], { source: SOURCE, ...OUTLIERS, threshold: NUMBER }),
  ratio: metric('ratio', ['numerator', 'denominator'], {
    numerator: SOURCE,
    denominator: SOURCE,
    numerator_outlier_handling: { type: 'object', properties: OUTLIERS },
    denominator_outlier_handling: { type: 'object', properties: OUTLIERS },
  }),
  retention: metric(
    'retention',
    [
      'start_event',
      'completion_event',
      'retention_window_start',
      'retention_window_end',
      'retention_window_unit',
      'start_handling',
    ],
    {
      start_event: EVENT,
      completion_event: EVENT,
      retention_window_start: { type: 'integer', minimum: 0 },
      retention_window_end: { type: 'integer', minimum: 0 },
      retention_window_unit: UNIT,
      start_handling: { enum: ['first_seen', 'last_seen'] },
    },
  ),
} as const

type MetricType = keyof typeof METRIC_SCHEMAS

const TYPES = Object.keys(METRIC_SCHEMAS)
const checks = new Map<MetricType, ReturnType<typeof compileInput>>()

/**
 * Throws 400 with `attr` if an entry of a list in a body is not a metric that a query can compute. The error text names
 * the member with the first fault.
 */
export function checkMetrics(list: readonly unknown[], attr: MetricList, nowMs: number): void {
  if (list.length > METRICS_OF_LIST_MAX) {
    throw invalidInput(attr, `may have at most ${METRICS_OF_LIST_MAX} metrics`)
  }
  if (JSON.stringify(list).length > EXPERIMENT_MEMBER_UNITS_MAX) {
    throw invalidInput(attr, `may have at most ${EXPERIMENT_MEMBER_UNITS_MAX} characters of JSON`)
  }
  for (const [index, one] of list.entries()) checkMetric(one, attr, `${attr}.${index}`, nowMs)
}

/**
 * Throws 400 with `attr` if a value in a body is not a metric that a query can compute. The error text contains
 * `place`, the path of the value in the body.
 */
export function checkMetric(found: unknown, attr: string, place: string, nowMs: number): void {
  if (!isObject(found)) throw fault(attr, `\`${place}\` must be an object.`)
  if (JSON.stringify(found).length > EXPERIMENT_MEMBER_UNITS_MAX) {
    const detail = `\`${place}\` may have at most ${EXPERIMENT_MEMBER_UNITS_MAX} characters of JSON.`
    throw fault(attr, detail)
  }
  const { kind = 'ExperimentMetric', metric_type: type } = found
  if (kind === 'ExperimentTrendsQuery' || kind === 'ExperimentFunnelsQuery') {
    const detail = `\`${place}\` is a metric of the older kind ${kind}. Send a metric with \`kind\` ExperimentMetric.`
    throw fault(attr, detail)
  }
  if (!isMetricType(type)) {
    const detail = `\`${place}.metric_type\` must be one of ${TYPES.join(', ')}.`
    throw new ServiceError('invalid_choice', detail, { attr })
  }
  let check = checks.get(type)
  if (check === undefined) {
    check = compileInput(METRIC_SCHEMAS[type])
    checks.set(type, check)
  }
  const wrong = check(found)
  if (wrong !== null) throw refusalOf(wrong, attr, place)
  checkUnit(found, attr, place)
  // The rules of the query are checked too, so that every stored metric can be computed.
  try {
    checkMetricQuery(found, place, nowMs)
  } catch (error) {
    if (error instanceof ServiceError) throw fault(attr, error.message)
    throw error
  }
}

function refusalOf(wrong: InputFault, attr: string, place: string): ServiceError {
  const own = ownRefusal(wrong, attr)
  if (own !== null) return own
  const path = [place, ...wrong.path].join('.')
  if (wrong.keyword === 'required') {
    return fault(attr, `\`${path}.${String(wrong.params['missingProperty'])}\` is missing.`)
  }
  if (wrong.keyword === 'minimum' || wrong.keyword === 'maximum') {
    return fault(attr, `\`${path}\` ${wrong.message}.`)
  }
  const [code, what, given = ''] = faultWords(wrong)
  return new ServiceError(code, `${given}\`${path}\` ${what}.`, { attr })
}

/**
 * Throws 400 if a conversion window has no unit. A query would count days, but the client may have meant another unit.
 */
function checkUnit(found: JsonObject, attr: string, place: string): void {
  const { conversion_window: length = null, conversion_window_unit: unit } = found
  if (length === null || unit !== undefined) return
  const detail = `\`${place}.conversion_window_unit\` is missing. Send a unit such as day.`
  throw fault(attr, detail)
}

function metric(type: string, required: readonly string[], members: JsonObject) {
  return {
    type: 'object',
    required: ['metric_type', ...required],
    properties: { ...COMMON, metric_type: { enum: [type] }, ...members },
    additionalProperties: true,
  }
}

function isMetricType(type: unknown): type is MetricType {
  return typeof type === 'string' && TYPES.includes(type)
}

function fault(attr: string, detail: string): ServiceError {
  return new ServiceError('invalid_input', detail, { attr })
}
