/**
 * The routes of persons but those that look back in time (person-activity.ts) and analytics
 * (person-analytics.ts): parameters become questions for the pool or commands for the log. Source: docs/COMPATIBILITY.md, "Persons", "Merging
 * persons" and "Person properties".
 */

import { CSV_TYPE } from '../../base/csv.ts'
import { rowsText } from '../../base/rows-writer.ts'
import { readListFilters } from '../../rules/filters/filter-tree.ts'
import { type PersonBody, personBody } from '../../rules/persons/person-answer.ts'
import type { PersonListQuery, PersonReference } from '../../rules/persons/person-queries.ts'
import {
  invalid,
  PAGE_ROWS_MAX,
  pageUrls,
  personReference,
  RequestParameters,
  required,
} from '../server/parameters.ts'
import type { Answer } from '../server/respond.ts'
import type { ApiHandler, Route } from '../server/router.ts'
import {
  answerList,
  answerOne,
  answerRow,
  answerRows,
  formatOf,
  wholeRows,
  wishOf,
} from './formats.ts'
import {
  type Access,
  change,
  type DoneResult,
  openAccess,
  type PersonRoutesOptions,
  personInPath,
  readForPerson,
  refusedMethod,
  unknownPerson,
} from './person-access.ts'

const PERSONS_PATH = '/api/projects/:project_id/persons/'
const PERSON_PATH = `${PERSONS_PATH}:id/`
/** Nobody has as many ids: behind it there are none. */
const IDS_OFFSET_MAX = 0xffff_ffff
/** Persons that one request may merge into another. */
const MERGED_PERSONS_MAX = 1000

/** The routes under `/api/projects/:project_id/persons/` that read and change persons as they are now. */
export function personRoutes(options: PersonRoutesOptions): readonly Route[] {
  const read = routeMaker(options, 'person:read')
  const write = routeMaker(options, 'person:write')
  return [
    read('GET', PERSONS_PATH, listPersons),
    { method: 'POST', path: PERSONS_PATH, handler: refuseCreation, isRefusal: true },
    read('GET', `${PERSONS_PATH}values/`, listValues),
    read('GET', `${PERSONS_PATH}cohorts/`, listCohorts),
    read('GET', PERSON_PATH, getPerson),
    write('PATCH', PERSON_PATH, patchPerson),
    write('PUT', PERSON_PATH, patchPerson),
    write('DELETE', PERSON_PATH, deletePerson),
    write('POST', `${PERSON_PATH}update_property/`, updateProperty),
    write('POST', `${PERSON_PATH}delete_property/`, deleteProperty),
    write('POST', `${PERSON_PATH}split/`, splitPerson),
    write('POST', `${PERSON_PATH}merge/`, mergePersons),
  ]
}

type PersonHandler = (access: Access) => Promise<Answer>

function routeMaker(options: PersonRoutesOptions, scope: 'person:read' | 'person:write') {
  return (method: Route['method'], path: string, handle: PersonHandler): Route => {
    const handler: ApiHandler = (request) => handle(openAccess(request, options, scope))
    return { method, path, handler }
  }
}

function refuseCreation(): Answer {
  const detail = 'persons are made by events: send an $identify event with the distinct_id instead'
  return refusedMethod('GET', detail)
}

async function listPersons(access: Access): Promise<Answer> {
  const { request, options, base } = access
  const parameters = new RequestParameters(request)
  const format = formatOf(request, parameters)
  const page = parameters.page()
  const wanted = readListQuery(access, parameters)
  const wish = wishOf(request, format)
  if (format === 'csv') {
    const query: PersonListQuery = { ...wanted, limit: PAGE_ROWS_MAX, offset: 0 }
    const body = await options.queries.personTable(query, wish.onLeave)
    return { status: 200, contentType: CSV_TYPE, body }
  }
  const found = await options.queries.listPersons({ ...wanted, ...page }, wish)
  const urls = pageUrls(request, base, parameters, found)
  return answerRows(format, found, 'results', { count: found.count, ...urls })
}

function readListQuery(
  { projectId, options }: Access,
  parameters: RequestParameters,
): Omit<PersonListQuery, 'limit' | 'offset'> {
  const distinctId = parameters.text('distinct_id')
  const email = parameters.text('email')
  const search = parameters.text('search')
  const cohortId = parameters.wholeNumber('cohort')
  const properties = readListFilters(parameters.properties())
  return {
    projectId,
    nowMs: options.clock.now(),
    ...(distinctId === null ? {} : { distinctId }),
    ...(email === null ? {} : { email }),
    ...(search === null ? {} : { search }),
    ...(cohortId === null ? {} : { cohortId }),
    ...(properties === null ? {} : { properties }),
  }
}

async function getPerson(access: Access): Promise<Answer> {
  const person = personInPath(access)
  const { format, firstId } = await readForPerson(access, person, (parameters) => ({
    format: formatOf(access.request, parameters),
    firstId: Math.min(parameters.wholeNumber('distinct_ids_offset') ?? 0, IDS_OFFSET_MAX),
  }))
  const { options, projectId } = access
  const row = await options.queries.getPerson(projectId, person, format, firstId)
  if (row === null) throw unknownPerson()
  return answerRow(format, row)
}

