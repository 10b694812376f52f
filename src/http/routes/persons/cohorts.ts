/** The routes of cohorts. Source: docs/compatibility/persons.md, "Cohorts". */
import { invalidInput, ServiceError } from '../../../base/errors.ts'
import { formatUuid, parseUuid } from '../../../base/ids.ts'
import { cleanText } from '../../../rules/capture/json-text.ts'
import {
  faultText,
  newFault,
  patternLimitFault,
  patternsOf,
} from '../../../rules/filters/filter-faults.ts'
import {
  cohortIdOf,
  type FilterGroup,
  filtersOf,
  isCohortFilterType,
} from '../../../rules/filters/filter-group.ts'
import { readCohortFilters } from '../../../rules/filters/filter-tree.ts'
import { COHORT_DIALECTS, cohortFaults } from '../../../rules/filters/saved-filters.ts'
import type { CohortView } from '../../../rules/persons/cohort-shapes.ts'
import { withWireTimes } from '../../../rules/persons/person-answer.ts'
import { listMember, RequestParameters, required } from '../../server/parameters.ts'
import type { Answer } from '../../server/respond.ts'
import { type Resource, refusedRoute } from '../../server/route.ts'
import type { ApiRequest } from '../../server/router.ts'
import * as is from '../../server/schema.ts'
import { answerOne, formatOf } from '../formats.ts'
import { MEMBERS_MAX } from '../limits.ts'
import { readMemberTable } from './member-table.ts'
import { compileInTurns } from './pattern-turns.ts'
import { changed, type PersonCall, type PersonServices, unknown } from './person-services.ts'
import { FILTERS } from './question-schemas.ts'
import {
  type Field,
  type FieldsOf,
  idInPath,
  NAME_FIELDS,
  readFields,
  savedRoutes,
  truth,
} from './saved-things.ts'

const MEMBERS_ENTRIES = 'persons. Send the rest with PATCH'

const COHORT = is.namedObject('Cohort', {
  id: is.WHOLE,
  name: is.TEXT,
  description: is.TEXT,
  groups: is.list(is.ANY),
  deleted: is.BOOLEAN,
  filters: is.openObject({}, { properties: FILTERS }),
  is_calculating: is.BOOLEAN,
  created_by: is.nullable(is.JSON_OBJECT),
  created_at: is.TIME,
  last_calculation: is.nullable(is.TIME),
  errors_calculating: is.WHOLE,
  count: is.about(is.nullable(is.WHOLE), 'Number of members. It may be null in lists.'),
  is_static: is.BOOLEAN,
})
/** The schema of the cohorts that a person belongs to. */
export const COHORTS_OF_PERSON = is.object({ results: is.list(COHORT) })
const FIELDS = {
  ...NAME_FIELDS,
  is_static: truth('A list of persons instead of a rule. It cannot be changed later.'),
  filters: {
    schema: is.about(is.JSON_OBJECT, 'The rule, as {"properties": filters}.'),
    /** Returns the filter tree as it was sent, or null if the request explicitly sends none. */
    read: (parameters) => treeIn(parameters.json('filters')),
  } satisfies Field<unknown>,
  person_uuids: {
    schema: is.about(is.list(is.UUID), 'Persons to add to a static cohort.'),
    read: readPersonUuids,
  },
  distinct_ids: {
    schema: is.about(is.list(is.TEXT), 'Persons to add to a static cohort.'),
    read: readDistinctIds,
  },
  deleted: truth('If true, the cohort is removed permanently.'),
}
type CohortFields = FieldsOf<typeof FIELDS>

/** The cohorts of a project. */
export const COHORT_RESOURCE: Resource<PersonServices> = {
  name: 'Cohorts',
  sentence: 'Sets of persons, defined by a rule or as a list.',
  isTable: true,
  routes: [
    ...savedRoutes({
      thing: 'cohort',
      schema: COHORT,
      fields: FIELDS,
      bodyTypes: ['text/csv'],
      lists: 'Lists cohorts.',
      changes: 'Updates a cohort or adds members.',
      create: createCohort,
      patch: patchCohort,
    }),
    refusedRoute(
      {
        method: 'DELETE',
        path: '/api/projects/:project_id/cohorts/:cohort_id/',
        allow: 'GET, PATCH, PUT',
      },
      'A cohort cannot be deleted this way, because other cohorts and flags may refer to it. Send PATCH with {"deleted": true}.',
    ),
  ],
}

