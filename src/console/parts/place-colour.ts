/** The colour of a part of a picture that is not a chart over time. */
import { lookOf } from './series-look.ts'

/** Returns the style with the colour of the series at a position. */
export function placeColour(place: number): Record<string, string> {
  return { '--colour': `var(--series-${lookOf(place).colour})` }
}
