/**
 * The common part of the routes of persons, groups, cohorts, actions and analytics: the services, and the functions
 * that make changes.
 */
import type { Clock } from '../../../base/clock.ts'
import { invalidInput, ServiceError } from '../../../base/errors.ts'
import type { JsonObject } from '../../../base/json.ts'
import type { ActionQueries, PersonQueries } from '../../../engine/threads/call-table.ts'
import type { Project } from '../../../rules/access/project-directory.ts'
import type { AnalyticQueries } from '../../../rules/analytics/analytics.ts'
import type {
  CommandResult,
  PersonCommand,
  PersonCommands,
} from '../../../rules/persons/commands.ts'
import type { PersonReference } from '../../../rules/persons/person-queries.ts'
import type { RouteDirectory } from '../../server/auth.ts'
import { personReference, RequestParameters, required } from '../../server/parameters.ts'
import type { Call, RouteServices } from '../../server/route.ts'
import { formatOf } from '../formats.ts'

/** A project with the settings that queries need. */
type ProjectSettings = Project & {
  readonly timezone?: string
  readonly testAccountFilters?: readonly unknown[]
  readonly pathCleaningFilters?: readonly unknown[]
  readonly customChannelTypeRules?: readonly unknown[]
}

/** The projects with their settings, the keys, and the names of users for the change log. */
export interface PersonDirectory extends RouteDirectory {
  userById(id: number): { readonly firstName: string; readonly email: string } | null
  projectById(id: number): ProjectSettings | null
}

/** The services that the routes of persons need. */
export interface PersonServices extends RouteServices {
  readonly directory: PersonDirectory
  readonly queries: PersonQueries & ActionQueries
  readonly analytics: AnalyticQueries
  readonly commands: PersonCommands
  readonly clock: Clock
}

/** A request to one of the routes of persons. */
export type PersonCall = Pick<
  Call<PersonServices>,
  'request' | 'hasOtherBody' | 'services' | 'projectId' | 'base' | 'nowMs' | 'grant' | 'number'
>

/** The result of a change that the processing thread has made. */
type DoneResult = Extract<CommandResult, { kind: 'done' }>

/** The kinds of objects that a change may return. */
type Thing = 'person' | 'group' | 'group type' | 'cohort' | 'action' | 'erasure'

const CHANGED_THINGS: Partial<Record<PersonCommand['kind'], Thing>> = {
  set_group_properties: 'group',
  describe_group_types: 'group type',
  delete_group_type: 'group type',
  update_cohort: 'cohort',
  count_cohort: 'cohort',
  update_action: 'action',
}

/**
 * Appends a change to the log. Resolves with the result of the change when every read shows it. If the result stands
 * for an error, throws this error.
 */
export async function change(
  { services, projectId, grant }: Pick<PersonCall, 'services' | 'projectId' | 'grant'>,
  command: PersonCommand,
): Promise<DoneResult> {
  const userId = grant.userId ?? 0
  const { firstName = '', email = '' } = services.directory.userById(userId) ?? {}
  const actor = { userId, firstName, email }
  const result = await services.commands.run(projectId, actor, command)
  switch (result.kind) {
    case 'done':
      return result
    case 'not_found':
      throw unknown(CHANGED_THINGS[command.kind] ?? 'person')
    case 'unknown_distinct_id':
      throw invalidInput('main_distinct_id', 'must be one of the distinct_ids of the person')
    case 'no_members': {
      const what =
        'has no person of this project. Its first column, or a column named `distinct_id` or `person_id`, must contain IDs of persons'
      throw invalidInput('csv', what, 'The table')
    }
    case 'circle':
      throw cohortCircle()
    case 'too_large': {
      const what = `would have more than ${result.bytesMax} bytes of JSON. Delete some properties first`
      throw invalidInput('properties', what)
    }
  }
}

/** Makes a change and returns the changed object. */
export async function changed<Name extends Thing & keyof DoneResult>(
  call: Pick<PersonCall, 'services' | 'projectId' | 'grant'>,
  command: PersonCommand,
  thing: Name,
): Promise<NonNullable<DoneResult[Name]>> {
  const { [thing]: result } = await change(call, command)
  if (result === undefined) throw new TypeError(`the change answered no ${thing}`)
  return result
}

/** Returns the person named in the path. Throws 400 `invalid_input` if the text is neither a number nor a UUID. */
function personInPath({ request }: Pick<PersonCall, 'request'>): PersonReference {
  const person = personReference(request.parameter('id'))
  if (person !== null) return person
  const detail =
    'The path needs the number or UUID of a person. Find one with `persons/?distinct_id=<distinct_id>`.'
  throw new ServiceError('invalid_input', detail)
}

/**
 * Returns the person named in the path, the format of the answer, and the parameters as `read` returns them. If the
 * parameters are invalid, throws 404 if the person does not exist, and 400 otherwise.
 */
export async function readForPerson<T>(
  call: Pick<PersonCall, 'request' | 'services' | 'projectId'>,
  read: (parameters: RequestParameters, person: PersonReference) => T,
) {
  const person = personInPath(call)
  try {
    const parameters = new RequestParameters(call.request)
    const given = read(parameters, person)
    return { person, given, format: formatOf(call.request, parameters) }
  } catch (error) {
    const found = await call.services.queries.findPerson(call.projectId, person)
    throw found === null ? unknown('person') : error
  }
}

/** Returns an object with the property that a request sets. Throws 400. */
export function namedValue(parameters: RequestParameters): JsonObject {
  const value = parameters.value('value')
  if (value === undefined || value === null) throw required('value')
  const key = parameters.requiredText('key')
  // Events cannot set a property with this name either.
  if (key === '__proto__') throw invalidInput('key', 'must not be `__proto__`')
  return { [key]: value }
}

/** Returns an object. If it is null, throws 404 `not_found`. */
export function existing<Found>(found: Found | null, thing: Thing): Found {
  if (found !== null) return found
  throw unknown(thing)
}

/** Returns the number of the object named in the path. Throws 404 `not_found` if the path contains no number. */
export function idInPath(call: Pick<PersonCall, 'number'>, thing: 'action' | 'cohort'): number {
  return existing(call.number(`${thing}_id`), thing)
}

/** Returns the 400 error for a cohort whose rule leads back to the cohort itself. */
export function cohortCircle(): ServiceError {
  return invalidInput('filters', 'must not lead back to the cohort itself')
}

/** Returns the 404 error for an object that the project does not have. */
export function unknown(thing: Thing): ServiceError {
  return new ServiceError('not_found', `The project has no such ${thing}.`)
}
