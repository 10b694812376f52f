/**
 * Stores the properties of a large person or group in pages, so that one property can be read without the others. A
 * flag decision needs only a few properties, and must not cost more if the person has 32,000 other properties.
 *
 *   directory   bytes of the whole JSON u32 | for each page, in order: its position float64 little-endian
 *   page        some of the properties as a compact JSON object, or a byte 0 and that object as raw deflate
 *
 * The position of a property is a number from 1 to 2, which is calculated from a hash of its name. So properties are
 * spread evenly over the pages, and two names practically never have the same position. Pages are in the order of their
 * positions. The position of a page is not larger than that of its first property. A property that is longer than a
 * page has a page of its own, which is not read for any other name. The directory contains the negated position of such
 * a page, for example -1.5 in place of 1.5.
 *
 * A change writes only the pages with the names that it changes. A page may grow to a multiple of the usual size before
 * it is divided. Dividing a page is expensive, because all later pages then get other numbers.
 */
import { deflateRawSync, inflateRawSync } from 'node:zlib'
import { getOrAdd } from '../../../base/maps.ts'
import { HashPrefix } from '../../../rules/flags/sha1/sha1.ts'
import { attempt, DamagedRecordError } from '../../faults.ts'
import { unseal } from '../../lmdb/codec.ts'
import type { Table } from '../../lmdb/environment.ts'
import { peek, store } from '../../lmdb/records.ts'
import {
  CHANGED_PAGE_UNITS_MAX,
  DEFLATED_PAGE_BYTES_MIN,
  PAGED_BYTES_MIN,
  PROPERTY_PAGE_BYTES,
} from '../limits.ts'

/** The byte with which a deflated page begins. A JSON text never begins with it. */
const DEFLATED = Buffer.of(0)
/** The fastest level of deflate is enough, because every level finds the repetitions that save most of the space. */
const DEFLATE_OPTIONS = { level: 1 }
/**
 * A page is deflated only if the result has at most this fraction of its size. The first `SAMPLE_BYTES` bytes are tried
 * first, and then the whole page.
 */
const DEFLATED_PART = 0.75
const SAMPLE_BYTES = 4096
const HEAD_BYTES = 4
const PLACE_BYTES = 8
const MEMBERS_PER_BUCKET = 4
const HASH = new HashPrefix('', 'none')
/**
 * Matches a name of ASCII characters that begins with a letter, digit, `$` or `_`. In JSON, the closing quote of a text
 * is never followed by such a character. A quote in front of such a name is therefore an opening quote.
 */
const LETTER = /^[$\w][\0-\x7f]*$/
const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d

/** Properties, divided into pages. */
export interface PropertyPages {
  readonly directory: Buffer
  readonly pages: readonly Buffer[]
}

/** Returns whether properties whose compact JSON has this many bytes are stored in pages. */
export function isPaged(jsonBytes: number): boolean {
  return jsonBytes > PAGED_BYTES_MIN
}

/**
 * Divides properties into pages. `json` is their compact JSON. The order of the properties does not matter: the same
 * properties always give the same pages. It takes about 1 us for each property.
 */
export function pagesOf(json: string): PropertyPages {
  const places: number[] = []
  const pages: Buffer[] = []
  let bytes = 0
  divide(inOrder(membersOf(json)), (place, page) => {
    places.push(place)
    pages.push(page)
    bytes += page.length - 1
  })
  return { directory: directoryOf(places, bytes + 1), pages }
}

/** Calls `add` with the position and the JSON of each page. `members` are in the order of their positions. */
function divide(
  members: readonly PlacedMember[],
  add: (place: number, page: Buffer) => void,
): void {
  let first = 0
  let units = 0
  const finish = (end: number): void => {
    if (end === first) return
    const page = pageOf(members.slice(first, end))
    const place = members[first]?.place ?? 0
    add(end - first === 1 && units > PROPERTY_PAGE_BYTES ? -place : place, page)
    first = end
    units = 0
  }
  for (const [index, { place, text }] of members.entries()) {
    const isFull = units > 0 && units + text.length > PROPERTY_PAGE_BYTES
    // Properties whose names have the same position must stay in one page, because a lookup reads only one page.
    if (isFull && members[index - 1]?.place !== place) finish(index)
    units += text.length + 1
  }
  finish(members.length)
}

