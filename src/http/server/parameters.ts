/**
 * Reads parameters of private routes that may be in the query or in a JSON body. If both contain a parameter, the value
 * in the body is used. Source: docs/compatibility/persons.md, "Parameters of persons".
 */
import { invalidInput, ServiceError } from '../../base/errors.ts'
import { formatUuid, parseUuid } from '../../base/ids.ts'
import { isObject, type JsonObject } from '../../base/json.ts'
import { JSON_DEPTH_MAX } from '../../base/limits.ts'
import { JsonParameters } from '../../rules/analytics/question-shapes.ts'
import { cleanText, type LongIntegers, parseJsonText } from '../../rules/capture/json-text.ts'
import type { PersonReference } from '../../rules/persons/person-queries.ts'
import { PAGE_ROWS_MAX } from './limits.ts'
import { type OffsetPage, offsetPage } from './pages.ts'
import type { ApiRequest } from './router.ts'

const ROWS = { default: 100, max: PAGE_ROWS_MAX }

/** The parameters of one request, from its query and its body. */
export class RequestParameters extends JsonParameters {
  readonly #query: URLSearchParams

  /**
   * Reads the body. Throws 415 and 400 `parse_error` like `ApiRequest.json`, and 400 `invalid_input` if the body is not
   * an object or is nested too deeply.
   */
  constructor(request: ApiRequest, body = bodyMembers(request)) {
    super(body)
    this.#query = request.query
  }

  /** Reads only the query, for a request whose body is not JSON. */
  static ofQuery(request: ApiRequest): RequestParameters {
    return new RequestParameters(request, {})
  }

  /**
   * Returns the JSON value of a parameter in the body, or else its text in the query. Returns undefined if neither
   * contains it.
   */
  override value(name: string): unknown {
    const inBody = super.value(name)
    if (inBody !== undefined) return inBody
    const text = this.#query.get(name)
    return text === null ? undefined : cleanText(text)
  }

  /** Returns true if the query or the body has a value for the parameter. Null in the body counts as absent. */
  has(name: string): boolean {
    const value = this.value(name)
    return value !== undefined && value !== null
  }

  /**
   * Returns true if the parameter is in the body. A URL of another page must then contain the parameter, because that
   * page is requested without the body.
   */
  isInBody(name: string): boolean {
    return super.value(name) !== undefined
  }

  /** Returns the text of a parameter. Throws 400 `required` if it is missing. */
  requiredText(name: string): string {
    const text = this.text(name)
    if (text === null) throw required(name)
    return text
  }

  /**
   * Returns the JSON value of a parameter in the body. If the parameter is a text, in the body or in the query, the
   * text is parsed as JSON. Returns undefined if the parameter is absent or empty.
   */
  override json(name: string): unknown {
    const value = this.value(name)
    return typeof value === 'string' ? jsonOfText(value, name) : (value ?? undefined)
  }

  /**
   * Returns the property filters. Unlike other parameters, `properties` in the query has precedence over `properties`
   * in the body. If the query contains `properties` several times, the items of all of them form one list.
   */
  override properties(): unknown {
    const texts = this.#query.getAll('properties').filter((text) => text !== '')
    const [first] = texts
    if (first === undefined) return this.json('properties')
    if (texts.length === 1) return jsonOfText(first, 'properties')
    return texts.flatMap((text) => jsonOfText(text, 'properties'))
  }

  /** Returns the page that `limit` and `offset` ask for. Throws 400 if they are invalid. */
  page(): OffsetPage {
    return offsetPage((name) => this.wholeNumber(name), ROWS)
  }
}

/** Returns the person whose number or UUID is the text. Returns null for any other text. */
export function personReference(text: string): PersonReference | null {
  const uuid = parseUuid(text)
  if (uuid !== null) return formatUuid(uuid, 0)
  if (!/^[0-9]{1,20}$/.test(text)) return null
  // A larger number is reduced to MAX_SAFE_INTEGER. No person has that number either, so the lookup finds nobody.
  return Math.min(Number(text), Number.MAX_SAFE_INTEGER)
}

/** Returns the 400 `required` error for a missing parameter. */
export function required(name: string): ServiceError {
  return new ServiceError('required', `\`${name}\` is missing. Send it in the query or the body.`, {
    attr: name,
  })
}

/**
 * Returns the members of a JSON body. Returns an empty object if there is no body. Throws the same errors as the
 * constructor of `RequestParameters`.
 */
export function bodyMembers(request: ApiRequest): JsonObject {
  const value = bodyValue(request) ?? {}
  if (!isObject(value)) throw new ServiceError('invalid_input', 'The body must be a JSON object.')
  return value
}

/**
 * Returns the JSON value of a body, or undefined if there is no body. Throws 415 and 400 `parse_error` like
 * `ApiRequest.json`, and 400 `invalid_input` if the body is nested too deeply.
 */
export function bodyValue(request: ApiRequest): unknown {
  if (request.json() === undefined) return undefined
  const hasMark = request.body[0] === 0xef && request.body[1] === 0xbb
  return storable(hasMark ? request.body.subarray(3) : request.body, null)
}

/**
 * Parses a text as JSON. `exactIntegers` says which integers beyond 2^53 become texts. Returns undefined for an empty
 * text. Throws 400 `invalid_input` if the text is not JSON or is nested too deeply.
 */
export function jsonOfText(
  text: string,
  name: string,
  exactIntegers: LongIntegers = 'requests',
): unknown {
  try {
    JSON.parse(text === '' ? 'null' : text)
  } catch {
    throw invalidInput(name, 'must be JSON, percent-encoded in a query')
  }
  return text === '' ? undefined : storable(Buffer.from(text), name, exactIntegers)
}

/** Parses JSON. Values that the store cannot hold are replaced, by the same rules as in the properties of events. */
function storable(
  json: Uint8Array,
  name: string | null,
  exactIntegers: LongIntegers = 'requests',
): unknown {
  try {
    return parseJsonText(json, Number.POSITIVE_INFINITY, exactIntegers)
  } catch {
    const detail = `The JSON is nested more than ${JSON_DEPTH_MAX} levels deep. Send it with fewer levels.`
    throw new ServiceError('invalid_input', detail, name === null ? {} : { attr: name })
  }
}
