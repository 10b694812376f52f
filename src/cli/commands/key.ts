/**
 * `tenrec key ...`: personal keys, and with `--secret` the secret keys of projects, with which servers
 * read flag definitions. A running daemon notices changes within a second.
 */
import { UsageError } from '../../base/errors.ts'
import { parseDuration } from '../../config/value-kinds.ts'
import type { KeyRequest, PersonalKey, SecretKey } from '../../rules/access/organization.ts'
import { SCOPES } from '../../rules/access/scopes.ts'
import { listOption, parseId } from '../lib/arguments.ts'
import {
  type Command,
  type CommandInput,
  JSON_OPTION,
  type OptionDefinition,
} from '../lib/command.ts'
import { isoTime, printRecord, printRows } from '../lib/output.ts'
import { changeOrganization, withStore } from '../lib/with-store.ts'
import { findUser } from './user.ts'

const SECRET_OPTION: OptionDefinition = {
  name: 'secret',
  placeholder: null,
  sentence: 'The secret keys of projects instead.',
}
/** Options that say nothing about a secret key. */
const PERSONAL_OPTIONS = ['personal-key', 'scopes', 'expires-in', 'user']

/** `tenrec key create`. */
export const KEY_CREATE: Command = {
  name: 'key create',
  sentence: 'Create a key and print it, which is possible only now.',
  operands: [],
  options: [
    { name: 'label', placeholder: 'TEXT', sentence: 'What the key is for.' },
    { name: 'personal-key', placeholder: 'KEY', sentence: 'The key; without it a random one.' },
    { name: 'projects', placeholder: 'ID,...', sentence: 'Only these projects; otherwise all.' },
    {
      name: 'scopes',
      placeholder: 'SCOPE,...',
      sentence: 'Such as event:read,feature_flag:write; otherwise all.',
      choices: SCOPES,
    },
    { name: 'user', placeholder: 'USER', sentence: 'Whose key; otherwise the first owner.' },
    {
      name: 'expires-in',
      placeholder: 'DURATION',
      sentence: 'Such as 90d or 12h; otherwise never.',
    },
    { ...SECRET_OPTION, sentence: 'A secret key of the one project in --projects instead.' },
    JSON_OPTION,
  ],
  settings: ['dataDir'],
  async run(input) {
    if (input.options.has('secret')) return createSecret(input)
    const request = readRequest(input)
    const { text, key } = await changeOrganization(input, (store) => {
      const user = input.options.get('user')
      const owner = user === undefined ? {} : { userId: findUser(store, user).id }
      return store.projects.keys.create({ ...request, ...owner })
    })
    const { id, last_four: _lastFour, ...row } = describeKey(key, input.io.clock.now())
    printRecord(input.io, { id, key: text, ...row }, input.options.has('json'))
    return 0
  },
}

/** `tenrec key list`. */
export const KEY_LIST: Command = {
  name: 'key list',
  sentence: 'List all keys, without the keys themselves.',
  operands: [],
  options: [SECRET_OPTION, JSON_OPTION],
  settings: ['dataDir'],
  async run(input) {
    const nowMs = input.io.clock.now()
    const rows = await withStore(
      input,
      false,
      ({
        organization: {
          projects: { keys },
        },
      }) =>
        input.options.has('secret')
          ? keys.listSecrets().map(describeSecret)
          : keys.list().map((key) => describeKey(key, nowMs)),
    )
    printRows(input.io, rows, input.options.has('json'))
    return 0
  },
}

/** `tenrec key revoke`. */
export const KEY_REVOKE: Command = {
  name: 'key revoke',
  sentence: 'Revoke a key for good and print it.',
  operands: ['ID'],
  options: [SECRET_OPTION, JSON_OPTION],
  settings: ['dataDir'],
  async run(input) {
    const id = parseId('ID', input.operands[0] ?? '')
    const nowMs = input.io.clock.now()
    const row = await changeOrganization(input, ({ projects: { keys } }) =>
      input.options.has('secret')
        ? describeSecret(keys.revokeSecret(id))
        : describeKey(keys.revoke(id), nowMs),
    )
    printRecord(input.io, row, input.options.has('json'))
    return 0
  },
}

