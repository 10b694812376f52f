/** What all routes of feature flags begin and end with: who asks, which flag, how it is shown. */
import type { Clock } from '../../base/clock.ts'
import { ServiceError } from '../../base/errors.ts'
import type { JsonObject } from '../../base/json.ts'
import type { DecisionService } from '../../engine/front/decisions.ts'
import type { FlagQueries } from '../../engine/threads/calls.ts'
import { canEditFlag, type FlagEditor } from '../../rules/access/flag-permissions.ts'
import type { Scope } from '../../rules/access/scopes.ts'
import { type Actor, type UserFacts, userSummary } from '../../rules/access/user.ts'
import type { Project } from '../../rules/capture/project-directory.ts'
import { flagBody } from '../../rules/flags/edit/flag-body.ts'
import type { Flag } from '../../rules/flags/types.ts'
import type { FlagDirectory } from '../../store/catalog/flag-store.ts'
import { authenticate, authoriseAs, type KeyUser, userOf } from '../server/auth.ts'
import type { Answer } from '../server/respond.ts'
import type { RouteDirectory } from '../server/route.ts'
import type { ApiRequest } from '../server/router.ts'
import { baseUrl, type TrustedProxies } from '../server/url.ts'

/** Keys and projects, and in addition users and what they may do. */
export interface FlagApiDirectory extends RouteDirectory {
  userById(id: number): UserFacts | null
  projectById(id: number): (Project & { readonly timezone?: string }) | null
  flagEditor(user: Pick<KeyUser, 'id' | 'level'>): FlagEditor
}

/** What these routes work with. */
export interface FlagRoutesOptions {
  readonly directory: FlagApiDirectory
  readonly flags: Pick<FlagDirectory, 'flagsOf' | 'flagById' | 'flagByKey'>
  readonly queries: FlagQueries
  readonly decisions: Pick<DecisionService, 'snapshot' | 'decide'>
  /** Lets `flags` and `decisions` see what was changed. Called before a change is answered. */
  readonly refresh: () => void
  /** Why nothing can be written at the moment, or null. */
  readonly refusal: () => ServiceError | null
  readonly clock: Clock
  /** For links, without a path; null takes the address from the request. */
  readonly publicUrl: string | null
  readonly trustedProxies: TrustedProxies
}

/** An authorised request. */
export interface FlagAccess {
  readonly request: ApiRequest
  readonly options: FlagRoutesOptions
  readonly projectId: number
  readonly user: KeyUser
  readonly editor: FlagEditor
  readonly nowMs: number
  /** For links: taken before any wait, because the address of the peer is lost when the client leaves. */
  readonly base: string
}

/** Checks key, scope and project; throws as `authorise`. */
export function openFlagAccess(
  request: ApiRequest,
  options: FlagRoutesOptions,
  scope: Scope,
): FlagAccess {
  const { directory, clock } = options
  const grant = authenticate(request, directory)
  const project = authoriseAs(grant, request, directory, scope)
  const user = userOf(grant)
  return {
    request,
    options,
    projectId: project.id,
    user,
    editor: directory.flagEditor(user),
    nowMs: clock.now(),
    base: baseUrl(request, options),
  }
}

/** The user in the log of changes. */
export function actorOf({ user }: Pick<FlagAccess, 'user'>): Actor {
  return { userId: user.id, firstName: user.firstName, email: user.email }
}

/** The number in the path; null for a text that is none. */
export function flagIdInPath({ request }: FlagAccess): number | null {
  const text = request.parameter('id')
  return /^[0-9]{1,15}$/.test(text) ? Number(text) : null
}

/** The flag in the path, deleted or not. Throws 404 `not_found`. */
export function flagInPath(access: FlagAccess): Flag {
  const { options, projectId } = access
  const id = flagIdInPath(access)
  const flag = id === null ? null : options.flags.flagById(projectId, id)
  if (flag === null) throw unknownFlag()
  return flag
}

/** Throws 403 `permission_denied` when the caller may not change a flag. */
export function requireEdit(access: FlagAccess, flag: Flag): void {
  if (canEditFlag(access.editor, flag)) return
  const detail = `your roles do not let you change the flag ${flag.key}; ask for role access to it`
  throw new ServiceError('permission_denied', detail)
}

/** Throws 503 when nothing can be written at the moment. */
export function requireWritable({ options }: FlagAccess): void {
  const refusal = options.refusal()
  if (refusal !== null) throw refusal
}

/**
 * The JSON of a flag for the one who asks; roles embed it, too. Interface description, section 2.3. Pages
 * of many flags go without details, which compile every pattern.
 */
export function presentFlag(
  { options, editor, nowMs }: Pick<FlagAccess, 'options' | 'editor' | 'nowMs'>,
  flag: Flag,
  hasDetails: boolean,
): JsonObject {
  const cohorts = options.decisions.snapshot(flag.projectId)?.set.cohorts
  return flagBody(flag, {
    createdBy: summaryOf(options, flag.createdById),
    lastModifiedBy: summaryOf(options, flag.lastModifiedById),
    canEdit: canEditFlag(editor, flag),
    cohortName: (id) => cohorts?.get(id)?.name ?? null,
    hasDetails,
    nowMs,
  })
}

/** 404 for a flag. */
export function unknownFlag(): ServiceError {
  return new ServiceError('not_found', 'the project has no such flag')
}

/** An answer of a status alone. */
export function emptyAnswer(status: number): Answer {
  return { status, contentType: '', body: '' }
}

function summaryOf({ directory }: FlagRoutesOptions, userId: number | null) {
  const user = userId === null ? null : directory.userById(userId)
  return user === null ? null : userSummary(user)
}
