/**
 * Reads parameters of private routes that may stand in the query or in a JSON body. If both have the same name, the
 * body wins. Source: docs/compatibility/persons.md, "Parameters of persons".
 */
import { invalidInput, ServiceError } from '../../base/errors.ts'
import { formatUuid, parseUuid } from '../../base/ids.ts'
import { isObject, type JsonObject } from '../../base/json.ts'
import { JSON_DEPTH_MAX } from '../../base/limits.ts'
import { JsonParameters } from '../../rules/analytics/question-shapes.ts'
import { cleanText, parseJsonText } from '../../rules/capture/json-text.ts'
import type { PersonReference } from '../../rules/persons/person-queries.ts'
import { PAGE_ROWS_MAX } from './limits.ts'
import { type OffsetPage, offsetPage } from './pages.ts'
import type { ApiRequest } from './router.ts'

const ROWS = { default: 100, max: PAGE_ROWS_MAX }

/** The query and the body of one request, read as one set of names. */
export class RequestParameters extends JsonParameters {
  readonly #query: URLSearchParams

  /**
   * Reads the body. Throws 415 and 400 `parse_error` as `ApiRequest.json` does, and 400 `invalid_input` for a body that
   * is not an object or is nested too deeply.
   */
  constructor(request: ApiRequest, body = bodyMembers(request)) {
    super(body)
    this.#query = request.query
  }

  /** Reads only the parameters of the query, for a request whose body is not JSON. */
  static ofQuery(request: ApiRequest): RequestParameters {
    return new RequestParameters(request, {})
  }

  /** Returns the JSON value of a name in the body, else its text in the query, or undefined if neither has it. */
  override value(name: string): unknown {
    const inBody = super.value(name)
    if (inBody !== undefined) return inBody
    const text = this.#query.get(name)
    return text === null ? undefined : cleanText(text)
  }

  /** Returns whether the query or the body has a value for the name. Null in a body counts as absent. */
  has(name: string): boolean {
    const value = this.value(name)
    return value !== undefined && value !== null
  }

  /** Returns whether the name comes from the body. A link to another page then has to repeat it. */
  isInBody(name: string): boolean {
    return super.value(name) !== undefined
  }

  /** Returns a text that must not be missing. Throws 400 `required`. */
  requiredText(name: string): string {
    const text = this.text(name)
    if (text === null) throw required(name)
    return text
  }

  /**
   * Returns a JSON value of the body, or parses the text in the query or body as JSON. Undefined if it is absent or
   * empty.
   */
  override json(name: string): unknown {
    const value = this.value(name)
    return typeof value === 'string' ? jsonOfText(value, name) : (value ?? undefined)
  }

  /**
   * Returns the property filters. Unlike other parameters, `properties` of the query wins over that of the body. If the
   * query has several, their items form one list.
   */
  override properties(): unknown {
    const texts = this.#query.getAll('properties').filter((text) => text !== '')
    const [first] = texts
    if (first === undefined) return this.json('properties')
    if (texts.length === 1) return jsonOfText(first, 'properties')
    return texts.flatMap((text) => jsonOfText(text, 'properties'))
  }

  /** Returns `limit` and `offset`. Throws 400. */
  page(): OffsetPage {
    return offsetPage((name) => this.wholeNumber(name), ROWS)
  }
}

/** Returns the person reference in a text, which is a person number or a UUID. Null for any other text. */
export function personReference(text: string): PersonReference | null {
  const uuid = parseUuid(text)
  if (uuid !== null) return formatUuid(uuid, 0)
  if (!/^[0-9]{1,20}$/.test(text)) return null
  // Person numbers are never larger than this, so a larger number matches no person.
  return Math.min(Number(text), Number.MAX_SAFE_INTEGER)
}

/** Returns the 400 `required` error for a missing parameter. */
export function required(name: string): ServiceError {
  return new ServiceError('required', `\`${name}\` is missing. Send it in the query or the body.`, {
    attr: name,
  })
}

/**
 * Returns the members of a JSON body, or an empty object without a body. Throws the same errors as the constructor of
 * `RequestParameters`.
 */
export function bodyMembers(request: ApiRequest): JsonObject {
  const value = bodyValue(request) ?? {}
  if (!isObject(value)) throw new ServiceError('invalid_input', 'The body must be a JSON object.')
  return value
}

/**
 * Returns the JSON of a body, or undefined without one. Throws the same errors as the constructor of
 * `RequestParameters`.
 */
export function bodyValue(request: ApiRequest): unknown {
  if (request.json() === undefined) return undefined
  const hasMark = request.body[0] === 0xef && request.body[1] === 0xbb
  return storable(hasMark ? request.body.subarray(3) : request.body, null)
}

/**
 * Parses the JSON of a text. An empty text gives undefined. Throws 400 `invalid_input` for a text that is not JSON or
 * is nested too deeply.
 */
export function jsonOfText(text: string, name: string): unknown {
  try {
    JSON.parse(text === '' ? 'null' : text)
  } catch {
    throw invalidInput(name, 'must be JSON, percent-encoded in a query')
  }
  return text === '' ? undefined : storable(Buffer.from(text), name)
}

/** Parses JSON and replaces values that no store can hold, as for the properties of events. */
function storable(json: Uint8Array, name: string | null): unknown {
  try {
    return parseJsonText(json)
  } catch {
    const detail = `The JSON is nested more than ${JSON_DEPTH_MAX} levels deep. Send it with fewer levels.`
    throw new ServiceError('invalid_input', detail, name === null ? {} : { attr: name })
  }
}
