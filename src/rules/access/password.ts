/**
 * Passwords of users: which ones are allowed, and the text in which their hash is stored. The text has the form of the
 * Password Hashing Competition, `$scrypt$ln=15,r=8,p=3$SALT$HASH`, so each stored hash names its own cost, and the cost
 * of new hashes can be changed. The Password Storage Cheat Sheet of OWASP recommends the cost for scrypt that is used
 * here.
 */
import type { User } from './organization.ts'

/** A password as it is stored. The password itself is not stored. */
export interface StoredPassword {
  readonly userId: number
  /** The text that `passwordHashText` returns. */
  readonly hash: string
  /** The time of the last change. A session that began with an earlier password has ended. */
  readonly setAtMs: number
}

/** The parts of the text in which a password's hash is stored. */
export interface PasswordHash {
  /** The binary logarithm of the number of rounds. Memory is 128 * 2^costExponent * blockSize bytes. */
  readonly costExponent: number
  readonly blockSize: number
  readonly parallelism: number
  readonly salt: Buffer
  readonly hash: Buffer
}

/** The cost of a new hash: 32 MiB of memory, and about a quarter of a second. */
export const PASSWORD_COST = { costExponent: 15, blockSize: 8, parallelism: 3 }
/** The number of random bytes in the salt with which a hash is made. */
export const PASSWORD_SALT_BYTES = 16
/** The number of bytes of a hash. */
export const PASSWORD_HASH_BYTES = 32
/** The least number of characters of a password. */
const PASSWORD_CHARACTERS_LEAST = 10
/** The least number of different characters of a password. */
const DIFFERENT_CHARACTERS_LEAST = 4
const HASH_PATTERN =
  /^\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/]{22,44})\$([A-Za-z0-9+/]{43})$/

/** Returns the text in which a hash is stored. */
export function passwordHashText({
  costExponent,
  blockSize,
  parallelism,
  salt,
  hash,
}: PasswordHash): string {
  const cost = `ln=${costExponent},r=${blockSize},p=${parallelism}`
  return `$scrypt$${cost}$${unpadded(salt)}$${unpadded(hash)}`
}

/** Returns the parts of a text that `passwordHashText` has returned, or null if the text has another form. */
export function parsePasswordHash(text: string): PasswordHash | null {
  const match = HASH_PATTERN.exec(text)
  if (match === null) return null
  const [, costExponent, blockSize, parallelism, salt = '', hash = ''] = match
  return {
    costExponent: Number(costExponent),
    blockSize: Number(blockSize),
    parallelism: Number(parallelism),
    salt: Buffer.from(salt, 'base64'),
    hash: Buffer.from(hash, 'base64'),
  }
}

/**
 * Returns the form of a password that is hashed. Keyboards send the same letters in different Unicode forms, so all
 * forms of a password count as the same password.
 */
export function normalizedPassword(password: string): string {
  return password.normalize('NFKC')
}

/** Returns why a user cannot have a password, as a sentence for the user, or null if the password is allowed. */
export function passwordObstacle(
  password: string,
  { email, firstName }: Pick<User, 'email' | 'firstName'>,
): string | null {
  const characters = [...normalizedPassword(password)]
  if (characters.length < PASSWORD_CHARACTERS_LEAST) {
    return `Choose a password with at least ${PASSWORD_CHARACTERS_LEAST} characters.`
  }
  if (new Set(characters).size < DIFFERENT_CHARACTERS_LEAST) {
    return `Choose a password with at least ${DIFFERENT_CHARACTERS_LEAST} different characters.`
  }
  const folded = normalizedPassword(password).toLowerCase()
  const [mailbox = ''] = email.toLowerCase().split('@')
  const name = firstName.toLowerCase()
  const known = [
    email.toLowerCase(),
    mailbox,
    mailbox.repeat(2),
    name,
    name.repeat(2),
    mailbox + name,
  ]
  return known.includes(folded)
    ? 'Choose a password that is not your name or e-mail address.'
    : null
}

function unpadded(bytes: Buffer): string {
  return bytes.toString('base64').replace(/=+$/, '')
}
