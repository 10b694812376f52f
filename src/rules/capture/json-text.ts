/**
 * Untrusted JSON text to plain data that can be stored as it is: bounded nesting, no lone surrogates,
 * no NUL, no `__proto__` keys, no infinite numbers, long integer ids with all their digits.
 * Source: docs/compatibility/ingestion.md, "JSON".
 */
import { ServiceError } from '../../base/errors.ts'
import type { OwnObject } from '../../base/json.ts'
import { JSON_DEPTH_MAX } from '../../base/limits.ts'
import { asBuffer } from './form.ts'

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const OPEN_OBJECT = 0x7b
const OPEN_ARRAY = 0x5b
const CLOSE_OBJECT = 0x7d
const CLOSE_ARRAY = 0x5d
const COLON = 0x3a
const MINUS = 0x2d
const UNSTORABLE = /[\0\ud800-\udfff]/u
const UNSTORABLE_EACH = /[\0\ud800-\udfff]/gu
/** Digits before the decimal point from which on a number may be infinite. */
const FINITE_DIGITS_MAX = 308
const LONG_INTEGER = /\d{16}/
/** An integer that may be beyond 2^53. */
const WHOLE_LONG_INTEGER = /^-?[1-9]\d{15,199}$/
/** Members that name a person or a group. */
const ID_MEMBERS: ReadonlySet<string> = new Set([
  'distinct_id',
  '$distinct_id',
  '$anon_distinct_id',
  'alias',
  '$group_key',
])
/** The object whose members are keys of groups. */
const GROUPS_MEMBER = '$groups'

/**
 * Which integers beyond 2^53 keep their digits, as texts: those that name a person or a group, or all of them, where
 * values are compared as texts and nothing is stored as a number.
 */
export type LongIntegers = 'ids' | 'all'

/** What opens and ends strings, escapes that hide it, and the numbers that Python writes. */
const QUOTES_AND_BARE_NUMBERS = /\\[\s\S]|"|NaN|-?Infinity/g

/**
 * The value of a JSON text in valid UTF-8. Undefined for a text of white space only. Bare `NaN`,
 * `Infinity` and `-Infinity`, which Python clients emit, are read as null when the text is no JSON
 * otherwise. ServiceError `invalid_payload` for anything that is not JSON or nested too deeply,
 * `request_too_large` for more than `valuesMax` values at all depths, before any is made. Linear.
 */
export function parseJsonText(
  json: Uint8Array,
  valuesMax = Number.POSITIVE_INFINITY,
  exactIntegers: LongIntegers = 'ids',
): unknown {
  const bytes = asBuffer(json)
  const needsCleaning = inspect(bytes, valuesMax)
  const text = bytes.toString('utf8')
  if (text.trim() === '') return undefined
  const value = parseLeniently(quoteLongIntegers(text, exactIntegers === 'all'))
  return needsCleaning ? cleanValue(value) : value
}

/**
 * Refuses a JSON text with more than `valuesMax` values at all depths, or more than `containersMax`
 * objects and lists, before anything is made of it: ServiceError `request_too_large`. Whether it is JSON
 * is not looked at. Linear.
 */
export function refuseManyValues(
  json: Uint8Array,
  valuesMax: number,
  containersMax = valuesMax,
): void {
  // No text has more values than bytes.
  if (json.length <= containersMax) return
  let commas = 0
  let containers = 0
  for (let position = 0; position < json.length; position++) {
    const byte = json[position]
    if (byte === QUOTE) position = stringEnd(json, position + 1)
    else if (byte === COMMA) commas++
    else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) containers++
    else continue
    if (containers > containersMax) throw tooManyValues(containersMax, 'objects and lists')
    if (commas + containers > valuesMax) throw tooManyValues(valuesMax)
  }
}

/**
 * A text without what no store can hold: each lone surrogate and each NUL becomes U+FFFD. The very same
 * text when it is clean.
 */
export function cleanText(text: string): string {
  return UNSTORABLE.test(text) ? text.replace(UNSTORABLE_EACH, '\ufffd') : text
}

/** Cleans a parsed value in place where it can and answers it. At most JSON_DEPTH_MAX deep. */
function cleanValue(value: unknown): unknown {
  if (typeof value === 'string') return cleanText(value)
  if (typeof value === 'number') return Number.isFinite(value) ? value : null
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) value[index] = cleanValue(value[index])
    return value
  }
  const object = value as OwnObject
  let hasUnstorableKey = false
  for (const key of Object.keys(object)) {
    if (key === '__proto__' || UNSTORABLE.test(key)) hasUnstorableKey = true
    else object[key] = cleanValue(object[key])
  }
  return hasUnstorableKey ? withCleanKeys(object) : object
}

/** A copy with clean keys in the same order; two that become equal: the last one wins. */
function withCleanKeys(object: OwnObject): OwnObject {
  const clean: OwnObject = {}
  for (const key of Object.keys(object)) {
    if (key === '__proto__') continue
    const cleanKey = cleanText(key)
    clean[cleanKey] = cleanKey === key ? object[key] : cleanValue(object[key])
  }
  return clean
}

/**
 * One look at the bytes: refuses nesting beyond JSON_DEPTH_MAX, so that nothing later can exhaust the
 * stack, and answers whether the parsed value may hold something that has to be cleaned.
 */
