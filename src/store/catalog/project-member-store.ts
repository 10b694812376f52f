/**
 * The members of projects. A user has a level in the organization, such as viewer. As a member of a project, the user
 * has another level in that project. Table `project_members`: project u32, user u32 -> `ProjectMembership`, MessagePack
 * with a checksum.
 */
import { isAdministrator, type ProjectLevel } from '../../rules/access/levels.ts'
import type { ProjectMembership } from '../../rules/access/organization.ts'
import { pairKey } from '../lmdb/keys.ts'
import { putRecord } from '../lmdb/records.ts'
import { demand, demandRoom } from './checks.ts'
import type { DirectoryEnvironment } from './directory-environment.ts'
import { PROJECT_MEMBERS_MAX } from './limits.ts'

const TABLE = 'project_members'

type Place = Pick<ProjectMembership, 'projectId' | 'userId'>

/** Changes the members of projects. A change that is not allowed throws a `ServiceError` and changes nothing. */
export class ProjectMemberStore {
  readonly #environment: DirectoryEnvironment

  constructor(environment: DirectoryEnvironment) {
    this.#environment = environment
  }

  /** Returns the members of a project, in the order of their user numbers. */
  list(projectId: number): readonly ProjectMembership[] {
    return this.#environment.all(TABLE).filter((one) => one.projectId === projectId)
  }

  /**
   * Makes a user a member of a project. Throws 400 if the user is unknown or already a member, or is an administrator
   * or owner of the organization.
   */
  add(place: Place, level: ProjectLevel): ProjectMembership {
    return this.#environment.change(() => {
      const { userId } = place
      const user = this.#environment.all('users').find(({ id }) => id === userId)
      demand(user?.isActive === true, 'does_not_exist', 'There is no such user.', 'user_uuid')
      const detail =
        'Administrators and owners of the organization can use all projects. Lower the level in the organization first.'
      demand(!isAdministrator(user.level), 'invalid_input', detail, 'user_uuid')
      const all = this.#environment.all(TABLE)
      const known = all.some((one) => isAt(one, place))
      demand(!known, 'unique', 'The user is a member of this project already.', 'user_uuid')
      demandRoom(all.length, PROJECT_MEMBERS_MAX, 'members of projects')
      const atMs = this.#environment.clock.now()
      return this.#put({ ...place, level, joinedAtMs: atMs, updatedAtMs: atMs })
    })
  }

  /** Changes the level of a member. Throws 404 `not_found`. */
  change(place: Place, level: ProjectLevel): ProjectMembership {
    return this.#environment.change(() => {
      const before = this.#require(place)
      return this.#put({ ...before, level, updatedAtMs: this.#environment.clock.now() })
    })
  }

  /**
   * Removes a member. The user then has the same level in this project as in the organization. Throws 404 `not_found`.
   */
  remove(place: Place): void {
    this.#environment.change(() => {
      this.#require(place)
      this.#environment.table(TABLE).removeSync(keyOf(place))
    })
  }

  #require(place: Place): ProjectMembership {
    const known = this.#environment.all(TABLE).find((one) => isAt(one, place))
    demand(known !== undefined, 'not_found', 'The project has no such member.')
    return known
  }

  #put(membership: ProjectMembership): ProjectMembership {
    putRecord(this.#environment.table(TABLE), keyOf(membership), membership)
    return membership
  }
}

/** Removes a user from all projects of which the user is a member. Call it only within a change. */
export function leaveProjects(environment: DirectoryEnvironment, userId: number): void {
  const own = environment.all(TABLE).filter((one) => one.userId === userId)
  for (const membership of own) environment.table(TABLE).removeSync(keyOf(membership))
}

function keyOf({ projectId, userId }: Place): Buffer {
  return pairKey(projectId, userId)
}

function isAt(one: Place, { projectId, userId }: Place): boolean {
  return one.projectId === projectId && one.userId === userId
}
