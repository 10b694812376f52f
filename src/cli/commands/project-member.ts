/**
 * `tenrec project members`, `set-member` and `remove-member`: the levels that users have in one project. A running
 * daemon applies changes within a second.
 */
import { OperatorError, UsageError } from '../../base/errors.ts'
import { levelName, PROJECT_LEVELS, USER_LEVELS } from '../../rules/access/levels.ts'
import type { ProjectMembership } from '../../rules/access/organization.ts'
import type { OrganizationStore } from '../../store/catalog/organization-store.ts'
import { type CommandInput, type Commands, JSON_OPTION } from '../lib/command.ts'
import { choicesText, levelOption } from '../lib/levels.ts'
import { isoTime } from '../lib/output.ts'
import { changeOrganization, readOrganization } from '../lib/with-store.ts'
import { findUser } from './user.ts'

/** `tenrec project members`, `tenrec project set-member` and `tenrec project remove-member`. */
export const COMMANDS: Commands = [
  {
    name: 'project members',
    sentence: 'List the users who have a level of their own in a project.',
    operands: ['ID'],
    options: JSON_OPTION,
    run: (input) =>
      readOrganization(input, (store) =>
        store.projectMembers.list(projectIn(store, input)).map((one) => describeMember(store, one)),
      ),
  },
  {
    name: 'project set-member',
    sentence:
      'Give a user, named by number, UUID or e-mail address, a level in a project, and print it. It replaces the level in the organization.',
    operands: ['ID', 'USER'],
    options: {
      '--level LEVEL': {
        sentence: `Level in the project: ${choicesText(PROJECT_LEVELS)}.`,
        isRequired: true,
        choices: PROJECT_LEVELS.map(({ name }) => name),
      },
      ...JSON_OPTION,
    },
    run(input) {
      const level = levelOption(input, PROJECT_LEVELS)
      if (level === undefined) throw new UsageError('--level is missing.')
      return changeMember(input, (store, place) => {
        const members = store.projectMembers
        const isMember = members.list(place.projectId).some(({ userId }) => userId === place.userId)
        const set = isMember ? members.change(place, level) : members.add(place, level)
        return describeMember(store, set)
      })
    },
  },
  {
    name: 'project remove-member',
    sentence:
      'Take the level in a project from a user. The user then has the level in the organization, or no access if the project is private.',
    operands: ['ID', 'USER'],
    async run(input) {
      await changeMember(input, (store, place) => store.projectMembers.remove(place))
      input.io.err(`Removed the member ${input.operands[1]} from project ${input.operand}.\n`)
      return 0
    },
  },
]

type Place = Pick<ProjectMembership, 'projectId' | 'userId'>

/**
 * Changes the level of a user in a project. The first operand of the command is the number of the project, the second
 * one identifies the user. The audit log entry names both, as the entry of the same change in the console does.
 */
async function changeMember<T>(
  input: CommandInput,
  change: (store: OrganizationStore, place: Place) => T,
): Promise<T> {
  const { result } = await changeOrganization(
    input,
    (store) => {
      const projectId = projectIn(store, input)
      const user = findUser(store, input.operands[1] ?? '')
      const result = change(store, { projectId, userId: user.id })
      return { result, projectId, objectId: user.uuid }
    },
    ({ projectId, objectId }) => ({ projectId, objectId }),
  )
  return result
}

/** Returns the number in the first operand if a project has this number. Throws `OperatorError` otherwise. */
function projectIn({ projects }: OrganizationStore, { operandId: id }: CommandInput): number {
  if (projects.project(id) !== null) return id
  throw new OperatorError(
    `There is no project ${id}. Run 'tenrec project list' to see all projects.`,
  )
}

function describeMember(store: OrganizationStore, member: ProjectMembership) {
  const user = store.users.list().find(({ id }) => id === member.userId)
  return {
    project: member.projectId,
    email: user?.email ?? '',
    level: levelName(PROJECT_LEVELS, member.level),
    organization_level: user === undefined ? '' : levelName(USER_LEVELS, user.level),
    uuid: user?.uuid ?? '',
    joined_at: isoTime(member.joinedAtMs),
  }
}
