/**
 * Stores the properties of a large person or group in pages, so that one property can be read without the others. A
 * flag decision needs a few properties, and must not cost more because a person has 32,000 other properties.
 *
 *   directory   bytes of the whole JSON u32 | for each page, in order: its position float64 little-endian
 *   page        some of the properties as a compact JSON object, or a byte 0 and that object as raw deflate
 *
 * The position of a name is a number from 1 to 2 derived from its hash, so a client cannot choose names that share a
 * page. Pages contain the properties in the order of their positions, and the position of a page is that of its first
 * property. A property that is longer than a page has a page of its own with a negative position, which is not read for
 * any other name.
 */
import { deflateRawSync, inflateRawSync } from 'node:zlib'
import { HashPrefix } from '../../../rules/flags/sha1/sha1.ts'
import { DamagedRecordError } from '../../faults.ts'
import type { Table } from '../../lmdb/environment.ts'
import { peek } from '../../lmdb/records.ts'
import { DEFLATED_PAGE_BYTES_MIN, PAGED_BYTES_MIN, PROPERTY_PAGE_BYTES } from '../limits.ts'

/** The byte with which a deflated page begins. A JSON text never begins with it. */
const DEFLATED = Buffer.of(0)
/** The fastest level of deflate is enough. What it saves comes from repetitions, which every level finds. */
const DEFLATE_OPTIONS = { level: 1 }
/** A page is deflated if its beginning and the whole page both become smaller than this fraction of their size. */
const DEFLATED_PART = 0.75
const SAMPLE_BYTES = 4096
const HEAD_BYTES = 4
const PLACE_BYTES = 8
const MEMBERS_PER_BUCKET = 4
const HASH = new HashPrefix('', 'none')
/**
 * Matches a name of ASCII characters that begins with a letter, digit, `$` or `_`. Such a character cannot follow the
 * quote that ends a text.
 */
const LETTER = /^[$\w][\0-\x7f]*$/
const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d

/** Properties divided into pages. */
export interface PropertyPages {
  readonly directory: Buffer
  readonly pages: readonly Buffer[]
}

/** Returns whether properties whose compact JSON has this many bytes are stored in pages. */
export function isPaged(jsonBytes: number): boolean {
  return jsonBytes > PAGED_BYTES_MIN
}

/**
 * Divides properties into pages. `json` is their compact JSON. The same properties always give the same pages, whatever
 * their order. Takes about 1 us per property.
 */
export function pagesOf(json: string): PropertyPages {
  const members = membersOf(json)
  const places: number[] = []
  const pages: Buffer[] = []
  let bytes = 0
  let first = 0
  let units = 0
  const finish = (end: number): void => {
    if (end === first) return
    const texts = members.slice(first, end).map(({ start, end: until }) => json.slice(start, until))
    const page = Buffer.from(`{${texts.join(',')}}`)
    const place = members[first]?.place ?? 0
    places.push(end - first === 1 && units > PROPERTY_PAGE_BYTES ? -place : place)
    pages.push(page)
    bytes += page.length - 1
    first = end
    units = 0
  }
  for (const [index, member] of members.entries()) {
    const length = member.end - member.start
    const isFull = units > 0 && units + length > PROPERTY_PAGE_BYTES
    // Names with the same position stay together, so that a lookup reads only one page.
    if (isFull && members[index - 1]?.place !== member.place) finish(index)
    units += length + 1
  }
  finish(members.length)
  const directory = Buffer.allocUnsafe(HEAD_BYTES + places.length * PLACE_BYTES)
  directory.writeUInt32LE(bytes + 1)
  for (const [index, place] of places.entries()) {
    directory.writeDoubleLE(place, HEAD_BYTES + index * PLACE_BYTES)
  }
  return { directory, pages }
}

/**
 * Returns the stored form of a page. Only a property that is longer than a page makes a page large enough to be
 * deflated. Deflating it prevents a client from filling the disk with repetitive text that it sends in a few compressed
 * bytes. It takes about 2 us per kilobyte.
 */
export function encodePage(page: Buffer): Buffer {
  if (page.length < DEFLATED_PAGE_BYTES_MIN) return page
  const sample = deflateRawSync(page.subarray(0, SAMPLE_BYTES), DEFLATE_OPTIONS)
  if (sample.length > SAMPLE_BYTES * DEFLATED_PART) return page
  const deflated = deflateRawSync(page, DEFLATE_OPTIONS)
  if (deflated.length > page.length * DEFLATED_PART) return page
  return Buffer.concat([DEFLATED, deflated])
}

/** Decodes the result of `encodePage`. */
export function decodePage(stored: Buffer): Buffer {
  return stored[0] === DEFLATED[0] ? inflateRawSync(stored.subarray(DEFLATED.length)) : stored
}

/** Returns a page that must exist, valid until the next read. Throws `DamagedRecordError`. */
export function needPage(table: Table, key: Buffer): Buffer {
  const page = peek(table, key)
  if (page === undefined) throw new DamagedRecordError(table.name, key, 'the page is missing')
  return page
}

/** Returns the number of pages. */
export function pageCount(directory: Buffer): number {
  return (directory.length - HEAD_BYTES) / PLACE_BYTES
}

/** Returns the bytes of the JSON of all properties. */
export function pagedJsonBytes(directory: Buffer): number {
  return directory.readUInt32LE()
}

/** Returns the compact JSON of all properties. `read` returns the page with a number. */
export function joinPages(directory: Buffer, read: (page: number) => Buffer): string {
  const texts: string[] = []
  for (let page = 0; page < pageCount(directory); page++) texts.push(read(page).toString('utf8'))
  return `{${texts.map((text) => text.slice(1, -1)).join(',')}}`
}

