/**
 * Invitations to the organization. Each invitation has a code that works once and expires. Somebody who enters the code
 * becomes a user with a password or a personal key. Only the hash of the code is stored. Table `invites`: number u32 ->
 * `Invite`, MessagePack with a checksum.
 */
import { randomBytes } from 'node:crypto'
import { uuidV7 } from '../../base/ids.ts'
import { asciiLowerCase } from '../../rules/access/identity.ts'
import { isAdministrator } from '../../rules/access/levels.ts'
import {
  type AcceptedInvite,
  type Invite,
  type InviteAcceptance,
  type InviteRequest,
  LIMITED_INVITE,
  mayHavePassword,
  type NewInvite,
  type User,
} from '../../rules/access/organization.ts'
import { isScope } from '../../rules/access/scopes.ts'
import { numberKey } from '../lmdb/keys.ts'
import { demand, demandRoom } from './checks.ts'
import type { DirectoryEnvironment } from './directory-environment.ts'
import { hashKey, type KeyStore } from './key-store.ts'
import { INVITE_MS_MAX, INVITES_MAX } from './limits.ts'
import type { PasswordStore } from './password-store.ts'
import type { UserStore } from './user-store.ts'

const CODE_BYTES = 32

/** Changes invitations. A change that is not allowed throws a `ServiceError` and changes nothing. */
export class InviteStore {
  readonly #environment: DirectoryEnvironment
  readonly #users: UserStore
  readonly #keys: KeyStore
  readonly #passwords: PasswordStore

  constructor(
    environment: DirectoryEnvironment,
    users: UserStore,
    keys: KeyStore,
    passwords: PasswordStore,
  ) {
    this.#environment = environment
    this.#users = users
    this.#keys = keys
    this.#passwords = passwords
  }

  /**
   * Returns the invitations that are not accepted, oldest first. Includes expired invitations until the next invitation
   * is created.
   */
  list(): readonly Invite[] {
    return this.#environment.all('invites')
  }

  /** Invites an e-mail address. An earlier invitation to the same address becomes invalid. */
  create({ email: address, firstName = '', level, ...rest }: InviteRequest): NewInvite {
    return this.#environment.save(() => {
      const email = address.trim()
      this.#users.requireFree({ email, firstName })
      const nowMs = this.#environment.clock.now()
      for (const { number, ...other } of this.list()) {
        const isSame = other.email.toLowerCase() === email.toLowerCase()
        if (isSame || other.expiresAtMs <= nowMs) this.#remove(number)
      }
      demandRoom(this.list().length, INVITES_MAX, 'invitations')
      const text = randomBytes(CODE_BYTES).toString('base64url')
      const invite = this.#environment.put('invites', {
        number: this.#environment.nextNumber('invite'),
        id: uuidV7(nowMs),
        hash: hashKey(text),
        email,
        firstName,
        level,
        ...rest,
        createdAtMs: nowMs,
        expiresAtMs: nowMs + INVITE_MS_MAX,
      })
      return { text, invite }
    })
  }

  /** Withdraws an invitation, by its uuid. */
  delete(id: string): void {
    this.#environment.save(() => {
      const invite = this.list().find((one) => one.id === id)
      demand(invite !== undefined, 'not_found', 'This invitation does not exist.')
      this.#remove(invite.number)
    })
  }

  /**
   * Returns the invitation with this code. Throws 400 `invalid_input` if the invitation is unknown or no longer valid.
   */
  byCode(code: string): Invite {
    const hash = hashKey(code)
    const invite = this.list().find((one) => one.hash.equals(hash))
    const detail =
      'The invitation was already used or revoked, has expired, or does not exist. Ask for another one.'
    demand(invite !== undefined && this.#isOpen(invite), 'invalid_input', detail, 'code')
    return invite
  }

  /**
   * Accepts an open invitation to this e-mail address and returns the new user. No code is needed, because an identity
   * provider has confirmed the address. Returns null if there is no such invitation. Also returns null if the
   * invitation gives limited rights, because only a key can have limited rights, and this user gets no key. Call it
   * only within a change.
   */
  acceptFor(email: string, firstName: string): User | null {
    const invite = this.list().find((one) => asciiLowerCase(one.email) === email)
    if (invite === undefined || !this.#isOpen(invite) || !mayHavePassword(invite)) return null
    const { number, level } = invite
    const name = firstName === '' ? invite.firstName : firstName
    const user = this.#users.create({ email: invite.email, level, firstName: name })
    this.#remove(number)
    return user
  }

  /**
   * Creates the invited user. If `passwordHash` is given, the user will log in with that password. Otherwise, the user
   * gets a key with the same rights as the key that created the invitation. Throws 400 `invalid_input` if
   * `passwordHash` is given but the key that created the invitation had limited rights, because a password gives all
   * rights of the user.
   */
  accept({ code, firstName, passwordHash }: InviteAcceptance): AcceptedInvite {
    return this.#environment.change(() => {
      const invite = this.byCode(code)
      const { number, email, level, scopes, keyExpiresAtMs } = invite
      const user = this.#users.create({ email, level, firstName: firstName ?? invite.firstName })
      if (passwordHash !== undefined) {
        demand(mayHavePassword(invite), 'invalid_input', LIMITED_INVITE, 'password')
        this.#passwords.set(user.id, passwordHash)
        this.#remove(number)
        return { user, made: null }
      }
      const made = this.#keys.create({
        label: 'Invitation',
        userId: user.id,
        // The invitation may contain scopes from an older version that are unknown now. Unknown scopes allow nothing,
        // so they are left out.
        scopes: scopes.filter(isScope),
        ...(keyExpiresAtMs === null ? {} : { expiresAtMs: keyExpiresAtMs }),
      })
      this.#remove(number)
      return { user, made }
    })
  }

  /**
   * Returns false if the invitation has expired, or if the user who created it may no longer invite users of this
   * level.
   */
  #isOpen({ createdById, level, expiresAtMs }: Invite): boolean {
    const host = this.#users.list().find(({ id }) => id === createdById)
    const isVouched = host?.isActive === true && isAdministrator(host.level) && host.level >= level
    return isVouched && expiresAtMs > this.#environment.clock.now()
  }

  #remove(number: number): void {
    this.#environment.table('invites').removeSync(numberKey(number))
  }
}
