/**
 * A property as the text that filters compare. Source: docs/COMPATIBILITY.md, "Property filters" and "Flag
 * decisions".
 */

/** Nesting up to which keys are sorted; what lies deeper keeps its order. */
const SORTED_DEPTH_MAX = 128

/** A list or object is compared by many filters of a request: its text is written once. */
const texts = new WeakMap<object, string>()

/** A property as lists and charts show it: a text as it is, else compact JSON; missing is ''. */
export function propertyText(value: unknown): string {
  if (typeof value === 'string') return value
  if (value === undefined) return ''
  return JSON.stringify(value) ?? ''
}

/**
 * The same with sorted keys, as flags compare it. Cost: linear in the value, the first time. A list or
 * object must not be changed afterwards.
 */
export function sortedText(value: unknown): string {
  if (typeof value === 'string') return value
  if (typeof value !== 'object' || value === null) return propertyText(value)
  let text = texts.get(value)
  if (text === undefined) {
    text = JSON.stringify(sorted(value, 0))
    texts.set(value, text)
  }
  return text
}

function sorted(value: unknown, depth: number): unknown {
  if (value === null || typeof value !== 'object' || depth >= SORTED_DEPTH_MAX) return value
  if (Array.isArray(value)) return value.map((entry: unknown) => sorted(entry, depth + 1))
  const entries = Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1))
  return Object.fromEntries(entries.map(([key, entry]) => [key, sorted(entry, depth + 1)]))
}

/** Folds ASCII capitals only; other letters stay as they are. */
export function lowerAscii(text: string): string {
  return /[A-Z]/.test(text) ? text.replace(/[A-Z]+/g, (part) => part.toLowerCase()) : text
}
