/** The tab "Past events": the stored events of a date range, page by page. The URL contains the range and the page. */
import {
  AddFilter,
  Card,
  CSV_ROWS_MAX,
  FilterChips,
  filtersOfAddress,
  get,
  href,
  momentAt,
  project,
  query,
  RangePicker,
  rangeOf,
  rangeValue,
  Search,
  Shown,
  setQuery,
  Table,
  time,
  today,
  useEventNames,
  useGet,
  withQuery,
} from '../../kit.ts'
import { EVENT_COLUMNS } from './event-columns.tsx'
import type { LiveEvent } from './event-stream.ts'

/** How many events a page has. */
const PAGE_ROWS = 50
/** How many events each request for a file asks for. */
const FILE_PAGE_ROWS = 1000
const HOUR_MS = 3_600_000

/** The stored events, newest first. */
export function Past() {
  const { event = '', distinct_id = '', cursor = '' } = Object.fromEntries(query.value)
  const filters = filtersOfAddress()
  const asked = {
    ...boundsOf(rangeValue.value),
    ...(event !== '' && { event }),
    ...(distinct_id !== '' && { distinct_id }),
    ...(filters.length > 0 && { properties: JSON.stringify(filters) as never }),
  }
  const loaded = useGet('project/events/', { ...asked, limit: PAGE_ROWS, ...(cursor !== '' && { cursor }) })
  return (
    <Card title="Past events" aside={<RangePicker />}>
      <div class="filter-fields">
        <Search label="Event" name="event" options={useEventNames()} />
        <Search label="Distinct ID" name="distinct_id" />
        <AddFilter />
      </div>
      <FilterChips />
      <Shown of={loaded}>
        {({ results, next }) => (
          <>
            <Table
              label="Past events"
              rows={results}
              keyOf={({ uuid }) => uuid}
              open={({ uuid }) => setQuery({ open: uuid })}
              columns={[['Time', momentOf], ...EVENT_COLUMNS]}
              none="No events match. Choose a longer range, or remove a filter."
              query
              all={() => readAll(asked)}
            />
            <nav class="row" aria-label="Pages of the list">
              {cursor !== '' && <a href={href(withQuery({ cursor: null }))}>Newest events</a>}
              {next !== null && <a href={href(withQuery({ cursor: cursorOf(next) }))}>Older events</a>}
            </nav>
          </>
        )}
      </Shown>
    </Card>
  )
}

/** Returns the day and the time of an event. On a narrow screen, the line breaks between them. */
function momentOf({ timestamp }: LiveEvent) {
  const day = time(timestamp, 'day').replaceAll(' ', '\u00a0')
  return (
    <time>
      {day} {time(timestamp, 'clock')}
    </time>
  )
}

/** Returns the start and the end of a range as the parameters `after` and `before` of the list of events. */
function boundsOf(value: string): { after?: string; before?: string } {
  const range = rangeOf(value)
  if (range.value === 'all') return {}
  const days = range.days(today.value)
  const zone = project.value.timezone
  if (days !== null) return { after: justBefore(momentAt(`${days.from} 00:00:00`, zone)), before: endOf(days.to, zone) }
  // Ranges of hours begin with a whole hour, so that the request stays the same for an hour.
  const hours = -Number.parseInt(range.dates.date_from, 10)
  return { after: justBefore((Math.floor(Date.now() / HOUR_MS) - hours) * HOUR_MS) }
}

/**
 * Returns the moment one millisecond earlier. Used for `after`, because the list leaves out events at exactly that
 * moment.
 */
function justBefore(moment: string | number): string {
  return new Date(new Date(moment).getTime() - 1).toISOString()
}

function endOf(day: string, zone: string): string {
  return momentAt(`${day} 24:00:00`, zone)
}

/** Returns the cursor in the URL of the next page. */
function cursorOf(next: string): string | null {
  return new URL(next).searchParams.get('cursor')
}

/** Reads the events of all pages for a file. If there are more than fit into it, `count` is infinite. */
async function readAll(asked: object) {
  const rows: object[] = []
  let cursor: string | null = null
  do {
    const page: object = cursor === null ? {} : { cursor }
    const { results, next } = await get('project/events/', {
      ...asked,
      ...page,
      limit: Math.min(FILE_PAGE_ROWS, CSV_ROWS_MAX - rows.length),
    })
    rows.push(...results)
    cursor = next === null ? null : cursorOf(next)
  } while (cursor !== null && rows.length < CSV_ROWS_MAX)
  return { rows, count: cursor === null ? rows.length : Infinity }
}
