/** `tenrec user ...`: who may use the private API. A running daemon notices changes within a second. */
import { OperatorError, UsageError } from '../../base/errors.ts'
import { boolean } from '../../config/value-kinds.ts'
import { levelName, USER_LEVELS } from '../../rules/access/levels.ts'
import type { User, UserChanges } from '../../rules/access/organization.ts'
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

const EMAIL_OPTION: OptionDefinition = {
  name: 'email',
  placeholder: 'ADDRESS',
  sentence: 'E-mail address.',
}

const CHANGE_OPTIONS: readonly OptionDefinition[] = [
  { name: 'first-name', placeholder: 'NAME', sentence: 'First name.' },
  { name: 'level', placeholder: 'LEVEL', sentence: `${choicesText(USER_LEVELS)}.` },
  {
    name: 'distinct-id',
    placeholder: 'ID',
    sentence: "The distinct_id for which the user's own flags are decided.",
  },
]

/** `tenrec user list`. */
export const USER_LIST: Command = {
  name: 'user list',
  sentence: 'List all users, inactive ones too.',
  operands: [],
  options: [JSON_OPTION],
  settings: ['dataDir'],
  async run(input) {
    const users = await withStore(input, false, ({ organization: store }) => store.users.list())
    printRows(input.io, users.map(describeUser), input.options.has('json'))
    return 0
  },
}

/** `tenrec user create`. */
export const USER_CREATE: Command = {
  name: 'user create',
  sentence: "Create a user and print it; 'key create --user' then makes a key.",
  operands: [],
  options: [{ ...EMAIL_OPTION, isRequired: true }, ...CHANGE_OPTIONS, JSON_OPTION],
  settings: ['dataDir'],
  async run(input) {
    const request = { ...readChanges(input), email: input.options.get('email') ?? '' }
    const user = await changeOrganization(input, (store) => store.users.create(request))
    printRecord(input.io, describeUser(user), input.options.has('json'))
    return 0
  },
}

/** `tenrec user set`. */
export const USER_SET: Command = {
  name: 'user set',
  sentence: 'Change a user, named by number, uuid or e-mail address, and print it.',
  operands: ['USER'],
  options: [
    EMAIL_OPTION,
    ...CHANGE_OPTIONS,
    {
      name: 'active',
      placeholder: 'BOOLEAN',
      sentence: 'Whether the keys of the user open anything: true or false.',
    },
    JSON_OPTION,
  ],
  settings: ['dataDir'],
  async run(input) {
    const changes = readChanges(input)
    if (Object.keys(changes).length === 0) throw new UsageError('there is nothing to change')
    return changeUser(input, changes)
  },
}

/** `tenrec user deactivate`. */
export const USER_DEACTIVATE: Command = {
  name: 'user deactivate',
  sentence: 'Shut out a user: keys open nothing any more, roles are taken away.',
  operands: ['USER'],
  options: [JSON_OPTION],
  settings: ['dataDir'],
  run: (input) => changeUser(input, { isActive: false }),
}

/** The user whom an operand names: by number, uuid or e-mail address. Throws `OperatorError`. */
export function findUser(store: OrganizationStore, name: string): User {
  const folded = name.trim().toLowerCase()
  const user = store.users
    .list()
    .find(({ id, uuid, email }) => [String(id), uuid, email.toLowerCase()].includes(folded))
  if (user !== undefined) return user
  throw new OperatorError(`there is no user ${JSON.stringify(name)}`)
}

async function changeUser(input: CommandInput, changes: UserChanges): Promise<number> {
  const [name = ''] = input.operands
  const user = await changeOrganization(input, (store) =>
    store.users.change(findUser(store, name).id, changes),
  )
  printRecord(input.io, describeUser(user), input.options.has('json'))
  return 0
}

function readChanges({ options }: CommandInput): UserChanges {
  const email = options.get('email')
  const firstName = options.get('first-name')
  const level = options.get('level')
  const distinctId = options.get('distinct-id')
  const active = options.get('active')
  return {
    ...(email === undefined ? {} : { email }),
    ...(firstName === undefined ? {} : { firstName }),
    ...(level === undefined ? {} : { level: parseLevel(USER_LEVELS, level) }),
    ...(distinctId === undefined ? {} : { distinctId }),
    ...(active === undefined ? {} : { isActive: parseBoolean(active) }),
  }
}

function parseBoolean(text: string): boolean {
  const kind = boolean()
  const value = kind.parse(text)
  if (value === undefined) throw new UsageError(`--active: allowed are ${kind.allowed}`)
  return value
}

function describeUser(user: User): Row {
  return {
    id: user.id,
    email: user.email,
    first_name: user.firstName,
    level: levelName(USER_LEVELS, user.level),
    state: user.isActive ? 'active' : 'inactive',
    uuid: user.uuid,
    distinct_id: user.distinctId,
    created_at: isoTime(user.createdAtMs),
  }
}
