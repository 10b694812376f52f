/**
 * Finds the actors behind one row of a funnel correlation. A row counts actors that converted or dropped off, and that
 * either have a certain property or had a certain event between the first and the last step. Source:
 * docs/compatibility/analytics.md, "Funnels and correlation".
 */
import { ServiceError } from '../../../base/errors.ts'
import { allOf, type FilterGroup } from '../../filters/filter-group.ts'
import { readEventFilters } from '../../filters/filter-tree.ts'
import { propertyText } from '../../filters/property-text.ts'
import { type ActorPage, type Inquiry, scanEvents } from '../analytic-query.ts'
import {
  type EventColumns,
  type EventScanner,
  listedPersons,
  type ValueRequest,
} from '../event-columns.ts'
import { type ActionLookup, readEntity, type Series } from '../series.ts'
import { type FunnelResults, pageOfResults, runFunnel } from './funnel.ts'
import { type FunnelPlan, planFunnel } from './funnel-plan.ts'
import type { CorrelationParameters } from './funnel-shapes.ts'

/** The loop over events checks the time limit of the query once for this number of events. */
const CHECK_EVERY = 65_536
const TYPES = ['events', 'event_with_properties', 'properties']

/**
 * Returns the page of actors that a correlation request asks for: persons in the order of their uuids, or groups in the
 * order of their keys. Throws 400 for an invalid request, `invalid_input` without `attr` if the event or the properties
 * are missing, and the same errors as `EventScanner.scan`.
 */
export function correlationActors(inquiry: Inquiry<CorrelationParameters>): ActorPage {
  const { parameters, context } = inquiry
  const type = parameters.correlationType ?? 'events'
  if (!TYPES.includes(type)) {
    const detail = `\`funnel_correlation_type\` must be one of ${TYPES.join(', ')}.`
    throw new ServiceError('invalid_input', detail, { attr: 'funnel_correlation_type' })
  }
  const plan = planFunnel(inquiry, 1)
  const isByProperties = type === 'properties'
  const filter = allOf([plan.filter, isByProperties ? valueFilter(parameters) : null])
  const entity = isByProperties ? null : entityOf(parameters, context.actions)
  const results = chosenResults(
    runFunnel({ ...plan, filter }, inquiry),
    plan.rules,
    parameters.isConverted,
  )
  if (entity === null) return pageOfResults(results, plan, inquiry)
  const actors = actorsWithEvent(results, plan, entity, inquiry)
  return pageOfResults({ ...results, actors }, plan, inquiry)
}

/** Returns the actors that converted, or those that did not. An actor converted if its best attempt has all steps. */
function chosenResults(
  results: FunnelResults,
  { stepCount }: FunnelPlan['rules'],
  isConverted: boolean | null,
): FunnelResults {
  if (isConverted === null) return results
  const { actors, bests, stepTimesMs, groupKeys } = results
  const isChosen = (index: number): boolean => (bests[index] === stepCount) === isConverted
  return {
    actors: actors.filter((_actor, index) => isChosen(index)),
    bests: bests.filter((_best, index) => isChosen(index)),
    stepTimesMs: stepTimesMs.filter((_time, index) => isChosen(Math.floor(index / stepCount))),
    groupKeys,
  }
}

function valueFilter({ propertyValues }: CorrelationParameters): FilterGroup | null {
  if (propertyValues === undefined) {
    const detail = '`funnel_correlation_property_values` is missing. Send a list of filters.'
    throw new ServiceError('invalid_input', detail)
  }
  return readEventFilters(propertyValues, 'funnel_correlation_property_values')
}

function entityOf({ entity }: CorrelationParameters, actions: ActionLookup): Series {
  if (entity === undefined) {
    const detail = '`funnel_correlation_person_entity` is missing. Send the event as a series.'
    throw new ServiceError('invalid_input', detail)
  }
  return readEntity(entity, 'funnel_correlation_person_entity', actions)
}

/**
 * Returns the actors with an event of the series `entity` after the first step and before the last one. If an actor did
 * not get to the last step, the end of the conversion window counts instead.
 */
