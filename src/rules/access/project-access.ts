/**
 * Decides which projects a user may use, and at which level. Administrators of the organization may use all projects.
 * In a project of which they are a member, other users have the level of that membership. In all other projects that
 * are not private, they have their level in the organization. All other private projects are closed to them. Source:
 * docs/compatibility/organization.md, "Access to projects".
 */
import { isAdministrator, type ProjectLevel } from './levels.ts'
import type { Project, ProjectAccess, ProjectMembership, User } from './organization.ts'

const EVERYTHING: ProjectAccess = { projectIds: 'all', projectLevels: new Map() }

/**
 * Returns the projects that a user may use, and the user's levels in them. `memberships` may include memberships of
 * other users.
 */
export function projectAccess(
  { id, level }: Pick<User, 'id' | 'level'>,
  projects: readonly Pick<Project, 'id' | 'isPrivate'>[],
  memberships: readonly Pick<ProjectMembership, 'projectId' | 'userId' | 'level'>[],
): ProjectAccess {
  if (isAdministrator(level)) return EVERYTHING
  const own = memberships.filter(({ userId }) => userId === id)
  const projectLevels = new Map<number, ProjectLevel>(
    own.map((membership) => [membership.projectId, membership.level]),
  )
  const open = projects.filter(
    (project) => project.isPrivate !== true || projectLevels.has(project.id),
  )
  const isAll = open.length === projects.length
  return { projectIds: isAll ? 'all' : open.map((project) => project.id), projectLevels }
}

/** Returns the projects that are in both lists. `all` stands for a list of all projects. */
export function commonProjects(
  some: readonly number[] | 'all',
  others: readonly number[] | 'all',
): readonly number[] | 'all' {
  if (some === 'all') return others
  return others === 'all' ? some : some.filter((id) => others.includes(id))
}
