/** Writes moments in answers: ISO 8601 in UTC with `Z`, with six decimals, or with none if they are all zero. */

/** Returns the text of a moment (milliseconds since 1970). */
export function timeText(timeMs: number): string {
  const text = new Date(timeMs).toISOString()
  return text.endsWith('.000Z') ? `${text.slice(0, -5)}Z` : `${text.slice(0, -1)}000Z`
}

/**
 * Returns a moment in the same form as `timeText`. `text` is the moment in ISO 8601 with `Z`, with any number of
 * decimals.
 */
export function exactTimeText(text: string): string {
  return text.replace(/\.(\d{1,6})\d*Z$/, (_, digits: string) =>
    /^0+$/.test(digits) ? 'Z' : `.${digits.padEnd(6, '0')}Z`,
  )
}

/** Returns the text of a moment, or null for null. */
export function optionalTimeText(timeMs: number | null): string | null {
  return timeMs === null ? null : timeText(timeMs)
}
