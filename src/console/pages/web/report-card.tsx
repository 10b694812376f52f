/** A card of the page "Web" with tabs, and the first rows of the chosen table. Only the chosen table is requested. */
import {
  addFilter,
  query as address,
  Bar,
  Button,
  type Column,
  ExportMenu,
  percent,
  Shown,
  setQuery,
  Table,
  Tabs,
} from '../../kit.ts'
import type { Asked } from './asked.ts'
import type { Report, ReportCard } from './reports.ts'
import { askRows, fileRowOf, type Row, tableQuery, useRows, wholeQuery, wordsOf } from './rows.ts'
import { ChangeMark } from './tiles.tsx'

const ROWS = 9

interface ReportBoxProps {
  readonly card: ReportCard
  readonly asked: Asked
  readonly compareFilter: object | null
  /** The number of visitors of the whole page, to which the shares in the table refer. Null while it is unknown. */
  readonly visitors: number | null
}

/** A card with a table. A click on a row adds its filter to the page. */
export function ReportBox({ card, asked, compareFilter, visitors }: ReportBoxProps) {
  const { parameter, title, reports, more } = card
  const others = more?.reports ?? []
  const given = address.value.get(parameter)
  const all = [...reports, ...others]
  const chosen = all.find(({ by }) => by === given) ?? all[0]
  const isOther = others.some(({ by }) => by === chosen?.by)
  return (
    <section class="card report" aria-label={title}>
      <header class="head">
        <h2 class="unseen">{title}</h2>
        <div class="row">
          <Tabs label={title} tabs={reports.map(({ by, name }) => [by, name] as const)} parameter={parameter} />
          {more && (
            <select
              class={isOther ? 'tab-choice chosen' : 'tab-choice'}
              aria-label={more.name}
              value={isOther ? chosen?.by : ''}
              onChange={({ currentTarget }) => setQuery({ [parameter]: currentTarget.value })}
            >
              <option value="" disabled hidden>
                {more.name}
              </option>
              {others.map(({ by, name }) => (
                <option key={by} value={by} selected={by === chosen?.by}>
                  {name}
                </option>
              ))}
            </select>
          )}
        </div>
      </header>
      {chosen && (
        <ReportTable key={chosen.by} report={chosen} asked={asked} compareFilter={compareFilter} visitors={visitors} />
      )}
    </section>
  )
}

type ReportTableProps = Omit<ReportBoxProps, 'card'> & { readonly report: Report }

function ReportTable({ report, asked, compareFilter, visitors }: ReportTableProps) {
  const query = tableQuery(report, asked, { limit: ROWS, ...(compareFilter && { compareFilter }) })
  const loaded = useRows(query)
  const views: readonly Column<Row>[] = [
    ['Share', ({ visitors: own }) => shareText(own, visitors), 'minor number'],
    ['Views', 'views', 'count'],
  ]
  /** The file contains all rows, not only those that the card shows. */
  async function all() {
    const { rows, hasMore } = await askRows(wholeQuery(report, asked, compareFilter))
    return { rows: rows.map(fileRowOf(report)), count: hasMore ? Number.POSITIVE_INFINITY : rows.length }
  }
  return (
    <>
      <Shown of={loaded}>
        {({ rows }) => (
          <Table
            label={report.name}
            rows={rows}
            keyOf={({ value }) => JSON.stringify(value)}
            open={({ value }) => filterBy(report, value)}
            none="No visits."
            columns={[
              [report.one, (row) => <Value report={report} row={row} visitors={visitors} />],
              ['Visitors', (row) => <Compared now={row.visitors} before={row.visitorsBefore} />, 'number'],
              ...(asked.conversionGoal ? CONVERSIONS : views),
            ]}
          />
        )}
      </Shown>
      <ExportMenu name={report.name} rows={() => []} all={all}>
        <Button press={() => setQuery({ details: report.by })} aria-label={`Details: ${report.name}`}>
          Details
        </Button>
      </ExportMenu>
    </>
  )
}

const CONVERSIONS: readonly Column<Row>[] = [
  ['Conversions', 'conversions', 'count'],
  ['Rate', ({ rate }) => percent(rate), 'number'],
]

/** Adds the filters for the value of a row to the page. */
export function filterBy({ filtersOf }: Report, value: Row['value']): void {
  for (const filter of filtersOf(value)) addFilter(filter)
}

/**
 * Returns the share of a row's visitors among all visitors. It is at most 1: a visitor whose visit began before the
 * date range counts in a row, but not in the total.
 */
export function shareOf(own: number, all: number | null): number | null {
  return all === null || all === 0 ? null : Math.min(1, own / all)
}

function shareText(own: number, all: number | null): string {
  return percent(shareOf(own, all))
}

/** Shows the value of a row. The bar behind it represents its share of all visitors. */
function Value({ report, row, visitors }: { report: Report; row: Row; visitors: number | null }) {
  const words = wordsOf(report, row.value)
  return (
    <Bar share={shareOf(row.visitors, visitors) ?? 0}>
      <bdi class="cut" title={words} data-badge={report.countryOf?.(row.value)}>
        {words}
      </bdi>
    </Bar>
  )
}

/** Shows a number. If there is an earlier number to compare it with, also shows the change. */
export function Compared({ now, before }: { now: number; before: number | null }) {
  const words = now.toLocaleString('en')
  if (before === null) return words
  const title = `${before.toLocaleString('en')} before`
  return (
    <>
      {before > 0 && <ChangeMark share={(now - before) / before} isLessBetter={false} title={title} />} {words}
    </>
  )
}
