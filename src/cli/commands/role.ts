/** `tenrec role ...`: roles and their members. A running daemon applies changes within a second. */
import { OperatorError } from '../../base/errors.ts'
import { given } from '../../base/json.ts'
import { FLAG_ACCESS_LEVELS, levelName } from '../../rules/access/levels.ts'
import type { User } from '../../rules/access/organization.ts'
import type { RoleChanges, RoleView } from '../../rules/access/roles.ts'
import type { OrganizationStore } from '../../store/catalog/organization-store.ts'
import {
  type CommandInput,
  type Commands,
  demandChanges,
  JSON_OPTION,
  type OptionTexts,
} from '../lib/command.ts'
import { choicesText, levelOption } from '../lib/levels.ts'
import { isoTime } from '../lib/output.ts'
import { changeOrganization, readOrganization } from '../lib/with-store.ts'
import { findUser } from './user.ts'

/** A page that is large enough for all roles. */
const ALL = { limit: 1_000_000, offset: 0 } as const
const UNSET = 'unset'

const LEVEL_OPTION: OptionTexts = {
  '--level LEVEL': `Access of the members to feature flags: ${choicesText(FLAG_ACCESS_LEVELS)}.`,
  ...JSON_OPTION,
}

/** `tenrec role ...`. */
export const COMMANDS: Commands = [
  {
    name: 'role create',
    sentence: 'Create a role, and print it.',
    options: {
      '--name NAME': { sentence: 'Name of the role.', isRequired: true },
      ...LEVEL_OPTION,
    },
    run(input) {
      const request = { name: '', createdById: null, ...readChanges(input) }
      return changeOrganization(input, ({ roles }) => describeRole(roles.create(request)))
    },
  },
  {
    name: 'role list',
    sentence: 'List all roles with their members.',
    options: JSON_OPTION,
    run: (input) =>
      readOrganization(input, ({ roles }) => roles.list(ALL).results.map(describeRole)),
  },
  {
    name: 'role set',
    sentence: 'Change a role, named by its name or ID, and print it.',
    operands: ['ROLE'],
    options: { '--name NAME': 'New name of the role.', ...LEVEL_OPTION },
    run(input) {
      const changes = demandChanges(readChanges(input))
      return changeRole(input, ({ roles }, id) => roles.change(id, changes))
    },
  },
  {
    name: 'role delete',
    sentence: 'Delete a role, its memberships and its access to feature flags.',
    operands: ['ROLE'],
    async run(input) {
      const id = await changeOrganization(input, (store) => {
        const { role } = roleOf(store, input.operand)
        store.roles.delete(role.id)
        return role.id
      })
      input.io.err(`Deleted role ${id}.\n`)
      return 0
    },
  },
  {
    name: 'role add',
    sentence: 'Give a role to a user, named by number, UUID or e-mail address.',
    operands: ['ROLE', 'USER'],
    options: JSON_OPTION,
    run: (input) =>
      changeRole(input, (store, id) => store.roles.addMember(id, memberOf(store, input).uuid)),
  },
  {
    name: 'role remove',
    sentence: 'Take a role from a user.',
    operands: ['ROLE', 'USER'],
    options: JSON_OPTION,
    run: (input) =>
      changeRole(input, (store, id) => {
        const member = memberOf(store, input)
        const membership = store.roles.members(id)?.find(({ user }) => user.id === member.id)
        if (membership === undefined) throw new OperatorError('The user does not have the role.')
        store.roles.removeMember(id, membership.id)
      }),
  },
  {
    name: 'role default',
    sentence: 'Set the access to feature flags of users without a role, and print it.',
    options: {
      '--level LEVEL':
        'view, edit or unset. With unset, users may edit unless their roles say otherwise. Without this option, nothing changes.',
      ...JSON_OPTION,
    },
    async run(input) {
      const text = input.text('level')
      const level = text === UNSET ? null : levelOption(input, FLAG_ACCESS_LEVELS)
      const setting =
        level === undefined
          ? await readOrganization(input, ({ users }) => users.organization().flagAccess)
          : await changeOrganization(input, ({ users }) => users.setFlagAccess(level, null))
      return { level: setting === null ? UNSET : levelName(FLAG_ACCESS_LEVELS, setting.level) }
    },
  },
]

/** Changes the role that is named by the first operand, and returns the changed role. Throws `OperatorError`. */
function changeRole(
  input: CommandInput,
  change: (store: OrganizationStore, id: string) => unknown,
): Promise<object> {
  return changeOrganization(input, (store) => {
    const { id } = roleOf(store, input.operand).role
    change(store, id)
    return describeRole(roleOf(store, id))
  })
}

/** Finds a role by its name or ID. Throws `OperatorError`. */
function roleOf({ roles }: OrganizationStore, name: string): RoleView {
  const folded = name.trim().toLowerCase()
  const found = roles
    .list(ALL)
    .results.find(({ role }) => role.id === folded || role.name.toLowerCase() === folded)
  if (found !== undefined) return found
  throw new OperatorError(
    `There is no role ${JSON.stringify(name)}. Run 'tenrec role list' to see all roles.`,
  )
}

/** Finds the user who is named by the second operand. Throws `OperatorError`. */
function memberOf(store: OrganizationStore, { operands }: CommandInput): User {
  return findUser(store, operands[1] ?? '')
}

function readChanges(input: CommandInput): RoleChanges {
  return given({ name: input.text('name'), level: levelOption(input, FLAG_ACCESS_LEVELS) })
}

function describeRole({ role, members, flags }: RoleView) {
  return {
    id: role.id,
    name: role.name,
    level: levelName(FLAG_ACCESS_LEVELS, role.level),
    members: members.map(({ user }) => user.email),
    flags: flags.map(({ flagId }) => flagId),
    created_at: isoTime(role.createdAtMs),
  }
}
