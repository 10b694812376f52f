/** The routes of cohorts. Source: docs/compatibility/persons.md, "Cohorts". */
import { invalidInput, ServiceError } from '../../../base/errors.ts'
import { given } from '../../../base/json.ts'
import { cleanText } from '../../../rules/capture/json-text.ts'
import { filtersWithin, isBehavior } from '../../../rules/filters/behavior-filter.ts'
import {
  faultText,
  newFault,
  patternLimitFault,
  patternsOf,
} from '../../../rules/filters/filter-faults.ts'
import { cohortsIn, type FilterGroup, filtersOf } from '../../../rules/filters/filter-group.ts'
import { readCohortFilters } from '../../../rules/filters/filter-tree.ts'
import { COHORT_DIALECTS, cohortFaults } from '../../../rules/filters/saved-filters.ts'
import type { CohortView } from '../../../rules/persons/cohort-shapes.ts'
import { withWireTimes } from '../../../rules/persons/person-answer.ts'
import { PAGE_ROWS_MAX } from '../../server/limits.ts'
import { required } from '../../server/parameters.ts'
import { type Call, done, inProject, type Resource, routesOf } from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { collectionOf } from '../collection.ts'
import { answerOne, inputOf } from '../formats.ts'
import { MEMBERS_MAX } from '../limits.ts'
import { readMemberTable, type TableMembers } from './member-table.ts'
import { compileInTurns } from './pattern-turns.ts'
import {
  changed,
  cohortCircle,
  existing,
  idInPath,
  type PersonCall,
  type PersonServices,
} from './person-services.ts'
import { FILTERS, SAVED_NAMES } from './question-schemas.ts'

const COHORTS = '/api/projects/:project_id/cohorts/'

/** A cohort in an answer. */
export const COHORT = is.namedObject('Cohort', {
  id: is.WHOLE,
  name: is.TEXT,
  description: is.TEXT,
  groups: is.list(is.ANY),
  deleted: is.BOOLEAN,
  filters: is.openObject({}, { properties: FILTERS }),
  is_calculating: is.about(
    is.BOOLEAN,
    'True if the members of a rule on behavior are to be calculated. Until then the former members are kept.',
  ),
  created_by: is.nullable(is.JSON_OBJECT),
  created_at: is.TIME,
  last_calculation: is.about(
    is.nullable(is.TIME),
    'The time as of which the members of a rule on behavior were calculated, or at which members were last added to a list.',
  ),
  errors_calculating: is.about(is.WHOLE, 'Number of failed calculations since the last good one.'),
  last_error_message: is.about(
    is.nullable(is.TEXT),
    'Why the last calculation failed. Null if it did not.',
  ),
  count: is.about(
    is.nullable(is.WHOLE),
    'Number of members. It may be null in lists, and before the first calculation.',
  ),
  is_static: is.BOOLEAN,
})
/** The answer with the cohorts that a person belongs to. */
export const COHORTS_OF_PERSON = is.object({ results: is.list(COHORT) })
const { name, description } = SAVED_NAMES
const MEMBERS = {
  person_uuids: membersOf(is.CLIENT_UUID, 'person_uuids', 'UUIDs of persons'),
  _create_static_person_ids: is.about(
    membersOf(is.CLIENT_UUID, '_create_static_person_ids', 'UUIDs of persons'),
    'Older name of `person_uuids`.',
  ),
  distinct_ids: membersOf({ ...is.TEXT, minLength: 1 }, 'distinct_ids', 'texts'),
}
const FIELDS = {
  description,
  is_static: is.about(
    is.BOOLEAN,
    'A list of persons instead of a rule. It cannot be changed later.',
  ),
  filters: is.unchecked(is.about(is.JSON_OBJECT, 'The rule, as {"properties": filters}.')),
  ...MEMBERS,
  deleted: is.about(is.BOOLEAN, 'If true, the cohort is removed permanently.'),
}
const DRAFT = is.named('CohortDraft', is.parameters({ name }, FIELDS))
const CHANGES = is.named('CohortChanges', is.parameters({}, { name, ...FIELDS }))
const BODY_TYPES = ['text/csv']
type Draft = Call<PersonServices, is.Schema, typeof DRAFT>
type Changes = Call<PersonServices, is.Schema, typeof CHANGES>

const collection = collectionOf<PersonServices>(
  COHORTS,
  inProject('cohort:read'),
  inProject('cohort:write'),
)

const route = routesOf<PersonServices>(COHORTS, inProject('cohort:read'), inProject('cohort:write'))