/** Returns the page that may contain a name, or -1 if none does. */
export function pageOfName(directory: Buffer, name: string): number {
  const place = placeOf(name)
  let low = 0
  let high = pageCount(directory)
  while (low < high) {
    const middle = (low + high) >> 1
    if (Math.abs(placeOfPage(directory, middle)) <= place) low = middle + 1
    else high = middle
  }
  const page = low - 1
  if (page < 0) return -1
  const found = placeOfPage(directory, page)
  return found < 0 && -found !== place ? -1 : page
}

/** The location of a value in a page, in bytes. */
export interface ValuePlace {
  readonly start: number
  readonly end: number
}

/** Returns whether a page contains a single property that is longer than a page. */
export function isAlone(directory: Buffer, page: number): boolean {
  return placeOfPage(directory, page) < 0
}

/**
 * Returns the location of the value of a name in a page, or null, without parsing the page. If `alone` is true, the
 * page contains a single property and is not searched.
 */
export function findInPage(page: Buffer, name: string, alone: boolean): ValuePlace | null {
  const head = `${JSON.stringify(name)}:`
  if (alone) {
    const bytes = Buffer.from(head)
    const isThere = page.subarray(1, 1 + bytes.length).equals(bytes)
    return isThere ? { start: 1 + bytes.length, end: page.length - 1 } : null
  }
  const at = page.indexOf(head, 1)
  if (at < 0) return null
  // If no value contains an object, every match is a property name. The quoted name cannot occur elsewhere: a letter
  // cannot follow the quote that ends a text, and within a text each quote has a backslash before it.
  const isSure = LETTER.test(name) && page.indexOf(OPEN_BRACE, 1) < 0
  const simple = isSure ? simpleValueAt(page, at + head.length) : null
  if (simple !== null) return simple
  // Each byte is decoded as one character. This is correct, because all characters of the JSON syntax are ASCII.
  const text = page.toString('latin1')
  const wanted = Buffer.from(head).toString('latin1')
  for (let start = 1; text.charCodeAt(start) === QUOTE; ) {
    const valueStart = endOfText(text, start) + 1
    const isFound = valueStart - start === wanted.length && text.startsWith(wanted, start)
    if (isFound) return valueAt(text, valueStart)
    start = endOfValue(text, valueStart) + 1
  }
  return null
}

function valueAt(text: string, start: number): ValuePlace {
  return { start, end: endOfValue(text, start) }
}

/** Returns the location of a number, a word, or a text without a backslash. Returns null for any other value. */
function simpleValueAt(page: Buffer, start: number): ValuePlace | null {
  if (page[start] === QUOTE) {
    const end = page.indexOf(QUOTE, start + 1)
    return page[end - 1] === BACKSLASH ? null : { start, end: end + 1 }
  }
  if (page[start] === OPEN_BRACKET) return null
  let end = start
  while (page[end] !== COMMA && page[end] !== CLOSE_BRACE) end++
  return { start, end }
}

function placeOfPage(directory: Buffer, page: number): number {
  return directory.readDoubleLE(HEAD_BYTES + page * PLACE_BYTES)
}

function placeOf(name: string): number {
  return 1 + HASH.hashOf(name)
}

/** A property in the JSON text, from the quote that begins its name to the end of its value. */
interface Member {
  readonly place: number
  readonly start: number
  readonly end: number
}

/** Returns the properties in the order of their positions. */
function membersOf(json: string): readonly Member[] {
  const members: Member[] = []
  // Each property is followed by a comma or the last brace.
  for (let start = 1; json.charCodeAt(start) === QUOTE; ) {
    const nameEnd = endOfText(json, start)
    const end = endOfValue(json, nameEnd + 1)
    const raw = json.slice(start + 1, nameEnd - 1)
    const name = raw.includes('\\') ? (JSON.parse(`"${raw}"`) as string) : raw
    members.push({ place: placeOf(name), start, end })
    start = end + 1
  }
  return sortedByPlace(members, json)
}

/** Sorts by position. Positions are evenly distributed, so sorting in buckets costs a third of sorting all at once. */
function sortedByPlace(members: readonly Member[], json: string): readonly Member[] {
  const count = Math.ceil(members.length / MEMBERS_PER_BUCKET)
  const buckets = Array.from({ length: count }, (): Member[] => [])
  for (const member of members) {
    buckets[Math.min(count - 1, Math.floor((member.place - 1) * count))]?.push(member)
  }
  // Two names with the same position are practically impossible. They would be ordered by their texts.
  const compare = (a: Member, b: Member): number => a.place - b.place || compareTexts(json, a, b)
  for (const bucket of buckets) bucket.sort(compare)
  return buckets.flat()
}

function compareTexts(json: string, a: Member, b: Member): number {
  return json.slice(a.start, a.end) < json.slice(b.start, b.end) ? -1 : 1
}

/** Returns the index after the closing quote of the text that begins at `start`. */
function endOfText(json: string, start: number): number {
  for (let quote = json.indexOf('"', start + 1); ; quote = json.indexOf('"', quote + 1)) {
    if (quote < 0) throw new RangeError('the properties are no compact JSON')
    let before = quote - 1
    while (json.charCodeAt(before) === BACKSLASH) before--
    if ((quote - before) % 2 === 1) return quote + 1
  }
}

/** Returns the index after the value that begins at `start`. */
function endOfValue(json: string, start: number): number {
  let depth = 0
  for (let at = start; at < json.length; ) {
    const code = json.charCodeAt(at)
    if (code === QUOTE) {
      at = endOfText(json, at)
      continue
    }
    if (depth === 0 && (code === COMMA || code === CLOSE_BRACE)) return at
    if (code === OPEN_BRACE || code === OPEN_BRACKET) depth++
    else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) depth--
    at++
  }
  throw new RangeError('the properties are no compact JSON')
}
