/**
 * `tenrec key ...`: personal keys, and with `--secret` the secret keys of projects, with which servers read flag
 * definitions. A running daemon applies changes within a second.
 */
import { UsageError } from '../../base/errors.ts'
import { given } from '../../base/json.ts'
import { parseDuration } from '../../config/value-kinds.ts'
import type {
  KeyRequest,
  NewKey,
  PersonalKey,
  SecretKey,
  SecretKeyRequest,
} from '../../rules/access/organization.ts'
import { SCOPES } from '../../rules/access/scopes.ts'
import type { OrganizationStore } from '../../store/catalog/organization-store.ts'
import {
  type CommandInput,
  type Commands,
  JSON_OPTION,
  type OptionTexts,
  parseId,
} from '../lib/command.ts'
import { isoTime } from '../lib/output.ts'
import { changeOrganization, readOrganization } from '../lib/with-store.ts'
import { findUser } from './user.ts'

const SECRET_OPTION: OptionTexts = {
  '--secret': 'Use the secret keys of projects instead of personal keys.',
  ...JSON_OPTION,
}
/** Options that only apply to personal keys, and not to secret keys. */
const PERSONAL_OPTIONS = ['personal-key', 'scopes', 'expires-in', 'user']

/** `tenrec key ...`. */
export const COMMANDS: Commands = [
  {
    name: 'key create',
    sentence: 'Create a key, and print it. The key is not shown again.',
    options: {
      '--label TEXT': 'Purpose of the key.',
      '--personal-key KEY': 'Text of the key. Default: a random key.',
      '--projects ID,...': 'Projects that the key may access. Default: all projects.',
      '--scopes SCOPE,...': {
        sentence: 'Scopes of the key, such as event:read,feature_flag:write. Default: all scopes.',
        choices: SCOPES,
      },
      '--user USER':
        'User to whom the key belongs, by number, UUID or e-mail address. Default: the first owner.',
      '--expires-in DURATION':
        'Time until the key expires, such as 90d or 12h. Default: it never expires.',
      '--secret': 'Create a secret key instead, for the one project in --projects.',
      ...JSON_OPTION,
    },
    run(input) {
      const nowMs = input.io.clock.now()
      if (input.has('secret')) {
        const request = readSecretRequest(input)
        return changeOrganization(input, ({ projects: { keys } }) =>
          withText(keys.createSecret(request), nowMs),
        )
      }
      const request = readRequest(input)
      const user = input.text('user')
      return changeOrganization(input, (store) => {
        const userId = user === undefined ? undefined : findUser(store, user).id
        return withText(store.projects.keys.create({ ...request, ...given({ userId }) }), nowMs)
      })
    },
  },
  {
    name: 'key list',
    sentence: 'List all keys, without their texts.',
    options: SECRET_OPTION,
    run: (input) =>
      readOrganization(input, ({ projects: { keys } }) => {
        const all = input.has('secret') ? keys.listSecrets() : keys.list()
        return all.map((key) => describeKey(key, input.io.clock.now()))
      }),
  },
  {
    name: 'key rotate',
    sentence:
      'Replace a key with a random one that has the same permissions, and print it. The old key stops working.',
    operands: ['ID'],
    options: SECRET_OPTION,
    run: (input) =>
      changeKey(input, (keys, id) => {
        const made = input.has('secret') ? keys.rollSecret(id) : keys.roll(id)
        return withText(made, input.io.clock.now())
      }),
  },
  {
    name: 'key revoke',
    sentence: 'Revoke a key permanently, and print its entry.',
    operands: ['ID'],
    options: SECRET_OPTION,
    run: (input) =>
      changeKey(input, (keys, id) => {
        const key = input.has('secret') ? keys.revokeSecret(id) : keys.revoke(id)
        return describeKey(key, input.io.clock.now())
      }),
  },
]

/** Changes the key named on the command line. */
function changeKey(
  input: CommandInput,
  change: (keys: OrganizationStore['projects']['keys'], id: number) => object,
): Promise<object> {
  const id = input.operandId
  return changeOrganization(input, ({ projects: { keys } }) => change(keys, id))
}

function readSecretRequest(input: CommandInput): SecretKeyRequest {
  for (const name of PERSONAL_OPTIONS) {
    if (input.has(name)) throw new UsageError(`--secret and --${name} cannot be combined.`)
  }
  const [project = '', ...others] = input.list('projects') ?? []
  if (project === '' || others.length > 0) {
    throw new UsageError('--secret requires --projects with one number.')
  }
  return { projectId: parseId('--projects', project), ...given({ label: input.text('label') }) }
}

function readRequest(input: CommandInput): KeyRequest {
  return given({
    text: input.text('personal-key'),
    label: input.text('label'),
    scopes: input.list('scopes'),
    projectIds: input.list('projects')?.map((id) => parseId('--projects', id)),
    expiresAtMs: expiryMs(input),
  })
}

function expiryMs(input: CommandInput): number | undefined {
  const text = input.text('expires-in')
  if (text === undefined) return undefined
  const durationMs = parseDuration(text)
  if (durationMs !== undefined && durationMs > 0) return input.io.clock.now() + durationMs
  throw new UsageError(
    `--expires-in: ${JSON.stringify(text)} is not a duration such as 90d or 12h.`,
  )
}

/** Returns a new key for the output. It contains the whole text of the key instead of its last four characters. */
function withText({ text, key }: NewKey<PersonalKey | SecretKey>, nowMs: number): object {
  const { id, last_four: _lastFour, ...row } = describeKey(key, nowMs)
  return { id, key: text, ...row }
}

function describeKey(key: PersonalKey | SecretKey, nowMs: number) {
  const isSecret = 'projectId' in key
  const isExpired = !isSecret && key.expiresAtMs !== null && key.expiresAtMs <= nowMs
  return {
    id: key.id,
    label: key.label,
    last_four: key.lastFour,
    state: key.revokedAtMs !== null ? 'revoked' : isExpired ? 'expired' : 'active',
    ...(isSecret
      ? { project: key.projectId }
      : { scopes: key.scopes, projects: key.projectIds, user: key.userId }),
    created_at: isoTime(key.createdAtMs),
    ...(isSecret ? {} : { expires_at: isoTime(key.expiresAtMs) }),
    rotated_at: isoTime(key.rolledAtMs),
    revoked_at: isoTime(key.revokedAtMs),
  }
}