function pageOf(members: readonly Member[]): Buffer {
  return Buffer.from(`{${members.map(({ text }) => text).join(',')}}`)
}

function directoryOf(places: readonly number[], jsonBytes: number): Buffer {
  const directory = Buffer.allocUnsafe(HEAD_BYTES + places.length * PLACE_BYTES)
  directory.writeUInt32LE(jsonBytes)
  for (const [index, place] of places.entries()) {
    directory.writeDoubleLE(place, HEAD_BYTES + index * PLACE_BYTES)
  }
  return directory
}

/** The pages after a change, in order. A page that stays as it is appears as the number that it had before. */
interface ChangedPages {
  readonly directory: Buffer
  readonly pages: readonly (Buffer | number)[]
}

/**
 * Changes properties in pages. `changes` maps each changed name to the JSON of its new value, or to null if the
 * property is removed. `read` returns the page with a number. The cost depends on the pages that change, and very
 * little on the others.
 */
export function changePages(
  directory: Buffer,
  read: (page: number) => Buffer,
  changes: ReadonlyMap<string, string | null>,
): ChangedPages {
  const count = pageCount(directory)
  const changed = new Map<number, MemberChange[]>()
  for (const [name, json] of changes) {
    const place = placeOf(name)
    const page = changedPageOf(directory, place)
    getOrAdd(changed, page, (): MemberChange[] => []).push({ name, json, place })
  }
  let bytes = pagedJsonBytes(directory)
  const places: number[] = []
  const pages: (Buffer | number)[] = []
  const add = (place: number, page: Buffer): void => {
    places.push(place)
    pages.push(page)
    bytes += page.length - 1
  }
  for (let page = 0; page < count; page++) {
    const between = changed.get(page - HALF)
    if (between !== undefined) addChanged(NEW_PAGE, between, add)
    const here = changed.get(page)
    if (here === undefined) {
      places.push(placeOfPage(directory, page))
      pages.push(page)
      continue
    }
    const stored = read(page)
    bytes -= stored.length - 1
    const members = membersOf(stored.toString('utf8'))
    addChanged({ place: Math.abs(placeOfPage(directory, page)), members }, here, add)
  }
  const last = changed.get(count - HALF)
  if (last !== undefined) addChanged(NEW_PAGE, last, add)
  return { directory: directoryOf(places, bytes), pages }
}

/** Ignores a damaged page: the next reader of the page reports the damage. */
const IGNORE = (): void => undefined
/**
 * Added to the number of a page, it stands for a new page after that page: 3.5 is a new page between the pages 3 and 4.
 */
const HALF = 0.5

/**
 * Returns the number of the page to which a changed name belongs. If the name needs a new page, returns the number of
 * the page before the new one plus `HALF`.
 */
function changedPageOf(directory: Buffer, place: number): number {
  const page = lastPageUpTo(directory, place)
  if (page >= 0) {
    const first = placeOfPage(directory, page)
    if (first > 0 || -first === place) return page
  }
  // If the next page is not reserved for a long property, the name is added to the beginning of that page. A new page
  // for each such name would produce many pages with only one short property.
  const hasNext = page + 1 < pageCount(directory) && placeOfPage(directory, page + 1) > 0
  return hasNext ? page + 1 : page + HALF
}

/** A change of one property. `json` is null for a removal. */
interface MemberChange {
  readonly name: string
  readonly json: string | null
  readonly place: number
}

/** An empty page, for names that need a new page. Its position is above the positions of all names. */
const NEW_PAGE = { place: 2, members: [] }

/**
 * Changes properties in a page, and calls `add` with the changed page. If the page becomes too large, it is divided,
 * and `add` is called with each part. If no property is left, `add` is not called.
 */
