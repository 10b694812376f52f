/**
 * Calls about the names of events and properties, and about values of properties. Reading stored names is a short read.
 * If names must be collected from many segments, a thread for long reads does it. Each thread has a cache of names.
 */
import type { CountedRows } from '../../base/pages.ts'
import type { RowsWriter } from '../../base/rows-writer.ts'
import {
  definitionId,
  type EventDefinitionQuery,
  eventBody,
  findEvents,
  findProperties,
  isDeleted,
  type PropertyDefinitionQuery,
  propertyBody,
} from '../../rules/events/event-definitions.ts'
import { type EventValueQuery, offeredEvents } from '../../rules/events/event-values.ts'
import { type LongTools, long, type PageTools, page } from './call-kinds.ts'
import { queryLimits } from './queries/query-limits.ts'
import type { ThreadStores } from './thread-stores.ts'

/**
 * The weight of a list of names (see `PageCall.weight`). It is so small that a thread for short reads tries to answer
 * first.
 */
const NAMES_WEIGHT = 1

/** The part of a list that is requested. */
type Place = readonly [offset: number, limit: number]

/** Calls about the names of events and of properties. */
export const DEFINITION_CALLS = {
  /** Returns the names of events, as rows that `eventBody` makes. */
  eventDefinitions: page(
    (tools, query: EventDefinitionQuery, ...place: Place) => {
      const { projectId } = query
      const { events } = tools.stores.reader.names(projectId, tools.check)
      const found = findEvents(events, deletedOf(tools.stores, projectId), query)
      return pageOf(tools.writer, found, place, eventBody)
    },
    () => NAMES_WEIGHT,
  ),
  /** Returns the names of properties, as rows that `propertyBody` makes. */
  propertyDefinitions: page(propertyDefinitions, () => NAMES_WEIGHT),
  /**
   * Returns the definition with an id, and the sequence number of the newest event of the project. Returns null if
   * there is no such definition.
   */
  eventDefinition: page(
    ({ stores, check }, projectId: number, id: string) => {
      const names = stores.reader.names(projectId, check)
      const deleted = deletedOf(stores, projectId)
      for (const event of names.events) {
        if (event.id !== id || isDeleted(event, deleted)) continue
        return { definition: eventBody(event), sequence: names.through }
      }
      return null
    },
    () => NAMES_WEIGHT,
  ),
  /** Returns the names of custom events that contain a text. */
  offeredEvents: page(
    ({ stores, check }, projectId: number, contains: string) =>
      offeredEvents(stores.reader.names(projectId, check).events, contains),
    () => NAMES_WEIGHT,
  ),
}

/** Calls about values of event properties. They are canceled when nobody waits for them any more. */
export const VALUE_CALLS = {
  /** Returns rows of `{ name }`. */
  eventValues: long((tools: LongTools, query: EventValueQuery) => {
    return tools.stores.reader.eventValues(query, queryLimits(tools)).offered()
  }, 'analytics'),
}

function propertyDefinitions(
  { stores, writer, check }: PageTools,
  query: PropertyDefinitionQuery,
  ...place: Place
): CountedRows {
  const { projectId, of, groupType, eventNames } = query
  const kind = of === 'group' ? `group_${groupType}` : of
  const bodyOf = (property: Parameters<typeof propertyBody>[1]): object =>
    propertyBody(definitionId(projectId, `${kind}_property`, property.facts.name), property)
  if (of !== 'event') {
    const facts = stores.reader.actorProperties(projectId, of === 'group' ? groupType : null, check)
    return pageOf(writer, findProperties(facts, null, query), place, bodyOf)
  }
  const names = stores.reader.names(projectId, check)
  const isSeen = eventNames === null ? null : names.isSeenOn(eventNames)
  return pageOf(writer, findProperties(names.properties, isSeen, query), place, bodyOf)
}

function pageOf<Found>(
  writer: RowsWriter,
  found: readonly Found[],
  [offset, limit]: Place,
  bodyOf: (one: Found) => object,
): CountedRows {
  for (const one of found.slice(offset, offset + limit)) if (!writer.add(bodyOf(one))) break
  return { count: found.length, ...writer.finish() }
}

function deletedOf({ organization }: ThreadStores, projectId: number) {
  return organization.run({ name: 'deletedDefinitions', request: projectId })
}
