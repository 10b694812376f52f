/**
 * The routes of persons, except those about their past (person-activity.ts) and analytics (person-analytics.ts). The
 * parameters of a request become a query for the worker pool or a command for the log. Source:
 * docs/compatibility/persons.md, "Persons", "Merging persons" and "Person properties".
 */

import { CSV_TYPE } from '../../../base/csv.ts'
import { invalidInput, ServiceError } from '../../../base/errors.ts'
import { given, isObject } from '../../../base/json.ts'
import { rowsText } from '../../../base/rows-writer.ts'
import { readListFilters } from '../../../rules/filters/filter-tree.ts'
import type { PersonCommand } from '../../../rules/persons/commands.ts'
import { personBody } from '../../../rules/persons/person-answer.ts'
import type { PersonListQuery, PersonReference } from '../../../rules/persons/person-queries.ts'
import { PAGE_ROWS_MAX } from '../../server/limits.ts'
import { pageUrls } from '../../server/pages.ts'
import { personReference, type RequestParameters, required } from '../../server/parameters.ts'
import type { Answer } from '../../server/respond.ts'
import {
  type Call,
  done,
  inProject,
  type Resource,
  refusedRoute,
  routesOf,
} from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { answerList, answerOne, answerRow, answerRows, inputOf, wholeRows } from '../formats.ts'
import { DELETED_PERSONS_AT_ONCE_MAX, DELETED_PERSONS_MAX, MERGED_PERSONS_MAX } from '../limits.ts'
import { COHORTS_OF_PERSON } from './cohorts.ts'
import { ACTIVITY_ROUTES } from './person-activity.ts'
import {
  change,
  changed,
  existing,
  namedValue,
  type PersonCall,
  type PersonServices,
  readForPerson,
} from './person-services.ts'
import { FILTERS } from './question-schemas.ts'

const PERSONS = '/api/projects/:project_id/persons/'
const UNREADABLE_IDS = '`ids` must contain numbers or UUIDs of persons.'
/**
 * The largest offset in the list of a person's distinct IDs. A larger offset in a request is treated as this one. No
 * person has that many distinct IDs.
 */
const IDS_OFFSET_MAX = 0xffff_ffff

const PERSON_MEMBERS = {
  id: is.WHOLE,
  name: is.TEXT,
  distinct_ids: is.list(is.TEXT),
  properties: is.JSON_OBJECT,
  created_at: is.TIME,
  uuid: is.UUID,
}
/** The number of distinct IDs of the person. Present if the answer contains only some of them. */
const ID_COUNT = { distinct_ids_count: is.WHOLE }
const PERSON = is.namedObject('Person', PERSON_MEMBERS, ID_COUNT)
const PERSON_CHANGED = is.namedObject(
  'PersonChanged',
  { ...PERSON_MEMBERS, success: is.BOOLEAN },
  ID_COUNT,
)
const PERSONS_DELETED = is.namedObject('PersonsDeleted', {
  persons_found: is.about(is.WHOLE, 'Number of existing persons that the request named.'),
  persons_deleted: is.WHOLE,
  events_queued_for_deletion: is.BOOLEAN,
  recordings_queued_for_deletion: is.BOOLEAN,
  deletion_errors: is.about(
    is.list(is.object({ person_uuid: is.UUID })),
    'UUIDs of the persons for which the deletion failed. Send them again.',
  ),
})
const VALUE_COUNT = is.namedObject('ValueCount', { name: is.TEXT, count: is.WHOLE })

const DELETED_ID = is.refused(is.TEXT_OR_NUMBER, UNREADABLE_IDS)
const DELETED_DISTINCT_ID = is.refused(is.TEXT_OR_NUMBER, '`distinct_ids` must contain texts.')
const DELETED = is.parameters(
  {},
  {
    ids: is.about(is.list(DELETED_ID, DELETED_PERSONS_MAX), 'Numbers or UUIDs of the persons.'),
    distinct_ids: is.about(
      is.list(DELETED_DISTINCT_ID, DELETED_PERSONS_MAX),
      'The persons, by their distinct_ids instead of ids.',
    ),
    delete_events: is.unchecked(is.about(is.BOOLEAN, 'Also remove the events.')),
    keep_person: is.unchecked(
      is.about(is.BOOLEAN, 'Keep the persons, and remove only their events.'),
    ),
    delete_recordings: is.unchecked(
      is.about(is.BOOLEAN, 'Ignored, because there are no recordings.'),
    ),
  },
)
const SETTING = {
  body: is.object({ properties: is.JSON_OBJECT }),
  answers: { 202: done(PERSON) },
  respond: patchPerson,
} as const