/** `tenrec key rotate`. */
export const KEY_ROTATE: Command = {
  name: 'key rotate',
  sentence: 'Replace a key by a random one with the same rights and print it; the old one is void.',
  operands: ['ID'],
  options: [SECRET_OPTION, JSON_OPTION],
  settings: ['dataDir'],
  async run(input) {
    const id = parseId('ID', input.operands[0] ?? '')
    const nowMs = input.io.clock.now()
    const row = await changeOrganization(input, ({ projects: { keys } }) => {
      if (input.options.has('secret')) {
        const { text, key } = keys.rollSecret(id)
        return { ...describeSecret(key), key: text }
      }
      const { text, key } = keys.roll(id)
      return { ...describeKey(key, nowMs), key: text }
    })
    const { id: _id, key, last_four: _lastFour, ...rest } = row
    printRecord(input.io, { id, key, ...rest }, input.options.has('json'))
    return 0
  },
}

async function createSecret(input: CommandInput): Promise<number> {
  for (const name of PERSONAL_OPTIONS) {
    if (input.options.has(name)) throw new UsageError(`--secret and --${name} exclude each other`)
  }
  const [project = '', ...others] = listOption(input, 'projects') ?? []
  if (project === '' || others.length > 0) {
    throw new UsageError('--secret needs --projects with one number')
  }
  const projectId = parseId('--projects', project)
  const label = input.options.get('label')
  const request = label === undefined ? { projectId } : { projectId, label }
  const { text, key } = await changeOrganization(input, ({ projects: { keys } }) =>
    keys.createSecret(request),
  )
  const { id, last_four: _lastFour, ...row } = describeSecret(key)
  printRecord(input.io, { id, key: text, ...row }, input.options.has('json'))
  return 0
}

function readRequest(input: CommandInput): KeyRequest {
  const text = input.options.get('personal-key')
  const label = input.options.get('label')
  const scopes = listOption(input, 'scopes')
  const projects = listOption(input, 'projects')
  const expiresIn = input.options.get('expires-in')
  return {
    ...(text === undefined ? {} : { text }),
    ...(label === undefined ? {} : { label }),
    ...(scopes === undefined ? {} : { scopes }),
    ...(projects === undefined
      ? {}
      : { projectIds: projects.map((id) => parseId('--projects', id)) }),
    ...(expiresIn === undefined ? {} : { expiresAtMs: expiryMs(input, expiresIn) }),
  }
}

function expiryMs(input: CommandInput, text: string): number {
  const durationMs = parseDuration(text)
  if (durationMs !== undefined && durationMs > 0) return input.io.clock.now() + durationMs
  throw new UsageError(`--expires-in: ${JSON.stringify(text)} is not a duration such as 90d or 12h`)
}

function describeSecret(key: SecretKey) {
  return {
    id: key.id,
    label: key.label,
    last_four: key.lastFour,
    state: key.revokedAtMs !== null ? 'revoked' : 'active',
    project: key.projectId,
    created_at: isoTime(key.createdAtMs),
    rotated_at: isoTime(key.rolledAtMs),
    revoked_at: isoTime(key.revokedAtMs),
  }
}

function describeKey(key: PersonalKey, nowMs: number) {
  const isExpired = key.expiresAtMs !== null && key.expiresAtMs <= nowMs
  return {
    id: key.id,
    label: key.label,
    last_four: key.lastFour,
    state: key.revokedAtMs !== null ? 'revoked' : isExpired ? 'expired' : 'active',
    scopes: key.scopes,
    projects: key.projectIds,
    user: key.userId,
    created_at: isoTime(key.createdAtMs),
    expires_at: isoTime(key.expiresAtMs),
    rotated_at: isoTime(key.rolledAtMs),
    revoked_at: isoTime(key.revokedAtMs),
  }
}
