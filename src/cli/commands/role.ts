/** `tenrec role ...`: roles and who has them. A running daemon notices changes within a second. */
import { OperatorError, UsageError } from '../../base/errors.ts'
import { FLAG_ACCESS_LEVELS, type FlagAccessLevel, levelName } from '../../rules/access/levels.ts'
import type { RoleView } from '../../rules/access/roles.ts'
import type { OrganizationStore } from '../../store/catalog/organization-store.ts'
import {
  type Command,
  type CommandInput,
  JSON_OPTION,
  type OptionDefinition,
} from '../lib/command.ts'
import { choicesText, parseLevel } from '../lib/levels.ts'
import { isoTime, printRecord, printRows, type Row } from '../lib/output.ts'
import { changeOrganization, withStore } from '../lib/with-store.ts'
import { findUser } from './user.ts'

/** More than there can be. */
const ALL = { limit: 1_000_000, offset: 0 } as const
const UNSET = 'unset'

const LEVEL_OPTION: OptionDefinition = {
  name: 'level',
  placeholder: 'LEVEL',
  sentence: `What it lets its members do with flags: ${choicesText(FLAG_ACCESS_LEVELS)}.`,
}

/** `tenrec role list`. */
export const ROLE_LIST: Command = {
  name: 'role list',
  sentence: 'List all roles with their members.',
  operands: [],
  options: [JSON_OPTION],
  settings: ['dataDir'],
  async run(input) {
    const { results } = await withStore(input, false, ({ organization: { roles } }) =>
      roles.list(ALL),
    )
    printRows(input.io, results.map(describeRole), input.options.has('json'))
    return 0
  },
}

/** `tenrec role create`. */
export const ROLE_CREATE: Command = {
  name: 'role create',
  sentence: 'Create a role and print it.',
  operands: [],
  options: [
    { name: 'name', placeholder: 'NAME', sentence: 'Name of the role.', isRequired: true },
    LEVEL_OPTION,
    JSON_OPTION,
  ],
  settings: ['dataDir'],
  run: (input) =>
    changeRole(input, ({ roles }) => {
      const name = input.options.get('name') ?? ''
      return roles.create({ name, createdById: null, ...levelOf(input) })
    }),
}

/** `tenrec role set`. */
export const ROLE_SET: Command = {
  name: 'role set',
  sentence: 'Change a role, named by name or id, and print it.',
  operands: ['ROLE'],
  options: [
    { name: 'name', placeholder: 'NAME', sentence: 'New name of the role.' },
    LEVEL_OPTION,
    JSON_OPTION,
  ],
  settings: ['dataDir'],
  async run(input) {
    const name = input.options.get('name')
    const changes = { ...(name === undefined ? {} : { name }), ...levelOf(input) }
    if (Object.keys(changes).length === 0) throw new UsageError('there is nothing to change')
    return changeRole(input, (store) => store.roles.change(roleOf(store, input), changes))
  },
}

/** `tenrec role delete`. */
export const ROLE_DELETE: Command = {
  name: 'role delete',
  sentence: 'Delete a role with its memberships and its access to flags.',
  operands: ['ROLE'],
  options: [],
  settings: ['dataDir'],
  async run(input) {
    const id = await changeOrganization(input, (store) => {
      const role = roleOf(store, input)
      store.roles.delete(role)
      return role
    })
    input.io.err(`deleted ${id}\n`)
    return 0
  },
}

/** `tenrec role add`. */
export const ROLE_ADD: Command = {
  name: 'role add',
  sentence: 'Give a role to a user, named by number, uuid or e-mail address.',
  operands: ['ROLE', 'USER'],
  options: [JSON_OPTION],
  settings: ['dataDir'],
  run: (input) =>
    changeRole(input, (store) => {
      const role = roleOf(store, input)
      store.roles.addMember(role, findUser(store, input.operands[1] ?? '').uuid)
      return store.roles.get(role)
    }),
}

/** `tenrec role remove`. */
export const ROLE_REMOVE: Command = {
  name: 'role remove',
  sentence: 'Take a role from a user.',
  operands: ['ROLE', 'USER'],
  options: [JSON_OPTION],
  settings: ['dataDir'],
  run: (input) =>
    changeRole(input, (store) => {
      const role = roleOf(store, input)
      const { id } = findUser(store, input.operands[1] ?? '')
      const membership = store.roles.members(role)?.find(({ user }) => user.id === id)
      if (membership === undefined) throw new OperatorError('the user does not have the role')
      store.roles.removeMember(role, membership.id)
      return store.roles.get(role)
    }),
}

/** `tenrec role default`. */
export const ROLE_DEFAULT: Command = {
  name: 'role default',
  sentence: 'Say what users without a role may do with flags, and print it.',
  operands: [],
  options: [
    {
      name: 'level',
      placeholder: 'LEVEL',
      sentence:
        'view, edit, or unset: edit unless roles say otherwise. Without it nothing changes.',
    },
    JSON_OPTION,
  ],
  settings: ['dataDir'],
  async run(input) {
    const text = input.options.get('level')
    const level = text === undefined || text === UNSET ? null : parseLevel(FLAG_ACCESS_LEVELS, text)
    const setting =
      text === undefined
        ? await withStore(
            input,
            false,
            ({ organization: { users } }) => users.organization().flagAccess,
          )
        : await changeOrganization(input, ({ users }) => users.setFlagAccess(level, null))
    const row = { level: setting === null ? UNSET : levelName(FLAG_ACCESS_LEVELS, setting.level) }
    printRecord(input.io, row, input.options.has('json'))
    return 0
  },
}

async function changeRole(
  input: CommandInput,
  action: (store: OrganizationStore) => RoleView | null,
): Promise<number> {
  const view = await changeOrganization(input, action)
  if (view !== null) printRecord(input.io, describeRole(view), input.options.has('json'))
  return 0
}

/** The id of the role that the first operand names, by its name or id. Throws `OperatorError`. */
function roleOf({ roles }: OrganizationStore, { operands }: CommandInput): string {
  const [name = ''] = operands
  const folded = name.trim().toLowerCase()
  const found = roles
    .list(ALL)
    .results.find(({ role }) => role.id === folded || role.name.toLowerCase() === folded)
  if (found !== undefined) return found.role.id
  throw new OperatorError(`there is no role ${JSON.stringify(name)}`)
}

function levelOf({ options }: CommandInput): { readonly level?: FlagAccessLevel } {
  const text = options.get('level')
  return text === undefined ? {} : { level: parseLevel(FLAG_ACCESS_LEVELS, text) }
}

function describeRole({ role, members, flags }: RoleView): Row {
  return {
    id: role.id,
    name: role.name,
    level: levelName(FLAG_ACCESS_LEVELS, role.level),
    members: members.map(({ user }) => user.email),
    flags: flags.map(({ flagId }) => flagId),
    created_at: isoTime(role.createdAtMs),
  }
}
