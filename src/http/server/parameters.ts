/**
 * Parameters of private routes that may stand in the query or in a JSON body. On equal names the
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

/** Query and body of one request as one set of names. */
export class RequestParameters extends JsonParameters {
  readonly #query: URLSearchParams

  /**
   * Reads the body. Throws 415 and 400 `parse_error` as `ApiRequest.json`, and 400 `invalid_input` for
   * a body that is no object or nested too deeply.
   */
  constructor(request: ApiRequest, body = bodyMembers(request)) {
    super(body)
    this.#query = request.query
  }

  /** The parameters of the query alone, for a request whose body is no JSON. */
  static ofQuery(request: ApiRequest): RequestParameters {
    return new RequestParameters(request, {})
  }

  /** The value of a name: any JSON of the body, else the text of the query; undefined when absent. */
  override value(name: string): unknown {
    const inBody = super.value(name)
    if (inBody !== undefined) return inBody
    const text = this.#query.get(name)
    return text === null ? undefined : cleanText(text)
  }

  /** Whether the query or the body has the name, whatever its value; null in a body counts as absent. */
  has(name: string): boolean {
    const value = this.value(name)
    return value !== undefined && value !== null
  }

  /** Whether the body says it, so that a link has to repeat it. */
  isInBody(name: string): boolean {
    return super.value(name) !== undefined
  }

  /** A text that must be there. Throws 400 `required`. */
  requiredText(name: string): string {
    const text = this.text(name)
    if (text === null) throw required(name)
    return text
  }

  /** JSON of the body, or the JSON that a text of query or body holds; undefined when absent or empty. */
  override json(name: string): unknown {
    const value = this.value(name)
    return typeof value === 'string' ? jsonOfText(value, name) : (value ?? undefined)
  }

  /** `properties`: here the query goes before the body. Several in the query are the items of a list. */
  override properties(): unknown {
    const texts = this.#query.getAll('properties').filter((text) => text !== '')
    const [first] = texts
    if (first === undefined) return this.json('properties')
    if (texts.length === 1) return jsonOfText(first, 'properties')
    return texts.flatMap((text) => jsonOfText(text, 'properties'))
  }

  /** `limit` and `offset`. Throws 400. */
  page(): OffsetPage {
    return offsetPage((name) => this.wholeNumber(name), ROWS)
  }
}

/** A person by the text of its number or uuid; null for another text. */
export function personReference(text: string): PersonReference | null {
  const uuid = parseUuid(text)
  if (uuid !== null) return formatUuid(uuid, 0)
  if (!/^[0-9]{1,20}$/.test(text)) return null
  // A larger number is nobody's.
  return Math.min(Number(text), Number.MAX_SAFE_INTEGER)
}

/** A text that may be absent or null; its length in UTF-16 units. Throws 400. */
export function textMember(value: unknown, attr: string, unitsMax: number): string | undefined {
  if (value === undefined || value === null) return undefined
  if (typeof value !== 'string') throw invalidInput(attr, 'must be a text')
  if (value.length > unitsMax) throw invalidInput(attr, `may have ${unitsMax} characters at most`)
  return value
}

/** A list that may be absent or null; `entries` says in a refusal of what. Throws 400. */
export function listMember(
  value: unknown,
  attr: string,
  countMax: number,
  entries = 'entries at most',
): readonly unknown[] | undefined {
  if (value === undefined || value === null) return undefined
  if (!Array.isArray(value)) throw invalidInput(attr, 'must be a list')
  const list: readonly unknown[] = value
  if (list.length > countMax) throw invalidInput(attr, `may hold ${countMax} ${entries}`)
  return list
}

/** A boolean or its name; it may be absent, null or empty. Throws 400. */
export function booleanMember(value: unknown, attr: string): boolean | undefined {
  if (value === undefined || value === null || value === '') return undefined
  if (typeof value === 'boolean') return value
  const text = typeof value === 'string' ? value.toLowerCase() : ''
  if (text !== 'true' && text !== 'false') throw invalidInput(attr, 'must be true or false')
  return text === 'true'
}

/** 400 `required` for a parameter that is missing. */
export function required(name: string): ServiceError {
  return new ServiceError('required', `${name} is missing: send it in the query or the body`, {
    attr: name,
  })
}

/** The members of a JSON body; none without one. Throws what the constructor of `RequestParameters` throws. */
export function bodyMembers(request: ApiRequest): JsonObject {
  const value = bodyValue(request) ?? {}
  if (!isObject(value)) throw new ServiceError('invalid_input', 'the body must be a JSON object')
  return value
}

/** The JSON of a body; undefined without one. Throws what the constructor of `RequestParameters` throws. */
export function bodyValue(request: ApiRequest): unknown {
  if (request.json() === undefined) return undefined
  const hasMark = request.body[0] === 0xef && request.body[1] === 0xbb
  return storable(hasMark ? request.body.subarray(3) : request.body, null)
}

/** An empty text is undefined. */
function jsonOfText(text: string, name: string): unknown {
  try {
    JSON.parse(text === '' ? 'null' : text)
  } catch {
    throw invalidInput(name, 'must be JSON, percent-encoded in a query')
  }
  return text === '' ? undefined : storable(Buffer.from(text), name)
}

/** JSON without what no store can hold, as events have it. */
function storable(json: Uint8Array, name: string | null): unknown {
  try {
    return parseJsonText(json)
  } catch {
    const detail = `the JSON is nested more than ${JSON_DEPTH_MAX} deep`
    throw new ServiceError('invalid_input', detail, name === null ? {} : { attr: name })
  }
}
