/** The moments of annotations. */

/** Returns the moment, in ISO 8601, at which the clocks of a time zone show `2026-01-31 14:05:09`. */
export function momentAt(wall: string, timeZone: string): string {
  const asUtc = (text: string) => Date.parse(`${text.replace(' ', 'T')}Z`)
  const shown = (moment: number) => asUtc(new Date(moment).toLocaleString('sv', { timeZone }))
  const wanted = asUtc(wall)
  // The second round corrects the offset near a change of the clocks.
  const near = 2 * wanted - shown(wanted)
  return new Date(near + wanted - shown(near)).toISOString()
}

/** Returns what the clocks of a time zone show at a moment, as `2026-01-31 14:05:09`. */
export function wallAt(moment: string, timeZone: string): string {
  return new Date(moment).toLocaleString('sv', { timeZone })
}
