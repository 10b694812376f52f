/** The page "Web": visitors, their sources, and the pages that they view. */
import {
  AddFilter,
  query as address,
  askQuery,
  Check,
  dateRange,
  Empty,
  exact,
  FilterChips,
  filtersOfAddress,
  isCompared,
  Page,
  percent,
  project,
  RangePicker,
  type Series,
  Shown,
  seconds,
  setQuery,
  Tile,
  Tiles,
  useLoaded,
} from '../kit.ts'
import { loaderLine } from './setup/snippets.ts'
import { type Asked, ReportBox } from './web/report-card.tsx'
import { CARDS } from './web/reports.ts'
import { WebChart } from './web/web-chart.tsx'

/** A number of `WebOverviewQuery`. */
interface OverviewItem {
  readonly key: string
  readonly kind: keyof typeof FORMATS
  readonly value: number | null
  readonly previous: number | null
}

const NAMES: Readonly<Record<string, string>> = {
  visitors: 'Visitors',
  views: 'Views',
  sessions: 'Sessions',
  'session duration': 'Visit duration',
  'bounce rate': 'Bounce rate',
}

const FORMATS = {
  unit: exact,
  duration_s: seconds,
  percentage: (value: number | null) => percent(value === null ? null : value / 100),
}

/** Leaves out events of bots. The daemon marks them if bot detection is on. */
const NO_BOTS = { key: '$is_bot', operator: 'is_not_set', type: 'event' } as const
const ONLINE_EVERY_MS = 30_000
const ONLINE_MS = 300_000

/** Shows visitors, views and sessions of a range, a chart of them, and four cards of tables. */
export default function WebPage() {
  const hidesBots = address.value.get('bots') === 'hide'
  const properties = [...filtersOfAddress(), ...(hidesBots ? [NO_BOTS] : [])]
  const asked: Asked = { dateRange: dateRange.value, properties }
  const controls = (
    <>
      <Online />
      <Check label="Hide bots" value={hidesBots} change={(is) => setQuery({ bots: is ? 'hide' : null })} />
      <AddFilter />
      <RangePicker compares />
    </>
  )
  return (
    <Page title="Web" aside={controls}>
      <FilterChips />
      <Overview asked={asked} />
      <WebChart asked={asked} />
      <div class="grid">
        {CARDS.map((card) => (
          <ReportBox key={card.parameter} card={card} asked={asked} />
        ))}
      </div>
    </Page>
  )
}

function Overview({ asked }: { asked: Asked }) {
  const query = { kind: 'WebOverviewQuery', ...asked, compareFilter: { compare: isCompared.value } }
  const loaded = useLoaded(`web ${project.value.id} ${JSON.stringify(query)}`, (signal) =>
    askQuery<readonly OverviewItem[]>(query, signal),
  )
  return (
    <Shown of={loaded}>
      {(items) => (
        <>
          {items.every(({ value }) => !value) && asked.properties.length === 0 && (
            <Empty title="No visits in this range." command={loaderLine(location.origin, project.value.api_token)}>
              Put this line into the head of your pages, or choose another range.
            </Empty>
          )}
          <Tiles>
            {items.map(({ key, kind, value, previous }) => (
              <Tile
                key={key}
                label={NAMES[key] ?? key}
                isLessBetter={key === 'bounce rate'}
                change={value === null || !previous ? null : (value - previous) / previous}
              >
                {FORMATS[kind](value)}
              </Tile>
            ))}
          </Tiles>
        </>
      )}
    </Shown>
  )
}

/** Shows the number of persons with an event in the last five minutes, independent of the range and the filters. */
function Online() {
  const ask = async (signal: AbortSignal) => {
    const query = {
      kind: 'TrendsQuery',
      series: [{ kind: 'EventsNode', event: null, math: 'dau' }],
      // For a single number, `-5M` would mean the whole day.
      dateRange: { date_from: new Date(Date.now() - ONLINE_MS).toISOString(), explicitDate: true },
      trendsFilter: { display: 'BoldNumber' },
    }
    const [all] = await askQuery<readonly Series[]>(query, signal)
    return all?.aggregated_value ?? 0
  }
  const { data } = useLoaded(`online ${project.value.id}`, ask, { everyMs: ONLINE_EVERY_MS })
  return (
    <span class="badge" title="Persons with an event in the last five minutes" role="status">
      {exact(data)} now online
    </span>
  )
}