const route = routesOf<PersonServices>(PERSONS, inProject('person:read'), inProject('person:write'))

/** The routes of persons, without analytics. */
export const PERSON_RESOURCE: Resource<PersonServices> = {
  name: 'Persons',
  sentence:
    'The persons whom events have created. Parameters can be sent in the query or in a JSON body.',
  segments: { id: is.about(is.TEXT_OR_NUMBER, 'Number or UUID of the person.') },
  isTable: true,
  routes: [
    route('GET', '', 'listPersons', 'Lists persons, newest first.', {
      query: is.options({
        distinct_id: is.about(is.TEXT, 'Return only the person with this distinct_id.'),
        email: is.about(is.TEXT, 'Return only persons whose property email is exactly this text.'),
        search: is.about(
          is.TEXT,
          'Part of the e-mail address or the name, or a distinct_id, or a UUID.',
        ),
        properties: is.about(FILTERS, 'Filters on properties.'),
        cohort: is.about(is.WHOLE, 'Return only members of the cohort with this number.'),
        ...is.pageParameters(PAGE_ROWS_MAX),
      }),
      answers: { 200: done(is.pageOf(PERSON)) },
      respond: listPersons,
    }),
    refusedRoute(
      { method: 'POST', path: PERSONS, allow: 'GET' },
      'Persons are created by events. Send an `$identify` event with the distinct_id instead.',
    ),
    route('GET', 'values/', 'listPersonValues', 'Counts the values of a property.', {
      query: is.options({
        key: is.about(is.TEXT, 'Name of the property. Without it, the result is empty.'),
        value: is.about(is.TEXT, 'Return only values that contain this text.'),
      }),
      answers: { 200: done(is.list(VALUE_COUNT)) },
      respond: listValues,
    }),
    route('GET', 'cohorts/', 'listCohortsOfPerson', 'Lists the cohorts of a person.', {
      query: is.object({
        person_id: is.about(is.TEXT_OR_NUMBER, 'Number or UUID of the person.'),
      }),
      answers: { 200: done(COHORTS_OF_PERSON) },
      respond: listCohorts,
    }),
    route('POST', 'bulk_delete/', 'deletePersons', 'Removes persons permanently.', {
      body: DELETED,
      answers: { 202: done(PERSONS_DELETED) },
      respond: deletePersons,
    }),
    route('GET', ':id/', 'getPerson', 'Shows a person.', {
      query: is.options({
        distinct_ids_offset: is.about(
          is.WHOLE,
          'Number of distinct_ids to skip, in the order in which they were linked.',
        ),
      }),
      answers: { 200: done(PERSON) },
      respond: getPerson,
    }),
    route('PATCH', ':id/', 'patchPerson', 'Sets properties of a person.', SETTING),
    route('PUT', ':id/', 'putPerson', 'Same as PATCH.', SETTING),
    route('DELETE', ':id/', 'deletePerson', 'Removes a person permanently.', {
      query: is.options({
        delete_events: is.about(is.TEXT, 'Also remove the events, unless the value is false or 0.'),
      }),
      answers: { 202: done() },
      handle: deletePerson,
    }),
    route('POST', ':id/update_property/', 'updatePersonProperty', 'Sets one property.', {
      body: is.object({ key: is.TEXT, value: is.ANY }),
      answers: { 202: done(PERSON) },
      respond: (call) =>
        changePerson(call, 202, (parameters, person) => ({
          kind: 'set_properties',
          person,
          set: namedValue(parameters),
        })),
    }),
    route('POST', ':id/delete_property/', 'deletePersonProperty', 'Removes a property.', {
      body: is.object({ $unset: is.TEXT }),
      answers: { 201: done(PERSON_CHANGED) },
      respond: (call) =>
        changePerson(call, 201, (parameters, person) => ({
          kind: 'delete_property',
          person,
          key: parameters.requiredText('$unset'),
        })),
    }),
    route(
      'POST',
      ':id/split/',
      'splitPerson',
      'Splits a person, so that each distinct_id becomes a person of its own.',
      {
        body: is.options({
          main_distinct_id: is.about(
            is.TEXT,
            'The distinct_id that keeps the person and its properties.',
          ),
        }),
        answers: { 201: done(PERSON_CHANGED) },
        respond: (call) =>
          changePerson(call, 201, (parameters, person) => ({
            kind: 'split_person',
            person,
            mainDistinctId: parameters.text('main_distinct_id'),
          })),
      },
    ),
    route('POST', ':id/merge/', 'mergePersons', 'Merges other persons into this one.', {
      body: is.object({ ids: is.list(is.TEXT_OR_NUMBER) }),
      answers: { 201: done(PERSON_CHANGED) },
      respond: mergePersons,
    }),
    ...ACTIVITY_ROUTES,
  ],
}

