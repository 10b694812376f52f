/** Shows the rows that a route lists in a card, with controls that create and remove rows. */
import type { ComponentChildren } from 'preact'
import { type GetRoute, get, type ValuesOf } from '../base/api.ts'
import { CSV_ROWS_MAX } from '../base/csv.ts'
import { type RowOf, useGet } from '../base/loaded.ts'
import { may } from '../base/session.ts'
import type { AllRows } from './copy.tsx'
import { Ask, type AskProps, type FieldRecord } from './form.tsx'
import { Shown } from './notice.tsx'
import { Pager } from './pager.tsx'
import { type Column, Table, type TableProps } from './table.tsx'
import { Card } from './tiles.tsx'

/**
 * Describes how a row is removed: the label of the button, the question, the text that explains the consequence, and
 * the request. If `title` returns null, the row has no button.
 */
interface Removal<Row> {
  readonly label: string
  readonly title: (row: Row) => string | null
  readonly words: string
  readonly submit: (row: Row) => Promise<unknown>
}

interface ListProps<Name extends GetRoute, Fields extends FieldRecord>
  extends Omit<TableProps<RowOf<Name>>, 'rows' | 'label' | 'all'> {
  readonly route: Name
  readonly values?: ValuesOf<Name>
  /** The title of the card. It is also the label of the table, unless `label` is set. */
  readonly title: string
  readonly label?: string
  readonly aside?: ComponentChildren
  /** The scope that a session needs to create or remove rows. */
  readonly scope?: string
  readonly make?: Omit<AskProps<Fields>, 'children'>
  readonly drop?: Removal<RowOf<Name>>
  /** Returns what is shown above the rows. */
  readonly above?: (rows: readonly RowOf<Name>[]) => ComponentChildren
  /** Returns true if a row is shown. */
  readonly choose?: (row: RowOf<Name>) => boolean
}

/** How many rows one request asks for when a list is exported to a file. The daemon may return fewer. */
const FILE_PAGE_ROWS = 1000

/** Reads the rows of all pages of a route with `limit` and `offset`, up to the largest number of rows in a file. */
async function readAll<Name extends GetRoute>(route: Name, values: ValuesOf<Name>): Promise<AllRows> {
  const rows: RowOf<Name>[] = []
  for (;;) {
    const limit = Math.min(FILE_PAGE_ROWS, CSV_ROWS_MAX - rows.length)
    const answer = await get(route, { ...values, limit, offset: rows.length })
    const { results, count = 0 } = answer as { results: readonly RowOf<Name>[]; count?: number }
    rows.push(...results)
    const isDone = results.length === 0 || rows.length >= count || rows.length >= CSV_ROWS_MAX
    if (isDone) return { rows: rows as readonly object[], count: Math.max(count, rows.length) }
  }
}

/** Shows the rows that a route lists in a card, with links to the other pages of the list. */
export function List<Name extends GetRoute, const Fields extends FieldRecord = FieldRecord>(
  props: ListProps<Name, Fields>,
) {
  const { route, values, title, label = title, aside, above, choose, scope = '', make, drop, columns, ...table } = props
  const loaded = useGet(route, values)
  const canWrite = may(scope)
  const last: Column<RowOf<Name>> = ['', (row) => drop && <Drop row={row} {...drop} />, 'number']
  const shown = drop && canWrite ? [...columns, last] : columns
  return (
    <Card title={title} aside={aside ?? (make && canWrite && <Ask {...make} />)}>
      <Shown of={loaded}>
        {(data) => {
          const { results, count = 0 } = data as { results: readonly RowOf<Name>[]; count?: number }
          const rows = choose ? results.filter(choose) : results
          const all = async () => {
            const { rows: found, count: total } = await readAll(route, values as ValuesOf<Name>)
            if (choose === undefined) return { rows: found, count: total }
            const chosen = found.filter((row) => choose(row as RowOf<Name>))
            return { rows: chosen, count: chosen.length + total - found.length }
          }
          const isPaged = values !== undefined && 'offset' in values
          return (
            <>
              {above?.(results)}
              <Table label={label} rows={rows} query {...table} columns={shown} all={isPaged ? all : undefined} />
              {isPaged && <Pager count={count} />}
            </>
          )
        }}
      </Shown>
    </Card>
  )
}

function Drop<Row>({ row, label, title, words, submit }: Removal<Row> & { row: Row }) {
  const question = title(row)
  if (question === null) return null
  return (
    <Ask label={label} title={question} submit={() => submit(row)}>
      {words}
    </Ask>
  )
}