async function patchPerson(access: Access): Promise<Answer> {
  const person = personInPath(access)
  const { set, format } = await readForPerson(access, person, (parameters) => {
    const given = parameters.properties()
    if (given === undefined || given === null) throw required('properties')
    if (!isObject(given)) throw invalid('properties', 'must be an object of names and values')
    return { set: given, format: formatOf(access.request, parameters) }
  })
  const result = await change(access, { kind: 'set_properties', person, set })
  return answerOne(format, bodyOf(result), 202)
}

async function updateProperty(access: Access): Promise<Answer> {
  const person = personInPath(access)
  const { set, format } = await readForPerson(access, person, (parameters) => {
    const value = parameters.value('value')
    if (value === undefined || value === null) throw required('value')
    const key = parameters.requiredText('key')
    return { set: namedValue(key, value), format: formatOf(access.request, parameters) }
  })
  const result = await change(access, { kind: 'set_properties', person, set })
  return answerOne(format, bodyOf(result), 202)
}

/** `__proto__` is no name for a property: no event can set it either. */
function namedValue(key: string, value: unknown): Readonly<Record<string, unknown>> {
  if (key === '__proto__') throw invalid('key', 'must be another name')
  return { [key]: value }
}

async function deleteProperty(access: Access): Promise<Answer> {
  const person = personInPath(access)
  const { key, format } = await readForPerson(access, person, (parameters) => ({
    key: parameters.requiredText('$unset'),
    format: formatOf(access.request, parameters),
  }))
  const result = await change(access, { kind: 'delete_property', person, key })
  return answerOne(format, { ...bodyOf(result), success: true }, 201)
}

async function deletePerson(access: Access): Promise<Answer> {
  const person = personInPath(access)
  const deletesEvents = await readForPerson(access, person, (parameters) => {
    formatOf(access.request, parameters)
    return isDeletionOfEventsWanted(parameters)
  })
  await change(access, { kind: 'delete_person', person, deletesEvents })
  return { status: 202, contentType: '', body: '' }
}

/** The bare parameter is enough, as it always was; but whoever writes false means it. */
function isDeletionOfEventsWanted(parameters: RequestParameters): boolean {
  if (!parameters.has('delete_events')) return false
  const text = parameters.text('delete_events')?.toLowerCase()
  return text !== 'false' && text !== '0'
}

async function splitPerson(access: Access): Promise<Answer> {
  const person = personInPath(access)
  const { mainDistinctId, format } = await readForPerson(access, person, (parameters) => ({
    mainDistinctId: parameters.text('main_distinct_id'),
    format: formatOf(access.request, parameters),
  }))
  const result = await change(access, { kind: 'split_person', person, mainDistinctId })
  return answerOne(format, { ...bodyOf(result), success: true }, 201)
}

async function mergePersons(access: Access): Promise<Answer> {
  const into = personInPath(access)
  const { ids, format } = await readForPerson(access, into, (parameters) => ({
    ids: readMergedIds(parameters),
    format: formatOf(access.request, parameters),
  }))
  const target = await findPerson(access, into)
  const others: PersonReference[] = []
  // Nothing is merged unless everybody is there.
  for (const id of ids) {
    const { uuid } = await findPerson(access, id)
    if (uuid === target.uuid) throw invalid('ids', 'must not name the person itself')
    if (!others.includes(uuid)) others.push(uuid)
  }
  let result: DoneResult = { kind: 'done' }
  for (const from of others) {
    result = await change(access, { kind: 'merge_persons', into: target.uuid, from })
  }
  return answerOne(format, { ...bodyOf(result), success: true }, 201)
}

async function findPerson(
  access: Access,
  person: PersonReference,
): Promise<{ readonly uuid: string }> {
  const found = await access.options.queries.findPerson(access.projectId, person)
  if (found === null) throw unknownPerson()
  return found
}

function readMergedIds(parameters: RequestParameters): readonly PersonReference[] {
  const ids = parameters.json('ids')
  if (ids === undefined || ids === null) throw required('ids')
  if (!Array.isArray(ids) || ids.length === 0 || ids.length > MERGED_PERSONS_MAX) {
    throw invalid('ids', `must be a list of 1 to ${MERGED_PERSONS_MAX} numbers or uuids`)
  }
  return ids.map((id: unknown) => {
    const isText = typeof id === 'string' || typeof id === 'number'
    const person = isText ? personReference(String(id)) : null
    if (person === null) throw invalid('ids', 'must hold numbers or uuids of persons')
    return person
  })
}

async function listValues(access: Access): Promise<Answer> {
  const { request, options, projectId } = access
  const parameters = new RequestParameters(request)
  const format = formatOf(request, parameters)
  const key = parameters.text('key')
  const contains = parameters.text('value')
  if (key === null) return answerList(format, rowsText(format, []))
  const wish = wishOf(request, format)
  return answerList(format, await options.queries.personValues(projectId, key, contains, wish))
}

async function listCohorts(access: Access): Promise<Answer> {
  const { request, options, projectId } = access
  const parameters = new RequestParameters(request)
  const format = formatOf(request, parameters)
  const person = personReference(parameters.requiredText('person_id'))
  if (person === null) throw invalid('person_id', 'must be the number or uuid of a person')
  const wish = wishOf(request, format)
  const cohorts = await options.queries.cohortsOfPerson(projectId, person, wish)
  if (cohorts === null) throw unknownPerson()
  return answerRows(format, wholeRows(cohorts), 'results', {})
}

function bodyOf(result: DoneResult): PersonBody {
  if (result.person === undefined) throw new TypeError('the change answered no person')
  return personBody(result.person)
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
