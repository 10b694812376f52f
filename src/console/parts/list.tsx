/** Lists the rows of a route in a card, with controls that create and remove rows. */
import type { ComponentChildren } from 'preact'
import type { Answered, GetRoute, ValuesOf } from '../base/api.ts'
import { useGet } from '../base/loaded.ts'
import { may } from '../base/session.ts'
import { Ask, type AskProps, type FieldRecord } from './form.tsx'
import { Shown } from './notice.tsx'
import { Pager } from './pager.tsx'
import { type Column, Table, type TableProps } from './table.tsx'
import { Card } from './tiles.tsx'

/** The type of a row that a route lists. */
type RowOf<Name extends GetRoute> = Answered<Name> extends { readonly results: readonly (infer Row)[] } ? Row : never

/**
 * Describes the removal of a row: the button, the question, its consequence, and the request. A null title hides the
 * button for that row.
 */
interface Removal<Row> {
  readonly label: string
  readonly title: (row: Row) => string | null
  readonly words: string
  readonly submit: (row: Row) => Promise<unknown>
}

interface ListProps<Name extends GetRoute, Fields extends FieldRecord>
  extends Omit<TableProps<RowOf<Name>>, 'rows' | 'label'> {
  readonly route: Name
  readonly values?: ValuesOf<Name>
  /** The title of the card, and the label of the table unless `label` is set. */
  readonly title: string
  readonly label?: string
  readonly aside?: ComponentChildren
  /** The scope that is required to create or remove rows. */
  readonly scope?: string
  readonly make?: Omit<AskProps<Fields>, 'children'>
  readonly drop?: Removal<RowOf<Name>>
  /** The content above the rows. */
  readonly above?: (rows: readonly RowOf<Name>[]) => ComponentChildren
  /** Returns whether a row is shown. */
  readonly choose?: (row: RowOf<Name>) => boolean
}

/** Shows the rows of a route in a card, with links to the other pages of the list. */
export function List<Name extends GetRoute, const Fields extends FieldRecord = FieldRecord>(
  props: ListProps<Name, Fields>,
) {
  const { route, values, title, label = title, aside, above, choose, scope = '', make, drop, columns, ...table } = props
  const loaded = useGet(route, values)
  const canWrite = may(scope)
  const last: Column<RowOf<Name>> = ['', (row) => drop && <Drop row={row} {...drop} />, 'number']
  const all = drop && canWrite ? [...columns, last] : columns
  return (
    <Card title={title} aside={aside ?? (make && canWrite && <Ask {...make} />)}>
      <Shown of={loaded}>
        {(data) => {
          const { results, count = 0 } = data as { results: readonly RowOf<Name>[]; count?: number }
          const rows = choose ? results.filter(choose) : results
          return (
            <>
              {above?.(results)}
              <Table {...{ label, rows }} query {...table} columns={all} />
              {values && 'offset' in values && <Pager count={count} />}
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
