/** `tenrec login-link`: a way into the console for who is on the machine. */
import { OperatorError } from '../../base/errors.ts'
import { baseUrlOf } from '../../config/base-url.ts'
import { isOwner } from '../../rules/access/levels.ts'
import type { User } from '../../rules/access/organization.ts'
import type { OrganizationStore } from '../../store/catalog/organization-store.ts'
import { readCredentials } from '../../store/open-store.ts'
import type { CommandInput, Commands } from '../lib/command.ts'
import { addressOf, BASE_URL_OPTION } from '../lib/daemon-client.ts'
import { loginLink } from '../lib/login-link.ts'
import { changeOrganization } from '../lib/with-store.ts'
import { findUser } from './user.ts'

/** `tenrec login-link`. */
export const COMMANDS: Commands = [
  {
    name: 'login-link',
    sentence:
      'Print a link that logs into the console, with all that its user may do: once, within 10 minutes.',
    options: { '--user USER': 'Who logs in; otherwise the first owner.', ...BASE_URL_OPTION },
    settings: ['dataDir', 'host', 'port', 'publicUrl', 'isConsoleOn', 'consolePath'],
    async run(input) {
      const settings = input.settings()
      if (!settings.isConsoleOn) throw new OperatorError('the setting console=false turns it off')
      const link = await changeOrganization(input, (store) => {
        const { id } = userFor(input, store)
        return loginLink(store.console.createCode(id), addressFor(input), settings)
      })
      input.io.out(`${link}\n`)
      return 0
    },
  },
]

function userFor(input: CommandInput, store: OrganizationStore): User {
  const name = input.text('user')
  const users = store.users.list()
  const user =
    name === undefined
      ? users.find((one) => one.isActive && isOwner(one.level))
      : findUser(store, name)
  if (user?.isActive === true) return user
  throw new OperatorError('an inactive user cannot log in')
}

/** What the operator says, else where clients find the daemon, else where it listened at the first start. */
function addressFor(input: CommandInput): string {
  const settings = input.settings()
  const given = input.text('base-url')
  if (given !== undefined) return addressOf(given)
  const known = settings.publicUrl ?? readCredentials(input.dataDir)?.baseUrl
  return known ?? baseUrlOf(settings, settings.port)
}