async function listPersons(call: PersonCall): Promise<Answer> {
  const { services } = call
  const { parameters, format, wish } = inputOf(call)
  const page = parameters.page()
  const wanted = readListQuery(call, parameters)
  if (format === 'csv') {
    const query: PersonListQuery = { ...wanted, limit: PAGE_ROWS_MAX, offset: 0 }
    const body = await services.queries.personTable(query, wish.onLeave)
    return { status: 200, contentType: CSV_TYPE, body }
  }
  const found = await services.queries.listPersons({ ...wanted, ...page }, wish)
  const urls = pageUrls(call, parameters, found)
  return answerRows(format, found, 'results', { count: found.count, ...urls })
}

function readListQuery(
  { projectId, nowMs }: PersonCall,
  parameters: RequestParameters,
): Omit<PersonListQuery, 'limit' | 'offset'> {
  const wanted = {
    distinctId: parameters.text('distinct_id') ?? undefined,
    email: parameters.text('email') ?? undefined,
    search: parameters.text('search') ?? undefined,
    cohortId: parameters.wholeNumber('cohort') ?? undefined,
    properties: readListFilters(parameters.properties()) ?? undefined,
  }
  return { projectId, nowMs, ...given(wanted) }
}

async function getPerson(call: PersonCall): Promise<Answer> {
  const {
    person,
    format,
    given: offset,
  } = await readForPerson(call, (parameters) =>
    Math.min(parameters.wholeNumber('distinct_ids_offset') ?? 0, IDS_OFFSET_MAX),
  )
  const row = await call.services.queries.getPerson(call.projectId, person, format, offset)
  return answerRow(format, existing(row, 'person'))
}

/** Makes the change that `read` returns for the parameters of a request, and answers with the changed person. */
async function changePerson(
  call: PersonCall,
  status: 201 | 202,
  read: (parameters: RequestParameters, person: PersonReference) => PersonCommand,
): Promise<Answer> {
  const { given: command, format } = await readForPerson(call, read)
  const body = personBody(await changed(call, command, 'person'))
  return answerOne(format, status === 201 ? { ...body, success: true } : body, status)
}

function patchPerson(call: PersonCall): Promise<Answer> {
  return changePerson(call, 202, (parameters, person) => {
    const set = parameters.properties()
    if (set === undefined || set === null) throw required('properties')
    if (!isObject(set)) throw invalidInput('properties', 'must be an object of names and values')
    return { kind: 'set_properties', person, set }
  })
}

async function deletePerson(call: PersonCall): Promise<void> {
  const { person, given: deletesEvents } = await readForPerson(call, (parameters) =>
    isWanted(parameters, 'delete_events'),
  )
  await change(call, { kind: 'delete_person', person, deletesEvents })
}

/**
 * Returns true if a switch among the parameters is on. It is on if it is present with any value except `false` and `0`.
 */
function isWanted(parameters: RequestParameters, name: string): boolean {
  if (!parameters.has(name)) return false
  const text = parameters.text(name)?.toLowerCase()
  return text !== 'false' && text !== '0'
}

/**
 * Deletes the persons named in a request. Unknown persons are ignored. The answer lists the persons that could not be
 * deleted.
 */
async function deletePersons(
  call: Call<PersonServices, is.Schema, typeof DELETED>,
): Promise<Answer> {
  const { parameters, format } = inputOf(call)
  const { references, distinctIds } = deletedIn(call.body())
  const deletesEvents = isWanted(parameters, 'delete_events')
  const keepsPersons = isWanted(parameters, 'keep_person')
  const { projectId, request, services } = call
  const uuids = await services.queries.findPersons(projectId, references, distinctIds)
  const [first = null] = uuids
  if (uuids.length === 1) request.objectId = first
  const isChange = deletesEvents || !keepsPersons
  const failed = isChange ? await deleteEach(call, uuids, { deletesEvents, keepsPersons }) : []
  const done = uuids.length - failed.length
  const body = {
    persons_found: uuids.length,
    persons_deleted: keepsPersons ? 0 : done,
    events_queued_for_deletion: deletesEvents && done > 0,
    recordings_queued_for_deletion: false,
    deletion_errors: failed.map((uuid) => ({ person_uuid: uuid })),
  }
  return answerOne(format, body, 202)
}

