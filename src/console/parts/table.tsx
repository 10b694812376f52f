/** Tables: rows that keys walk through (j, k, Enter), cells that stay text whatever is in them. */
import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'

/** A column: its head, and the cell of a row. */
export interface Column<Row> {
  readonly head: string
  readonly cell: (row: Row) => ComponentChildren
  /** Numbers stand at the right. */
  readonly isNumber?: boolean
  /** Leaves the table where it is narrow. */
  readonly isMinor?: boolean
}

const FIRST_ROWS = 200

/** A table of rows. `open` is what Enter or a click on a row does; `keyOf` tells rows apart. */
export function Table<Row>({
  label,
  columns,
  rows,
  keyOf,
  open,
  none = 'Nothing here.',
}: {
  readonly label: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  readonly keyOf: (row: Row, index: number) => string | number
  readonly open?: (row: Row) => void
  readonly none?: ComponentChildren
}) {
  const body = useRef<HTMLTableSectionElement>(null)
  // What fits into a window is painted before the rest, so that a click on a long table is answered at once.
  const [isWhole, setWhole] = useState(false)
  useEffect(() => setWhole(true), [])
  const classOf = ({ isNumber, isMinor }: Column<Row>) => `${isNumber ? 'number' : ''} ${isMinor ? 'minor' : ''}`
  function step(event: KeyboardEvent, row: Row) {
    const here = event.currentTarget as HTMLTableRowElement
    if (event.target !== here) return
    if (event.key === 'Enter') open?.(row)
    else if (event.key === 'ArrowDown') focusRow(here.nextElementSibling)
    else if (event.key === 'ArrowUp') focusRow(here.previousElementSibling)
    else return
    event.preventDefault()
  }
  if (rows.length === 0) return <p class="none">{none}</p>
  return (
    <section class="table" aria-label={label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.head} scope="col" class={classOf(column)}>
                {column.head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody ref={body}>
          {(isWhole ? rows : rows.slice(0, FIRST_ROWS)).map((row, index) => (
            <tr
              key={keyOf(row, index)}
              class={open === undefined ? '' : 'opens'}
              tabIndex={open === undefined ? undefined : 0}
              onClick={(event) => {
                if (!isControl(event.target)) open?.(row)
              }}
              onKeyDown={(event) => step(event, row)}
            >
              {columns.map((column) => (
                <td key={column.head} class={classOf(column)}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}

function focusRow(row: Element | null): void {
  if (row instanceof HTMLElement) row.focus()
}

/** A click on a control within a row is not one on the row. */
function isControl(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest('a, button, input, select, summary') !== null
}

/** Walks through the rows of the page's first table; `j` and `k` call it. */
export function stepRows(direction: 1 | -1): void {
  const rows = [...document.querySelectorAll<HTMLElement>('main tr.opens')]
  const at = rows.indexOf(document.activeElement as HTMLElement)
  const next = at === -1 ? 0 : at + direction
  rows[Math.min(rows.length - 1, Math.max(0, next))]?.focus()
}

/** A number with a bar behind it: its share of the largest. */
export function Bar({ share, children }: { readonly share: number; readonly children: ComponentChildren }) {
  return (
    <span class="bar">
      <span class="bar-fill" style={{ width: `${Math.max(0, Math.min(1, share)) * 100}%` }} />
      <span class="bar-words">{children}</span>
    </span>
  )
}
