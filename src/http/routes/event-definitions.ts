/**
 * The routes of definitions: the known names of events and properties, and the values that a filter suggests for a
 * property. Source: docs/compatibility/definitions.md, "Names of events", "Names of properties", "Properties of
 * sessions" and "Offered values".
 */
import { invalidInput, ServiceError } from '../../base/errors.ts'
import { GROUP_TYPES_MAX } from '../../base/limits.ts'
import type { DefinitionQueries } from '../../engine/threads/call-table.ts'
import {
  EVENT_TYPES,
  findProperties,
  propertyBody,
  searchWords,
} from '../../rules/events/event-definitions.ts'
import { SESSION_PROPERTIES } from '../../rules/events/session-property-names.ts'
import { isSessionProperty } from '../../rules/queries/web/session-property-columns.ts'
import { CHANNEL_TYPES } from '../../rules/web/channel-type.ts'
import { countedUrls, itemPage, lenientPage, PAGE_LIMITS } from '../server/pages.ts'
import { required } from '../server/parameters.ts'
import type { Answer } from '../server/respond.ts'
import { type Call, done, inProject, type Resource, routesOf } from '../server/route.ts'
import { json } from '../server/router.ts'
import type { Schema, TypeOf } from '../server/schema.ts'
import * as is from '../server/schema.ts'
import { answerRows, wishOf } from './formats.ts'
import { change, type OrganizationServices } from './organization/organization-services.ts'

/** Values are suggested from the events of the last seven days. In milliseconds. */
const VALUES_MS = 7 * 24 * 60 * 60 * 1000
/** The `key` with which a client asks for event names instead of the values of a property. */
const EVENT_NAMES_KEY = 'custom_event'

const NAMES = is.list(is.TEXT)
const SEARCH = is.about(is.TEXT, 'Words that the name must all contain, ignoring case.')
const EXCLUDED = is.about(NAMES, 'Names to leave out.')
const TAGS = is.list(is.TEXT)
const FACTS = { count: is.WHOLE, first_seen_at: is.TIME }

const EVENT_DEFINITION = is.namedObject('EventDefinition', {
  id: is.UUID,
  name: is.TEXT,
  created_at: is.about(is.TIME, 'When the first event arrived.'),
  last_seen_at: is.about(is.TIME, 'The latest timestamp of an event.'),
  last_updated_at: is.about(is.TIME, 'When the latest event arrived.'),
  tags: TAGS,
  is_action: is.BOOLEAN,
  action_id: is.NOTHING,
  is_calculating: is.BOOLEAN,
  last_calculated_at: is.NOTHING,
  created_by: is.NOTHING,
  post_to_slack: is.BOOLEAN,
  ...FACTS,
})
const PROPERTY_DEFINITION = is.namedObject(
  'PropertyDefinition',
  {
    id: is.TEXT,
    name: is.TEXT,
    is_numerical: is.BOOLEAN,
    property_type: is.choice('DateTime', 'String', 'Numeric', 'Boolean', 'Duration', null),
    tags: TAGS,
    is_seen_on_filtered_events: is.nullable(is.BOOLEAN),
  },
  { ...FACTS, last_seen_at: is.TIME },
)
const EVENT_QUERY = is.options({
  search: SEARCH,
  event_type: is.about(
    is.choice(...EVENT_TYPES),
    'Return all definitions, only custom ones, or only those of SDKs.',
  ),
  ordering: is.about(
    is.TEXT,
    'Sort by name, last_seen_at or last_seen_at::date. A leading - means descending. May be repeated.',
  ),
  excluded_properties: EXCLUDED,
  ...is.pageParameters(PAGE_LIMITS.max),
})
const PROPERTY_QUERY = is.options({
  type: is.about(
    is.choice('event', 'person', 'group', 'session'),
    'The kind of object that has the properties.',
  ),
  group_type_index: is.about(is.WHOLE, 'Number of the group type. Only with type group.'),
  search: SEARCH,
  properties: is.about(is.TEXT, 'Return only these names, separated by commas.'),
  is_numerical: is.about(is.BOOLEAN, 'If true, return only numeric properties.'),
  is_feature_flag: is.about(
    is.BOOLEAN,
    'True: return only the properties of feature flags. False: leave them out.',
  ),
  event_names: is.about(NAMES, 'Says for each property whether one of these events has it.'),
  filter_by_event_names: is.about(
    is.BOOLEAN,
    'If true, return only properties that one of these events has.',
  ),
  excluded_properties: EXCLUDED,
  ...is.pageParameters(PAGE_LIMITS.max),
})
const VALUE_QUERY = is.object(
  { key: is.about(is.TEXT, 'Name of the property.') },
  { value: is.about(is.TEXT, 'Return only values that contain this text, ignoring case.') },
)
const OFFERED = is.list(is.namedObject('OfferedValue', { name: is.TEXT }))

