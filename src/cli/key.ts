/** `tenrec key ...`: personal keys. A running daemon notices changes within a second. */
import { UsageError } from '../base/errors.ts'
import { parseDuration } from '../config/value-kinds.ts'
import type { PersonalKey } from '../store/project-records.ts'
import type { KeyRequest } from '../store/project-store.ts'
import { listOption, parseId } from './arguments.ts'
import { type Command, type CommandInput, JSON_OPTION } from './command.ts'
import { isoTime, printRecord, printRows, type Row } from './output.ts'
import { withProjectStore } from './with-project-store.ts'

/** `tenrec key create`. */
export const KEY_CREATE: Command = {
  name: 'key create',
  sentence: 'Create a personal key and print it, which is possible only now.',
  operands: [],
  options: [
    { name: 'label', placeholder: 'TEXT', sentence: 'What the key is for.' },
    { name: 'personal-key', placeholder: 'KEY', sentence: 'The key; without it a random one.' },
    { name: 'projects', placeholder: 'ID,...', sentence: 'Only these projects; otherwise all.' },
    {
      name: 'scopes',
      placeholder: 'SCOPE,...',
      sentence: 'Such as event:read,feature_flag:write; otherwise all.',
    },
    {
      name: 'expires-in',
      placeholder: 'DURATION',
      sentence: 'Such as 90d or 12h; otherwise never.',
    },
    JSON_OPTION,
  ],
  settings: ['dataDir'],
  async run(input) {
    const request = readRequest(input)
    const { text, key } = await withProjectStore(input, true, (store) => store.createKey(request))
    const { last_four: _lastFour, ...row } = describeKey(key, input.io.clock.now())
    printRecord(input.io, { id: key.id, key: text, ...row }, input.options.has('json'))
    return 0
  },
}

/** `tenrec key list`. */
export const KEY_LIST: Command = {
  name: 'key list',
  sentence: 'List all personal keys, without the keys themselves.',
  operands: [],
  options: [JSON_OPTION],
  settings: ['dataDir'],
  async run(input) {
    const keys = await withProjectStore(input, false, (store) => store.listKeys())
    const nowMs = input.io.clock.now()
    const rows = keys.map((key) => describeKey(key, nowMs))
    printRows(input.io, rows, input.options.has('json'))
    return 0
  },
}

/** `tenrec key revoke`. */
export const KEY_REVOKE: Command = {
  name: 'key revoke',
  sentence: 'Revoke a personal key for good and print it.',
  operands: ['ID'],
  options: [JSON_OPTION],
  settings: ['dataDir'],
  async run(input) {
    const id = parseId('ID', input.operands[0] ?? '')
    const key = await withProjectStore(input, true, (store) => store.revokeKey(id))
    const row = describeKey(key, input.io.clock.now())
    printRecord(input.io, row, input.options.has('json'))
    return 0
  },
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

function describeKey(key: PersonalKey, nowMs: number): Row {
  const isExpired = key.expiresAtMs !== null && key.expiresAtMs <= nowMs
  return {
    id: key.id,
    label: key.label,
    last_four: key.lastFour,
    state: key.revokedAtMs !== null ? 'revoked' : isExpired ? 'expired' : 'active',
    scopes: key.scopes,
    projects: key.projectIds,
    created_at: isoTime(key.createdAtMs),
    expires_at: isoTime(key.expiresAtMs),
    revoked_at: isoTime(key.revokedAtMs),
  }
}
