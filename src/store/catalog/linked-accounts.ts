/**
 * The accounts at an OpenID Connect provider that are linked to users. Machines of a cluster share them. No thread
 * caches them, because every request of a session that began with an account reads its link. Table `identities`:
 * SHA-256 of issuer and subject -> `StoredIdentity`, MessagePack with a checksum.
 */
import { createHash } from 'node:crypto'
import type { ProviderAccount, StoredIdentity } from '../../rules/access/identity.ts'
import type { User } from '../../rules/access/organization.ts'
import { DamagedRecordError } from '../faults.ts'
import { unpack } from '../lmdb/codec.ts'
import { entriesOf, getRecord, putRecord } from '../lmdb/records.ts'
import type { DirectoryEnvironment } from './directory-environment.ts'

const TABLE = 'identities'

/** Returns the key under which an account is stored. */
export function identityHash({
  issuer,
  subject,
}: Pick<ProviderAccount, 'issuer' | 'subject'>): Buffer {
  return createHash('sha256')
    .update(JSON.stringify([issuer, subject]), 'utf8')
    .digest()
}

/** Returns the link with a key, or null if there is none. A damaged one counts as none. Costs one lookup. */
export function identityByHash(
  environment: DirectoryEnvironment,
  hash: Buffer,
): StoredIdentity | null {
  try {
    // `linkAccount` wrote the record, and the checksum guarantees that it is unchanged.
    const record = getRecord(environment.table(TABLE), hash)
    return (record as StoredIdentity | undefined) ?? null
  } catch (cause) {
    if (cause instanceof DamagedRecordError) return null
    throw cause
  }
}

/** Returns the links of a user, or of all users without one. The cost is linear in the number of all links. */
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

/** Removes the links of a user, and returns how many there were. Call it only within a change. */
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
