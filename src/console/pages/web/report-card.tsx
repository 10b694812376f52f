/** A card of the page "Web": tabs, and the table of the chosen tab. Only that table is requested. */
import {
  addFilter,
  query as address,
  askQueryWhole,
  Bar,
  Card,
  href,
  type PropertyFilter,
  percent,
  project,
  type Query,
  Shown,
  Table,
  Tabs,
  tabOf,
  useLoaded,
  withQuery,
} from '../../kit.ts'
import type { Report, ReportCard } from './reports.ts'

/** The parameters that all queries of the page share. */
export interface Asked {
  readonly dateRange: Readonly<Record<string, unknown>>
  readonly properties: readonly PropertyFilter[]
}

/** The visitors and views of a value. `share` is its share of the visitors in all rows. */
interface Row {
  readonly value: string | null
  readonly visitors: number
  readonly views: number
  readonly share: number | null
}

const ROWS = 10
const ROWS_MAX = 1000

/** One of the four cards. A click on a row adds its filter to the whole page. */
export function ReportBox({ card, asked }: { card: ReportCard; asked: Asked }) {
  const { parameter, title, reports } = card
  const rowsParameter = `${parameter}_rows`
  const tabs = reports.map(({ by, name }) => [by, name] as const)
  const chosen = tabOf(tabs, parameter)
  const limit = Math.min(ROWS_MAX, Number(address.value.get(rowsParameter)) || ROWS)
  const query = { kind: 'WebStatsTableQuery', breakdownBy: chosen, ...asked, limit }
  const more = limit < ROWS_MAX ? href(withQuery({ [rowsParameter]: String(limit * 5) })) : null
  return (
    <Card title={title} aside={<Tabs label={title} tabs={tabs} parameter={parameter} without={[rowsParameter]} />}>
      {reports
        .filter(({ by }) => by === chosen)
        .map((report) => (
          <ReportTable key={chosen} report={report} query={query} more={more} />
        ))}
    </Card>
  )
}

interface ReportProps {
  readonly report: Report
  readonly query: Query
  /** The URL that shows more rows. */
  readonly more: string | null
}

function ReportTable({ report: { name, filterOf, wordsOf = String }, query, more }: ReportProps) {
  const loaded = useLoaded(`web ${project.value.id} ${JSON.stringify(query)}`, (signal) => askRows(query, signal))
  const barOf = (most: number) => (row: Row) => (
    <Bar share={row.visitors / most}>
      <bdi class="cut">{row.value === null ? '(none)' : wordsOf(row.value)}</bdi>
    </Bar>
  )
  return (
    <Shown of={loaded}>
      {({ rows, hasMore }) => (
        <>
          <Table
            label={name}
            rows={rows}
            query={query}
            keyOf={({ value }) => JSON.stringify(value)}
            open={({ value }) => addFilter(filterOf(value))}
            columns={[
              [name, barOf(rows[0]?.visitors || 1)],
              ['Visitors', 'visitors', 'count'],
              ['Share', ({ share }) => percent(share), 'minor number'],
              ['Views', 'views', 'count'],
            ]}
          />
          {hasMore && more && <a href={more}>More rows</a>}
        </>
      )}
    </Shown>
  )
}

/** Returns the rows of an answer. Its columns are named in a separate list. */
async function askRows(query: Query, signal: AbortSignal) {
  const answer = await askQueryWhole(query, signal)
  const columns = (answer['columns'] as readonly string[]).map((one) => one.split('.').at(-1) ?? one)
  const at = (name: string) => columns.indexOf(name)
  const rows = (answer.results as readonly (readonly unknown[])[]).map((cells): Row => {
    const count = (name: string) => (cells[at(name)] as readonly number[])[0] ?? 0
    const value = cells[at('breakdown_value')]
    return {
      value: value == null ? null : String(value),
      visitors: count('visitors'),
      views: count('views'),
      share: cells[at('ui_fill_fraction')] as number | null,
    }
  })
  return { rows, hasMore: answer['hasMore'] === true }
}