/** The routes of cohorts. */
export const COHORT_RESOURCE: Resource<PersonServices> = {
  name: 'Cohorts',
  sentence: 'Sets of persons, defined by a rule or as a list.',
  isTable: true,
  routes: [
    ...collection({
      name: 'Cohort',
      noun: 'a cohort',
      one: ':cohort_id/',
      schema: COHORT,
      isTable: true,
      list: {
        says: 'Lists cohorts.',
        rowsMax: PAGE_ROWS_MAX,
        rows: ({ services, projectId }, { limit, offset }, wish) =>
          services.queries.listCohorts(projectId, limit, offset, wish),
      },
      get: {
        async row(call, _, wish) {
          const id = idInPath(call, 'cohort')
          return existing(await call.services.queries.getCohort(call.projectId, id, wish), 'cohort')
        },
      },
      async find(call) {
        const id = idInPath(call, 'cohort')
        return existing((await knownCohorts(call)).get(id) ?? null, 'cohort')
      },
      show: (_, cohort: CohortView) => withWireTimes(cohort),
      create: { body: DRAFT, bodyTypes: BODY_TYPES, make: createCohort },
      patch: {
        says: 'Updates a cohort or adds members.',
        body: CHANGES,
        bodyTypes: BODY_TYPES,
        change: patchCohort,
      },
      put: { body: CHANGES, bodyTypes: BODY_TYPES, change: patchCohort },
      removeInstead:
        'A cohort cannot be deleted this way, because other cohorts and flags may refer to it. Send PATCH with {"deleted": true}.',
    }),
    route(
      'POST',
      ':cohort_id/calculate/',
      'calculateCohort',
      'Recalculates the members of a cohort that has a rule on behavior.',
      {
        answers: { 202: done(COHORT) },
        async respond(call) {
          const id = idInPath(call, 'cohort')
          const cohort = await changed(call, { kind: 'count_cohort', id }, 'cohort')
          return answerOne(inputOf(call).format, withWireTimes(cohort), 202)
        },
      },
    ),
  ],
}

async function createCohort(call: Draft): Promise<CohortView> {
  const members = membersIn(call)
  const { name, description = '', is_static: isStatic = call.hasOtherBody, filters } = call.body()
  const tree = treeIn(filters)
  if (isStatic) requireNoFilters(tree)
  else requireNoMembers(members)
  const rule = isStatic ? null : await readTree(tree, null)
  if (rule !== null) await checkReferences(call, rule, null)
  const { personUuids = [], distinctIds = [] } = members
  const cohort = { name, description, isStatic, filters: rule, personUuids, distinctIds }
  return changed(call, { kind: 'create_cohort', cohort, ...wishOf(call) }, 'cohort')
}

async function patchCohort(call: Changes, before: CohortView): Promise<CohortView> {
  const members = membersIn(call)
  const {
    name,
    description,
    is_static: isStatic = before.is_static,
    filters,
    deleted,
  } = call.body()
  if (isStatic !== before.is_static) {
    throw invalidInput('is_static', 'cannot be changed. Create another cohort')
  }
  const tree = treeIn(filters)
  if (isStatic) requireNoFilters(tree)
  else requireNoMembers(members)
  const rule = isStatic || tree === undefined ? undefined : await readTree(tree, before)
  if (rule !== undefined) await checkReferences(call, rule, before.id)
  const changes = given({ name, description, deleted, filters: rule, ...members })
  const command = { kind: 'update_cohort', id: before.id, changes, ...wishOf(call) } as const
  return changed(call, command, 'cohort')
}

/** Returns `needsMembers` if the body is a table. The table is then refused if it names no existing person. */
function wishOf({ hasOtherBody }: PersonCall): { readonly needsMembers?: true } {
  return hasOtherBody ? { needsMembers: true } : {}
}

/**
 * Returns the definitions of all cohorts. The key is the number of the cohort. The definitions contain no number of
 * members, because counting the members would need a pass over every person.
 */
async function knownCohorts({ services, projectId }: PersonCall): Promise<Map<number, CohortView>> {
  const cohorts = await services.queries.knownCohorts(projectId)
  return new Map(cohorts.map((cohort) => [cohort.id, cohort]))
}

/** Returns the filter tree in a body. It may be inside `{"properties": tree}`, the form in which cohorts are shown. */
function treeIn(filters: unknown): unknown {
  if (typeof filters !== 'object' || filters === null || Array.isArray(filters)) return filters
  if ('filterTestAccounts' in filters && filters.filterTestAccounts === true) {
    throw invalidInput('filters', 'cannot leave out test accounts. Add a filter on persons instead')
  }
  const tree = Object.getOwnPropertyDescriptor(filters, 'properties')
  if (tree !== undefined) return tree.value as unknown
  return Object.keys(filters).length === 0 ? null : filters
}