async function createCohort(call: PersonCall): Promise<Answer> {
  const { fields, format, isTable } = readRequest(call.request)
  const { name = '', description = '', is_static: isStatic = false } = fields
  const { person_uuids: personUuids = [], distinct_ids: distinctIds = [] } = fields
  if (name === '') throw required('name')
  if (isStatic) requireNoFilters(fields)
  else requireNoMembers(fields)
  const filters = isStatic ? null : await readTree(fields, null)
  if (filters !== null) await checkReferences(call, filters, null)
  const cohort = { name, description, isStatic, filters, personUuids, distinctIds }
  const wish = isTable ? { needsMembers: true } : {}
  const made = await changed(call, { kind: 'create_cohort', cohort, ...wish }, 'cohort')
  return answerOne(format, withWireTimes(made), 201)
}

async function patchCohort(call: PersonCall): Promise<Answer> {
  const id = idInPath(call, 'cohort')
  const before = (await knownCohorts(call)).get(id)
  if (before === undefined) throw unknown('cohort')
  const { fields, format, isTable } = readRequest(call.request, before.is_static)
  const changes = await readChanges(fields, before)
  if (changes.filters) await checkReferences(call, changes.filters, id)
  const wish = isTable ? { needsMembers: true } : {}
  const made = await changed(call, { kind: 'update_cohort', id, changes, ...wish }, 'cohort')
  return answerOne(format, withWireTimes(made))
}

/** Returns the definitions of all cohorts without member counts, which would need a pass over every person. */
async function knownCohorts({ services, projectId }: PersonCall): Promise<Map<number, CohortView>> {
  const cohorts = await services.queries.knownCohorts(projectId)
  return new Map(cohorts.map((cohort) => [cohort.id, cohort]))
}

async function readChanges(fields: CohortFields, before: CohortView) {
  const { is_static: isStatic, person_uuids: personUuids = [], filters, ...others } = fields
  const { distinct_ids: distinctIds = [], ...texts } = others
  if (isStatic !== undefined && isStatic !== before.is_static) {
    throw invalidInput('is_static', 'cannot be changed. Create another cohort')
  }
  if (texts.name === '') throw invalidInput('name', 'must not be empty')
  if (before.is_static) requireNoFilters(fields)
  else requireNoMembers(fields)
  const hasTree = !before.is_static && filters !== undefined
  return {
    ...texts,
    ...(hasTree ? { filters: await readTree(fields, before) } : {}),
    ...(personUuids.length === 0 ? {} : { personUuids }),
    ...(distinctIds.length === 0 ? {} : { distinctIds }),
  }
}

/** Reads a JSON body, or a table of persons for a static cohort. With a table the other fields come from the query. */
function readRequest(request: ApiRequest, isStatic = true) {
  const isTable = request.mediaType === 'text/csv' && request.body.length > 0
  const table = isTable ? readTable(request.body) : null
  const parameters = isTable ? RequestParameters.ofQuery(request) : new RequestParameters(request)
  const format = formatOf(request, parameters)
  const sent = readFields(parameters, FIELDS)
  const fields: CohortFields = table === null ? sent : { is_static: isStatic, ...sent, ...table }
  return { fields, format, isTable }
}

/** Returns the filter tree of `{"properties": tree}`, the form in which cohorts are shown, or of a bare tree. */
function treeIn(filters: unknown): unknown {
  if (typeof filters !== 'object' || filters === null || Array.isArray(filters)) return filters
  const tree = Object.getOwnPropertyDescriptor(filters, 'properties')
  if (tree !== undefined) return tree.value as unknown
  return Object.keys(filters).length === 0 ? null : filters
}

