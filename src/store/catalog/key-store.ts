/**
 * Personal keys and project secret keys: creating, rolling, revoking and listing them. Only hashes are stored. The text
 * of a key is returned once, by the call that created it.
 */

import { createHash, randomInt } from 'node:crypto'
import { KEY_ALLOWED, KEY_PATTERN } from '../../config/settings-table.ts'
import { DEVELOPMENT_PERSONAL_KEY, isDevelopmentKey } from '../../rules/access/development-keys.ts'
import type {
  KeyChanges,
  KeyRequest,
  NewKey,
  PersonalKey,
  SecretKey,
  SecretKeyRequest,
} from '../../rules/access/organization.ts'
import { isScope, SCOPES } from '../../rules/access/scopes.ts'
import { NUMBER_MAX, numberKey } from '../lmdb/keys.ts'
import { getRecord } from '../lmdb/records.ts'
import { demand, demandRoom, nextId } from './checks.ts'
import type { DirectoryEnvironment } from './directory-environment.ts'
import { KEY_LABEL_CHARACTERS_MAX, KEY_SCOPES_MAX, KEYS_MAX, REVOKED_KEYS_MAX } from './limits.ts'

const PROJECT_KEY_PREFIX = 'phc_'
const PERSONAL_KEY_PREFIX = 'phx_'
const SECRET_KEY_PREFIX = 'phs_'
const KEY_RANDOM_CHARACTERS = 43
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const OWNER_ID = 1
/** The largest number of characters of an unknown scope that an error message shows. */
const SCOPE_CHARACTERS_SHOWN = 80

/** Returns a random project key: `phc_` and 43 letters and digits (256 bits). */
export function generateProjectKey(): string {
  return PROJECT_KEY_PREFIX + randomBase62()
}

/** Returns a random personal key: `phx_` and 43 letters and digits (256 bits). */
export function generatePersonalKey(): string {
  return PERSONAL_KEY_PREFIX + randomBase62()
}

/** Returns the hash of a key. Only hashes are stored, so a key is found by its hash. */
export function hashKey(text: string): Buffer {
  return createHash('sha256').update(text, 'utf8').digest()
}

/** Throws 400 for a text that is not a valid key. `attr` is the field that contains it. */
export function checkKeyText(what: string, text: string, attr: string): void {
  demand(KEY_PATTERN.test(text), 'invalid_input', `${what} must be ${KEY_ALLOWED}.`, attr)
}

/**
 * Throws 400 for one of the fixed keys of `tenrec dev`, which everybody knows. `attr` is the field that contains it.
 */
export function refuseDevelopmentKey(text: string | undefined, attr?: string): void {
  const isSecret = text === undefined || !isDevelopmentKey(text)
  const detail = 'This key is public, because `tenrec dev` uses it. Choose another key.'
  demand(isSecret, 'invalid_input', detail, attr)
}

/** Changes keys. A change that is not allowed throws a `ServiceError` and changes nothing. */
export class KeyStore {
  readonly #environment: DirectoryEnvironment

  constructor(environment: DirectoryEnvironment) {
    this.#environment = environment
  }

