/** Converts between moments and wall clock time in a time zone. */

/** Returns the moment, in ISO 8601, at which clocks in a time zone show a time such as `2026-01-31 14:05:09`. */
export function momentAt(wall: string, timeZone: string): string {
  const asUtc = (text: string) => Date.parse(`${text.replace(' ', 'T')}Z`)
  const shown = (moment: number) => asUtc(new Date(moment).toLocaleString('sv', { timeZone }))
  const wanted = asUtc(wall)
  // If clocks change near this time, the first result (`near`) may be based on the wrong offset of the zone. The offset
  // is therefore determined again at the moment `near`.
  const near = 2 * wanted - shown(wanted)
  return new Date(near + wanted - shown(near)).toISOString()
}

/** Returns the time that clocks in a time zone show at a moment, as `2026-01-31 14:05:09`. */
export function wallAt(moment: string, timeZone: string): string {
  return new Date(moment).toLocaleString('sv', { timeZone })
}
