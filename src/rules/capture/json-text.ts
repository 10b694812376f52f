/**
 * Turns untrusted JSON text into values that can be stored without a change. Nesting is bounded. There are no lone
 * surrogates, no NUL, no `__proto__` keys and no infinite numbers, and long integer ids have all their digits. Source:
 * docs/compatibility/ingestion.md, "JSON".
 */
import { ServiceError } from '../../base/errors.ts'
import { type OwnObject, parseJson } from '../../base/json.ts'
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
/** A number with more digits than this before the decimal point may be parsed as Infinity. */
const FINITE_DIGITS_MAX = 308
const LONG_INTEGER = /\d{16}/
/** Matches integers that may be greater than 2^53. JSON.parse rounds such integers. */
const WHOLE_LONG_INTEGER = /^-?[1-9]\d{15,199}$/
/** The members that identify a person or a group in an event. */
const ID_MEMBERS = ['distinct_id', '$distinct_id', '$anon_distinct_id', 'alias', '$group_key']
/** The members of requests to private routes that identify persons or groups. */
const ROUTE_ID_MEMBERS = ['main_distinct_id', 'group_key']

/**
 * Which integers beyond 2^53 become texts, so that they keep all their digits. `ids` means only the integers that
 * identify a person or a group in an event. `requests` is for requests to private routes. It adds the other fields
 * there that identify persons or groups, the values of filters and the payloads of flags. `all` is for callers that
 * compare values as texts and store no numbers.
 */
export type LongIntegers = 'ids' | 'requests' | 'all'

/** Where integers beyond 2^53 become texts. */
interface LongIntegerPlaces {
  /** The names of the members whose own value becomes a text. */
  readonly members: ReadonlySet<string>
  /** The names of the lists and objects whose elements or members become texts. */
  readonly owners: ReadonlySet<string>
}

const PLACES: Readonly<Record<Exclude<LongIntegers, 'all'>, LongIntegerPlaces>> = {
  ids: { members: new Set(ID_MEMBERS), owners: new Set(['$groups']) },
  requests: {
    members: new Set([...ID_MEMBERS, ...ROUTE_ID_MEMBERS]),
    owners: new Set(['$groups', 'distinct_ids']),
  },
}
/** The member of a filter that contains the value, or the list of values, to compare with. */
const FILTER_VALUE = 'value'
/**
 * The member of a flag's `filters` whose values are sent to clients. In a scheduled change of a flag, this member is in
 * `payload.value`.
 */
const PAYLOADS = 'payloads'
const FLAG_FILTERS = 'filters'
const SCHEDULED = 'payload'
/** The fewest digits of an integer beyond 2^53. */
const LONG_DIGITS_MIN = 16

/** Matches quotes, escapes (which may hide a quote) and the bare numbers that Python writes. */
const QUOTES_AND_BARE_NUMBERS = /\\[\s\S]|"|NaN|-?Infinity/g

/**
 * Returns the value of a JSON text in valid UTF-8, or undefined if the text contains only white space. Python clients
 * emit bare `NaN`, `Infinity` and `-Infinity`; they are read as null if the text is not JSON otherwise. The cost is
 * linear.
 *
 * Throws ServiceError `invalid_payload` if the text is not JSON or is nested too deeply. Throws `request_too_large` if
 * it has more than `valuesMax` values at all depths, before any value is built.
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
  const value = parseLeniently(quoteLongIntegers(text, exactIntegers))
  return needsCleaning ? cleanValue(value) : value
}

/**
 * Throws ServiceError `request_too_large` if a JSON text has more than `valuesMax` values at all depths, or more than
 * `containersMax` objects and lists. It counts before any object is built and does not check whether the text is JSON.
 * The cost is linear.
 */
