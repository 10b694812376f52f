/** The pages of a list. The URL contains the offset of the current page. */
import { href, query, withQuery } from '../base/address.ts'
import { exact } from '../base/format.ts'

/** How many rows a page of a list has. */
const PAGE_ROWS = 50

/** Returns the parameters `limit` and `offset` for the page named in the URL. */
export function pageQuery(): { limit: number; offset: number } {
  return { limit: PAGE_ROWS, offset: Number(query.value.get('offset')) || 0 }
}

/** Shows which rows of the list the page contains, with links to the previous and the next page. */
export function Pager({ count }: { count: number }) {
  const { offset } = pageQuery()
  const to = (next: number) => href(withQuery({ offset: next <= 0 ? null : String(next) }))
  if (count <= PAGE_ROWS && offset === 0) return null
  return (
    <nav class="row" aria-label="Pages of the list">
      {offset > 0 && <a href={to(offset - PAGE_ROWS)}>Previous</a>}
      <span class="quiet">
        {exact(offset + 1)} to {exact(Math.min(offset + PAGE_ROWS, count))} of {exact(count)}
      </span>
      {offset + PAGE_ROWS < count && <a href={to(offset + PAGE_ROWS)}>Next</a>}
    </nav>
  )
}
