/** The door to uPlot, loaded when the first chart is shown. Its styles are part of console.css. */
import UPlot, { type AlignedData, type Options } from 'uplot'

/** Options of a chart, and whether its series are bars. */
export type PlotOptions = Options & { readonly isBars?: boolean }

/** Draws into an element; `see` is told which label is under the cursor, or null. */
export function makePlot(
  { isBars = false, ...options }: PlotOptions,
  data: AlignedData,
  element: HTMLElement,
  see: (index: number | null) => void,
): UPlot {
  const paths = isBars ? UPlot.paths.bars?.({ size: [0.7, 60] }) : undefined
  const series = options.series.map((one, place) =>
    place === 0 || paths === undefined ? one : { ...one, paths },
  )
  const hooks = { setCursor: [(plot: UPlot) => see(plot.cursor.idx ?? null)] }
  return new UPlot({ ...options, series, hooks }, data, element)
}
