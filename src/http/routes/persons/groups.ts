/** The routes of groups and group types. Source: docs/compatibility/persons.md, "Group routes". */
import { invalidInput, ServiceError } from '../../../base/errors.ts'
import { GROUP_TYPES_MAX } from '../../../base/limits.ts'
import { rowsText } from '../../../base/rows-writer.ts'
import { withWireTimes } from '../../../rules/persons/person-answer.ts'
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
import { done, inProject, type Resource, routesOf } from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { answerFound, answerList, answerOne, answerRows, inputOf } from '../formats.ts'
import {
  changed,
  namedValue,
  type PersonCall,
  type PersonServices,
  unknown,
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
  name_singular: is.NOTHING,
  name_plural: is.NOTHING,
})
const TYPE_INDEX = {
  group_type_index: is.about(is.WHOLE, 'Number of the group type, from 0 to 4.'),
}
const ONE_GROUP = is.object({ ...TYPE_INDEX, group_key: is.about(is.TEXT, 'Key of the group.') })

const route = routesOf<PersonServices>(
  '/api/projects/:project_id/',
  inProject('group:read'),
  inProject('group:write'),
)

/** Groups and group types. */
export const GROUP_RESOURCE: Resource<PersonServices> = {
  name: 'Groups',
  sentence: 'Companies and other groups, as events named them.',
  isTable: true,
  routes: [
    route('GET', 'groups_types/', 'listGroupTypes', 'Lists the group types.', {
      answers: { 200: done(is.list(GROUP_TYPE)) },
      respond: listTypes,
    }),
    route('GET', 'groups/', 'listGroups', 'Lists the groups of a type.', {
      query: is.object(TYPE_INDEX, {
        search: is.about(is.TEXT, 'Part of the key.'),
        limit: is.about(
          is.WHOLE,
          `Groups of a page: ${PAGE_LIMITS.default} when absent, ${PAGE_LIMITS.max} at most.`,
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

async function listTypes(call: PersonCall): Promise<Answer> {
  const { format } = inputOf(call)
  const known = await call.services.queries.groupTypes(call.projectId)
  // There are no names for people yet.
  const types = known.map(({ group_type, group_type_index }) => {
    return { group_type, group_type_index, name_singular: null, name_plural: null }
  })
  return answerList(format, rowsText(format, types))
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
    // Any text may stand behind a cursor: only what this server made is taken.
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
  return answerFound(call, unknown('group'), (format) =>
    call.services.queries.findGroup(call.projectId, typeIndex, key, format),
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
    const detail = 'group_type_index is missing: groups_types/ lists them'
    throw new ServiceError('required', detail, { attr: 'group_type_index' })
  }
  const index = /^[0-9]{1,2}$/.test(text) ? Number(text) : GROUP_TYPES_MAX
  if (index < GROUP_TYPES_MAX) return index
  throw invalidInput('group_type_index', `must be a number from 0 to ${GROUP_TYPES_MAX - 1}`)
}
