/** The dialog with all rows of a table of the page "Web". The rows can be searched, sorted and exported. */
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { type Column, Dialog, ExportMenu, exact, percent, Shown, setQuery, Table } from '../../kit.ts'
import type { Asked } from './asked.ts'
import { Compared, filterBy, shareOf } from './report-card.tsx'
import type { Report } from './reports.ts'
import { fileRowOf, type Row, useRows, wholeQuery, wordsOf } from './rows.ts'

/** At most this many rows are drawn. A search also finds the other rows, and an exported file contains all of them. */
const DRAWN_MAX = 1000

interface DetailsProps {
  readonly report: Report
  readonly asked: Asked
  readonly compareFilter: object | null
  readonly visitors: number | null
}

/** Shows all rows of a table. A click on a row adds its filter to the page. */
export function Details({ report, asked, compareFilter, visitors }: DetailsProps) {
  const query = wholeQuery(report, asked, compareFilter)
  const loaded = useRows(query)
  const close = () => setQuery({ details: null }, { replace: true })
  return (
    <Dialog title={report.name} close={close}>
      <Shown of={loaded}>
        {({ rows }) => (
          <DetailsTable
            report={report}
            rows={rows}
            hasGoal={asked.conversionGoal !== undefined}
            visitors={visitors}
            open={(row) => {
              close()
              filterBy(report, row.value)
            }}
            aside={(shown) => <ExportMenu name={report.name} rows={() => shown.map(fileRowOf(report))} query={query} />}
          />
        )}
      </Shown>
    </Dialog>
  )
}

interface DetailsTableProps {
  readonly report: Report
  readonly rows: readonly Row[]
  readonly hasGoal: boolean
  readonly visitors: number | null
  readonly open: (row: Row) => void
  readonly aside: (rows: readonly Row[]) => ComponentChildren
}

type NumberOf = (row: Row) => number | null
type NumberColumn = readonly [head: string, of: NumberOf, shown: (row: Row) => ComponentChildren]

const VIEWS: readonly NumberColumn[] = [
  ['Views', (row) => row.views, (row) => <Compared now={row.views} before={row.viewsBefore} />],
  ['Bounce rate', (row) => row.bounceRate, (row) => percent(row.bounceRate)],
]
const CONVERSIONS: readonly NumberColumn[] = [
  ['Conversions', (row) => row.conversions, (row) => exact(row.conversions)],
  ['Converted people', (row) => row.converted, (row) => exact(row.converted)],
  ['Conversion rate', (row) => row.rate, (row) => percent(row.rate)],
]

function DetailsTable({ report, rows, hasGoal, visitors, open, aside }: DetailsTableProps) {
  const [words, setWords] = useState('')
  const [sort, setSort] = useState({ head: 'Visitors', isAscending: false })
  const nameOf = ({ value }: Row) => wordsOf(report, value)
  const numbers: readonly NumberColumn[] = [
    ['Visitors', (row) => row.visitors, (row) => <Compared now={row.visitors} before={row.visitorsBefore} />],
    ['Share', (row) => row.visitors, (row) => percent(shareOf(row.visitors, visitors))],
    ...(hasGoal ? CONVERSIONS : VIEWS),
  ]
  const hasScroll = rows.some(({ scroll }) => scroll !== null)
  const all = hasScroll
    ? [...numbers, ['Scroll depth', (row: Row) => row.scroll, (row: Row) => percent(row.scroll, 0)] as const]
    : numbers
  const found = rows.filter((row) => nameOf(row).toLowerCase().includes(words.toLowerCase()))
  const numberOf = all.find(([head]) => head === sort.head)?.[1]
  const sorted = found.toSorted((a, b) => {
    const order = numberOf ? compareNumbers(numberOf(a), numberOf(b)) : nameOf(a).localeCompare(nameOf(b))
    return sort.isAscending ? order : -order
  })
  const columns: readonly Column<Row>[] = [
    [
      report.one,
      (row) => (
        <bdi class="cut" data-badge={report.countryOf?.(row.value)}>
          {nameOf(row)}
        </bdi>
      ),
    ],
    ...all.map(([head, , shown]): Column<Row> => [head, shown, 'number']),
  ]
  const choose = (head: string) =>
    setSort({ head, isAscending: head === sort.head ? !sort.isAscending : head === report.one })
  return (
    <>
      <p class="row">
        <input
          type="search"
          aria-label={`Search ${report.name.toLowerCase()}`}
          placeholder="Search"
          value={words}
          onInput={({ currentTarget }) => setWords(currentTarget.value)}
        />
        <span class="quiet" role="status">
          {exact(found.length)} of {exact(rows.length)} rows
        </span>
        {aside(sorted)}
      </p>
      <Table
        label={`All: ${report.name}`}
        rows={sorted.slice(0, DRAWN_MAX)}
        columns={columns}
        keyOf={({ value }) => JSON.stringify(value)}
        open={open}
        none="No row contains this text."
        sort={{ ...sort, choose }}
      />
      {sorted.length > DRAWN_MAX && (
        <p class="quiet">
          The first {exact(DRAWN_MAX)} rows are shown. Search to find others; the CSV file has up to 10,000.
        </p>
      )}
    </>
  )
}

/** Compares two numbers. A missing number is less than any other. */
function compareNumbers(a: number | null, b: number | null): number {
  return (a ?? Number.NEGATIVE_INFINITY) - (b ?? Number.NEGATIVE_INFINITY) || 0
}