/**
 * Deletes each person or erases the events of each, and returns the UUIDs for which this failed. If it failed for all
 * of them, throws the first error.
 */
async function deleteEach(
  call: PersonCall,
  uuids: readonly string[],
  { deletesEvents, keepsPersons }: { deletesEvents: boolean; keepsPersons: boolean },
): Promise<readonly string[]> {
  const failed: string[] = []
  let reason: unknown = null
  for (let start = 0; start < uuids.length; start += DELETED_PERSONS_AT_ONCE_MAX) {
    const some = uuids.slice(start, start + DELETED_PERSONS_AT_ONCE_MAX)
    await Promise.all(
      some.map(async (uuid) => {
        try {
          await change(call, deletionOf(uuid, deletesEvents, keepsPersons))
        } catch (error) {
          if (!(error instanceof ServiceError)) throw error
          failed.push(uuid)
          reason ??= error
        }
      }),
    )
  }
  if (failed.length > 0 && failed.length === uuids.length) throw reason
  return failed
}

function deletionOf(uuid: string, deletesEvents: boolean, keepsPerson: boolean): PersonCommand {
  if (!keepsPerson) return { kind: 'delete_person', person: uuid, deletesEvents }
  const others = { event: null, afterMs: null, beforeMs: null, distinctId: null }
  return { kind: 'erase_events', criteria: { ...others, personId: uuid } }
}

function deletedIn({ ids = [], distinct_ids: distinctIds = [] }: is.TypeOf<typeof DELETED>) {
  if (ids.length > 0 && distinctIds.length > 0) {
    throw invalidInput('distinct_ids', 'cannot be combined with `ids`. Send one of the two lists')
  }
  if (ids.length === 0 && distinctIds.length === 0) {
    const detail = 'The request names no persons. Send `ids` or `distinct_ids`.'
    throw new ServiceError('required', detail, { attr: 'ids' })
  }
  return { references: ids.map(readReference), distinctIds: distinctIds.map(String) }
}

function readReference(id: unknown): PersonReference {
  const isText = typeof id === 'string' || typeof id === 'number'
  const person = isText ? personReference(String(id)) : null
  if (person === null) throw new ServiceError('invalid_input', UNREADABLE_IDS, { attr: 'ids' })
  return person
}

async function mergePersons(call: PersonCall): Promise<Answer> {
  const { person: into, format, given: ids } = await readForPerson(call, readMergedIds)
  const target = await findPerson(call, into)
  const others: PersonReference[] = []
  // All persons are looked up before the first merge, so that nothing is merged if one of them does not exist.
  for (const id of ids) {
    const { uuid } = await findPerson(call, id)
    if (uuid === target.uuid) throw invalidInput('ids', 'must not contain the person itself')
    if (!others.includes(uuid)) others.push(uuid)
  }
  let merged = {}
  for (const from of others) {
    const command = { kind: 'merge_persons', into: target.uuid, from } as const
    merged = personBody(await changed(call, command, 'person'))
  }
  return answerOne(format, { ...merged, success: true }, 201)
}

async function findPerson(
  call: PersonCall,
  person: PersonReference,
): Promise<{ readonly uuid: string }> {
  return existing(await call.services.queries.findPerson(call.projectId, person), 'person')
}

function readMergedIds(parameters: RequestParameters): readonly PersonReference[] {
  const ids = parameters.json('ids')
  if (ids === undefined || ids === null) throw required('ids')
  if (!Array.isArray(ids) || ids.length === 0 || ids.length > MERGED_PERSONS_MAX) {
    throw invalidInput('ids', `must be a list of 1 to ${MERGED_PERSONS_MAX} numbers or UUIDs`)
  }
  return ids.map(readReference)
}

async function listValues(call: PersonCall): Promise<Answer> {
  const { services, projectId } = call
  const { parameters, format, wish } = inputOf(call)
  const key = parameters.text('key')
  const contains = parameters.text('value')
  if (key === null) return answerList(format, rowsText(format, []))
  return answerList(format, await services.queries.personValues(projectId, key, contains, wish))
}

async function listCohorts(call: PersonCall): Promise<Answer> {
  const { services, projectId } = call
  const { parameters, format, wish } = inputOf(call)
  const person = personReference(parameters.requiredText('person_id'))
  if (person === null) throw invalidInput('person_id', 'must be the number or UUID of a person')
  const cohorts = await services.queries.cohortsOfPerson(projectId, person, wish)
  return answerRows(format, wholeRows(existing(cohorts, 'person')), 'results', {})
}
