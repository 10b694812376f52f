/** Helpers for parsed JSON: testing for objects, reading objects whose keys come from clients, and comparing values. */

/**
 * A JSON object whose keys come from clients. Test for a key with `Object.hasOwn`, because every object inherits
 * members such as `constructor`.
 */
export type JsonObject = Readonly<Record<string, unknown>>

/** A JSON object that no other code uses, so that it may be changed. */
export type OwnObject = Record<string, unknown>

/** Returns true for a JSON object: neither null nor a list. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Returns the entries of a list that are objects. Returns an empty list if the value is not a list. */
export function objectsOf(value: unknown): readonly JsonObject[] {
  return Array.isArray(value) ? value.filter(isObject) : []
}

/**
 * The type `T` with an optional member in place of each member that may be undefined: `a?: X` for `a: X | undefined`.
 */
export type Given<T> = {
  [Name in keyof T as undefined extends T[Name] ? never : Name]: T[Name]
} & { [Name in keyof T as undefined extends T[Name] ? Name : never]?: Exclude<T[Name], undefined> }

/** Returns an object without its undefined members, for optional values that were not given. */
export function given<T extends object>(members: T): Given<T> {
  const entries = Object.entries(members).filter(([, value]) => value !== undefined)
  return Object.fromEntries(entries) as Given<T>
}

const texts = new WeakMap<object, string>()

/**
 * Returns the JSON text of an object. The text of a frozen object is cached, because many events share frozen objects.
 */
export function jsonOf(value: object): string {
  if (!Object.isFrozen(value)) return JSON.stringify(value)
  let text = texts.get(value)
  if (text === undefined) {
    text = JSON.stringify(value)
    texts.set(value, text)
  }
  return text
}

/** Parses a text as JSON. Returns undefined if the text is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/**
 * Returns true if two JSON values are equal. The order of keys does not matter, the order of arrays does, and types are
 * never converted. The relation is reflexive, symmetric and transitive. Cost: linear in the smaller value. Any depth is
 * safe.
 */
export function isSameJson(left: unknown, right: unknown): boolean {
  if (left === right) return true
  if (!isContainer(left) || !isContainer(right)) return false
  // Pairs of values that still have to be compared, one pair after the other. There is no recursion, so deep values are
  // safe.
  const pending: object[] = [left, right]
  while (pending.length > 0) {
    const second = pending.pop()
    const first = pending.pop()
    if (first === undefined || second === undefined) break
    if (!areLevelsSame(first, second, pending)) return false
  }
  return true
}

/**
 * Returns true if two objects or lists are equal except for the objects and lists inside them. Adds each pair of inner
 * objects or lists to `pending`, for a later comparison.
 */
function areLevelsSame(first: object, second: object, pending: object[]): boolean {
  if (Array.isArray(first) !== Array.isArray(second)) return false
  const keys = Object.keys(first)
  if (keys.length !== Object.keys(second).length) return false
  for (const key of keys) {
    if (!Object.hasOwn(second, key)) return false
    const left = memberOf(first, key)
    const right = memberOf(second, key)
    if (left === right) continue
    if (!isContainer(left) || !isContainer(right)) return false
    pending.push(left, right)
  }
  return true
}

function isContainer(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

function memberOf(container: object, key: string): unknown {
  return Reflect.get(container, key)
}
