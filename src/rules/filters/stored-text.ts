/**
 * Tests property filters on the stored bytes of long texts. Creating a string and folding its case costs far more than
 * reading the bytes. A stored value is the JSON that JSON.stringify writes, in UTF-8. If the bytes alone cannot decide,
 * the value is decoded, and the test of property-filter.ts decides. Both ways always have the same result.
 *
 * The text to search for is called the needle. A JSON text contains escapes. A letter that belongs to an escape is not
 * a letter of the text:
 *
 *     the text       a, line feed, next         the needle   next
 *     stored as      "a\nnext"                  the needle is found at  "a\n[next]"
 *     the text       a, line feed, ext
 *     stored as      "a\next"                   a match within an escape does not count
 *
 * A character of the needle is searched for in one or two forms with equally many bytes, such as `ö` and `Ö`. All other
 * characters whose lower case is the same are its rivals, such as the Kelvin sign for `k`. If the needle is not found
 * but a rival occurs in the value, the value is decoded and tested.
 *
 * A regular expression reads only the beginning of a text, so only the beginning is decoded.
 */
import { isAscii } from 'node:buffer'
import { PATTERN_TEXT_UNITS_MAX } from '../../base/limits.ts'
import type { PropertyFilter } from './filter-group.ts'
import { NEEDLE_BYTES_MAX } from './limits.ts'
import { listOf, type PropertyTest } from './operator-tests.ts'
import { effectiveOperator, propertyTest } from './property-filter.ts'
import { propertyText, roundedText } from './property-text.ts'
import { type NeedleCharacter, TextSearch } from './text-search/text-search.ts'
import { formWithContext, upperForms } from './text-search/upper-forms.ts'

/**
 * Returns whether a value passes. Its JSON begins at `start` and ends before `end`. Returns null if the bytes cannot
 * decide.
 */
export type StoredTest = (json: Buffer, start: number, end: number) => boolean | null

const QUOTE = 0x22
const BACKSLASH = 0x5c
const LETTER_U = 0x75
/** The number of digits in an escape such as \u001f. */
const ESCAPE_DIGITS = 4
/** The upper two bits of a continuation byte: any byte of a UTF-8 character except the first one. */
const CONTINUATION = 0x80
const CONTINUATION_MASK = 0xc0
const SURROGATE = /\p{Surrogate}/u
/**
 * The number of bytes of a text that are decoded first. They usually contain all that a pattern reads, except if the
 * text has many escapes.
 */
const BEGINNING_BYTES = PATTERN_TEXT_UNITS_MAX + 512

/** Returns whether a stored value passes. If the bytes cannot decide, the value is decoded and tested. */
export function passesStored(
  stored: StoredTest | null,
  test: PropertyTest,
  json: Buffer,
  start: number,
  end: number,
): boolean {
  return stored?.(json, start, end) ?? test(JSON.parse(json.toString('utf8', start, end)))
}

/** Returns the test of a filter on stored values. Returns null if every value has to be decoded. */
export function storedTest(filter: PropertyFilter): StoredTest | null {
  const operator = effectiveOperator(filter)
  if (operator === 'is_set') return () => true
  if (operator === 'is_not_set') return () => false
  if (filter.value === undefined || filter.value === null) return null
  const wanted = listOf(filter.value).map(propertyText)
  if (operator === 'icontains') return anyOf(wanted.map(containsTest), true)
  if (operator === 'not_icontains') return anyOf(wanted.map(containsTest), false)
  if (operator === 'regex' || operator === 'not_regex') return beginningTest(propertyTest(filter))
  if (operator === 'exact') return anyOf(wanted.map(equalsTest), true)
  return operator === 'is_not' ? anyOf(wanted.map(equalsTest), false) : null
}

function anyOf(tests: readonly StoredTest[], isWanted: boolean): StoredTest {
  return (json, start, end) => {
    let isKnown = true
    for (const test of tests) {
      const verdict = test(json, start, end)
      if (verdict === true) return isWanted
      if (verdict === null) isKnown = false
    }
    return isKnown ? !isWanted : null
  }
}

function equalsTest(text: string): StoredTest {
  const asText = Buffer.from(JSON.stringify(text))
  // An integer beyond 2^53 equals all integers that are rounded to the same number, so its bytes cannot be compared.
  const isDecoded = SURROGATE.test(text) || roundedText(text) !== null
  const asOther = isDecoded ? null : Buffer.from(text)
  return (json, start, end) => {
    const own = json[start] === QUOTE ? asText : asOther
    if (own === null) return null
    return own.length === end - start && own.compare(json, start, end) === 0
  }
}

