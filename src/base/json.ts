/** Parsed JSON: what an object is, how one whose keys come from clients is read, what is the same. */

/** A JSON object whose keys come from clients. Read it with own-property tests only. */
export type JsonObject = Readonly<Record<string, unknown>>

/** A JSON object that belongs to whoever holds it, and may be changed. */
export type OwnObject = Record<string, unknown>

/** True for a JSON object: neither null nor a list. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The objects of a list; none for anything else. */
export function objectsOf(value: unknown): readonly JsonObject[] {
  return Array.isArray(value) ? value.filter(isObject) : []
}

/** The members of `T` that may be undefined are absent then. */
export type Given<T> = {
  [Name in keyof T as undefined extends T[Name] ? never : Name]: T[Name]
} & { [Name in keyof T as undefined extends T[Name] ? Name : never]?: Exclude<T[Name], undefined> }

/** An object without its undefined members: for what may be asked for and was not. */
export function given<T extends object>(members: T): Given<T> {
  const entries = Object.entries(members).filter(([, value]) => value !== undefined)
  return Object.fromEntries(entries) as Given<T>
}

const texts = new WeakMap<object, string>()

/** The JSON text of an object. One that is frozen, as those are that many events share, is written once. */
export function jsonOf(value: object): string {
  if (!Object.isFrozen(value)) return JSON.stringify(value)
  let text = texts.get(value)
  if (text === undefined) {
    text = JSON.stringify(value)
    texts.set(value, text)
  }
  return text
}

/** What a text says as JSON; undefined for a text that is none. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/**
 * True when two JSON values are equal: objects whatever the order of their keys, arrays in order, no
 * conversion between types. An equivalence on everything that JSON can express. Linear in the smaller
 * value, safe at any depth.
 */
export function isSameJson(left: unknown, right: unknown): boolean {
  if (left === right) return true
  if (!isContainer(left) || !isContainer(right)) return false
  // Pairs that are still to be compared, one behind the other: no recursion, so depth cannot hurt.
  const pending: object[] = [left, right]
  while (pending.length > 0) {
    const second = pending.pop()
    const first = pending.pop()
    if (first === undefined || second === undefined) break
    if (!areLevelsSame(first, second, pending)) return false
  }
  return true
}

/** Compares one level; pairs of containers are left to the caller. */
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
