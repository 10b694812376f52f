/**
 * UUIDs as 16 bytes and as text (RFC 9562): version 7 for IDs that the server makes up, version 4 for IDs of answers,
 * and version 5 for IDs that are computed from a name and must be the same every time.
 */
import { createHash, randomFillSync } from 'node:crypto'

const HEX_VALUES = hexValues()
const POOL = Buffer.allocUnsafe(16 * 1024)
let poolOffset = POOL.length

/** Writes a new version 7 UUID with the given time to the 16 bytes of `target` at `offset`. */
export function writeUuidV7(target: Uint8Array, offset: number, timeMs: number): void {
  const random = takeRandom()
  target.set(POOL.subarray(random, random + 16), offset)
  let rest = Math.max(0, Math.floor(timeMs))
  for (let index = 5; index >= 0; index--) {
    target[offset + index] = rest % 256
    rest = Math.floor(rest / 256)
  }
  target[offset + 6] = 0x70 | ((target[offset + 6] ?? 0) & 0x0f)
  target[offset + 8] = 0x80 | ((target[offset + 8] ?? 0) & 0x3f)
}

/**
 * Reserves 16 unused random bytes of `POOL`, and returns their offset. If all bytes are used, fills the pool again
 * first.
 */
function takeRandom(): number {
  if (poolOffset === POOL.length) {
    randomFillSync(POOL)
    poolOffset = 0
  }
  poolOffset += 16
  return poolOffset - 16
}

/** The number of characters of a UUID as text. */
export const UUID_CHARACTERS = 36

/**
 * Writes a new version 4 UUID, as lower-case text with hyphens, to the 36 bytes of `target` at `offset`. The call takes
 * about 50 ns.
 */
export function writeUuidV4Text(target: Uint8Array, offset: number): void {
  const random = takeRandom()
  POOL[random + 6] = 0x40 | ((POOL[random + 6] ?? 0) & 0x0f)
  POOL[random + 8] = 0x80 | ((POOL[random + 8] ?? 0) & 0x3f)
  writeText(POOL, random, target, offset)
}

/** Returns a new version 7 UUID with the given time, as lower-case text with hyphens. */
export function uuidV7(timeMs: number): string {
  const bytes = new Uint8Array(16)
  writeUuidV7(bytes, 0, timeMs)
  return formatUuid(bytes, 0)
}

/** Returns the version 5 UUID of a name in a namespace, as text. The namespace is a UUID as text. */
export function uuidV5(namespace: string, name: string): string {
  const namespaceBytes = parseUuid(namespace)
  if (namespaceBytes === null) throw new TypeError('the namespace is not a UUID')
  const digest = createHash('sha1').update(namespaceBytes).update(name, 'utf8').digest()
  digest[6] = 0x50 | ((digest[6] ?? 0) & 0x0f)
  digest[8] = 0x80 | ((digest[8] ?? 0) & 0x3f)
  return formatUuid(digest, 0)
}

/** Returns the UUID in the 16 bytes at `offset`, as text. */
export function formatUuid(bytes: Uint8Array, offset: number): string {
  // The text is built from bytes, because V8 keeps all parts of a concatenated text in memory.
  writeText(bytes, offset, UUID_TEXT, 0)
  return UUID_TEXT.toString('latin1')
}

function writeText(bytes: Uint8Array, offset: number, target: Uint8Array, start: number): void {
  let position = start
  for (let index = 0; index < 16; index++) {
    if (index === 4 || index === 6 || index === 8 || index === 10) target[position++] = HYPHEN
    const byte = bytes[offset + index] ?? 0
    target[position++] = HEX_CODES[byte >>> 4] ?? 0
    target[position++] = HEX_CODES[byte & 15] ?? 0
  }
}

const HYPHEN = 0x2d
const UUID_TEXT = Buffer.alloc(UUID_CHARACTERS)
const HEX_CODES = Buffer.from('0123456789abcdef', 'latin1')

/**
 * Returns the 16 bytes of a UUID in any of the forms that clients send: with hyphens, 32 hex digits, in braces, or as
 * `urn:uuid:`, in any case and of any version. Returns null for anything else. Source: docs/compatibility/events.md,
 * "uuid".
 */
export function parseUuid(text: string): Uint8Array | null {
  let body = text
  if (body.length === 38 && body.startsWith('{') && body.endsWith('}')) body = body.slice(1, -1)
  else if (body.length === 45 && body.slice(0, 9).toLowerCase() === 'urn:uuid:')
    body = body.slice(9)
  const isHyphenated = body.length === 36
  if (!isHyphenated && body.length !== 32) return null
  const bytes = new Uint8Array(16)
  let position = 0
  for (let index = 0; index < 16; index++) {
    if (isHyphenated && (index === 4 || index === 6 || index === 8 || index === 10)) {
      if (body.charCodeAt(position++) !== 0x2d) return null
    }
    const high = HEX_VALUES[body.charCodeAt(position++)] ?? -1
    const low = HEX_VALUES[body.charCodeAt(position++)] ?? -1
    if (high < 0 || low < 0) return null
    bytes[index] = high * 16 + low
  }
  return bytes
}

function hexValues(): Int8Array {
  const values = new Int8Array(256).fill(-1)
  for (let digit = 0; digit < 10; digit++) values[0x30 + digit] = digit
  for (let digit = 0; digit < 6; digit++) {
    values[0x41 + digit] = 10 + digit
    values[0x61 + digit] = 10 + digit
  }
  return values
}
