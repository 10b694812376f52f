/** Times on the wire: ISO 8601 in UTC with `Z`, and microseconds unless they are zero. */

/** The text of a time in milliseconds since 1970. */
export function timeText(timeMs: number): string {
  const text = new Date(timeMs).toISOString()
  return text.endsWith('.000Z') ? `${text.slice(0, -5)}Z` : `${text.slice(0, -1)}000Z`
}

/** The same for a time in ISO 8601 with `Z`, of whatever precision. */
export function exactTimeText(text: string): string {
  return text.replace(/\.(\d{1,6})\d*Z$/, (_, digits: string) =>
    /^0+$/.test(digits) ? 'Z' : `.${digits.padEnd(6, '0')}Z`,
  )
}

/** The text of a time, or null for none. */
export function optionalTimeText(timeMs: number | null): string | null {
  return timeMs === null ? null : timeText(timeMs)
}
