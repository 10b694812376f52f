/** `tenrec user ...`: users of the console and the private API. A running daemon applies changes within a second. */
import { OperatorError } from '../../base/errors.ts'
import { given } from '../../base/json.ts'
import { levelName, USER_LEVELS } from '../../rules/access/levels.ts'
import type { User, UserChanges } from '../../rules/access/organization.ts'
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

const EMAIL = 'E-mail address.'
const CHANGE_OPTIONS: OptionTexts = {
  '--first-name NAME': 'First name.',
  '--level LEVEL': `Level of the user: ${choicesText(USER_LEVELS)}.`,
  '--distinct-id ID': 'Distinct ID for which the feature flags of the user are evaluated.',
}

/** `tenrec user ...`. */
export const COMMANDS: Commands = [
  {
    name: 'user create',
    sentence:
      "Create a user, and print it. Create a key for the user with 'tenrec key create --user'.",
    options: {
      '--email ADDRESS': { sentence: EMAIL, isRequired: true },
      ...CHANGE_OPTIONS,
      ...JSON_OPTION,
    },
    run(input) {
      const request = { ...readChanges(input), email: input.text('email') ?? '' }
      return changeOrganization(input, ({ users }) => describeUser(users.create(request)))
    },
  },
  {
    name: 'user list',
    sentence: 'List all users, including inactive ones.',
    options: JSON_OPTION,
    run: (input) => readOrganization(input, ({ users }) => users.list().map(describeUser)),
  },
  {
    name: 'user set',
    sentence: 'Change a user, named by number, UUID or e-mail address, and print it.',
    operands: ['USER'],
    options: {
      '--email ADDRESS': EMAIL,
      ...CHANGE_OPTIONS,
      '--active BOOLEAN': 'Whether the user may log in and use their keys: true or false.',
      ...JSON_OPTION,
    },
    run: (input) => changeUser(input, demandChanges(readChanges(input))),
  },
  {
    name: 'user deactivate',
    sentence: 'Deactivate a user. The keys of the user stop working, and the user loses all roles.',
    operands: ['USER'],
    options: JSON_OPTION,
    run: (input) => changeUser(input, { isActive: false }),
  },
]

/** Finds a user by number, UUID or e-mail address. Throws `OperatorError`. */
export function findUser(store: OrganizationStore, name: string): User {
  const folded = name.trim().toLowerCase()
  const user = store.users
    .list()
    .find(({ id, uuid, email }) => [String(id), uuid, email.toLowerCase()].includes(folded))
  if (user !== undefined) return user
  throw new OperatorError(
    `There is no user ${JSON.stringify(name)}. Run 'tenrec user list' to see all users.`,
  )
}

function changeUser(input: CommandInput, changes: UserChanges): Promise<object> {
  return changeOrganization(input, (store) =>
    describeUser(store.users.change(findUser(store, input.operand).id, changes)),
  )
}

function readChanges(input: CommandInput): UserChanges {
  return given({
    email: input.text('email'),
    firstName: input.text('first-name'),
    level: levelOption(input, USER_LEVELS),
    distinctId: input.text('distinct-id'),
    isActive: input.boolean('active'),
  })
}

function describeUser(user: User) {
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