/**
 * Returns the schema of a list of persons. `attr` is the name of the list, and `what` describes its entries in errors.
 */
function membersOf(id: is.Schema<string>, attr: string, what: string) {
  const list = is.list(is.refused(id, `\`${attr}\` must contain ${what}.`), MEMBERS_MAX)
  const members = is.refused(list, tooMany(attr), 'invalid_input', 'maxItems')
  return is.about(is.jsonOnly(members), 'Persons to add to a static cohort.')
}

function tooMany(attr: string): string {
  return `\`${attr}\` may have at most ${MEMBERS_MAX} persons. Send the rest with PATCH.`
}

/** Returns the persons to add, from a table or from the members of the body. An empty list counts as absent. */
function membersIn(call: Draft | Changes): Partial<TableMembers> {
  const table = call.hasOtherBody ? readTable(call.request.body) : null
  const { person_uuids: uuids, _create_static_person_ids: old, distinct_ids: ids } = call.body()
  const members = table ?? { personUuids: uuids ?? old ?? [], distinctIds: ids ?? [] }
  return given({
    personUuids: members.personUuids.length === 0 ? undefined : members.personUuids,
    distinctIds: members.distinctIds.length === 0 ? undefined : members.distinctIds,
  })
}

function readTable(body: Uint8Array): TableMembers {
  let text: string
  try {
    text = cleanText(new TextDecoder('utf-8', { fatal: true }).decode(body))
  } catch (cause) {
    throw new ServiceError(
      'parse_error',
      'The table is not valid UTF-8. Save it in UTF-8, and send it again.',
      { cause },
    )
  }
  const members = readMemberTable(text)
  if (members.rowCount <= MEMBERS_MAX) return members
  throw new ServiceError('invalid_input', tooMany('csv'), { attr: 'csv' })
}

/**
 * Returns the filter tree in a body. Throws 400 for a filter that can never match, unless the stored cohort `before`
 * already has the same filter.
 */
async function readTree(sent: unknown, before: CohortView | null): Promise<FilterGroup> {
  if (sent === undefined || sent === null) throw required('filters')
  const tree = readCohortFilters(sent)
  const filters = filtersWithin(tree)
  const limit = patternLimitFault(filters)
  if (limit !== null) throw invalidInput('filters', limit)
  await compileInTurns(patternsOf(filters), COHORT_DIALECTS)
  const fault = newFault(cohortFaults(sent), () => cohortFaults(before?.filters['properties']))
  if (fault === null) return tree
  throw new ServiceError('invalid_input', `filters: ${faultText(fault)}`, { attr: 'filters' })
}

function requireNoFilters(tree: unknown): void {
  if (tree === undefined || tree === null) return
  throw invalidInput('filters', 'are not allowed for a static cohort')
}

function requireNoMembers({ personUuids, distinctIds }: Partial<TableMembers>): void {
  if (personUuids !== undefined) throw invalidInput('person_uuids', 'needs "is_static": true')
  if (distinctIds !== undefined) throw invalidInput('distinct_ids', 'needs "is_static": true')
}

/**
 * Throws 400 for a tree that refers to an unknown action or cohort, or that leads back to the cohort `ownId`. The
 * processing thread checks for circles again, because another change may be stored in between.
 */
async function checkReferences(
  call: PersonCall,
  tree: FilterGroup,
  ownId: number | null,
): Promise<void> {
  await checkActions(call, tree)
  const seen = new Set<number>()
  const rest = [...cohortsIn(tree)]
  if (rest.length === 0) return
  const known = await knownCohorts(call)
  for (let id = rest.pop(); id !== undefined; id = rest.pop()) {
    if (id === ownId) throw cohortCircle()
    if (seen.has(id)) continue
    seen.add(id)
    const cohort = known.get(id)
    if (cohort === undefined || cohort.deleted)
      throw invalidInput('filters', 'refers to a cohort that does not exist')
    const { properties } = cohort.filters
    if (properties !== undefined) rest.push(...cohortsIn(readCohortFilters(properties)))
  }
}

/** Throws 400 if a filter on behavior refers to an action that does not exist. */
async function checkActions({ services, projectId }: PersonCall, tree: FilterGroup): Promise<void> {
  for (const filter of filtersOf(tree).filter(isBehavior)) {
    const { event_type: type, key, seq_event_type: nextType, seq_event: next = '' } = filter
    const actions = [type === 'actions' ? key : null, nextType === 'actions' ? next : null]
    for (const id of actions.filter((one) => one !== null)) {
      const action = await services.queries.getAction(projectId, Number(id), 'json')
      if (action === null) throw invalidInput('filters', 'refers to an action that does not exist')
    }
  }
}
