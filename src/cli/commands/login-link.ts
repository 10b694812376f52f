/** `tenrec login-link`: prints a link that logs a user of this machine into the console. */
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
      'Print a link that logs a user into the console, with all of their permissions. The link works once, within 10 minutes.',
    options: {
      '--user USER':
        'User who logs in, by number, UUID or e-mail address. Default: the first owner.',
      ...BASE_URL_OPTION,
    },
    settings: ['dataDir', 'host', 'port', 'publicUrl', 'isConsoleOn', 'consolePath'],
    async run(input) {
      const settings = input.settings()
      if (!settings.isConsoleOn)
        throw new OperatorError(
          'The setting `console=false` turns the console off. Turn it on to log in with a link.',
        )
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
  throw new OperatorError('An inactive user cannot log in. Choose an active user with --user.')
}

/**
 * Returns the base URL of the link: the first that exists of the option `--base-url`, the setting `public_url` and the
 * URL stored in the data directory, or else the address at which the settings make a daemon listen.
 */
function addressFor(input: CommandInput): string {
  const settings = input.settings()
  const given = input.text('base-url')
  if (given !== undefined) return addressOf(given)
  const known = settings.publicUrl ?? readCredentials(input.dataDir)?.baseUrl
  return known ?? baseUrlOf(settings, settings.port)
}
