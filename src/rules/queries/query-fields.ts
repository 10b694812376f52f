/**
 * Reads an object of a query: its members by name and type. An invalid member throws 400 `invalid_query` with the
 * dotted path of the member. Null counts as absent. Source: docs/compatibility/queries.md, "Requests".
 */
import { fieldText, ServiceError } from '../../base/errors.ts'
import { isObject, type JsonObject } from '../../base/json.ts'

/** One object of a query, and its path within the query. */
export class QueryFields {
  /** The object as it was sent. Its keys come from the client. */
  readonly json: JsonObject
  readonly #path: string

  /** `path` is the path of the object within the query. '' means the query itself. */
  constructor(json: JsonObject, path = '') {
    this.json = json
    this.#path = path
  }

  /** Returns a reader for another object at the same path. */
  renewed(json: JsonObject): QueryFields {
    return new QueryFields(json, this.#path)
  }

  /** Returns the dotted path of a member, for the member `attr` of an error. */
  pathOf(name: string): string {
    return this.#path === '' ? name : `${this.#path}.${name}`
  }

  /** Returns a member. Undefined when absent or null. */
  value(name: string): unknown {
    return Object.hasOwn(this.json, name) ? (this.json[name] ?? undefined) : undefined
  }

  /**
   * Returns whether a member has a value. Null, false, '', an empty list and an empty object do not count as values.
   */
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

  /** Returns a whole number from `min` to `max`. Null when absent. */
  whole(name: string, min: number, max: number = Number.MAX_SAFE_INTEGER): number | null {
    const value = this.number(name)
    if (value === null) return null
    if (Number.isInteger(value) && value >= min && value <= max) return value
    const bounds = max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`
    throw this.fault(name, `must be a whole number ${bounds}`)
  }

  /** Returns one of `allowed`. The first one is the default. */
  choice<Choice extends string>(name: string, allowed: readonly [Choice, ...Choice[]]): Choice {
    const value = this.value(name)
    if (value === undefined) return allowed[0]
    const found = allowed.find((one) => one === value)
    if (found !== undefined) return found
    throw this.fault(name, `must be one of ${allowed.join(', ')}`)
  }

  /** Returns a list, which is empty when absent. */
  list(name: string): readonly unknown[] {
    const value = this.value(name) ?? []
    if (Array.isArray(value)) return value as readonly unknown[]
    throw this.fault(name, 'must be a list')
  }

  /** Returns the objects of a list with their paths. The list is empty when absent. */
  objects(name: string): readonly QueryFields[] {
    return this.list(name).map((value, index) => {
      const path = `${this.pathOf(name)}.${index}`
      if (isObject(value)) return new QueryFields(value, path)
      throw invalidQuery(path, 'must be an object')
    })
  }

  /** Returns an object, which is empty when absent. */
  within(name: string): QueryFields {
    const value = this.value(name) ?? {}
    if (isObject(value)) return new QueryFields(value, this.pathOf(name))
    throw this.fault(name, 'must be an object')
  }

  /** Returns the texts of a list, which is empty when absent. */
  texts(name: string): readonly string[] {
    return this.list(name).map((value, index) => {
      if (typeof value === 'string') return value
      throw invalidQuery(`${this.pathOf(name)}.${index}`, 'must be a text')
    })
  }

  /** Throws 400 `invalid_query` if one of the members `names` has a value, because these members are not supported. */
  refuse(...names: readonly string[]): void {
    for (const name of names) {
      if (this.isGiven(name)) throw this.fault(name, 'is not supported. Leave it out')
    }
  }

  /**
   * Returns the error 400 `invalid_query` for a member. `what` continues a sentence that begins with the path of the
   * member.
   */
  fault(name: string, what: string) {
    return invalidQuery(this.pathOf(name), what)
  }
}

/**
 * Returns the error 400 `invalid_query`. `attr` is the dotted path of the member within the query, or null. `what`
 * continues a sentence that begins with this path.
 */
export function invalidQuery(attr: string | null, what: string): ServiceError {
  const detail = attr === null ? what : fieldText(attr, what)
  return new ServiceError('invalid_query', detail, attr === null ? {} : { attr })
}