/** Returns a test that passes if the value contains `text`, ignoring case. */
function containsTest(text: string): StoredTest {
  const needle = text.toLowerCase()
  if (needle === '') return () => true
  const part = longestPart(needle)
  // The needle consists only of halves of surrogate pairs. The bytes cannot decide, because JSON may write such a half
  // as an escape or as part of a character.
  if (part === '') return () => null
  const isWhole = part.length === needle.length
  const inText = new TextSearch([...part].map((character) => formsOf(character, true)))
  const inOther = new TextSearch([...part].map((character) => formsOf(character, false)))
  const rivals = [...new Set([...part].flatMap(rivalsOf))].map((rival) => Buffer.from(rival))
  return (json, start, end) => {
    const isText = json[start] === QUOTE
    const isFound = isText
      ? inText.isIn(json, start + 1, end - 1, (at) => !isWithinEscape(json, start + 1, at))
      : inOther.isIn(json, start, end, null)
    if (isFound) return isWhole ? true : null
    if (rivals.length === 0) return false
    const bytes = json.subarray(start, end)
    return !isAscii(bytes) && rivals.some((rival) => bytes.includes(rival)) ? null : false
  }
}

/**
 * Returns the longest part of a needle that can be searched for in bytes. It contains no half of a surrogate pair, and
 * has at most `NEEDLE_BYTES_MAX` bytes.
 */
function longestPart(needle: string): string {
  let longest = ''
  for (const run of needle.split(SURROGATE)) if (run.length > longest.length) longest = run
  let bytes = 0
  let length = 0
  for (const character of longest) {
    bytes += formsOf(character, true).lower.length
    if (bytes > NEEDLE_BYTES_MAX) break
    length += character.length
  }
  return longest.slice(0, length)
}

/**
 * Returns the forms of a character to search for: lower case and the other case. If `isText` is true, the lower case is
 * written as within a JSON text, where some characters are escapes.
 */
function formsOf(character: string, isText: boolean): NeedleCharacter {
  const lower = Buffer.from(isText ? JSON.stringify(character).slice(1, -1) : character)
  const other = equallyLongForm(character)
  return { lower, other: other === undefined ? lower : Buffer.from(other) }
}

/**
 * Returns the other character that `toLowerCase` turns into `character` and that has as many bytes. Returns undefined
 * if there is none.
 */
function equallyLongForm(character: string): string | undefined {
  const bytes = Buffer.byteLength(character)
  return upperForms(character).find((form) => Buffer.byteLength(form) === bytes)
}

/**
 * Returns the rivals of a character: the characters that `toLowerCase` may turn into it and that are not searched for.
 */
function rivalsOf(character: string): readonly string[] {
  const searched = equallyLongForm(character)
  const others = upperForms(character).filter((form) => form !== searched)
  const withContext = formWithContext(character)
  return withContext === undefined ? others : [...others, withContext]
}

/** Returns a test that decodes only the beginning of a value, because a pattern reads no more. */
function beginningTest(test: PropertyTest | null): StoredTest | null {
  if (test === null) return null
  return (json, start, end) => {
    if (json[start] !== QUOTE) return test(beginningOf(json, start, end, false))
    return test(beginningOf(json, start + 1, end - 1, true))
  }
}

/**
 * Returns the beginning of a value, at least as much as a pattern reads. If `isText` is true, the bytes from `start` to
 * `end` are a JSON text without its quotes.
 */
function beginningOf(json: Buffer, start: number, end: number, isText: boolean): string {
  for (let bytes = BEGINNING_BYTES; ; bytes *= 2) {
    let cut = Math.min(end, start + bytes)
    // A value must not be cut within a character or an escape.
    while (cut < end && ((json[cut] ?? 0) & CONTINUATION_MASK) === CONTINUATION) cut--
    while (isText && cut < end && isWithinEscape(json, start, cut)) cut--
    const written = json.toString('utf8', start, cut)
    const text = isText && written.includes('\\') ? unescaped(written) : written
    if (cut === end || text.length >= PATTERN_TEXT_UNITS_MAX) return text
  }
}

function unescaped(written: string): string {
  // Any part of a JSON text is a valid JSON text, if it is not cut within a character or an escape.
  return JSON.parse(`"${written}"`) as string
}

/**
 * Returns whether the byte at `at` belongs to an escape of the JSON text that begins at `start` and is not its first
 * byte, for example the `n` of `\n`.
 */
function isWithinEscape(bytes: Buffer, start: number, at: number): boolean {
  if (isEscaped(bytes, start, at)) return true
  for (let back = 1; back <= ESCAPE_DIGITS && at - back > start; back++) {
    if (bytes[at - back] === LETTER_U && isEscaped(bytes, start, at - back)) return true
  }
  return false
}

/** Returns whether an odd number of backslashes precedes a position. */
function isEscaped(bytes: Buffer, start: number, at: number): boolean {
  let first = at
  while (first > start && bytes[first - 1] === BACKSLASH) first--
  return (at - first) % 2 === 1
}
