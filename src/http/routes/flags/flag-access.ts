/**
 * The common part of all flag routes: finds the flag that a request is about, checks whether the caller may change it,
 * and shows it.
 */
import type { Clock } from '../../../base/clock.ts'
import { ServiceError } from '../../../base/errors.ts'
import type { JsonObject } from '../../../base/json.ts'
import type { DecisionService } from '../../../engine/front/decisions.ts'
import type { FlagSchedule } from '../../../engine/front/flag-schedule.ts'
import type { FlagQueries } from '../../../engine/threads/call-table.ts'
import { canEditFlag, type FlagEditor } from '../../../rules/access/flag-permissions.ts'
import type { Project } from '../../../rules/access/project-directory.ts'
import { type UserFacts, userSummary } from '../../../rules/access/user.ts'
import { flagBody } from '../../../rules/flags/edit/flag-body.ts'
import type { Flag } from '../../../rules/flags/types.ts'
import type { FlagDirectory } from '../../../store/catalog/flag-store.ts'
import { denied, type KeyUser, type RouteDirectory } from '../../server/auth.ts'
import type { Call, RouteServices } from '../../server/route.ts'

/** The projects and keys, and the users with their rights to change flags. */
export interface FlagApiDirectory extends RouteDirectory {
  userById(id: number): UserFacts | null
  projectById(id: number): (Project & { readonly timezone?: string }) | null
  flagEditor(user: Pick<KeyUser, 'id' | 'level'>): FlagEditor
}

/** The services that the flag routes need. */
export interface FlagServices extends RouteServices {
  readonly directory: FlagApiDirectory
  readonly flags: Pick<FlagDirectory, 'flagsOf' | 'flagById' | 'flagByKey'>
  readonly queries: FlagQueries
  readonly decisions: Pick<
    DecisionService,
    'snapshot' | 'lookUp' | 'sources' | 'usage' | 'usageOfFlags'
  >
  /** The schedule that makes planned changes of flags. */
  readonly schedule: Pick<FlagSchedule, 'looksOf'>
  /**
   * Reloads `flags` and `decisions` after a change. Must be called before the change is answered, so that the client
   * sees it in the next request.
   */
  readonly refresh: () => void
  /** Returns the error with which the daemon must refuse changes at the moment, or null if it accepts them. */
  readonly refusal: () => ServiceError | null
  readonly clock: Clock
}

/** A request to one of the flag routes. */
export type FlagCall = Call<FlagServices>

/** Returns the number in the path, or null if the text in the path is not a number. */
export function flagIdInPath({ request }: FlagCall): number | null {
  const text = request.parameter('id')
  return /^[0-9]{1,15}$/.test(text) ? Number(text) : null
}

/** Returns the flag named in the path, even if it is deleted. Throws 404 `not_found`. */
export function flagInPath(call: FlagCall): Flag {
  const id = flagIdInPath(call)
  const flag = id === null ? null : call.services.flags.flagById(call.projectId, id)
  if (flag === null) throw unknownFlag()
  return flag
}

/** Throws 403 `permission_denied` if the caller may not change the flag. */
export function requireEdit(
  { services, user }: Pick<FlagCall, 'services' | 'user'>,
  flag: Flag,
): void {
  if (canEditFlag(services.directory.flagEditor(user), flag)) return
  throw denied(
    `Your roles do not allow you to change the flag \`${flag.key}\`. Ask for role access to it.`,
  )
}

/**
 * Returns the JSON of a flag for the caller. Answers about roles contain flags in the same form. Pages with many flags
 * set `hasDetails` to false, because every regular expression of a flag must be compiled to compute its details.
 * Source: interface description, section 2.3.
 */
export function presentFlag(
  { services, user, nowMs }: Pick<FlagCall, 'services' | 'user' | 'nowMs'>,
  flag: Flag,
  hasDetails: boolean,
): JsonObject {
  const cohorts = services.decisions.snapshot(flag.projectId)?.set.cohorts
  return flagBody(flag, {
    createdBy: summaryOf(services, flag.createdById),
    lastModifiedBy: summaryOf(services, flag.lastModifiedById),
    canEdit: canEditFlag(services.directory.flagEditor(user), flag),
    cohortName: (id) => cohorts?.get(id)?.name ?? null,
    hasDetails,
    nowMs,
  })
}

/** Returns the 404 error for a flag that the project does not have. */
export function unknownFlag(): ServiceError {
  return new ServiceError('not_found', 'The project has no such flag.')
}

/** Returns a user in the form in which answers contain users, or null if there is no such user. */
export function summaryOf({ directory }: Pick<FlagServices, 'directory'>, userId: number | null) {
  const user = userId === null ? null : directory.userById(userId)
  return user === null ? null : userSummary(user)
}
