/** Tables: rows that keys walk through (j, k, Enter), cells that stay text whatever is in them. */
import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { ago, bytes, exact, plain, time } from '../base/format.ts'
import type { Query } from '../base/queries.ts'
import { TakeAlong } from './copy.tsx'

/** How values of a column are written. */
const FORMATS = {
  ago: (value: string | null) => <time>{ago(value)}</time>,
  time: (value: string | null) => <time>{time(value)}</time>,
  day: (value: string | null) => <time>{time(value, 'day')}</time>,
  bytes,
  count: exact,
  code: (value: unknown) => <code>{plain(value)}</code>,
  /** Texts of strangers, which may be long; what has a name only is one of them. */
  cut: (value: unknown) => <bdi class="cut">{plain(value ?? '')}</bdi>,
} as const

/** How a column looks: what is `minor` leaves a table where it is narrow, what is `number` stands at the right. */
type Look = 'minor' | 'number' | keyof typeof FORMATS

/** A column: its head, what of a row stands in it (a name, or a function of the row), and how. */
export type Column<Row> = readonly [
  head: string,
  cell: (keyof Row & string) | ((row: Row) => ComponentChildren),
  look?: Look | `${Look} ${Look}` | `${Look} ${Look} ${Look}`,
]

/** What a table shows. `open` is what Enter or a click on a row does. */
export interface TableProps<Row> {
  readonly label: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  /** Tells rows apart; without it `id` or `uuid` do, or their places. */
  readonly keyOf?: (row: Row) => string | number
  readonly open?: ((row: Row) => void) | undefined
  readonly none?: ComponentChildren
  /** Offers the rows as a file; a query also as the request that a terminal can send. */
  readonly query?: Query | true
}

const FIRST_ROWS = 200
const OF_NUMBERS = /number|count|bytes/

/** A table of rows. */
export function Table<Row>({ label, columns, rows, keyOf, open, none = 'Nothing here.', query }: TableProps<Row>) {
  // What fits into a window is painted before the rest, so that a click on a long table is answered at once.
  const [isWhole, setWhole] = useState(false)
  useEffect(() => setWhole(true), [])
  const shown = columns.map(([head, cell, look = '']) => {
    const kind = `${OF_NUMBERS.test(look) ? 'number' : ''} ${look.includes('minor') ? 'minor' : ''}`
    return { head, kind, write: writerOf(cell, look) }
  })
  function step(event: KeyboardEvent, row: Row) {
    const here = event.currentTarget as HTMLTableRowElement
    if (event.target !== here) return
    if (event.key === 'Enter') open?.(row)
    else if (event.key === 'ArrowDown') focusRow(here.nextElementSibling)
    else if (event.key === 'ArrowUp') focusRow(here.previousElementSibling)
    else return
    event.preventDefault()
  }
  if (rows.length === 0) return <div class="none">{none}</div>
  return (
    <>
      <section class="table" aria-label={label} tabIndex={0}>
        <table>
          <thead>
            <tr>
              {shown.map(({ head, kind }) => (
                <th key={head} scope="col" class={kind}>
                  {head}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {(isWhole ? rows : rows.slice(0, FIRST_ROWS)).map((row, index) => (
              <tr
                key={keyOf?.(row) ?? idOf(row) ?? index}
                class={open && 'opens'}
                tabIndex={open && 0}
                onClick={(event) => isControl(event.target) || open?.(row)}
                onKeyDown={(event) => step(event, row)}
              >
                {shown.map(({ head, kind, write }) => (
                  <td key={head} class={kind}>
                    {write(row)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      {query && (
        <TakeAlong name={label} rows={() => rows as readonly object[]} query={query === true ? undefined : query} />
      )}
    </>
  )
}

function idOf(row: unknown): string | undefined {
  const { id, uuid } = row as { id?: string; uuid?: string }
  return id ?? uuid
}

/** What writes the cells of a column. */
function writerOf<Row>(cell: Column<Row>[1], look: string): (row: Row) => ComponentChildren {
  const read = typeof cell === 'function' ? cell : (row: Row) => row[cell]
  const word = look.split(' ').find((one) => one in FORMATS)
  if (word === undefined && typeof cell === 'function') return cell
  const format = FORMATS[(word ?? 'cut') as 'cut']
  return (row) => format(read(row))
}

function focusRow(row: Element | null): void {
  if (row instanceof HTMLElement) row.focus()
}

/** A click on a control within a row is not one on the row. */
function isControl(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest('a, button, input, select, summary, label') !== null
}

/** Walks through the rows of the page's first table; `j` and `k` call it. */
export function stepRows(direction: 1 | -1): void {
  const rows = [...document.querySelectorAll<HTMLElement>('main tr.opens')]
  const at = rows.indexOf(document.activeElement as HTMLElement)
  const next = at === -1 ? 0 : at + direction
  rows[Math.min(rows.length - 1, Math.max(0, next))]?.focus()
}

/** A number with a bar behind it: its share of the largest. */
export function Bar({ share, children }: { share: number; children: ComponentChildren }) {
  return (
    <span class="bar">
      <span class="bar-fill" style={{ width: `${Math.max(0, Math.min(1, share)) * 100}%` }} />
      <span class="bar-words">{children}</span>
    </span>
  )
}
