/** The routes of groups and group types. Source: docs/compatibility/persons.md, "Group routes". */
import { invalidInput, ServiceError } from '../../../base/errors.ts'
import { given, isObject } from '../../../base/json.ts'
import { GROUP_TYPES_MAX, NAME_CHARACTERS_MAX } from '../../../base/limits.ts'
import type { RowFormat } from '../../../base/pages.ts'
import { rowsText } from '../../../base/rows-writer.ts'
import type { OrganizationPort } from '../../../engine/threads/organization-tasks.ts'
import { hasScope } from '../../../rules/access/scopes.ts'
import type { Flag } from '../../../rules/flags/types.ts'
import { withWireTimes } from '../../../rules/persons/person-answer.ts'
import { grantIn } from '../../server/auth.ts'
import {
  CURSOR,
  decodeCursor,
  encodeCursor,
  limitOf,
  PAGE_LIMITS,
  urlWith,
} from '../../server/pages.ts'
import type { RequestParameters } from '../../server/parameters.ts'
import type { Answer } from '../../server/respond.ts'
import { type Call, done, inProject, type Resource, routesOf } from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { answerFound, answerList, answerOne, answerRows, inputOf } from '../formats.ts'
import {
  change,
  changed,
  existing,
  namedValue,
  type PersonCall,
  type PersonServices,
} from './person-services.ts'

const GROUP = is.namedObject('Group', {
  group_type_index: is.WHOLE,
  group_key: is.TEXT,
  group_properties: is.JSON_OBJECT,
  created_at: is.TIME,
})
const GROUP_TYPE = is.namedObject('GroupType', {
  group_type: is.TEXT,
  group_type_index: is.WHOLE,
  name_singular: is.nullable(is.TEXT),
  name_plural: is.nullable(is.TEXT),
  order: is.about(
    is.nullable(is.WHOLE),
    'Group types are listed in ascending order of this number, those with null last.',
  ),
})
const NAME = is.nullable(is.text(NAME_CHARACTERS_MAX))
const TYPE_CHANGES = is.list(
  is.object(
    { group_type_index: is.WHOLE },
    { name_singular: NAME, name_plural: NAME, order: is.nullable(is.WHOLE) },
  ),
  GROUP_TYPES_MAX,
)
/** The members in the filters of a flag that contain the index of a group type. */
const TYPE_MEMBERS: ReadonlySet<string> = new Set([
  'aggregation_group_type_index',
  'group_type_index',
])
/** The largest number of flags or experiments that an error text names. */
const USERS_SHOWN = 5
const TYPE_INDEX = {
  group_type_index: is.about(is.WHOLE, 'Number of the group type, from 0 to 4.'),
}
const ONE_GROUP = is.object({ ...TYPE_INDEX, group_key: is.about(is.TEXT, 'Key of the group.') })

/** The services that the group routes need. */
export interface GroupServices extends PersonServices {
  readonly queries: PersonServices['queries'] & Pick<OrganizationPort, 'organization'>
  readonly flags: {
    flagsOf(projectId: number): readonly Pick<Flag, 'key' | 'deleted' | 'filters'>[]
  }
}

const route = routesOf<GroupServices>(
  '/api/projects/:project_id/',
  inProject('group:read'),
  inProject('group:write'),
)

/** The routes of groups and group types. */
export const GROUP_RESOURCE: Resource<GroupServices> = {
  name: 'Groups',
  sentence: 'Companies and other groups that events refer to.',
  isTable: true,
  segments: { group_type_index: TYPE_INDEX.group_type_index },
  routes: [
    route('GET', 'groups_types/', 'listGroupTypes', 'Lists the group types.', {
      answers: { 200: done(is.list(GROUP_TYPE)) },
      respond: (call) => listTypes(call),
    }),
    route(
      'PATCH',
      'groups_types/update_metadata/',
      'updateGroupTypes',
      'Renames and reorders group types.',
      {
        body: TYPE_CHANGES,
        answers: { 200: done(is.list(GROUP_TYPE)) },
        async respond(call) {
          const types = call.body().map((type) => {
            const { group_type_index, name_singular, name_plural, order } = type
            const names = { singular: name_singular, plural: name_plural }
            return { typeIndex: group_type_index, ...given({ ...names, order }) }
          })
          await change(call, { kind: 'describe_group_types', types })
          return listTypes(call, 'json')
        },
      },
    ),
    route(
      'DELETE',
      'groups_types/:group_type_index/',
      'deleteGroupType',
      'Deletes a group type and its groups.',
      {
        answers: { 204: done() },
        errors: ['conflict'],
        async handle(call) {
          const typeIndex = indexOf(call.request.parameter('group_type_index'))
          refuseIfDecided(call, typeIndex)
          await refuseIfCounted(call, typeIndex)
          await change(call, { kind: 'delete_group_type', typeIndex })
        },
      },
    ),
    route('GET', 'groups/', 'listGroups', 'Lists the groups of a type.', {
      query: is.object(TYPE_INDEX, {
        search: is.about(is.TEXT, 'Part of the key.'),
        limit: is.about(
          is.WHOLE,
          `Groups per page. The default is ${PAGE_LIMITS.default}, the maximum ${PAGE_LIMITS.max}.`,
        ),
        cursor: CURSOR,
      }),
      answers: {
        200: done(
          is.object({ next: is.nullable(is.TEXT), previous: is.NOTHING, results: is.list(GROUP) }),
        ),
      },
      respond: listGroups,
    }),
    route('GET', 'groups/find/', 'findGroup', 'Shows a group.', {
      query: ONE_GROUP,
      answers: { 200: done(GROUP) },
      respond: findGroup,
    }),
    route('POST', 'groups/update_property/', 'updateGroupProperty', 'Sets one property.', {
      query: ONE_GROUP,
      body: is.object({ key: is.TEXT, value: is.ANY }),
      answers: { 200: done(GROUP) },
      respond: updateProperty,
    }),
  ],
}