export function refuseManyValues(
  json: Uint8Array,
  valuesMax: number,
  containersMax = valuesMax,
): void {
  // A text never has more values than bytes, so a short text need not be searched.
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
 * Returns a text that can be stored: each lone surrogate and each NUL becomes U+FFFD. Returns the same text if it is
 * already clean.
 */
export function cleanText(text: string): string {
  return UNSTORABLE.test(text) ? text.replace(UNSTORABLE_EACH, '\ufffd') : text
}

/** Cleans a parsed value, in place where possible, and returns it. The recursion is at most JSON_DEPTH_MAX deep. */
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

/**
 * Returns a copy of an object with keys that can be stored, in the same order. If two keys become equal, the last one
 * wins.
 */
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
 * Scans the bytes once. Throws if the nesting exceeds JSON_DEPTH_MAX, so that no later step can exhaust the stack.
 * Returns whether the parsed value may contain something that must be cleaned.
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

/**
 * Returns the position of the quote that ends the string whose first character is at `start`, or the length of the text
 * if there is none.
 */
export function stringEnd(bytes: Uint8Array, start: number): number {
  let position = start
  while (position < bytes.length) {
    const byte = bytes[position]
    if (byte === QUOTE) return position
    position += byte === BACKSLASH ? 2 : 1
  }
  return bytes.length
}

/** Returns whether a string may contain an escape of NUL, of a surrogate or of a character of `__proto__`. */
function hasSuspiciousEscape(bytes: Buffer, start: number, end: number): boolean {
  for (let position = start; position < end; position++) {
    if (bytes[position] !== BACKSLASH) continue
    position++
    if (bytes[position] !== 0x75) continue
    const first = (bytes[position + 1] ?? 0) | 0x20
    // These escapes are suspicious (x is any hex digit): `\uDxxx`, which includes halves of surrogate pairs, `\u0x0x`,
    // which includes NUL, and `\u0x5x` to `\u0x7x`, which include all characters of `__proto__`.
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

/** Replaces `NaN`, `Infinity` and `-Infinity` outside of strings by `null`. The cost is linear. */
function withoutBareNumbers(text: string): string {
  let isInside = false
  return text.replace(QUOTES_AND_BARE_NUMBERS, (found) => {
    if (found === '"') isInside = !isInside
    return isInside || found === '"' || found.startsWith('\\') ? found : 'null'
  })
}

/**
 * Puts integers beyond 2^53 into quotes. As numbers they would be rounded, and two users or groups would become one.
 * The cost is linear.
 */
function quoteLongIntegers(text: string, which: LongIntegers): string {
  if (!LONG_INTEGER.test(text)) return text
  /** The name of the member that contains each open object or list, from the outermost to the innermost. */
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
    } else if (code === COLON) member = memberName(lastString)
    else if (code === OPEN_OBJECT || code === OPEN_ARRAY) {
      owners.push(member)
      member = ''
    } else if (code === CLOSE_OBJECT || code === CLOSE_ARRAY) member = owners.pop() ?? ''
    else if (code === MINUS || isDigit(code)) {
      const end = numberEnd(text, position + 1)
      const number = end - position < LONG_DIGITS_MIN ? '' : text.slice(position, end)
      const isRounded = WHOLE_LONG_INTEGER.test(number) && !Number.isSafeInteger(Number(number))
      if (isRounded && keepsDigits(which, member, owners)) {
        quoted += `${text.slice(copiedTo, position)}"${number}"`
        copiedTo = end
      }
      position = end - 1
    }
    position++
  }
  return quoted + text.slice(copiedTo)
}

/**
 * Returns the name that is written in a JSON string. `literal` is the string without its quotes; it may contain
 * escapes.
 */
function memberName(literal: string): string {
  if (!literal.includes('\\')) return literal
  const name = parseJson(`"${literal}"`)
  return typeof name === 'string' ? name : literal
}

function keepsDigits(which: LongIntegers, member: string, owners: readonly string[]): boolean {
  if (which === 'all') return true
  const places = PLACES[which]
  const owner = owners.at(-1) ?? ''
  if (places.members.has(member) || places.owners.has(owner)) return true
  if (which !== 'requests') return false
  // A `value` belongs to a filter if the object that contains it is an entry of a list. Such an object has the name ''.
  // A `value` directly in the body or in an object with a name is the value of a property and stays a number.
  const depth = owner === FILTER_VALUE ? owners.length - 1 : owners.length
  const hasValue = member === FILTER_VALUE || owner === FILTER_VALUE
  if (hasValue && depth > 1 && owners[depth - 1] === '') return true
  return owners.some((name, at) => {
    if (name !== PAYLOADS) return false
    const outer = owners[at - 1]
    return outer === FLAG_FILTERS || (outer === FILTER_VALUE && owners[at - 2] === SCHEDULED)
  })
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39
}

/** Returns the offset after a number. `start` is the offset after its first character, which is a digit or a sign. */
function numberEnd(text: string, start: number): number {
  let position = start
  for (;;) {
    const code = text.charCodeAt(position)
    const isPart = isDigit(code) || code === MINUS || code === 0x2b || code === 0x2e
    if (!isPart && (code | 0x20) !== 0x65) return position
    position++
  }
}

/** Does the same as `stringEnd`, but for a text instead of bytes. */
function stringEndInText(text: string, start: number): number {
  let position = start
  while (position < text.length) {
    const code = text.charCodeAt(position)
    if (code === QUOTE) return position
    position += code === BACKSLASH ? 2 : 1
  }
  return text.length
}

/** Returns the error for a text that is nested too deeply. */
export function tooDeep(): ServiceError {
  return new ServiceError(
    'invalid_payload',
    `The JSON is nested too deeply. At most ${JSON_DEPTH_MAX} levels are accepted.`,
  )
}

/** Returns the error for a text that is not JSON. */
export function notJson(): ServiceError {
  return new ServiceError('invalid_payload', 'The body is not valid JSON.')
}

/** Returns the error for a text that has too many values. `what` names them in the error text. */
export function tooManyValues(valuesMax: number, what = 'values'): ServiceError {
  return new ServiceError(
    'request_too_large',
    `The JSON has more than ${valuesMax} ${what}. Send fewer of them in one request.`,
  )
}