function inspect(bytes: Buffer, valuesMax: number): boolean {
  let needsCleaning = bytes.includes('__proto__')
  let depth = 0
  let values = 0
  let digits = 0
  let position = 0
  while (position < bytes.length) {
    const byte = bytes[position] ?? 0
    if (byte >= 0x30 && byte <= 0x39) {
      if (++digits > FINITE_DIGITS_MAX) needsCleaning = true
      position++
      continue
    }
    if ((byte | 0x20) === 0x65 && digits > 0) needsCleaning = true
    digits = 0
    if (byte === QUOTE) {
      const end = stringEnd(bytes, position + 1)
      if (!needsCleaning) needsCleaning = hasSuspiciousEscape(bytes, position + 1, end)
      position = end + 1
      continue
    }
    if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
      if (++depth > JSON_DEPTH_MAX) throw tooDeep()
      values++
    } else if (byte === 0x7d || byte === 0x5d) depth--
    else if (byte === COMMA && ++values > valuesMax) throw tooManyValues(valuesMax)
    position++
  }
  return needsCleaning
}

/** Position of the quote that ends a string whose first character is at `start`, or the end of the text. */
export function stringEnd(bytes: Uint8Array, start: number): number {
  let position = start
  while (position < bytes.length) {
    const byte = bytes[position]
    if (byte === QUOTE) return position
    position += byte === BACKSLASH ? 2 : 1
  }
  return bytes.length
}

/** True when a string may hold an escape of NUL, of a surrogate or of a character of `__proto__`. */
function hasSuspiciousEscape(bytes: Buffer, start: number, end: number): boolean {
  for (let position = start; position < end; position++) {
    if (bytes[position] !== BACKSLASH) continue
    position++
    if (bytes[position] !== 0x75) continue
    const first = (bytes[position + 1] ?? 0) | 0x20
    // U+D8xx to U+DFxx; U+0000 to U+000F and U+0050 to U+007F.
    const third = bytes[position + 3] ?? 0
    if (first === 0x64) return true
    if (first === 0x30 && (third === 0x30 || (third >= 0x35 && third <= 0x37))) return true
  }
  return false
}

function parseLeniently(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    if (!text.includes('NaN') && !text.includes('Infinity')) throw notJson()
  }
  try {
    return JSON.parse(withoutBareNumbers(text))
  } catch {
    throw notJson()
  }
}

/** The text with `NaN`, `Infinity` and `-Infinity` outside of strings replaced by `null`. Linear. */
function withoutBareNumbers(text: string): string {
  let isInside = false
  return text.replace(QUOTES_AND_BARE_NUMBERS, (found) => {
    if (found === '"') isInside = !isInside
    return isInside || found === '"' || found.startsWith('\\') ? found : 'null'
  })
}

/**
 * Puts integers beyond 2^53 into quotes: as numbers they would be rounded, and two users or groups be one. `isAll`: not
 * only ids. Linear.
 */
function quoteLongIntegers(text: string, isAll: boolean): string {
  if (!LONG_INTEGER.test(text)) return text
  /** The members that the open objects and lists belong to. */
  const owners: string[] = []
  let quoted = ''
  let copiedTo = 0
  let lastString = ''
  let member = ''
  let position = 0
  while (position < text.length) {
    const code = text.charCodeAt(position)
    if (code === QUOTE) {
      const end = stringEndInText(text, position + 1)
      lastString = text.slice(position + 1, end)
      position = end
    } else if (code === COLON) member = lastString
    else if (code === OPEN_OBJECT || code === OPEN_ARRAY) {
      owners.push(member)
      member = ''
    } else if (code === CLOSE_OBJECT || code === CLOSE_ARRAY) member = owners.pop() ?? ''
    else if (code === MINUS || isDigit(code)) {
      const end = numberEnd(text, position + 1)
      const isId = ID_MEMBERS.has(member) || owners.at(-1) === GROUPS_MEMBER
      const number = isAll || isId ? text.slice(position, end) : ''
      if (WHOLE_LONG_INTEGER.test(number) && !Number.isSafeInteger(Number(number))) {
        quoted += `${text.slice(copiedTo, position)}"${number}"`
        copiedTo = end
      }
      position = end - 1
    }
    position++
  }
  return quoted + text.slice(copiedTo)
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39
}

/** The position behind a number with a digit or sign before `start`. */
function numberEnd(text: string, start: number): number {
  let position = start
  for (;;) {
    const code = text.charCodeAt(position)
    const isPart = isDigit(code) || code === MINUS || code === 0x2b || code === 0x2e
    if (!isPart && (code | 0x20) !== 0x65) return position
    position++
  }
}

/** As `stringEnd`, of a text. */
function stringEndInText(text: string, start: number): number {
  let position = start
  while (position < text.length) {
    const code = text.charCodeAt(position)
    if (code === QUOTE) return position
    position += code === BACKSLASH ? 2 : 1
  }
  return text.length
}

/** The refusal of a text that is nested too deeply. */
export function tooDeep(): ServiceError {
  return new ServiceError(
    'invalid_payload',
    `The JSON is nested too deeply. At most ${JSON_DEPTH_MAX} levels are accepted.`,
  )
}

/** The refusal of a text that is no JSON. */
export function notJson(): ServiceError {
  return new ServiceError('invalid_payload', 'The body is not valid JSON.')
}

/** The refusal of a text with more values than are made objects of. */
export function tooManyValues(valuesMax: number, what = 'values'): ServiceError {
  return new ServiceError(
    'request_too_large',
    `The JSON has more than ${valuesMax} ${what} in one piece. Send fewer of them in one request.`,
  )
}
