/**
 * The looks of the series of a chart. Besides its color, a series has a dash pattern, so that readers who cannot see
 * colors can tell series apart.
 */

/** How many colors for series there are. */
export const COLORS = 8
const DASHES = [undefined, '6 3', '2 3', '8 3 2 3']

/** The look of a series. `color` is the number of a series color in the theme. */
export interface SeriesLook {
  readonly color: number
  readonly dash: string | undefined
}

/** Returns the look of the series with an index. The first 32 series all look different. */
export function lookOf(place: number): SeriesLook {
  const color = place % COLORS
  const round = Math.floor(place / COLORS)
  return { color, dash: DASHES[(Math.floor(color / 2) + round) % DASHES.length] }
}
