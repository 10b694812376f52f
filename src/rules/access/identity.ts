/**
 * Accounts at an OpenID Connect provider with which users log in to the console. A user is found by the verified e-mail
 * address at the first login, and by issuer and subject from then on. The subject never changes and is never given to
 * another person, unlike the address.
 */
import { isObject } from '../../base/json.ts'
import type { AuditEntry } from './audit-entry.ts'

/** An account that the provider has confirmed. */
export interface ProviderAccount {
  readonly issuer: string
  /** The ID of the account at the provider. */
  readonly subject: string
  /** The verified e-mail address, in lower case. */
  readonly email: string
  /** The first name of the person, or '' if the provider does not tell it. */
  readonly firstName: string
}

/** The link between an account and a user, as it is stored. */
export interface StoredIdentity {
  readonly userId: number
  readonly issuer: string
  readonly subject: string
  /** The e-mail address of the account when it was linked. */
  readonly email: string
  readonly linkedAtMs: number
}

/** A login with an account, as it reaches the store. */
export interface IdentityLogin {
  readonly account: ProviderAccount
  /**
   * True if the first login of a person who has no user yet creates a user with the level of a viewer. Otherwise such a
   * login is refused.
   */
  readonly isViewerMade: boolean
  /** The audit entry of a new link. The store fills in the user. */
  readonly audit: AuditEntry
}

/**
 * The claims of the provider about a person, from the ID token or the user info. The provider may leave out any member.
 */
export interface ProviderClaims {
  readonly email?: unknown
  readonly email_verified?: unknown
  readonly given_name?: unknown
  readonly name?: unknown
}

/**
 * The greatest length of a subject that OpenID Connect Core, section 2, allows. A login with a longer one is refused.
 */
const SUBJECT_CHARACTERS = 255
/** The greatest length of the first name of a user. A longer name from the provider is replaced by ''. */
const FIRST_NAME_CHARACTERS = 150
const EMAIL = /^[^\s@\p{Cc}]{1,64}@[^\s@\p{Cc}]{1,189}$/u

/**
 * Returns the account that claims describe, or a sentence for the user that says why they cannot be used to log in.
 * `domains` are the allowed domains of addresses. Every domain is allowed if the list is empty or contains `*`.
 */
export function accountOf(
  { issuer, subject }: Pick<ProviderAccount, 'issuer' | 'subject'>,
  claims: ProviderClaims,
  domains: readonly string[],
): ProviderAccount | string {
  if (subject === '' || subject.length > SUBJECT_CHARACTERS) {
    return 'The identity provider sent an account without a valid ID. Ask an administrator to check the provider.'
  }
  if (typeof claims.email !== 'string' || !EMAIL.test(claims.email)) {
    return 'The identity provider did not send your e-mail address. Ask an administrator to let Tenrec read it there.'
  }
  // Some providers write the boolean as the string 'true'.
  if (claims.email_verified !== true && claims.email_verified !== 'true') {
    return 'The identity provider has not verified your e-mail address. Verify it there, and log in again.'
  }
  const email = asciiLowerCase(claims.email)
  const domain = email.slice(email.indexOf('@') + 1)
  if (domains.length > 0 && !domains.includes('*') && !domains.includes(domain)) {
    return `E-mail addresses of ${domain} cannot be used to log in here. Log in with another account.`
  }
  const names = [claims.given_name, claims.name, '']
  const firstName = names.find((name) => typeof name === 'string') ?? ''
  return { issuer, subject, email, firstName: plainName(String(firstName)) }
}

/**
 * Returns the text with only the letters A to Z in lower case. In Unicode, different letters can have the same lower
 * case, so two different e-mail addresses could become equal and one person could log in as another.
 */
export function asciiLowerCase(text: string): string {
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase())
}

/** Returns the members of a JSON value that describe a person. */
export function claimsIn(value: unknown): ProviderClaims {
  return isObject(value) ? value : {}
}

/**
 * Returns whether a text is the path of a page of the console, with or without a query. The path begins with a slash
 * and is relative to the root of the console. Texts that would lead a browser to another host are refused.
 */
export function isConsolePage(text: string): boolean {
  return /^\/(?![/\\])[\x21-\x5b\x5d-\x7e]*$/.test(text)
}

function plainName(name: string): string {
  const plain = name.replace(/[\p{Cc}\p{Cf}\s]+/gu, ' ').trim()
  return plain.length <= FIRST_NAME_CHARACTERS ? plain : ''
}
