/** The tiles of the page "Web". Each is a radio button that chooses the figure in the chart. */
import { query as address, percent, setQuery } from '../../kit.ts'
import { FIGURES, type Figure } from './asked.ts'
import { chosenGoal } from './goal-choice.tsx'

/** A number in the answer to `WebOverviewQuery`. */
export interface OverviewItem {
  readonly key: string
  readonly value: number | null
  readonly previous: number | null
}

/** Returns the figures that the page shows. Some exist only when a goal is chosen. */
function figures(): readonly Figure[] {
  return FIGURES.filter(({ isOfGoal }) => !isOfGoal || chosenGoal() !== null)
}

/** Returns the figure that the chart shows. The URL contains its ID. */
export function chosenFigure(): Figure {
  const given = address.value.get('figure')
  return figures().find(({ id }) => id === given) ?? FIGURES[0]
}

/**
 * The tiles with the figures. If `items` is undefined, the values are not known yet. `before` is the name of the
 * comparison period.
 */
export function FigureTiles({ items, before }: { items: readonly OverviewItem[] | undefined; before: string }) {
  const chosen = chosenFigure()
  const [first] = FIGURES
  return (
    <fieldset class="tiles figures">
      <legend class="unseen">Figure of the chart</legend>
      {figures().map((figure) => {
        const item = items?.find(({ key }) => key === figure.key)
        return (
          <label key={figure.id} class="tile">
            <input
              type="radio"
              name="figure"
              class="unseen"
              checked={figure === chosen}
              onChange={() => setQuery({ figure: figure === first ? null : figure.id }, { replace: true })}
            />
            <span class="tile-label">{figure.label}</span>
            <span class="tile-number">{items ? figure.format(item?.value) : '–'}</span>
            {item && <Change figure={figure} item={item} before={before} />}
          </label>
        )
      })}
    </fieldset>
  )
}

function Change({ figure, item, before }: { figure: Figure; item: OverviewItem; before: string }) {
  const { value, previous } = item
  if (value === null || !previous) return null
  const share = (value - previous) / previous
  const title = `${before}: ${figure.format(previous)}`
  return <ChangeMark share={share} isLessBetter={figure.isLessBetter ?? false} title={title} />
}

/** Shows a change as a triangle and a percentage. */
export function ChangeMark({ share, isLessBetter, title }: { share: number; isLessBetter: boolean; title: string }) {
  const rounded = Math.round(100 * share)
  const mood = rounded === 0 ? '' : rounded > 0 === isLessBetter ? 'worse' : 'better'
  return (
    <small class={`change ${mood}`} title={title}>
      {rounded > 0 ? '▲ ' : rounded < 0 ? '▼ ' : ''}
      {percent(Math.abs(share), 0)}
    </small>
  )
}
