/**
 * Reads text in the form `application/x-www-form-urlencoded`: bodies, query strings, and values that were
 * percent-encoded once too often. It works on bytes in one pass and decodes only the requested fields, so a body with a
 * million fields costs no more than its length.
 */

const AMPERSAND = 0x26
const EQUALS = 0x3d
const PERCENT = 0x25
const PLUS = 0x2b
const SPACE = 0x20

/**
 * Returns the decoded values of the named fields as bytes, which need not be valid UTF-8. If a field occurs more than
 * once, its last value counts, as in JSON. A field without `=` has an empty value. Malformed percent sequences stay as
 * they are. `names` must be ASCII. The cost is linear.
 */
export function parseForm(form: Uint8Array, names: readonly string[]): Map<string, Buffer> {
  const bytes = asBuffer(form)
  const fields = new Map<string, Buffer>()
  let start = 0
  let equals = -1
  for (let position = 0; position <= bytes.length; position++) {
    const byte = bytes[position]
    if (byte === EQUALS && equals === -1) equals = position
    // `byte` is undefined after the last byte of the form. The end of the form ends a field, as an ampersand does.
    if (byte !== AMPERSAND && byte !== undefined) continue
    const nameEnd = equals === -1 ? position : equals
    const name = nameEnd === start ? undefined : nameAt(bytes, start, nameEnd, names)
    if (name !== undefined) {
      const valueStart = equals === -1 ? position : equals + 1
      fields.set(name, decodeFormText(bytes.subarray(valueStart, position)))
    }
    start = position + 1
    equals = -1
  }
  return fields
}

/**
 * Returns the name in `names` that equals the bytes from `start` to `end`, or undefined. It allocates nothing, because
 * there may be many fields.
 */
function nameAt(
  bytes: Buffer,
  start: number,
  end: number,
  names: readonly string[],
): string | undefined {
  for (const name of names) if (isNameAt(bytes, start, end, name)) return name
  return undefined
}

function isNameAt(bytes: Buffer, start: number, end: number, name: string): boolean {
  let position = start
  for (let index = 0; index < name.length; index++) {
    let byte = bytes[position]
    if (position >= end || byte === undefined) return false
    if (byte === PERCENT && position + 2 < end) {
      byte = hexValue(bytes[position + 1]) * 16 + hexValue(bytes[position + 2])
      position += 2
    }
    if (byte !== name.charCodeAt(index)) return false
    position++
  }
  return position === end
}

/**
 * Decodes `%XX` sequences and reads `+` as a space. Malformed sequences stay as they are. Returns the given bytes
 * without a copy if there is nothing to decode. The cost is linear.
 */
function decodeFormText(encoded: Uint8Array): Buffer {
  return decodePercent(replaceByte(encoded, PLUS, SPACE))
}

/**
 * Decodes `%XX` sequences and leaves `+` as it is. Returns the given bytes without a copy if there is no `%`. The cost
 * is linear.
 */
export function decodePercent(encoded: Uint8Array): Buffer {
  const bytes = asBuffer(encoded)
  const first = bytes.indexOf(PERCENT)
  if (first === -1) return bytes
  const decoded = Buffer.allocUnsafe(bytes.length)
  let length = 0
  for (let position = 0; position < bytes.length; position++) {
    const byte = bytes[position] ?? 0
    if (byte === PERCENT) {
      const high = hexValue(bytes[position + 1])
      const low = hexValue(bytes[position + 2])
      if (high >= 0 && low >= 0) {
        decoded[length++] = high * 16 + low
        position += 2
        continue
      }
    }
    decoded[length++] = byte
  }
  return decoded.subarray(0, length)
}

/**
 * Returns the bytes with every byte `from` replaced by `to`. Returns the given bytes without a copy if there is none.
 */
export function replaceByte(given: Uint8Array, from: number, to: number): Buffer {
  const bytes = asBuffer(given)
  let position = bytes.indexOf(from)
  if (position === -1) return bytes
  const replaced = Buffer.from(bytes)
  for (; position < replaced.length; position++) {
    if (replaced[position] === from) replaced[position] = to
  }
  return replaced
}

/** Returns a Buffer over the same memory, without a copy. */
export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes)
    ? bytes
    : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

function hexValue(byte: number | undefined): number {
  if (byte === undefined) return -1
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const lower = byte | 0x20
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1
}
