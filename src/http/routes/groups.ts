/** The routes of groups and group types. Source: docs/COMPATIBILITY.md, "Group routes". */
import { ServiceError } from '../../base/errors.ts'
import { GROUP_TYPES_MAX } from '../../base/limits.ts'
import { rowsText } from '../../base/rows-writer.ts'
import { withWireTimes } from '../../rules/persons/person-answer.ts'
import { invalid, RequestParameters, required, urlWith } from '../server/parameters.ts'
import type { Answer } from '../server/respond.ts'
import type { Route } from '../server/router.ts'
import { answerList, answerOne, answerRow, answerRows, formatOf, wishOf } from './formats.ts'
import { type Access, change, openAccess, type PersonRoutesOptions } from './person-access.ts'

const PROJECT_PATH = '/api/projects/:project_id/'
const GROUPS_DEFAULT = 100
const GROUPS_MAX = 1000

/** The routes under `groups/` and `groups_types/` of a project. */
export function groupRoutes(options: PersonRoutesOptions): readonly Route[] {
  const route = (
    method: Route['method'],
    path: string,
    handle: (access: Access) => Promise<Answer>,
  ): Route => {
    const scope = method === 'GET' ? 'group:read' : 'group:write'
    const handler: Route['handler'] = (request) => handle(openAccess(request, options, scope))
    return { method, path: `${PROJECT_PATH}${path}`, handler }
  }
  return [
    route('GET', 'groups_types/', listTypes),
    route('GET', 'groups/', listGroups),
    route('GET', 'groups/find/', findGroup),
    route('POST', 'groups/update_property/', updateProperty),
  ]
}

async function listTypes({ request, options, projectId }: Access): Promise<Answer> {
  const format = formatOf(request, new RequestParameters(request))
  const known = await options.queries.groupTypes(projectId)
  // There are no names for people yet.
  const types = known.map(({ group_type, group_type_index }) => {
    return { group_type, group_type_index, name_singular: null, name_plural: null }
  })
  return answerList(format, rowsText(format, types))
}

async function listGroups({ request, options, projectId, base }: Access): Promise<Answer> {
  const parameters = new RequestParameters(request)
  const format = formatOf(request, parameters)
  const typeIndex = readTypeIndex(parameters)
  const search = parameters.text('search') ?? parameters.text('group_key')
  const limit = parameters.wholeNumber('limit') ?? 0
  const cursor = parameters.text('cursor')
  const page = await options.queries.listGroups(
    projectId,
    typeIndex,
    search,
    limit === 0 ? GROUPS_DEFAULT : Math.min(limit, GROUPS_MAX),
    cursor === null ? null : decodeCursor(cursor),
    wishOf(request, format),
  )
  const { nextCursor } = page
  const next =
    nextCursor === null ? null : urlWith(request, base, { cursor: encodeCursor(nextCursor) })
  return answerRows(format, page, 'results', { next, previous: null })
}

async function findGroup({ request, options, projectId }: Access): Promise<Answer> {
  const parameters = new RequestParameters(request)
  const format = formatOf(request, parameters)
  const typeIndex = readTypeIndex(parameters)
  const key = parameters.requiredText('group_key')
  const group = await options.queries.findGroup(projectId, typeIndex, key, format)
  if (group === null) throw new ServiceError('not_found', 'the project has no such group')
  return answerRow(format, group)
}

async function updateProperty(access: Access): Promise<Answer> {
  const parameters = new RequestParameters(access.request)
  const format = formatOf(access.request, parameters)
  const typeIndex = readTypeIndex(parameters)
  const key = parameters.requiredText('group_key')
  const value = parameters.value('value')
  if (value === undefined || value === null) throw required('value')
  const name = parameters.requiredText('key')
  if (name === '__proto__') throw invalid('key', 'must be another name')
  const set = { [name]: value }
  const result = await change(access, { kind: 'set_group_properties', typeIndex, key, set })
  if (result.group === undefined) throw new TypeError('the change answered no group')
  return answerOne(format, withWireTimes(result.group))
}

function readTypeIndex(parameters: RequestParameters): number {
  const text = parameters.text('group_type_index')
  if (text === null) {
    const detail = 'group_type_index is missing: groups_types/ lists them'
    throw new ServiceError('required', detail, { attr: 'group_type_index' })
  }
  const index = /^[0-9]{1,2}$/.test(text) ? Number(text) : GROUP_TYPES_MAX
  if (index < GROUP_TYPES_MAX) return index
  throw invalid('group_type_index', `must be a number from 0 to ${GROUP_TYPES_MAX - 1}`)
}

/** The text behind a cursor may be anything: only what this server made is taken. */
function encodeCursor(cursor: string): string {
  return Buffer.from(cursor).toString('base64url')
}

function decodeCursor(text: string): string {
  const cursor = Buffer.from(text, 'base64url').toString()
  if (encodeCursor(cursor) === text) return cursor
  throw invalid('cursor', 'must come from the field next of a page before; start without one')
}
