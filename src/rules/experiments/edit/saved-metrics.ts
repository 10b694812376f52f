/**
 * Saved metrics, which several experiments can use: a new one, a changed one, and how an experiment refers to them.
 * Source: docs/compatibility/experiments.md, "Saved metrics".
 */
import { invalidInput, ServiceError } from '../../../base/errors.ts'
import { given, isObject, type JsonObject } from '../../../base/json.ts'
import { timeText } from '../../../base/time.ts'
import { EXPERIMENT_MEMBER_UNITS_MAX, METRICS_OF_LIST_MAX } from './limits.ts'
import { checkMetric } from './metric-fields.ts'
import type {
  ExperimentFields,
  ExperimentView,
  MetricLink,
  SavedMetric,
  SavedMetricFields,
} from './stored-experiment.ts'

/** The ways in which an experiment can use a saved metric. */
export const LINK_TYPES = ['primary', 'secondary', 'guard'] as const

/** One of `LINK_TYPES`. */
export type LinkType = (typeof LINK_TYPES)[number]

/** The members of a request body. If a member is absent, its value stays as it is. */
export interface SavedMetricInput {
  readonly name?: string | undefined
  readonly description?: string | null | undefined
  readonly query?: unknown
  readonly tags?: readonly string[] | undefined
}

/** The members of a body that creates a saved metric. */
export interface SavedMetricDraft extends SavedMetricInput {
  readonly name: string
  readonly query: unknown
}

/** The data that a change of a saved metric depends on. */
export interface SavedMetricContext {
  /** The other saved metrics of the project. */
  readonly others: readonly SavedMetric[]
  readonly nowMs: number
  /** Returns a new UUID. */
  readonly uuid: () => string
}

/** The data that the links of an experiment depend on. */
export interface LinkContext {
  /** Returns a saved metric of the project, or null if there is none. */
  readonly savedMetric: (id: number) => SavedMetric | null
  /** Returns a number for a new link. */
  readonly linkId: () => number
  readonly nowMs: number
}

/** Returns the fields of a new saved metric. Throws 400. */
export function newSavedMetric(
  { name, description = null, query, tags = [] }: SavedMetricDraft,
  { others, nowMs, uuid }: SavedMetricContext,
): SavedMetricFields {
  requireOwnName(name, others)
  // The metric always gets a new UUID, because a client may send a copy of a metric with the UUID of the original.
  return { name, description, metric: metricIn(query, uuid(), nowMs), tags }
}

/** Returns the fields that a body changes. A metric keeps its UUID. Throws 400. */
export function changedSavedMetric(
  { fields: before }: SavedMetric,
  { name, description, query, tags }: SavedMetricInput,
  { others, nowMs }: SavedMetricContext,
): Partial<SavedMetricFields> {
  if (name !== undefined) requireOwnName(name, others)
  const metric = query === undefined ? undefined : changedQuery()
  return given({ name, description, metric, tags })

  function changedQuery(): JsonObject {
    const own = String(before.metric['uuid'])
    const sent = isObject(query) ? (query['uuid'] ?? own) : own
    if (sent !== own) throw invalidInput('query', 'may not change the `uuid` of the metric')
    return metricIn(query, own, nowMs)
  }
}

/**
 * Reads `saved_metrics_ids`, the links from an experiment to saved metrics, from a body. If the experiment already has
 * a link to a saved metric, this link keeps its id and its creation time. Throws 400 whose `attr` is
 * `saved_metrics_ids`.
 */
export function linksIn(
  found: unknown,
  before: readonly MetricLink[],
  { savedMetric, linkId, nowMs }: LinkContext,
): readonly MetricLink[] {
  const list = found ?? []
  if (!Array.isArray(list)) throw invalid('must be a list or null')
  const countMax = LINK_TYPES.length * METRICS_OF_LIST_MAX
  if (list.length > countMax) throw invalid(`may have at most ${countMax} saved metrics`)
  if (JSON.stringify(list).length > EXPERIMENT_MEMBER_UNITS_MAX) {
    throw invalid(`may have at most ${EXPERIMENT_MEMBER_UNITS_MAX} characters of JSON`)
  }
  const seen = new Set<number>()
  return list.map((one: unknown) => {
    const { id, metadata } = linkIn(one)
    if (seen.has(id)) throw invalid(`names the saved metric ${id} twice`)
    seen.add(id)
    if (savedMetric(id) === null) {
      const detail = `\`saved_metrics_ids\` names the saved metric ${id}, which the project does not have.`
      throw new ServiceError('does_not_exist', detail, { attr: 'saved_metrics_ids' })
    }
    const own = before.find((link) => link.saved_metric === id)
    if (own !== undefined) return { ...own, metadata }
    return { id: linkId(), saved_metric: id, metadata, created_at: timeText(nowMs) }
  })
}

