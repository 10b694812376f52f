/** Parsed JSON: what an object is, and how one whose keys come from clients is read. */

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
