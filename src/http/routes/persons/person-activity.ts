/**
 * The routes about the past of persons: the changes that users made to them, and the properties of one person over
 * time. Source: docs/compatibility/persons.md, "Activity of persons" and "Properties over time".
 */
import { invalidInput, ServiceError } from '../../../base/errors.ts'
import { isObject } from '../../../base/json.ts'
import {
  type DateRange,
  dateRange,
  isoInZone,
  type RangeRequest,
} from '../../../rules/analytics/date-range.ts'
import { parseInterval } from '../../../rules/analytics/periods.ts'
import type { TimelineRows } from '../../../rules/persons/person-queries.ts'
import { limitOf, logPageOf, logQuery } from '../../server/pages.ts'
import type { RequestParameters } from '../../server/parameters.ts'
import type { Answer } from '../../server/respond.ts'
import { type AnyRoute, done, inProject, routesOf } from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { answerLog, answerRows, inputOf, wishOf } from '../formats.ts'
import { PAGE_ACTIVITY_MAX, PAGES_MAX, SERIES_MAX } from '../limits.ts'
import { existing, type PersonCall, type PersonServices, readForPerson } from './person-services.ts'
import { FILTERS, RANGE, SERIES } from './question-schemas.ts'

const ENTRIES = { default: 10, max: PAGE_ACTIVITY_MAX }
/** The earliest moment that a JavaScript date can represent. */
const BEGINNING_MS = -8_640_000_000_000_000

const ACTIVITY = is.namedObject('Activity', {
  user: is.object({ first_name: is.TEXT, email: is.TEXT }),
  activity: is.choice('updated', 'delete_property', 'deleted', 'split_person'),
  scope: is.choice('Person'),
  item_id: is.TEXT,
  detail: is.object({
    changes: is.nullable(is.list(is.ANY)),
    name: is.nullable(is.TEXT),
    short_id: is.NOTHING,
    type: is.NOTHING,
    trigger: is.NOTHING,
  }),
  created_at: is.TIME,
})
const LOG = {
  query: logQuery(ENTRIES),
  answers: { 200: done(logPageOf('ActivityPage', ACTIVITY)) },
} as const
const TIMELINE = is.namedObject('PropertiesTimeline', {
  points: is.list(
    is.object({ timestamp: is.TIME, properties: is.JSON_OBJECT, relevant_event_count: is.WHOLE }),
  ),
  crucial_property_keys: is.list(is.TEXT),
  effective_date_from: is.TEXT,
  effective_date_to: is.TEXT,
})

const route = routesOf<PersonServices>(
  '/api/projects/:project_id/persons/',
  inProject('activity_log:read'),
)

/** The routes that list the changes of persons, and the properties of one person over time. */
export const ACTIVITY_ROUTES: readonly AnyRoute<PersonServices>[] = [
  route('GET', 'activity/', 'listPersonsActivity', 'Lists the changes of all persons.', {
    ...LOG,
    respond: (call) => listActivity(call, false),
  }),
  route('GET', ':id/activity/', 'listPersonActivity', 'Lists the changes of a person.', {
    ...LOG,
    respond: (call) => listActivity(call, true),
  }),
  route(
    'GET',
    ':id/properties_timeline/',
    'getPropertiesTimeline',
    'Shows how the properties used by an insight changed.',
    {
      who: inProject('person:read'),
      query: is.options({
        events: is.about(
          is.list(SERIES),
          'The events at which changes are looked for. The default is all.',
        ),
        actions: is.about(is.list(is.ANY), 'Must be empty.'),
        properties: is.about(FILTERS, 'Filters on persons, whose properties are shown over time.'),
        breakdown: is.about(is.TEXT, 'A further property to show over time.'),
        breakdown_type: is.about(is.TEXT, 'Send person. With another value, breakdown is ignored.'),
        ...RANGE,
      }),
      answers: { 200: done(TIMELINE) },
      respond: showTimeline,
    },
  ),
]

async function listActivity(call: PersonCall, isOfPerson: boolean): Promise<Answer> {
  const read = (parameters: RequestParameters) => ({
    limit: limitOf(parameters.wholeNumber('limit'), ENTRIES),
    page: pageOf(parameters),
  })
  const all = isOfPerson ? null : inputOf(call)
  const { person, format, given } =
    all === null
      ? await readForPerson(call, read)
      : { person: null, format: all.format, given: read(all.parameters) }
  const { services, projectId } = call
  const answer = await answerLog(call, format, given, (offset, count, wish) =>
    services.queries.personActivity(projectId, person, offset, count, wish),
  )
  return existing(answer, 'person')
}

