/** Times on the wire: ISO 8601 in UTC with `Z`, with microseconds unless they are zero. */

/** Returns the text of a time in milliseconds since 1970. */
export function timeText(timeMs: number): string {
  const text = new Date(timeMs).toISOString()
  return text.endsWith('.000Z') ? `${text.slice(0, -5)}Z` : `${text.slice(0, -1)}000Z`
}

/** Returns the same form for an ISO 8601 time with `Z`, of any precision. */
export function exactTimeText(text: string): string {
  return text.replace(/\.(\d{1,6})\d*Z$/, (_, digits: string) =>
    /^0+$/.test(digits) ? 'Z' : `.${digits.padEnd(6, '0')}Z`,
  )
}

/** Returns the text of a time, or null if there is none. */
export function optionalTimeText(timeMs: number | null): string | null {
  return timeMs === null ? null : timeText(timeMs)
}