async function listTypes(
  call: PersonCall,
  format: RowFormat = inputOf(call).format,
): Promise<Answer> {
  const types = await call.services.queries.groupTypes(call.projectId)
  return answerList(format, rowsText(format, types))
}

/**
 * Throws 409 `conflict` if flags use a group type that is to be deleted. These flags would later decide by groups of
 * another type if that type gets the same index.
 */
function refuseIfDecided(
  { services, projectId }: Pick<Call<GroupServices>, 'services' | 'projectId'>,
  typeIndex: number,
): void {
  const keys = services.flags
    .flagsOf(projectId)
    .filter(({ deleted, filters }) => !deleted && namesGroupType(filters, typeIndex))
    .map(({ key }) => key)
  refuseIfAny('flags', keys, keys.length)
}

/**
 * Throws 409 `conflict` if launched experiments count the groups of a type that is to be deleted. An experiment counts
 * the groups for which its flag was decided at the launch, even if the flag was changed or deleted since then. Its
 * result would later count groups of another type if that type gets the same index.
 */
async function refuseIfCounted(
  call: Pick<Call<GroupServices>, 'services' | 'projectId' | 'nowMs' | 'grant'>,
  groupTypeIndex: number,
): Promise<void> {
  const { services, projectId, nowMs, grant } = call
  const page = { offset: 0, limit: USERS_SHOWN }
  const lists = [false, true].map((isArchived) => {
    const filter = { groupTypeIndex, isArchived, flagsOff: [], nowMs }
    return services.queries.organization('listExperiments', { projectId, filter, page })
  })
  const found = await Promise.all(lists)
  const maySeeNames = hasScope(grantIn(grant, projectId).scopes, 'experiment:read')
  const names = (maySeeNames ? found : []).flatMap(({ results }) =>
    results.map(({ experiment: { id, fields } }) => `${id} (${JSON.stringify(fields.name)})`),
  )
  const count = found.reduce((sum, list) => sum + list.count, 0)
  refuseIfAny('experiments', names, count)
}

/**
 * Throws 409 `conflict` that names the first of `count` users of a group type, if there are any. `names` is empty if the
 * client may not see them.
 */
function refuseIfAny(what: string, names: readonly string[], count: number): void {
  if (count === 0) return
  const shown = names.slice(0, USERS_SHOWN)
  const more = count > shown.length ? ` and ${count - shown.length} more` : ''
  const users = shown.length === 0 ? `${what} (${count})` : `the ${what} ${shown.join(', ')}${more}`
  const detail = `The group type is used by ${users}. Change or delete these ${what} first.`
  throw new ServiceError('conflict', detail, { attr: 'group_type_index' })
}

function namesGroupType(value: unknown, typeIndex: number): boolean {
  if (Array.isArray(value)) return value.some((item) => namesGroupType(item, typeIndex))
  if (!isObject(value)) return false
  return Object.entries(value).some(([name, member]) =>
    TYPE_MEMBERS.has(name) ? member === typeIndex : namesGroupType(member, typeIndex),
  )
}

async function listGroups(call: PersonCall): Promise<Answer> {
  const { services, projectId } = call
  const { parameters, format, wish } = inputOf(call)
  const typeIndex = readTypeIndex(parameters)
  const search = parameters.text('search') ?? parameters.text('group_key')
  const cursor = parameters.text('cursor')
  const page = await services.queries.listGroups(
    projectId,
    typeIndex,
    search,
    limitOf(parameters.wholeNumber('limit'), PAGE_LIMITS),
    // Clients could send any text as a cursor. Only texts that this server would produce are accepted.
    cursor === null
      ? null
      : decodeCursor(cursor, (key) => (encodeCursor(key) === cursor ? key : null)),
    wish,
  )
  const { nextCursor } = page
  const next = nextCursor === null ? null : urlWith(call, { cursor: encodeCursor(nextCursor) })
  return answerRows(format, page, 'results', { next, previous: null })
}

function findGroup(call: PersonCall): Promise<Answer> {
  const { parameters } = inputOf(call)
  const typeIndex = readTypeIndex(parameters)
  const key = parameters.requiredText('group_key')
  const { queries } = call.services
  return answerFound(call, async (format) =>
    existing(await queries.findGroup(call.projectId, typeIndex, key, format), 'group'),
  )
}

async function updateProperty(call: PersonCall): Promise<Answer> {
  const { parameters, format } = inputOf(call)
  const typeIndex = readTypeIndex(parameters)
  const key = parameters.requiredText('group_key')
  const set = namedValue(parameters)
  const command = { kind: 'set_group_properties', typeIndex, key, set } as const
  return answerOne(format, withWireTimes(await changed(call, command, 'group')))
}

function readTypeIndex(parameters: RequestParameters): number {
  const text = parameters.text('group_type_index')
  if (text === null) {
    const detail = '`group_type_index` is missing. The route `groups_types/` lists the numbers.'
    throw new ServiceError('required', detail, { attr: 'group_type_index' })
  }
  return indexOf(text)
}

function indexOf(text: string): number {
  const index = /^[0-9]{1,2}$/.test(text) ? Number(text) : GROUP_TYPES_MAX
  if (index < GROUP_TYPES_MAX) return index
  throw invalidInput('group_type_index', `must be a number from 0 to ${GROUP_TYPES_MAX - 1}`)
}