/** The services that the definition routes need. */
export interface DefinitionServices extends OrganizationServices {
  readonly queries: OrganizationServices['queries'] & DefinitionQueries
}

const PROJECT = '/api/projects/:project_id/'
const eventRoute = routesOf<DefinitionServices>(
  `${PROJECT}event_definitions/`,
  inProject('event_definition:read'),
  inProject('event_definition:write'),
)
const propertyRoute = routesOf<DefinitionServices>(PROJECT, inProject('property_definition:read'))
const valueRoute = routesOf<DefinitionServices>(PROJECT, inProject('event:read'))
const sessionRoute = routesOf<DefinitionServices>(`${PROJECT}sessions/`, inProject('query:read'))

/** The routes for names of events and properties, and for suggested values. */
export const DEFINITION_RESOURCE: Resource<DefinitionServices> = {
  name: 'Definitions',
  sentence: 'The events and properties that clients have sent.',
  segments: { id: is.about(is.UUID, 'ID of the definition.') },
  routes: [
    eventRoute('GET', '', 'listEventDefinitions', 'Lists event names.', {
      query: EVENT_QUERY,
      answers: { 200: done(is.pageOf(EVENT_DEFINITION)) },
      respond: listEvents,
    }),
    eventRoute('GET', ':id/', 'getEventDefinition', 'Shows one event name.', {
      answers: { 200: done(EVENT_DEFINITION) },
      handle: async (call) => (await eventInPath(call)).definition,
    }),
    eventRoute(
      'DELETE',
      ':id/',
      'deleteEventDefinition',
      'Hides an event name until it is sent again.',
      {
        answers: { 204: done() },
        async handle(call) {
          const { definition, sequence } = await eventInPath(call)
          await change(call, 'deleteDefinition', {
            projectId: call.projectId,
            definition: { id: definition.id, sequence },
          })
        },
      },
    ),
    propertyRoute(
      'GET',
      'property_definitions/',
      'listPropertyDefinitions',
      'Lists property names.',
      {
        query: PROPERTY_QUERY,
        answers: { 200: done(is.pageOf(PROPERTY_DEFINITION)) },
        respond: listProperties,
      },
    ),
    sessionRoute(
      'GET',
      'property_definitions/',
      'listSessionProperties',
      'Lists the properties of sessions.',
      {
        query: is.options({ search: SEARCH }),
        answers: { 200: done(is.pageOf(PROPERTY_DEFINITION)) },
        handle(call) {
          const results = sessionProperties(call.query())
          return { count: results.length, next: null, previous: null, results }
        },
      },
    ),
    sessionRoute('GET', 'values/', 'listSessionValues', 'Suggests values of a session property.', {
      query: VALUE_QUERY,
      answers: { 200: done(OFFERED) },
      errors: ['query_timeout', 'query_too_large'],
      handle: offeredSessionValues,
    }),
    valueRoute('GET', 'events/values/', 'listEventValues', 'Suggests values of a property.', {
      query: is.object(
        {
          key: is.about(is.TEXT, `Name of the property, or ${EVENT_NAMES_KEY} for event names.`),
        },
        {
          value: is.about(is.TEXT, 'Return only values that contain this text, ignoring case.'),
          event_name: is.about(is.TEXT, 'Return only values of these events. May be repeated.'),
        },
      ),
      answers: { 200: done(OFFERED) },
      errors: ['query_timeout'],
      handle(call) {
        const { request, services, projectId, nowMs } = call
        const { key, value = '' } = call.query()
        const contains = value.toLowerCase()
        if (key === EVENT_NAMES_KEY) {
          return services.queries.offeredEvents(projectId, contains, wishOf(request, 'json'))
        }
        const eventNames = textsOf(call, 'event_name')
        const query = {
          projectId,
          key,
          contains,
          fromMs: nowMs - VALUES_MS,
          toMs: nowMs,
          eventNames: eventNames.length === 0 ? null : eventNames,
        }
        return services.queries.eventValues(query, (cancel) => request.onLeave(cancel))
      },
    }),
  ],
}

/**
 * Returns the suggested values of a session property. For the channel of a session, these are the channels that the
 * project defines, followed by the built-in channels. For a boolean property, these are `1` (true) and `0` (false),
 * without a count.
 */