  create(request: KeyRequest = {}): NewKey<PersonalKey> {
    refuseDevelopmentKey(request.text)
    const text = request.text ?? generatePersonalKey()
    return { text, key: this.#environment.change(() => this.insert(text, request)) }
  }

  /** True if the personal key of `tenrec dev` is valid in this store. */
  get hasDevelopmentKey(): boolean {
    const hash = hashKey(DEVELOPMENT_PERSONAL_KEY)
    return this.list().some((key) => key.revokedAtMs === null && key.hash.equals(hash))
  }

  /** Creates a personal key, as part of a change that has already begun. */
  insert(text: string, request: KeyRequest): PersonalKey {
    this.#requireFree('personal_keys', text)
    const userId = request.userId ?? OWNER_ID
    this.#requireUser(userId)
    const keys = this.list()
    const key: PersonalKey = {
      ...this.#newKey(text, keys, request.label ?? 'Personal key'),
      userId,
      scopes: request.scopes ?? ['*'],
      projectIds: request.projectIds ?? 'all',
      expiresAtMs: request.expiresAtMs ?? null,
    }
    this.#checkRights(key)
    this.#makeRoom('personal_keys', keys)
    return this.#environment.put('personal_keys', key)
  }

  change(id: number, changes: KeyChanges): PersonalKey {
    return this.#environment.change(() => {
      const before = this.#requireInForce('personal_keys', id)
      const key: PersonalKey = { ...before, ...changes }
      this.#checkRights(key, before.scopes)
      return this.#environment.put('personal_keys', key)
    })
  }

  /** Replaces the text of a personal key. The old text becomes invalid. */
  roll(id: number): NewKey<PersonalKey> {
    return this.#roll('personal_keys', id, generatePersonalKey())
  }

  /** Revokes a personal key. Revoking it again changes nothing. */
  revoke(id: number): PersonalKey {
    return this.#revoke('personal_keys', id)
  }

  /** Returns all personal keys, in the order of their ids, including revoked and expired ones. */
  list(): readonly PersonalKey[] {
    return this.#environment.all('personal_keys')
  }

  /** Creates a secret key of a project. */
  createSecret(request: SecretKeyRequest): NewKey<SecretKey> {
    const text = request.text ?? generateSecretKey()
    const key = this.#environment.change(() => {
      this.#requireFree('secret_keys', text)
      const { projectId, label = 'Project secret key' } = request
      this.#requireProject(projectId)
      checkLabel(label)
      const keys = this.listSecrets()
      const secret: SecretKey = { ...this.#newKey(text, keys, label), projectId }
      this.#makeRoom('secret_keys', keys)
      return this.#environment.put('secret_keys', secret)
    })
    return { text, key }
  }

  /** Replaces the text of a secret key. The old text becomes invalid. */
  rollSecret(id: number): NewKey<SecretKey> {
    return this.#roll('secret_keys', id, generateSecretKey())
  }

  /** Revokes a secret key. Revoking it again changes nothing. */
  revokeSecret(id: number): SecretKey {
    return this.#revoke('secret_keys', id)
  }

  /** Returns all project secret keys, in the order of their ids, including revoked ones. */
  listSecrets(): readonly SecretKey[] {
    return this.#environment.all('secret_keys')
  }

  /** Returns whether a personal key or a project secret key with this text exists already. */
  isTaken(text: string): boolean {
    const hash = hashKey(text)
    return [...this.list(), ...this.listSecrets()].some((key) => key.hash.equals(hash))
  }

  /** Returns the fields that both kinds of keys have, for a new key. */
  #newKey(text: string, others: readonly RevocableKey[], label: string) {
    return {
      id: nextId(others),
      label,
      ...hashed(text),
      createdAtMs: this.#environment.clock.now(),
      revokedAtMs: null,
      rolledAtMs: null,
    }
  }

  #requireFree(kind: KeyKind, text: string): void {
    checkKeyText(`A ${KEY_NAMES[kind]}`, text, 'value')
    const isProjectKey = this.#environment.all('projects').some(({ apiKey }) => apiKey === text)
    const detail = `This ${KEY_NAMES[kind]} is already in use. Choose another one.`
    demand(!isProjectKey && !this.isTaken(text), 'unique', detail, 'value')
  }

  /**
   * Throws 400 if the label, scopes or projects of a key are not valid. `scopesBefore` are the scopes that the key
   * already has. These scopes are not checked, because a key from an older version may have scopes that are unknown
   * now.
   */
  #checkRights(key: PersonalKey, scopesBefore: readonly string[] = []): void {
    const { label, scopes, projectIds } = key
    checkLabel(label)
    const isList = scopes.length > 0 && scopes.length <= KEY_SCOPES_MAX
    const listDetail = `A key must have 1 to ${KEY_SCOPES_MAX} scopes, such as event:read. Use * for all scopes.`
    demand(isList, 'invalid_input', listDetail, 'scopes')
    const unknown = scopes.find((scope) => !isScope(scope) && !scopesBefore.includes(scope))
    const name = JSON.stringify(unknown?.slice(0, SCOPE_CHARACTERS_SHOWN))
    const detail = `${name} is not a scope. Use * for all scopes, or some of ${SCOPES.join(', ')}.`
    demand(unknown === undefined, 'invalid_input', detail, 'scopes')
    if (projectIds !== 'all') for (const id of projectIds) this.#requireProject(id)
  }

  #requireProject(id: number): void {
    const projects = this.#environment.table('projects')
    const isThere = id <= NUMBER_MAX && getRecord(projects, numberKey(id)) !== undefined
    demand(isThere, 'does_not_exist', `There is no project ${id}.`, 'scoped_teams')
  }

  #requireUser(id: number): void {
    const user = this.#environment.all('users').find((one) => one.id === id)
    demand(user?.isActive === true, 'does_not_exist', `There is no active user ${id}.`, 'user')
  }

  #roll<Kind extends KeyKind>(kind: Kind, id: number, text: string): NewKey<Keys[Kind]> {
    const key = this.#environment.change(() => {
      const before = this.#requireInForce(kind, id)
      const rolledAtMs = this.#environment.clock.now()
      return this.#environment.put<KeyKind>(kind, { ...before, ...hashed(text), rolledAtMs })
    })
    // The cast is right: the record comes from the table of this kind of keys.
    return { text, key: key as Keys[Kind] }
  }

  #revoke<Kind extends KeyKind>(kind: Kind, id: number): Keys[Kind] {
    return this.#environment.change(() => {
      const key = this.#require(kind, id)
      if (key.revokedAtMs !== null) return key
      const revokedAtMs = this.#environment.clock.now()
      this.#environment.put<KeyKind>(kind, { ...key, revokedAtMs })
      return { ...key, revokedAtMs }
    })
  }

  #require<Kind extends KeyKind>(kind: Kind, id: number): Keys[Kind] {
    const keys: readonly Keys[Kind][] = this.#environment.all<KeyKind>(kind) as Keys[Kind][]
    const key = keys.find((candidate) => candidate.id === id)
    demand(key !== undefined, 'not_found', `There is no ${KEY_NAMES[kind]} ${id}.`)
    return key
  }

  #requireInForce<Kind extends KeyKind>(kind: Kind, id: number): Keys[Kind] {
    const key = this.#require(kind, id)
    demand(key.revokedAtMs === null, 'not_found', `The key ${id} is revoked. Create another one.`)
    return key
  }

  /**
   * Makes room for one more key. Throws 400 if there are too many valid keys. If there are too many revoked keys,
   * removes the oldest of them.
   */
  #makeRoom(name: 'personal_keys' | 'secret_keys', keys: readonly RevocableKey[]): void {
    const revoked = keys.filter(({ revokedAtMs }) => revokedAtMs !== null)
    demandRoom(keys.length - revoked.length, KEYS_MAX, 'keys. Revoke some keys first')
    const table = this.#environment.table(name)
    // A new key gets the highest number in the table plus 1. Only the oldest revoked keys are removed, so the highest
    // number stays in the table, and no number is given to two keys.
    const forgotten = revoked.slice(0, Math.max(0, revoked.length - REVOKED_KEYS_MAX))
    for (const { id } of forgotten) table.removeSync(numberKey(id))
  }
}

interface Keys {
  personal_keys: PersonalKey
  secret_keys: SecretKey
}
type KeyKind = keyof Keys

const KEY_NAMES = { personal_keys: 'personal key', secret_keys: 'project secret key' } as const

type RevocableKey = Pick<PersonalKey, 'id' | 'revokedAtMs'>

function generateSecretKey(): string {
  return SECRET_KEY_PREFIX + randomBase62()
}

function hashed(text: string): { readonly hash: Buffer; readonly lastFour: string } {
  return { hash: hashKey(text), lastFour: text.slice(-4) }
}

function checkLabel(label: string): void {
  const isLabel = label.trim() !== '' && label.length <= KEY_LABEL_CHARACTERS_MAX
  const detail = `The name of a key must have 1 to ${KEY_LABEL_CHARACTERS_MAX} characters.`
  demand(isLabel, 'invalid_input', detail, 'label')
}

function randomBase62(): string {
  let text = ''
  for (let index = 0; index < KEY_RANDOM_CHARACTERS; index++) text += BASE62[randomInt(62)]
  return text
}
