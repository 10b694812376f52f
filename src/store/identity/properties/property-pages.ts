/**
 * The properties of a large person or group in pages, so that one property can be read without the others. A
 * decision of a flag asks for a few names, and must not cost more because somebody has 32,000 other properties.
 *
 *   directory   bytes of the whole JSON u32 | for each page, in order: its place float64 little-endian
 *   page        some of the properties as a compact JSON object, or a byte 0 and that as raw deflate
 *
 * A name has a place from 1 to 2, which is its hash: nobody can choose names that crowd together. Pages hold the
 * properties in the order of their places, and the place of a page is that of its first one. A property that is
 * longer than a page has a page of its own, whose place is negative: it is not read for another name.
 */
import { deflateRawSync, inflateRawSync } from 'node:zlib'
import { HashPrefix } from '../../../rules/flags/sha1/sha1.ts'
import { DamagedRecordError } from '../../faults.ts'
import type { Table } from '../../lmdb/environment.ts'
import { peek } from '../../lmdb/records.ts'
import { DEFLATED_PAGE_BYTES_MIN, PAGED_BYTES_MIN, PROPERTY_PAGE_BYTES } from '../limits.ts'

/** No JSON begins with it. */
const DEFLATED = Buffer.of(0)
/** The level of deflate that costs least: what saves disk are repetitions, which each level finds. */
const DEFLATE_OPTIONS = { level: 1 }
/** A page is deflated when that makes it, and its beginning, smaller than this part. */
const DEFLATED_PART = 0.75
const SAMPLE_BYTES = 4096
const HEAD_BYTES = 4
const PLACE_BYTES = 8
const MEMBERS_PER_BUCKET = 4
const HASH = new HashPrefix('', 'none')
/** Names of ASCII whose first character cannot stand behind the end of a text. */
const LETTER = /^[$\w][\0-\x7f]*$/
const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d

/** Properties, divided. */
export interface PropertyPages {
  readonly directory: Buffer
  readonly pages: readonly Buffer[]
}

/** Whether properties whose compact JSON has so many bytes are stored in pages. */
export function isPaged(jsonBytes: number): boolean {
  return jsonBytes > PAGED_BYTES_MIN
}

/**
 * Divides properties; `json` is their compact JSON. The same properties give the same pages, whatever their
 * order. About 1 us for each property.
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
    // Names of one place stay together: whoever looks for one of them reads one page.
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
 * A page as it is stored. Only a property that is longer than a page makes a page large enough to be deflated: what a
 * client sends in a few bytes, because its text repeats itself, takes few bytes of the disk then. About 2 us for each
 * kilobyte.
 */
export function encodePage(page: Buffer): Buffer {
  if (page.length < DEFLATED_PAGE_BYTES_MIN) return page
  const sample = deflateRawSync(page.subarray(0, SAMPLE_BYTES), DEFLATE_OPTIONS)
  if (sample.length > SAMPLE_BYTES * DEFLATED_PART) return page
  const deflated = deflateRawSync(page, DEFLATE_OPTIONS)
  if (deflated.length > page.length * DEFLATED_PART) return page
  return Buffer.concat([DEFLATED, deflated])
}

/** The reverse of `encodePage`. */
export function decodePage(stored: Buffer): Buffer {
  return stored[0] === DEFLATED[0] ? inflateRawSync(stored.subarray(DEFLATED.length)) : stored
}

/** A page that has to be there, valid until the next read. Throws `DamagedRecordError`. */
export function needPage(table: Table, key: Buffer): Buffer {
  const page = peek(table, key)
  if (page === undefined) throw new DamagedRecordError(table.name, key, 'the page is missing')
  return page
}

/** How many pages there are. */
export function pageCount(directory: Buffer): number {
  return (directory.length - HEAD_BYTES) / PLACE_BYTES
}

/** The bytes of the JSON of all properties. */
export function pagedJsonBytes(directory: Buffer): number {
  return directory.readUInt32LE()
}

/** The compact JSON of all properties; `read` reads a page. */
export function joinPages(directory: Buffer, read: (page: number) => Buffer): string {
  const texts: string[] = []
  for (let page = 0; page < pageCount(directory); page++) texts.push(read(page).toString('utf8'))
  return `{${texts.map((text) => text.slice(1, -1)).join(',')}}`
}

/** The page that has a name, if any has it; -1: none has. */
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

/** Where the value of a property stands in a page, in bytes. */
export interface ValuePlace {
  readonly start: number
  readonly end: number
}

/** Whether a page of a directory has a single property that is longer than a page. */
export function isAlone(directory: Buffer, page: number): boolean {
  return placeOfPage(directory, page) < 0
}

/**
 * Where a page has the value of a name, null when it does not have it; nothing of the page is parsed. `alone`: the
 * page has a single property, and is not looked through.
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
  // Without objects among the values these are the names of properties alone, and no text looks like one: behind
  // the quote that ends a text there is no letter, and within a text each quote has a backslash before it.
  const isSure = LETTER.test(name) && page.indexOf(OPEN_BRACE, 1) < 0
  const simple = isSure ? simpleValueAt(page, at + head.length) : null
  if (simple !== null) return simple
  // A byte is taken for a character: those beyond ASCII are no part of the syntax.
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

/** A number, a word, or a text without a backslash; null for any other value. */
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

/** A property within the JSON: from the quote of its name to the end of its value. */
interface Member {
  readonly place: number
  readonly start: number
  readonly end: number
}

/** The properties in the order of their places. */
function membersOf(json: string): readonly Member[] {
  const members: Member[] = []
  // Behind each property there is a comma or the last brace.
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

/** Places are spread evenly, so a bucket for every few is a third of the cost of sorting all. */
function sortedByPlace(members: readonly Member[], json: string): readonly Member[] {
  const count = Math.ceil(members.length / MEMBERS_PER_BUCKET)
  const buckets = Array.from({ length: count }, (): Member[] => [])
  for (const member of members) {
    buckets[Math.min(count - 1, Math.floor((member.place - 1) * count))]?.push(member)
  }
  // Names of the same place are as good as impossible; their order is that of their texts then.
  const compare = (a: Member, b: Member): number => a.place - b.place || compareTexts(json, a, b)
  for (const bucket of buckets) bucket.sort(compare)
  return buckets.flat()
}

function compareTexts(json: string, a: Member, b: Member): number {
  return json.slice(a.start, a.end) < json.slice(b.start, b.end) ? -1 : 1
}

/** Behind the closing quote of the text that begins at `start`. */
function endOfText(json: string, start: number): number {
  for (let quote = json.indexOf('"', start + 1); ; quote = json.indexOf('"', quote + 1)) {
    if (quote < 0) throw new RangeError('the properties are no compact JSON')
    let before = quote - 1
    while (json.charCodeAt(before) === BACKSLASH) before--
    if ((quote - before) % 2 === 1) return quote + 1
  }
}

/** Behind the value that begins at `start`. */
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
