/**
 * The common part of all flag routes: finding the flag of a request, checking whether the caller may change it, and
 * showing it.
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

/** The directory of keys and projects, with users and their rights to change flags. */
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
  /** The daemon's schedule of changes. */
  readonly schedule: Pick<FlagSchedule, 'looksOf'>
  /** Reloads `flags` and `decisions` after a change. It is called before the change is answered. */
  readonly refresh: () => void
  /** Returns the error with which changes must be refused at the moment, or null. */
  readonly refusal: () => ServiceError | null
  readonly clock: Clock
}

/** A request about flags. */
export type FlagCall = Call<FlagServices>

/** Returns the number in the path, or null for a text that is not a number. */
export function flagIdInPath({ request }: FlagCall): number | null {
  const text = request.parameter('id')
  return /^[0-9]{1,15}$/.test(text) ? Number(text) : null
}

/** Returns the flag in the path, even if it is deleted. Throws 404 `not_found`. */
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
 * Returns the JSON of a flag for the caller. Roles contain it too. Interface description, section 2.3. Pages of many
 * flags leave out the details, which need every pattern to be compiled.
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

/** Returns the 404 error for a flag. */
export function unknownFlag(): ServiceError {
  return new ServiceError('not_found', 'The project has no such flag.')
}

/** Returns a user as answers show users, or null if there is none. */
export function summaryOf({ directory }: Pick<FlagServices, 'directory'>, userId: number | null) {
  const user = userId === null ? null : directory.userById(userId)
  return user === null ? null : userSummary(user)
}
