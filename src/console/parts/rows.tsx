/** Shows the answer of a query that has no view of its own, as a table of its rows. */
import { plain } from '../base/format.ts'
import type { Query } from '../base/queries.ts'
import { Table } from './table.tsx'

type Row = Readonly<Record<string, unknown>>

/** The table of an answer: a row for each item, and a column for each member that is not a list or an object. */
export function Rows({ results, query }: { results: unknown; query: Query }) {
  const rows = rowsOf(results, query)
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))]
  return (
    <Table
      label={query.kind.replace('Query', '')}
      rows={rows}
      keyOf={(row) => rows.indexOf(row)}
      query={query}
      columns={names.map((name) => [name, (row: Row) => <bdi class="cut">{plain(row[name] ?? '')}</bdi>] as const)}
    />
  )
}

function rowsOf(results: unknown, query: Query): readonly Row[] {
  const items: readonly unknown[] = Array.isArray(results) ? results : [results]
  const selected = (query['select'] ?? []) as readonly unknown[]
  return items.map((item) => {
    if (Array.isArray(item)) {
      return Object.fromEntries(item.map((value, at) => [String(selected[at] ?? at + 1), value]))
    }
    if (typeof item !== 'object' || item === null) return { result: item }
    return Object.fromEntries(Object.entries(item).filter(([, value]) => typeof value !== 'object'))
  })
}