function actorsWithEvent(
  results: FunnelResults,
  plan: FunnelPlan,
  entity: Series,
  inquiry: Inquiry,
): Uint32Array {
  const stepNames = namesOfSteps(plan.steps)
  const { names } = entity.match
  const isStepItself = names?.every((name) => stepNames.has(name)) ?? false
  if (results.actors.length === 0 || isStepItself) return new Uint32Array(0)
  const values: ValueRequest[] = [{ kind: 'event_name' }]
  const { groupTypeIndex } = plan
  if (groupTypeIndex !== null) values.push({ kind: 'group_key', typeIndex: groupTypeIndex })
  const range = { fromMs: plan.range.fromMs, toMs: exclusiveEnd(plan.range.toMs) }
  const persons = groupTypeIndex === null ? listedPersons(results.actors) : null
  const wish = { filter: null, series: [entity.match], values, persons }
  const columns = scanEvents(inquiry, range, wish)
  const isMarked = marksOf(columns, stepNames, results, plan, inquiry.scanner)
  return results.actors.filter((_actor, index) => isMarked[index] === 1)
}

function marksOf(
  columns: EventColumns,
  stepNames: ReadonlySet<string>,
  results: FunnelResults,
  { rules }: FunnelPlan,
  limits: Pick<EventScanner, 'checkLimits'>,
): Uint8Array {
  const { stepCount, windowEnd } = rules
  const isMarked = new Uint8Array(results.actors.length)
  const [names, groups] = columns.values
  const isStepName = names?.values.map((name) => stepNames.has(String(name))) ?? []
  const indexOfActor = indexOfActors(results, groups?.values ?? null)
  const keys = groups === undefined ? columns.persons : groups.ids
  for (let row = 0; row < columns.count; row++) {
    if (row % CHECK_EVERY === 0) limits.checkLimits()
    const index = indexOfActor.get(keys[row] ?? 0)
    if (index === undefined || isMarked[index] === 1) continue
    if (isStepName[names?.ids[row] ?? 0] === true) continue
    const firstMs = results.stepTimesMs[index * stepCount] ?? 0
    const isConverted = results.bests[index] === stepCount
    const finalMs = isConverted
      ? (results.stepTimesMs[(index + 1) * stepCount - 1] ?? 0)
      : windowEnd(firstMs)
    const timeMs = columns.timesMs[row] ?? 0
    if (timeMs > firstMs && timeMs < finalMs) isMarked[index] = 1
  }
  return isMarked
}

/**
 * Returns the position in the results for each actor key of the scan whose group keys are `keysHere`. The same group
 * has different numbers in two scans, so groups are compared by the texts of their keys.
 */
function indexOfActors(
  { actors, groupKeys }: FunnelResults,
  keysHere: readonly unknown[] | null,
): ReadonlyMap<number, number> {
  const found = new Map<number, number>()
  if (groupKeys === null || keysHere === null) {
    for (let index = 0; index < actors.length; index++) found.set(actors[index] ?? 0, index)
    return found
  }
  const indexOfText = new Map<string, number>()
  for (let index = 0; index < actors.length; index++) {
    indexOfText.set(propertyText(groupKeys[actors[index] ?? 0]), index)
  }
  for (let key = 1; key < keysHere.length; key++) {
    const index = indexOfText.get(propertyText(keysHere[key]))
    if (index !== undefined) found.set(key, index)
  }
  return found
}

/**
 * Returns the names of the step events, which do not count as events between the steps. A step that matches every event
 * adds no name.
 */
function namesOfSteps(steps: readonly Series[]): ReadonlySet<string> {
  const names = steps.flatMap(({ match }) => [
    ...(match.names ?? []),
    ...match.steps.flatMap(({ name }) => (name === null ? [] : [name])),
  ])
  return new Set(names)
}

/**
 * Returns the last millisecond of the range. A correlation excludes the end of the range, for example 12:00:00.000. An
 * end such as 23:59:59.999 is included, because it stands for the end of the second.
 */
function exclusiveEnd(toMs: number): number {
  return toMs % 1000 === 999 ? toMs : toMs - 1
}