async function offeredSessionValues(call: Call<DefinitionServices, typeof VALUE_QUERY>) {
  const { request, services, projectId, nowMs } = call
  const { key, value: contains = '' } = call.query()
  const property = SESSION_PROPERTIES.find(({ name }) => name === key)
  if (property === undefined && !isSessionProperty(key)) {
    throw invalidInput('key', 'must be the name of a session property, such as $session_duration')
  }
  if (property?.type === 'Boolean') return [{ name: '1' }, { name: '0' }]
  const project = services.directory.projectById(projectId)
  const channelTypeRules = project?.customChannelTypeRules ?? []
  if (key === '$channel_type') {
    const own = channelTypeRules.map((rule) => String(rule['channel_type']))
    const names = [...new Set([...own, ...CHANNEL_TYPES])]
    const isFitting = (name: string) => name.toLowerCase().includes(contains.toLowerCase())
    return names.filter(isFitting).map((name) => ({ name }))
  }
  const facts = { projectId, nowMs, timezone: 'UTC', testAccountFilters: [], channelTypeRules }
  const task = { ...facts, pathCleaningFilters: [], key, contains }
  return services.queries.sessionValues(task, (cancel) => request.onLeave(cancel))
}

type EventCall = Call<DefinitionServices, typeof EVENT_QUERY>
type PropertyCall = Call<DefinitionServices, typeof PROPERTY_QUERY>

async function listEvents(call: EventCall): Promise<Answer> {
  const { request, services, projectId } = call
  const { search, event_type: type = 'event', excluded_properties: excluded = [] } = call.query()
  const page = lenientPage(call)
  const ordering = textsOf(call, 'ordering')
  const query = { projectId, words: searchWords(search ?? ''), type, ordering, excluded }
  const wish = wishOf(request, 'json')
  const { offset, limit } = page
  const found = await services.queries.eventDefinitions(query, offset, limit, wish)
  const urls = countedUrls(call, page, found.rowCount, found.count)
  return answerRows('json', found, 'results', { count: found.count, ...urls })
}

async function listProperties(call: PropertyCall): Promise<Answer> {
  const { request, services, projectId } = call
  const given = call.query()
  const { type: of = 'event', group_type_index: groupType, event_names: eventNames } = given
  requireGroupType(of, groupType)
  if (eventNames !== undefined && of !== 'event') {
    throw invalidInput('event_names', 'is allowed only with type `event`')
  }
  const page = lenientPage(call)
  const { offset, limit } = page
  if (of === 'session') {
    const all = sessionProperties(given)
    return json(itemPage(call, page, all, (property) => property))
  }
  const query = {
    projectId,
    of,
    groupType: groupType ?? 0,
    eventNames: eventNames ?? null,
    ...propertyTests(given),
    isSeenOnly: given.filter_by_event_names === true,
  }
  const wish = wishOf(request, 'json')
  const found = await services.queries.propertyDefinitions(query, offset, limit, wish)
  const urls = countedUrls(call, page, found.rowCount, found.count)
  return answerRows('json', found, 'results', { count: found.count, ...urls })
}

function requireGroupType(of: string, groupType: number | undefined): void {
  if (of !== 'group') {
    if (groupType === undefined) return
    throw invalidInput('group_type_index', 'is allowed only with type `group`')
  }
  if (groupType === undefined) throw required('group_type_index')
  if (groupType < GROUP_TYPES_MAX) return
  throw invalidInput('group_type_index', `must be a number from 0 to ${GROUP_TYPES_MAX - 1}`)
}

/**
 * Returns the conditions of a request for a list of properties that concern the property itself, such as its name.
 * Throws 400.
 */
function propertyTests(given: TypeOf<typeof PROPERTY_QUERY>) {
  const { search = '', properties, excluded_properties: excluded = [] } = given
  return {
    words: searchWords(search),
    excluded,
    names: properties === undefined ? null : properties.split(','),
    isNumerical: given.is_numerical === true,
    isFeatureFlag: given.is_feature_flag ?? null,
  }
}

function sessionProperties(given: TypeOf<typeof PROPERTY_QUERY>) {
  const tests = { ...propertyTests(given), of: 'session', isSeenOnly: false } as const
  return findProperties(SESSION_PROPERTIES, null, tests).map((property) =>
    propertyBody(property.facts.name, property),
  )
}

/** Returns the event definition named in the path. Throws 404. */
async function eventInPath(call: Call<DefinitionServices, Schema, Schema>) {
  const id = call.uuid('id')
  const { request, services, projectId } = call
  const wish = wishOf(request, 'json')
  const found = id === null ? null : await services.queries.eventDefinition(projectId, id, wish)
  if (found !== null) return found
  throw new ServiceError('not_found', 'The project has no such event definition.')
}

/** Returns all values of a query parameter that may be repeated. */
function textsOf({ request }: Pick<Call, 'request'>, name: string): readonly string[] {
  return request.query.getAll(name).filter((text) => text !== '')
}