function readPersonUuids(parameters: RequestParameters): readonly string[] {
  const isOldName = parameters.value('person_uuids') === undefined
  const attr = isOldName ? '_create_static_person_ids' : 'person_uuids'
  return readMembers(parameters, attr).map((text) => {
    const uuid = typeof text === 'string' ? parseUuid(text) : null
    if (uuid === null) throw invalidInput(attr, 'must contain UUIDs of persons')
    return formatUuid(uuid, 0)
  })
}

function readDistinctIds(parameters: RequestParameters, attr: string): readonly string[] {
  return readMembers(parameters, attr).map((id) => {
    if (typeof id === 'string' && id !== '') return id
    throw invalidInput(attr, 'must contain texts')
  })
}

function readMembers(parameters: RequestParameters, attr: string): readonly unknown[] {
  return listMember(parameters.value(attr), attr, MEMBERS_MAX, MEMBERS_ENTRIES) ?? []
}

function readTable(body: Uint8Array): Pick<CohortFields, 'distinct_ids' | 'person_uuids'> {
  let text: string
  try {
    text = cleanText(new TextDecoder('utf-8', { fatal: true }).decode(body))
  } catch (cause) {
    throw new ServiceError('parse_error', 'The table is not valid UTF-8.', { cause })
  }
  const { distinctIds, personUuids } = readMemberTable(text)
  listMember(distinctIds, 'csv', MEMBERS_MAX, MEMBERS_ENTRIES)
  listMember(personUuids, 'csv', MEMBERS_MAX, MEMBERS_ENTRIES)
  return { distinct_ids: distinctIds, person_uuids: personUuids }
}

/**
 * Reads the filter tree. A filter that can never match is refused, unless the cohort `before` already has exactly this
 * filter.
 */
async function readTree(fields: CohortFields, before: CohortView | null): Promise<FilterGroup> {
  if (fields.filters === undefined || fields.filters === null) throw required('filters')
  const tree = readCohortFilters(fields.filters)
  const filters = filtersOf(tree)
  const limit = patternLimitFault(filters)
  if (limit !== null) throw invalidInput('filters', limit)
  await compileInTurns(patternsOf(filters), COHORT_DIALECTS)
  const fault = newFault(cohortFaults(fields.filters), () =>
    cohortFaults(before?.filters['properties']),
  )
  if (fault === null) return tree
  throw new ServiceError('invalid_input', `filters: ${faultText(fault)}`, { attr: 'filters' })
}

function requireNoFilters({ filters }: CohortFields): void {
  if (filters === undefined || filters === null) return
  throw invalidInput('filters', 'are not allowed for a static cohort')
}

function requireNoMembers(fields: CohortFields): void {
  for (const name of ['person_uuids', 'distinct_ids'] as const) {
    if ((fields[name] ?? []).length > 0) throw invalidInput(name, 'needs "is_static": true')
  }
}

/** Refuses trees that refer to unknown cohorts, or lead back to the cohort that they belong to. */
async function checkReferences(
  call: PersonCall,
  tree: FilterGroup,
  ownId: number | null,
): Promise<void> {
  const seen = new Set<number>()
  const rest = cohortsIn(tree)
  if (rest.length === 0) return
  const known = await knownCohorts(call)
  for (let id = rest.pop(); id !== undefined; id = rest.pop()) {
    if (id === ownId) throw invalidInput('filters', 'must not lead back to the cohort itself')
    if (seen.has(id)) continue
    seen.add(id)
    const cohort = known.get(id)
    if (cohort === undefined || cohort.deleted)
      throw invalidInput('filters', 'refers to a cohort that does not exist')
    const { properties } = cohort.filters
    if (properties !== undefined) rest.push(...cohortsIn(readCohortFilters(properties)))
  }
}

/**
 * Returns the numbers of the cohorts in a tree. 0 stands for a filter without a valid cohort number; no cohort has that
 * number.
 */
function cohortsIn(tree: FilterGroup): number[] {
  const filters = filtersOf(tree).filter(({ type }) => isCohortFilterType(type))
  return filters.map((filter) => cohortIdOf(filter) ?? 0)
}