function pageOf(parameters: RequestParameters): number {
  const page = parameters.wholeNumber('page') ?? 1
  if (page === 0) throw invalidInput('page', 'must be a number, at least 1')
  return Math.min(page, PAGES_MAX)
}

interface TimelineRequest {
  readonly eventNames: readonly string[]
  readonly crucialKeys: readonly string[]
  readonly range: RangeRequest
}

async function showTimeline(call: PersonCall): Promise<Answer> {
  const { services, projectId } = call
  const { person, format, given } = await readForPerson(call, (parameters) =>
    readTimeline(call, parameters),
  )
  const { eventNames, crucialKeys, range: asked } = given
  const isWhole = asked.dateFrom === 'all'
  const sought = dateRange(asked)
  const found = await services.queries.propertiesTimeline(
    {
      projectId,
      person,
      eventNames,
      crucialKeys,
      fromMs: isWhole ? BEGINNING_MS : sought.fromMs,
      toMs: sought.toMs,
    },
    wishOf(call.request, format),
  )
  const points = existing(found, 'person')
  const range = isWhole ? wholeRange(asked, points) : sought
  const { timezone } = asked
  const behind = {
    crucial_property_keys: crucialKeys,
    effective_date_from: isoInZone(range.fromMs, timezone),
    effective_date_to: isoInZone(range.toMs, timezone),
  }
  return answerRows(format, points, 'points', {}, behind)
}

/** Returns the date range of a request with `date_from=all`. It begins with the first point of the timeline. */
function wholeRange(asked: RangeRequest, { firstTimestamp }: TimelineRows): DateRange {
  return dateRange({
    ...asked,
    firstEventMs: firstTimestamp === null ? null : Date.parse(firstTimestamp),
  })
}

function readTimeline(call: PersonCall, parameters: RequestParameters): TimelineRequest {
  const { services, projectId, nowMs } = call
  const series = parameters.json('events')
  const actions = parameters.json('actions')
  if (Array.isArray(actions) && actions.length > 0) {
    throw invalidInput('actions', 'must be empty. List `events` instead')
  }
  return {
    eventNames: eventNamesOf(series),
    crucialKeys: crucialKeysOf(parameters, series),
    range: {
      dateFrom: parameters.text('date_from'),
      dateTo: parameters.text('date_to'),
      interval: parseInterval(parameters.text('interval')),
      timezone: services.directory.projectById(projectId)?.timezone ?? 'UTC',
      nowMs,
      firstEventMs: null,
    },
  }
}

/**
 * Returns the names of the events in a list of series. Returns an empty list if one of the series stands for all
 * events.
 */
function eventNamesOf(series: unknown): readonly string[] {
  if (series === undefined || series === null) return []
  if (!Array.isArray(series) || series.length > SERIES_MAX) {
    throw invalidInput('events', `must be a list of at most ${SERIES_MAX} series`)
  }
  const names = series.map((item: unknown) => {
    if (typeof item === 'string') return item
    if (isObject(item) && (item['id'] === null || typeof item['id'] === 'string')) return item['id']
    const detail =
      'Each entry of `events` must be an object with the name of an event as `id`, or null for all events.'
    throw new ServiceError('invalid_input', detail, { attr: 'events' })
  })
  return names.includes(null) ? [] : [...new Set(names.filter((name) => name !== null))]
}

/**
 * Returns the keys of all filters on persons and of a breakdown by a person property, sorted and without duplicates.
 */
function crucialKeysOf(parameters: RequestParameters, series: unknown): readonly string[] {
  const keys = new Set<string>()
  collectKeys(parameters.properties(), keys)
  if (Array.isArray(series)) {
    for (const item of series as readonly unknown[]) {
      if (isObject(item)) collectKeys(item['properties'], keys)
    }
  }
  const breakdownType = parameters.text('breakdown_type')
  const breakdown = parameters.value('breakdown')
  if (breakdownType === 'person') {
    for (const key of Array.isArray(breakdown) ? (breakdown as readonly unknown[]) : [breakdown]) {
      if (typeof key === 'string' && key !== '') keys.add(key)
    }
  }
  return [...keys].sort()
}

/**
 * Adds the keys of filters on persons to `keys`, also from nested lists and groups. The recursion cannot become deep,
 * because deeply nested JSON of clients is refused earlier.
 */
function collectKeys(value: unknown, keys: Set<string>): void {
  if (Array.isArray(value)) {
    for (const item of value as readonly unknown[]) collectKeys(item, keys)
  } else if (isObject(value)) {
    if (Array.isArray(value['values'])) collectKeys(value['values'], keys)
    else if (value['type'] === 'person' && typeof value['key'] === 'string') keys.add(value['key'])
  }
}