function addChanged(
  { place, members }: { readonly place: number; readonly members: readonly Member[] },
  changes: readonly MemberChange[],
  add: (place: number, page: Buffer) => void,
): void {
  const names = new Set(changes.map(({ name }) => name))
  const left = members.filter(({ name }) => !names.has(name))
  let first = place
  for (const { name, json, place: own } of changes) {
    if (json === null) continue
    left.push({ name, text: `${JSON.stringify(name)}:${json}` })
    first = Math.min(first, own)
  }
  if (left.length === 0) return
  const units = left.reduce((sum, { text }) => sum + text.length + 1, 0)
  const isLong = left.some(({ text }) => text.length >= PROPERTY_PAGE_BYTES)
  // Within a page, the order of properties does not matter. They are sorted only if the page is divided, because
  // sorting must hash every name.
  if (isLong || units > CHANGED_PAGE_UNITS_MAX) divide(inOrder(left), add)
  else add(first, pageOf(left))
}

/**
 * Stores changed pages. `keyOf` returns the key of a page. If there are fewer pages than before, the caller removes the
 * last ones. If a damaged page gets another number, its damage can still be detected. Call it only within a write
 * transaction.
 */
export function storeChangedPages(
  table: Table,
  keyOf: (page: number) => Buffer,
  { pages }: ChangedPages,
): void {
  // Pages that get another number are read before any page is written, because a write may overwrite them. Their
  // encoded form is kept.
  const moved = pages.map((page, index) => {
    if (typeof page !== 'number' || page === index) return null
    return { key: keyOf(page), sealed: table.get(keyOf(page)) ?? MISSING }
  })
  for (const [index, page] of pages.entries()) {
    const from = moved[index]
    if (typeof page !== 'number') store(table, keyOf(index), encodePage(page))
    else if (from != null) movePage(table, from.key, from.sealed, keyOf(index))
  }
}

/** The record to store in place of a missing page. It has no checksum, so readers report it as damaged. */
const MISSING = Buffer.alloc(0)

function movePage(table: Table, from: Buffer, sealed: Buffer, to: Buffer): void {
  const page = attempt(() => unseal(table.name, from, sealed), IGNORE)
  // If the checksum of the page is wrong, the page is stored without a new checksum. So readers also find the damage
  // under the new key.
  if (page === null) void table.put(to, sealed)
  else store(table, to, page)
}

/**
 * Returns a page in its stored form. Only a page with a very long property is large enough to be deflated. Deflating
 * protects the disk from a client that sends long repetitive texts: in a compressed request, such a text has only a few
 * bytes. Encoding takes about 2 us per kilobyte.
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

/**
 * Returns a page. The result is valid until the next read. Throws `DamagedRecordError`, also if the page does not
 * exist.
 */
export function needPage(table: Table, key: Buffer): Buffer {
  const page = peek(table, key)
  if (page === undefined) throw new DamagedRecordError(table.name, key, 'the page is missing')
  return page
}

/** Returns the number of pages in a directory. */
export function pageCount(directory: Buffer): number {
  return (directory.length - HEAD_BYTES) / PLACE_BYTES
}

/** Returns the number of bytes of the JSON of all properties. */
export function pagedJsonBytes(directory: Buffer): number {
  return directory.readUInt32LE()
}

/** Returns the compact JSON of all properties. `read` returns the page with a number. */
export function joinPages(directory: Buffer, read: (page: number) => Buffer): string {
  const texts: string[] = []
  for (let page = 0; page < pageCount(directory); page++) texts.push(read(page).toString('utf8'))
  return `{${texts.map((text) => text.slice(1, -1)).join(',')}}`
}

/** Returns the number of the page that may contain a name, or -1 if there is none. */
export function pageOfName(directory: Buffer, name: string): number {
  const place = placeOf(name)
  const page = lastPageUpTo(directory, place)
  if (page < 0) return -1
  const found = placeOfPage(directory, page)
  return found < 0 && -found !== place ? -1 : page
}

