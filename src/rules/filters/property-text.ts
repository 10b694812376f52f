/**
 * A property as text: as filters compare it, and as the list of its values shows it. Source:
 * docs/compatibility/events.md, "Property filters" and docs/compatibility/decisions.md, "Flag decisions" and docs/compatibility/persons.md, "Persons".
 */
import { SORTED_DEPTH_MAX } from './limits.ts'

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

/** A value as the list of values shows it; '' for what counts as none. Objects with sorted keys and spaces behind separators. */
export function valueText(value: unknown): string {
  if (value === null || value === undefined) return ''
  return typeof value === 'string' ? value : spacedText(value)
}

function spacedText(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(spacedText).join(', ')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const members = Object.entries(value)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, inner]) => `${JSON.stringify(key)}: ${spacedText(inner)}`)
  return `{${members.join(', ')}}`
}

/** Folds ASCII capitals only; other letters stay as they are. */
export function lowerAscii(text: string): string {
  return /[A-Z]/.test(text) ? text.replace(/[A-Z]+/g, (part) => part.toLowerCase()) : text
}
