/**
 * Reading an object of a query: members by name and type, with 400 `invalid_query` and the dotted path of
 * the member for what does not fit. Null counts as absent. Source: docs/compatibility/queries.md, "Requests".
 */
import { ServiceError } from '../../base/errors.ts'
import { isObject, type JsonObject } from '../../base/json.ts'

/** One object of a query, and the path to it. */
export class QueryFields {
  /** As it was sent. Its keys come from the client. */
  readonly json: JsonObject
  readonly #path: string

  /** `path` is that of the object within the query; '' is the query itself. */
  constructor(json: JsonObject, path = '') {
    this.json = json
    this.#path = path
  }

  /** Another object in the place of this one. */
  renewed(json: JsonObject): QueryFields {
    return new QueryFields(json, this.#path)
  }

  /** The dotted path of a member, for `attr`. */
  pathOf(name: string): string {
    return this.#path === '' ? name : `${this.#path}.${name}`
  }

  /** Undefined when absent or null. */
  value(name: string): unknown {
    return Object.hasOwn(this.json, name) ? (this.json[name] ?? undefined) : undefined
  }

  /** Whether there is a value that is neither null, false, '' nor an empty list or object. */
  isGiven(name: string): boolean {
    const value = this.value(name)
    if (Array.isArray(value)) return value.length > 0
    if (isObject(value)) return Object.keys(value).length > 0
    return value !== undefined && value !== false && value !== ''
  }

  text(name: string): string | null {
    const value = this.value(name)
    if (value === undefined || typeof value === 'string') return value ?? null
    throw this.fault(name, 'must be a text')
  }

  boolean(name: string): boolean {
    const value = this.value(name)
    if (value === undefined || typeof value === 'boolean') return value ?? false
    throw this.fault(name, 'must be true or false')
  }

  number(name: string): number | null {
    const value = this.value(name)
    if (value === undefined) return null
    if (typeof value === 'number' && Number.isFinite(value)) return value
    throw this.fault(name, 'must be a number')
  }

  /** A whole number from `min` to `max`, or null when absent. */
  whole(name: string, min: number, max: number = Number.MAX_SAFE_INTEGER): number | null {
    const value = this.number(name)
    if (value === null) return null
    if (Number.isInteger(value) && value >= min && value <= max) return value
    const bounds = max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`
    throw this.fault(name, `must be a whole number ${bounds}`)
  }

  /** One of `allowed`; the first of them when absent. */
  choice<Choice extends string>(name: string, allowed: readonly [Choice, ...Choice[]]): Choice {
    const value = this.value(name)
    if (value === undefined) return allowed[0]
    const found = allowed.find((one) => one === value)
    if (found !== undefined) return found
    throw this.fault(name, `must be one of ${allowed.join(', ')}`)
  }

  /** Empty when absent. */
  list(name: string): readonly unknown[] {
    const value = this.value(name) ?? []
    if (Array.isArray(value)) return value as readonly unknown[]
    throw this.fault(name, 'must be a list')
  }

  /** The objects of a list, with their paths; empty when absent. */
  objects(name: string): readonly QueryFields[] {
    return this.list(name).map((value, index) => {
      const path = `${this.pathOf(name)}.${index}`
      if (isObject(value)) return new QueryFields(value, path)
      throw invalidQuery(path, 'must be an object')
    })
  }

  /** An object; an empty one when absent. */
  within(name: string): QueryFields {
    const value = this.value(name) ?? {}
    if (isObject(value)) return new QueryFields(value, this.pathOf(name))
    throw this.fault(name, 'must be an object')
  }

  /** Texts of a list; empty when absent. */
  texts(name: string): readonly string[] {
    return this.list(name).map((value, index) => {
      if (typeof value === 'string') return value
      throw invalidQuery(`${this.pathOf(name)}.${index}`, 'must be a text')
    })
  }

  /** Refuses what is asked for and not supported. Throws 400 `invalid_query`. */
  refuse(...names: readonly string[]): void {
    for (const name of names) {
      if (this.isGiven(name)) throw this.fault(name, 'is not supported: leave it out')
    }
  }

  /** 400 `invalid_query` about a member. */
  fault(name: string, what: string) {
    return invalidQuery(this.pathOf(name), what)
  }
}

/** 400 `invalid_query`: `attr` is the dotted path of the field within the query, or null. */
export function invalidQuery(attr: string | null, what: string): ServiceError {
  const detail = attr === null ? what : `${attr} ${what}`
  return new ServiceError('invalid_query', detail, attr === null ? {} : { attr })
}