/** Returns the number of the last page whose position is at most `place`, or -1 if there is none. */
function lastPageUpTo(directory: Buffer, place: number): number {
  let low = 0
  let high = pageCount(directory)
  while (low < high) {
    const middle = (low + high) >> 1
    if (Math.abs(placeOfPage(directory, middle)) <= place) low = middle + 1
    else high = middle
  }
  return low - 1
}

/** Where a value is in a page: the offsets of its first byte and of the byte after it. */
export interface ValuePlace {
  readonly start: number
  readonly end: number
}

/** Returns whether a page belongs to a single property that is longer than a page. */
export function isAlone(directory: Buffer, page: number): boolean {
  return placeOfPage(directory, page) < 0
}

/**
 * Returns the location of the value of a name in a page, or null, without parsing the page. If `alone` is true, the
 * page contains only one property, so only the beginning of the page is compared with the name.
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
  // If no value in the page contains an object, every occurrence of the quoted name with a colon is the name of a
  // property. The first quote cannot be a closing one (see `LETTER`), and it cannot be inside a text, where each quote
  // has a backslash before it.
  const isSure = LETTER.test(name) && page.indexOf(OPEN_BRACE, 1) < 0
  const simple = isSure ? simpleValueAt(page, at + head.length) : null
  if (simple !== null) return simple
  // Each byte becomes one character of the text. That is good enough for the search, because all characters of the JSON
  // syntax are ASCII.
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

/**
 * Returns the location of a number, `true`, `false`, `null` or a text. Returns null for a list, and for a text in which
 * the next quote follows a backslash, because that quote may belong to the text.
 */
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

/** A property, and its text in the JSON: the name in quotes, a colon and the value. */
interface Member {
  readonly name: string
  readonly text: string
}

/** A property, and its position. */
interface PlacedMember extends Member {
  readonly place: number
}

/** Returns the properties in the order in which the JSON has them. */
function membersOf(json: string): Member[] {
  const members: Member[] = []
  visitMembers(json, (name, start, _valueStart, end) => {
    members.push({ name, text: json.slice(start, end) })
  })
  return members
}

/**
 * Calls `visit` for each property of compact JSON, in the order of the text. The arguments are the name of the
 * property, the offset at which the property begins, and the offsets at which its value begins and ends. No value is
 * parsed. The name may be a slice that keeps all of `json` in memory.
 */
export function visitMembers(
  json: string,
  visit: (name: string, start: number, valueStart: number, end: number) => void,
): void {
  // Each property is followed by a comma or the last brace.
  for (let start = 1; json.charCodeAt(start) === QUOTE; ) {
    const nameEnd = endOfText(json, start)
    const end = endOfValue(json, nameEnd + 1)
    const raw = json.slice(start + 1, nameEnd - 1)
    const name = raw.includes('\\') ? (JSON.parse(`"${raw}"`) as string) : raw
    visit(name, start, nameEnd + 1, end)
    start = end + 1
  }
}

/** Returns the properties in the order of their positions. Half of the time is spent on hashing the names. */
function inOrder(members: readonly Member[]): readonly PlacedMember[] {
  return sortedByPlace(members.map(({ name, text }) => ({ name, text, place: placeOf(name) })))
}

/**
 * Sorts properties by position. Positions are evenly distributed, so the properties are sorted in small buckets. That
 * takes a third of the time of one large sort.
 */
function sortedByPlace(members: readonly PlacedMember[]): readonly PlacedMember[] {
  const count = Math.ceil(members.length / MEMBERS_PER_BUCKET)
  const buckets = Array.from({ length: count }, (): PlacedMember[] => [])
  for (const member of members) {
    buckets[Math.min(count - 1, Math.floor((member.place - 1) * count))]?.push(member)
  }
  for (const bucket of buckets) bucket.sort(compareMembers)
  return buckets.flat()
}

/**
 * Compares two properties by position. Two names with the same position are practically impossible; they are ordered as
 * texts.
 */
function compareMembers(a: PlacedMember, b: PlacedMember): number {
  return a.place - b.place || (a.text < b.text ? -1 : 1)
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
