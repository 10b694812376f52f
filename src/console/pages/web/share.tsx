/** The button that copies the page "Web" to a dashboard, which can be shared with people without a key. */
import {
  Ask,
  query as address,
  go,
  inProjectPath,
  interval,
  may,
  type PropertyFilter,
  post,
  type Query,
  rangeOf,
  rangeValue,
} from '../../kit.ts'
import { type Goal, METRICS } from './asked.ts'
import { CARDS } from './reports.ts'
import { tableQuery } from './rows.ts'

const ROWS = 9

interface ShareProps {
  readonly properties: readonly PropertyFilter[]
  readonly goal: Goal | null
}

/** Returns the names and the queries of the tiles: the figures, their chart, and the table that each card shows. */
function tilesOf({ properties, goal }: ShareProps): readonly (readonly [name: string, query: Query])[] {
  // Unlike the page, a tile keeps a relative range such as the last 7 days, so that it stays up to date.
  const asked = { dateRange: rangeOf(rangeValue.value).dates, properties }
  const tables = CARDS.map(({ parameter, reports, more }) => {
    const all = [...reports, ...(more?.reports ?? [])]
    const report = all.find(({ by }) => by === address.value.get(parameter)) ?? (all[0] as (typeof all)[number])
    return [report.name, tableQuery(report, { ...asked, ...goal }, { limit: ROWS })] as const
  })
  return [
    ['Figures', { kind: 'WebOverviewQuery', ...asked, ...goal }],
    ['Visitors and views', { kind: 'WebTrendsQuery', interval: interval.value, metrics: METRICS, ...asked }],
    ...tables,
  ]
}

/** The button. Its dialog asks for a name. The new dashboard then opens, with its dialog for sharing. */
export function ShareWeb(props: ShareProps) {
  if (!may('dashboard:write') || !may('insight:write') || !may('sharing_configuration:write')) return null
  return (
    <Ask
      label="Share"
      title="Share these numbers"
      action="Create dashboard"
      fields={{
        name: { label: 'Name', value: `Web, ${rangeOf(rangeValue.value).label.toLowerCase()}`, isRequired: true },
      }}
      submit={async ({ name }) => {
        const { id } = await post('project/dashboards/', {}, { name })
        // The order of the requests is the order of the tiles.
        for (const [title, query] of tilesOf(props)) {
          await post('project/insights/', {}, { name: title, query, dashboards: [id], saved: true })
        }
        go(inProjectPath(`/dashboards/${id}?share=1`))
      }}
    >
      A new dashboard shows the figures, their chart and the four tables of this page, with its range and filters. There
      you choose who can open it with a link.
    </Ask>
  )
}
