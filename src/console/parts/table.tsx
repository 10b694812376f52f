/**
 * Tables. The keys j, k and Enter move through the rows and open them. The content of a cell is always shown as text.
 */
import type { ComponentChildren } from 'preact'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { ago, bytes, exact, plain, time } from '../base/format.ts'
import type { Query } from '../base/queries.ts'
import { type AllRows, ExportMenu } from './copy.tsx'

/** The formats for the values of a column. */
const FORMATS = {
  ago: (value: string | null) => <time>{ago(value)}</time>,
  time: (value: string | null) => <time>{time(value)}</time>,
  day: (value: string | null) => <time>{time(value, 'day')}</time>,
  bytes,
  count: exact,
  code: (value: unknown) => <code>{plain(value)}</code>,
  /**
   * The format for texts that come from clients and may be long. It is also the default for a column whose content is
   * the name of a member of the row.
   */
  cut: (value: unknown) => <bdi class="cut">{plain(value ?? '')}</bdi>,
} as const

/**
 * The look of a column. A column with `minor` is hidden if the table is narrow. A column with `number` is aligned
 * right.
 */
type Look = 'minor' | 'number' | keyof typeof FORMATS

/** A column: its heading, its content (the name of a member of the row, or a function of the row), and its look. */
export type Column<Row> = readonly [
  head: string,
  cell: (keyof Row & string) | ((row: Row) => ComponentChildren),
  look?: Look | `${Look} ${Look}` | `${Look} ${Look} ${Look}`,
]

/** The properties of a table. `open` is called when the reader clicks on a row or presses Enter on it. */
export interface TableProps<Row> {
  readonly label: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  /** Returns a key that identifies a row. By default, it is the member `id` or `uuid`, or else the index of the row. */
  readonly keyOf?: (row: Row) => string | number
  readonly open?: ((row: Row) => void) | undefined
  readonly none?: ComponentChildren
  /** If set, the rows can be saved as a file. If it is a query, it can also be copied as a shell command. */
  readonly query?: Query | true
  /** Reads the rows of all pages for the file. Needed if `rows` is only one page of a list. */
  readonly all?: (() => Promise<AllRows>) | undefined
  /** If set, the headings are buttons that sort the table. The caller must sort the rows. */
  readonly sort?: Sort
}

/** The column by which the rows are sorted, and the function that chooses another column. */
export interface Sort {
  readonly head: string
  readonly isAscending: boolean
  readonly choose: (head: string) => void
}

/**
 * A table with more rows than this is divided into parts. The browser then styles and paints only the parts that are
 * visible. See the class `.long` in the style sheet.
 */
const WHOLE_ROWS = 200
/** How many rows a part has. These are about as many as fit into a window. */
const PART_ROWS = 50
const OF_NUMBERS = /number|count|bytes/

/** A table of rows. */
export function Table<Row>(props: TableProps<Row>) {
  const { label, columns, rows, keyOf, open, none = 'Nothing here.', query, all, sort } = props
  const isLong = rows.length > WHOLE_ROWS
  const size = isLong ? PART_ROWS : WHOLE_ROWS
  const [drawn, setDrawn] = useState(1)
  // The parts are drawn one after the other, so that a long table opens quickly and clicks in the meantime are handled
  // quickly.
  useEffect(() => {
    if (drawn * size >= rows.length) return
    const timer = setTimeout(() => setDrawn(drawn + 1))
    return () => clearTimeout(timer)
  }, [drawn, size, rows.length])
  const shown = useMemo(() => columns.map(shownOf), [columns])
  const role = (name: Role) => (isLong ? name : undefined)
  if (rows.length === 0) return <div class="none">{none}</div>
  const body = { rows, size, shown, keyOf, isLong, opens: open !== undefined }
  return (
    <>
      <section class={isLong ? 'table long' : 'table'} aria-label={label} tabIndex={0}>
        <table
          role={role('table')}
          aria-rowcount={isLong ? rows.length + 1 : undefined}
          onClick={(event) => isControl(event.target) || openRow(event, rows, open)}
          onKeyDown={(event) => step(event, rows, open)}
        >
          <thead role={role('rowgroup')}>
            <tr role={role('row')}>
              {shown.map(({ head, kind }) => (
                <th
                  key={head}
                  scope="col"
                  class={kind}
                  role={role('columnheader')}
                  aria-sort={sort?.head === head ? (sort.isAscending ? 'ascending' : 'descending') : undefined}
                >
                  {sort ? (
                    <button type="button" class="link" onClick={() => sort.choose(head)}>
                      {head}
                      {sort.head === head && (sort.isAscending ? ' ↑' : ' ↓')}
                    </button>
                  ) : (
                    head
                  )}
                </th>
              ))}
            </tr>
          </thead>
          {Array.from({ length: Math.min(drawn, Math.ceil(rows.length / size)) }, (_, part) => (
            <Part key={part} part={part} {...body} />
          ))}
        </table>
      </section>
      {query && (
        <ExportMenu
          name={label}
          rows={() => rows as readonly object[]}
          all={all}
          query={query === true ? undefined : query}
        />
      )}
    </>
  )
}

