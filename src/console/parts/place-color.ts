/** The colors for the parts of pictures that are not charts over time. */
import { lookOf } from './series-look.ts'

/** Returns the style that gives a part the color of the series with this index. */
export function placeColor(place: number): Record<string, string> {
  return { '--color': `var(--series-${lookOf(place).color})` }
}
