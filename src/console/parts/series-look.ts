/** The looks of the series of a chart: a colour and a dash pattern, so that colour is never the only difference. */

/** The number of series colours. */
export const COLOURS = 8
const DASHES = [undefined, '6 3', '2 3', '8 3 2 3']

/** The look of a series. `colour` is the number of a colour of the theme. */
export interface SeriesLook {
  readonly colour: number
  readonly dash: string | undefined
}

/** Returns the look of the series at a position. The first 32 series all look different. */
export function lookOf(place: number): SeriesLook {
  const colour = place % COLOURS
  const round = Math.floor(place / COLOURS)
  return { colour, dash: DASHES[(Math.floor(colour / 2) + round) % DASHES.length] }
}
