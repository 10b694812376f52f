/**
 * Turns properties into text, as filters compare them and as the list of property values shows them. Source:
 * docs/compatibility/events.md, "Property filters" and docs/compatibility/decisions.md, "Flag decisions" and
 * docs/compatibility/persons.md, "Persons".
 */
import { SORTED_DEPTH_MAX } from './limits.ts'

/** The texts of lists and objects. They are cached, because many filters of a request compare the same value. */
const texts = new WeakMap<object, string>()

/**
 * Returns a property as lists and charts show it: a text stays as it is, a missing property is '', and any other value
 * becomes compact JSON.
 */
export function propertyText(value: unknown): string {
  if (typeof value === 'string') return value
  if (value === undefined) return ''
  return JSON.stringify(value) ?? ''
}

/** Matches an integer of 16 to 200 digits. It may be greater than 2^53, beyond which numbers are rounded. */
const LONG_INTEGER = /^-?[1-9]\d{15,199}$/

/**
 * Returns the text of the rounded number for the text of an integer beyond 2^53, for example `9007199254740992` for
 * `9007199254740993`. Returns null for any other text. Stored events contain such an integer rounded, but a filter
 * contains all its digits, so only the rounded text can be compared with the events.
 */
export function roundedText(text: string): string | null {
  if (!LONG_INTEGER.test(text)) return null
  const number = Number(text)
  return Number.isSafeInteger(number) ? null : JSON.stringify(number)
}

/**
 * Returns the same text as `propertyText`, but with the keys of objects sorted, as flags compare values. The first call
 * for a list or object costs time linear in its size. The text is then cached, so the list or object must not change.
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

/**
 * Returns a value as the list of property values shows it: null and missing are '', and objects have sorted keys and a
 * space after each separator.
 */
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

/** Changes ASCII capitals to small letters. Other letters stay as they are. */
export function lowerAscii(text: string): string {
  return /[A-Z]/.test(text) ? text.replace(/[A-Z]+/g, (part) => part.toLowerCase()) : text
}
