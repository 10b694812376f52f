/**
 * Recognizes a line of Tenrec's own export by its bytes, so that an import can forward the line without parsing it. It
 * recognizes only the exact form that the export writes. It does not check the content of the properties, so the import
 * must check with the scanner (scanner/) that the copied event is well-formed JSON.
 */

const QUOTE = 0x22
const BACKSLASH = 0x5c
const OBJECT_END = 0x7d
const ZERO = 0x30
const NINE = 0x39
const UTC = 0x5a
const UUID_CHARACTERS = 36
const CHAIN_KEY = Buffer.from('"$elements_chain"')

const ID = Buffer.from('{"id":')
const UUID = Buffer.from(',"uuid":"')
const EVENT = Buffer.from(',"event":"')
const DISTINCT_ID = Buffer.from(',"distinct_id":"')
const TIMESTAMP = Buffer.from(',"timestamp":"')
const CREATED_AT = Buffer.from(',"created_at":"')
const PERSON_MODE = Buffer.from(',"person_mode":"')
const ELEMENTS = Buffer.from(',"elements_chain":"')
const PROPERTIES = Buffer.from(',"properties":{')

/** The parts of a line that form an event for `/batch/`, as offsets in the bytes of the line. */
export interface OwnLine {
  /** The head extends from the quote before `uuid` to the end of the timestamp. */
  headStart: number
  headEnd: number
  /** The range of the elements chain with its quotes. Both offsets are 0 if there is no chain. */
  chainStart: number
  chainEnd: number
  /** The tail extends from the comma before `properties` to the end of the line. */
  tailStart: number
}

/**
 * Returns whether bytes `start` to `end` (without the newline) are an exported event, and writes the offsets of its
 * parts into `found`. It reads a few hundred bytes, or more if the event has elements.
 */
export function findOwnLine(bytes: Buffer, start: number, end: number, found: OwnLine): boolean {
  if (bytes[end - 1] !== OBJECT_END || bytes[end - 2] !== OBJECT_END) return false
  let at = positionAfter(bytes, start, ID)
  while (isDigit(bytes[at])) at++
  const idEnd = at
  at = positionAfter(bytes, at, UUID)
  if (at < 0 || idEnd <= start + ID.length) return false
  found.headStart = idEnd + 1
  const uuidEnd = positionAfterText(bytes, at, end)
  if (uuidEnd !== at + UUID_CHARACTERS + 1) return false
  at = positionAfterText(bytes, positionAfter(bytes, uuidEnd, EVENT), end)
  at = positionAfterText(bytes, positionAfter(bytes, at, DISTINCT_ID), end)
  at = positionAfterText(bytes, positionAfter(bytes, at, TIMESTAMP), end)
  // Tenrec writes times in UTC with `Z`. A line with any other time is from another program.
  if (at < 0 || bytes[at - 2] !== UTC) return false
  found.headEnd = at
  at = positionAfterText(bytes, positionAfter(bytes, at, CREATED_AT), end)
  at = positionAfterText(bytes, positionAfter(bytes, at, PERSON_MODE), end)
  const chain = positionAfter(bytes, at, ELEMENTS)
  found.chainStart = 0
  found.chainEnd = 0
  if (chain >= 0) {
    at = positionAfterText(bytes, chain, end)
    found.chainStart = chain - 1
    found.chainEnd = at
  }
  found.tailStart = at
  const tail = positionAfter(bytes, at, PROPERTIES)
  if (tail < 0 || tail > end - 2) return false
  // If the properties contain an elements chain too, it would take precedence over the chain of the line. Such a line
  // is not recognized.
  return chain < 0 || !bytes.subarray(tail, end).includes(CHAIN_KEY)
}

/** Returns the offset after `expected` if the bytes at `at` equal it, otherwise -1. */
function positionAfter(bytes: Uint8Array, at: number, expected: Uint8Array): number {
  if (at < 0) return -1
  for (let index = 0; index < expected.length; index++) {
    if (bytes[at + index] !== expected[index]) return -1
  }
  return at + expected.length
}

/**
 * Returns the offset after the closing quote of a text whose first character is at `at`, otherwise -1. An empty text is
 * not accepted.
 */
function positionAfterText(bytes: Uint8Array, at: number, end: number): number {
  if (at < 0 || bytes[at] === QUOTE) return -1
  let index = at
  while (index < end && bytes[index] !== QUOTE) index += bytes[index] === BACKSLASH ? 2 : 1
  return index < end ? index + 1 : -1
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= ZERO && byte <= NINE
}
