/**
 * The accounts at an OpenID Connect provider that are linked to users. All machines of a cluster have the same links.
 * No thread caches links: if a session began with a linked account, each of its requests reads the link again, so that
 * unlinking takes effect at once. Table `identities`: SHA-256 of issuer and subject -> `StoredIdentity`, MessagePack
 * with a checksum.
 */
import { createHash } from 'node:crypto'
import type { ProviderAccount, StoredIdentity } from '../../rules/access/identity.ts'
import type { User } from '../../rules/access/organization.ts'
import { DamagedRecordError } from '../faults.ts'
import { unpack } from '../lmdb/codec.ts'
import { entriesOf, getRecord, putRecord } from '../lmdb/records.ts'
import type { DirectoryEnvironment } from './directory-environment.ts'

const TABLE = 'identities'

/** Returns the key under which the link of an account is stored. */
export function identityHash({
  issuer,
  subject,
}: Pick<ProviderAccount, 'issuer' | 'subject'>): Buffer {
  return createHash('sha256')
    .update(JSON.stringify([issuer, subject]), 'utf8')
    .digest()
}

/**
 * Returns the link that is stored under a key, or null if there is none. A damaged link counts as missing. Costs one
 * lookup.
 */
export function identityByHash(
  environment: DirectoryEnvironment,
  hash: Buffer,
): StoredIdentity | null {
  try {
    // The cast is right: `linkAccount` wrote the record, and its checksum matches.
    const record = getRecord(environment.table(TABLE), hash)
    return (record as StoredIdentity | undefined) ?? null
  } catch (cause) {
    if (cause instanceof DamagedRecordError) return null
    throw cause
  }
}

/** Returns the links of a user, or the links of all users if no user is given. Reads all links. */
export function identitiesOf(
  environment: DirectoryEnvironment,
  userId?: number,
): readonly { readonly key: Buffer; readonly identity: StoredIdentity }[] {
  return [...entriesOf(environment.table(TABLE))]
    .map(({ key, value }) => ({
      key: Buffer.from(key),
      identity: unpack(value) as StoredIdentity,
    }))
    .filter(({ identity }) => userId === undefined || identity.userId === userId)
}

/** Removes the links of a user, and returns the number of removed links. Call it only within a change. */
export function unlinkUser(environment: DirectoryEnvironment, userId: number): number {
  const own = identitiesOf(environment, userId)
  for (const { key } of own) environment.table(TABLE).removeSync(key)
  return own.length
}

/** Links an account to a user. Call it only within a change. */
export function linkAccount(
  environment: DirectoryEnvironment,
  { issuer, subject, email }: ProviderAccount,
  user: Pick<User, 'id'>,
): StoredIdentity {
  const linkedAtMs = environment.clock.now()
  const identity: StoredIdentity = { userId: user.id, issuer, subject, email, linkedAtMs }
  putRecord(environment.table(TABLE), identityHash(identity), identity)
  return identity
}