/** Returns how an experiment uses a saved metric. */
export function linkType({ metadata }: Pick<MetricLink, 'metadata'>): LinkType {
  return LINK_TYPES.find((type) => type === metadata['type']) ?? 'primary'
}

/**
 * Throws 400 if an experiment has too many primary, secondary or guard metrics, counting its own and its saved metrics
 * together.
 */
export function requireMetricRoom(fields: ExperimentFields): void {
  const { metrics, metrics_secondary, metrics_guard, saved_metrics: links = [] } = fields
  for (const [type, own] of [
    ['primary', metrics],
    ['secondary', metrics_secondary],
    ['guard', metrics_guard],
  ] as const) {
    const linked = links.filter((link) => linkType(link) === type).length
    if (linked === 0 || own.length + linked <= METRICS_OF_LIST_MAX) continue
    throw invalid(
      `and the experiment's own metrics may be at most ${METRICS_OF_LIST_MAX} ${type} metrics together`,
    )
  }
}

/**
 * Returns the saved metrics that an experiment uses as primary, secondary or guard metrics, in the form of metrics of
 * its own. A metric without a name gets the name of the saved metric.
 */
export function linkedMetrics(
  { experiment, savedMetrics }: Pick<ExperimentView, 'experiment' | 'savedMetrics'>,
  type: LinkType,
): readonly JsonObject[] {
  const { saved_metrics: links = [] } = experiment.fields
  return links
    .filter((link) => linkType(link) === type)
    .flatMap(({ saved_metric: id }) => savedMetrics.filter((one) => one.id === id))
    .map(({ fields: { name, metric } }) => ({ ...metric, name: metric['name'] ?? name }))
}

/** Returns the saved metrics whose name or description contains a text, in the order of their names. */
export function listedSavedMetrics(
  all: readonly SavedMetric[],
  search: string,
): readonly SavedMetric[] {
  const wanted = search.toLowerCase()
  return all
    .filter(({ fields: { name, description } }) => {
      return [name, description ?? ''].some((text) => text.toLowerCase().includes(wanted))
    })
    .sort((a, b) => {
      const [left, right] = [a.fields.name.toLowerCase(), b.fields.name.toLowerCase()]
      if (left === right) return a.id - b.id
      return left < right ? -1 : 1
    })
}

function metricIn(query: unknown, uuid: string, nowMs: number): JsonObject {
  checkMetric(query, 'query', 'query', nowMs)
  // `checkMetric` has checked that the metric is an object.
  return { kind: 'ExperimentMetric', ...(query as JsonObject), uuid }
}

function requireOwnName(name: string, others: readonly SavedMetric[]): void {
  const wanted = name.toLowerCase()
  if (!others.some(({ fields }) => fields.name.toLowerCase() === wanted)) return
  const detail = `The project already has a saved metric with the name ${JSON.stringify(name)}. Choose another name.`
  throw new ServiceError('unique', detail, { attr: 'name' })
}

function linkIn(found: unknown): { readonly id: number; readonly metadata: JsonObject } {
  if (!isObject(found)) throw invalid('needs objects such as {"id": 1}')
  const { id, metadata = null } = found
  if (typeof id !== 'number' || !Number.isInteger(id)) {
    throw invalid('needs the number of a saved metric as `id`')
  }
  if (metadata === null) return { id, metadata: { type: 'primary' } }
  const type = isObject(metadata) ? metadata['type'] : null
  if (!isObject(metadata) || !LINK_TYPES.some((one) => one === type)) {
    throw invalid('needs primary, secondary or guard as `metadata.type`')
  }
  return { id, metadata }
}

function invalid(what: string): ServiceError {
  return invalidInput('saved_metrics_ids', what)
}
