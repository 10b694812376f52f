/** The page "Web": who visits, from where, and what they look at. */
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
  readonly kind: 'unit' | 'duration_s' | 'percentage'
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

/** Such events carry it when the daemon was told to look for bots. */
const NO_BOTS = { key: '$is_bot', operator: 'is_not_set', type: 'event' } as const
const ONLINE_EVERY_MS = 30_000

/** Visitors, views and sessions of a range, a chart of them, and four cards of tables. */
export default function WebPage() {
  const hidesBots = address.value.get('bots') === 'hide'
  const properties = [...filtersOfAddress(), ...(hidesBots ? [NO_BOTS] : [])]
  const asked: Asked = { dateRange: dateRange.value, properties }
  return (
    <Page
      title="Web"
      aside={
        <>
          <Online />
          <Check label="Hide bots" value={hidesBots} change={(is) => setQuery({ bots: is ? 'hide' : null })} />
          <AddFilter types={['event', 'person']} />
          <RangePicker compares />
        </>
      }
    >
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

function Overview({ asked }: { readonly asked: Asked }) {
  const compareFilter = { compare: isCompared.value }
  const query = { kind: 'WebOverviewQuery', ...asked, compareFilter }
  const loaded = useLoaded(`web ${project.value.id} ${JSON.stringify(query)}`, (signal) =>
    askQuery<readonly OverviewItem[]>(query, signal),
  )
  return (
    <Shown of={loaded}>
      {(items) => (
        <>
          {items.every(({ value }) => !value) && asked.properties.length === 0 ? (
            <Empty title="No visits in this range." command={loaderLine(location.origin, project.value.api_token)}>
              Put this line into the head of your pages, or choose another range.
            </Empty>
          ) : null}
          <Tiles>
            {items.map(({ key, kind, value, previous }) => (
              <Tile
                key={key}
                label={NAMES[key] ?? key}
                isLessBetter={key === 'bounce rate'}
                change={value === null || !previous ? null : (value - previous) / previous}
              >
                {kind === 'duration_s'
                  ? seconds(value)
                  : kind === 'percentage'
                    ? percent(value === null ? null : value / 100)
                    : exact(value)}
              </Tile>
            ))}
          </Tiles>
        </>
      )}
    </Shown>
  )
}

/** Persons who did something in the last five minutes, whatever the range and the filters are. */
function Online() {
  const { data } = useLoaded(
    `online ${project.value.id}`,
    async (signal) => {
      const [all] = await askQuery<readonly Series[]>(
        {
          kind: 'TrendsQuery',
          series: [{ kind: 'EventsNode', event: null, math: 'dau' }],
          // Of a single number, `-5M` is the whole day.
          dateRange: { date_from: minutesAgo(5), explicitDate: true },
          trendsFilter: { display: 'BoldNumber' },
        },
        signal,
      )
      return all?.aggregated_value ?? 0
    },
    { everyMs: ONLINE_EVERY_MS },
  )
  return (
    <span class="badge" title="Persons with an event in the last five minutes" role="status">
      {exact(data)} now online
    </span>
  )
}

function minutesAgo(minutes: number): string {
  return new Date(Date.now() - minutes * 60_000).toISOString()
}
