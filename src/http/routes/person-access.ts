/** What all routes of persons, groups and cohorts begin and end with. */
import type { Clock } from '../../base/clock.ts'
import { ServiceError } from '../../base/errors.ts'
import type { PersonQueries } from '../../engine/threads/calls.ts'
import type { Scope } from '../../rules/access/scopes.ts'
import type { Actor } from '../../rules/access/user.ts'
import type { Project } from '../../rules/capture/project-directory.ts'
import type { CommandResult, PersonCommand, PersonCommands } from '../../rules/persons/commands.ts'
import type { PersonReference } from '../../rules/persons/person-queries.ts'
import { authenticate, authoriseAs, type KeyDirectory } from '../server/auth.ts'
import { invalid, personReference, RequestParameters } from '../server/parameters.ts'
import type { Answer } from '../server/respond.ts'
import { type ApiRequest, json } from '../server/router.ts'
import { baseUrl, type TrustedProxies } from '../server/url.ts'

/** A project with what queries about it need. */
type ProjectSettings = Project & {
  readonly timezone?: string
  readonly testAccountFilters?: readonly unknown[]
}

/** Keys and projects, and in addition who changes something and what time it is there. */
export interface PersonDirectory extends KeyDirectory {
  userById(id: number): { readonly firstName: string; readonly email: string } | null
  projectById(id: number): ProjectSettings | null
}

/** What these routes work with. */
export interface PersonRoutesOptions {
  readonly directory: PersonDirectory
  readonly queries: PersonQueries
  readonly commands: PersonCommands
  readonly clock: Clock
  /** For links, without a path; null takes the address from the request. */
  readonly publicUrl: string | null
  readonly trustedProxies: TrustedProxies
}

/** An authorised request. */
export interface Access {
  readonly request: ApiRequest
  readonly options: PersonRoutesOptions
  readonly projectId: number
  readonly actor: Actor
  /** For links: taken before any wait, because the address of the peer is lost when the client leaves. */
  readonly base: string
}

/** Checks key, scope and project; throws as `authorise`. */
export function openAccess(
  request: ApiRequest,
  options: PersonRoutesOptions,
  scope: Scope,
): Access {
  const grant = authenticate(request, options.directory)
  const project = authoriseAs(grant, request, options.directory, scope)
  const userId = grant.userId ?? 0
  const user = options.directory.userById(userId)
  return {
    request,
    options,
    projectId: project.id,
    actor: { userId, firstName: user?.firstName ?? '', email: user?.email ?? '' },
    base: baseUrl(request, options),
  }
}

/** The person in the path. Throws 400 `invalid_input` for what is neither a number nor a uuid. */
export function personInPath(access: Access): PersonReference {
  const text = access.request.parameter('id')
  const person = personReference(text)
  if (person !== null) return person
  const detail =
    'a person has a number or a uuid in the path; find one by persons/?distinct_id=<distinct_id>'
  throw new ServiceError('invalid_input', detail)
}

/**
 * Reads the parameters of a route about one person. Whether there is such a person matters more than
 * what is wrong with the rest: then 404 is thrown instead.
 */
export async function readForPerson<T>(
  access: Access,
  person: PersonReference,
  read: (parameters: RequestParameters) => T,
): Promise<T> {
  try {
    return read(new RequestParameters(access.request))
  } catch (error) {
    const { options, projectId } = access
    if ((await options.queries.findPerson(projectId, person)) === null) throw unknownPerson()
    throw error
  }
}

/** Hands a change to the log and waits until every read shows it. Throws what its result stands for. */
export async function change(access: Access, command: PersonCommand): Promise<DoneResult> {
  const { options, projectId, actor } = access
  const result = await options.commands.run(projectId, actor, command)
  switch (result.kind) {
    case 'done':
      return result
    case 'not_found':
      throw unknown(command)
    case 'unknown_distinct_id': {
      const detail = 'main_distinct_id must be one of the distinct_ids of the person'
      throw new ServiceError('invalid_input', detail, { attr: 'main_distinct_id' })
    }
    case 'too_large': {
      const what = `would have more than ${result.bytesMax} bytes of JSON: delete some first`
      throw invalid('properties', what)
    }
  }
}

/** The result of a change that was made. */
export type DoneResult = Extract<CommandResult, { kind: 'done' }>

/** 405 that says what to do instead. `allow` is the value of the header Allow. */
export function refusedMethod(allow: string, detail: string): Answer {
  const refusal = new ServiceError('method_not_allowed', detail)
  return json(refusal.toBody(), refusal.status, [['Allow', allow]])
}

/** 404 for a person. */
export function unknownPerson(): ServiceError {
  return new ServiceError('not_found', 'the project has no such person')
}

function unknown(command: PersonCommand): ServiceError {
  if (command.kind === 'set_group_properties') {
    return new ServiceError('not_found', 'the project has no such group')
  }
  if (command.kind === 'update_cohort') {
    return new ServiceError('not_found', 'the project has no such cohort')
  }
  if (command.kind === 'update_action') {
    return new ServiceError('not_found', 'the project has no such action')
  }
  return unknownPerson()
}