/**
 * The ARIA roles of the elements of a long table. They are set because some browsers otherwise do not treat a table
 * with another display style as a table.
 */
type Role = 'table' | 'rowgroup' | 'row' | 'columnheader' | 'cell'

interface Shown<Row> {
  readonly head: string
  readonly kind: string
  readonly write: (row: Row) => ComponentChildren
}

function shownOf<Row>([head, cell, looks]: Column<Row>): Shown<Row> {
  const look: string = looks ?? ''
  const kind = `${OF_NUMBERS.test(look) ? 'number' : ''} ${look.includes('minor') ? 'minor' : ''}`
  return { head, kind, write: writerOf(cell, look) }
}

interface PartProps<Row> {
  readonly rows: readonly Row[]
  readonly keyOf: TableProps<Row>['keyOf']
  readonly part: number
  readonly size: number
  readonly shown: readonly Shown<Row>[]
  readonly isLong: boolean
  readonly opens: boolean
}

/** A part of the rows of a table. It is memoized, so that it is not drawn again when further parts are added. */
function Part<Row>({ part, size, rows, shown, keyOf, isLong, opens }: PartProps<Row>) {
  return useMemo(() => {
    const role = (name: Role) => (isLong ? name : undefined)
    return (
      <tbody role={role('rowgroup')}>
        {rows.slice(part * size, (part + 1) * size).map((row, index) => (
          <tr
            key={keyOf?.(row) ?? idOf(row) ?? index}
            class={opens ? 'opens' : undefined}
            tabIndex={opens ? 0 : undefined}
            role={role('row')}
          >
            {shown.map(({ head, kind, write }) => (
              <td key={head} class={kind} role={role('cell')}>
                {write(row)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    )
  }, [part, size, rows, shown, keyOf, isLong, opens])
}

type Open<Row> = ((row: Row) => void) | undefined

/**
 * Opens the row on which the reader has clicked or pressed a key. Does nothing for the heading of the table, and for
 * the rows of another table in a dialog inside this table.
 */
function openRow<Row>({ target, currentTarget }: Event, rows: readonly Row[], open: Open<Row>): void {
  const at = (target as Element).closest('tr')
  const row = at?.closest('table') === currentTarget ? rows[(at?.rowIndex ?? 0) - 1] : undefined
  if (row !== undefined) open?.(row)
}

function step<Row>(event: KeyboardEvent, rows: readonly Row[], open: Open<Row>): void {
  const here = event.target
  if (!(here instanceof HTMLTableRowElement)) return
  const all = here.closest('table')?.rows
  if (event.key === 'Enter') openRow(event, rows, open)
  else if (event.key === 'ArrowDown') all?.[here.rowIndex + 1]?.focus()
  else if (event.key === 'ArrowUp') all?.[here.rowIndex - 1]?.focus()
  else return
  event.preventDefault()
}

function idOf(row: unknown): string | undefined {
  const { id, uuid } = row as { id?: string; uuid?: string }
  return id ?? uuid
}

/** Returns the function that creates the content of a column's cell from a row. */
function writerOf<Row>(cell: Column<Row>[1], look: string): (row: Row) => ComponentChildren {
  const read = typeof cell === 'function' ? cell : (row: Row) => row[cell]
  const word = look.split(' ').find((one) => one in FORMATS)
  if (word === undefined && typeof cell === 'function') return cell
  const format = FORMATS[(word ?? 'cut') as 'cut']
  return (row) => format(read(row))
}

/** Returns true if an element is a control inside a row. A click on it must not open the row. */
function isControl(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest('a, button, input, select, summary, label') !== null
}

/** Moves the focus to the previous or the next row of a table on the page. The keys `j` and `k` call it. */
export function stepRows(direction: 1 | -1): void {
  const rows = [...document.querySelectorAll<HTMLElement>('main tr.opens')]
  const at = rows.indexOf(document.activeElement as HTMLElement)
  const next = at === -1 ? 0 : at + direction
  rows[Math.min(rows.length - 1, Math.max(0, next))]?.focus()
}

/** Shows a number. The bar behind it represents its share of the largest number. */
export function Bar({ share, children }: { share: number; children: ComponentChildren }) {
  return (
    <span class="bar">
      <span class="bar-fill" style={{ width: `${Math.max(0, Math.min(1, share)) * 100}%` }} />
      <span class="bar-words">{children}</span>
    </span>
  )
}
