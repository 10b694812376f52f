/**
 * The looks of the series of a chart. Besides its colour, a series has a dash pattern, so that readers who cannot see
 * colours can tell series apart.
 */

/** How many colours for series there are. */
export const COLOURS = 8
const DASHES = [undefined, '6 3', '2 3', '8 3 2 3']

/** The look of a series. `colour` is the number of a series colour in the theme. */
export interface SeriesLook {
  readonly colour: number
  readonly dash: string | undefined
}

/** Returns the look of the series with an index. The first 32 series all look different. */
export function lookOf(place: number): SeriesLook {
  const colour = place % COLOURS
  const round = Math.floor(place / COLOURS)
  return { colour, dash: DASHES[(Math.floor(colour / 2) + round) % DASHES.length] }
}
