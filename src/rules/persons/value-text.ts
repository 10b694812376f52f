/** How values of properties are listed. Source: docs/COMPATIBILITY.md, "Persons". */

/** A value as text; '' for what counts as no value. Objects with sorted keys and spaces behind separators. */
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
