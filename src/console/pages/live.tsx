/** The page "Events": events as they arrive, past events, and the fate of events that were not stored. */
import { useState } from 'preact/hooks'
import {
  query as address,
  Card,
  type Column,
  counted,
  curlLine,
  Empty,
  exact,
  Failure,
  Loading,
  Page,
  project,
  Search,
  setQuery,
  Table,
  Tabs,
  tabOf,
  time,
  useEventNames,
} from '../kit.ts'
import { EVENT_COLUMNS } from './live/event-columns.tsx'
import type { LiveEvent, LiveState } from './live/event-stream.ts'
import { LiveDrawer } from './live/live-drawer.tsx'
import { Lost } from './live/lost.tsx'
import { Past } from './live/past.tsx'
import { LIVE_ROWS_MAX, type Live, useLive } from './live/use-live.ts'

const STATES: Readonly<Record<LiveState, string>> = {
  connecting: 'Connecting …',
  live: 'Live',
  polling: 'Updates every second',
  waiting: 'Reconnecting …',
  replaced: 'Closed',
  refused: 'No access',
}

const TABS = [
  ['stream', 'Live'],
  ['past', 'Past events'],
  ['lost', 'Rejected events'],
] as const

/**
 * The page "Events". Its tabs show the stream of events, the stored events of a date range, and rejected events. An
 * event opens in a drawer.
 */
export default function LivePage() {
  const opened = address.value.get('open')
  const View = { stream: Stream, past: Past, lost: Lost }[tabOf(TABS, 'tab')]
  return (
    <Page title="Events" aside={<Tabs label="Views" tabs={TABS} parameter="tab" without={['open', 'cursor']} />}>
      <View />
      {opened !== null && <LiveDrawer key={opened} uuid={opened} />}
    </Page>
  )
}

function Stream() {
  const [isPaused, setPaused] = useState(false)
  const [turn, setTurn] = useState(0)
  const filter = {
    event: address.value.get('event') ?? '',
    distinct_id: address.value.get('distinct_id') ?? '',
  }
  const live = useLive(filter, isPaused, turn)
  const names = useEventNames()
  return (
    <Card title="Events" aside={<Rate live={live} />}>
      <div class="filter-fields">
        <Search label="Event" name="event" options={names} />
        <Search label="Distinct ID" name="distinct_id" />
        <button type="button" aria-pressed={isPaused} onClick={() => setPaused(!isPaused)}>
          {isPaused ? `Resume${live.held === 0 ? '' : ` (${exact(live.held)} new)`}` : 'Pause'}
        </button>
        {live.state === 'replaced' && (
          <button type="button" class="primary" onClick={() => setTurn(turn + 1)}>
            Continue here
          </button>
        )}
      </div>
      {live.error && <Failure error={live.error} />}
      {live.missed > 0 && (
        <p class="notice">
          The list shows a sample: {counted(live.missed, 'further event')} arrived. All of them are stored.
        </p>
      )}
      {live.isRead ? (
        <Rows rows={live.rows} isFiltered={filter.event + filter.distinct_id !== ''} />
      ) : (
        live.error === null && <Loading />
      )}
    </Card>
  )
}

const COLUMNS: readonly Column<LiveEvent>[] = [
  ['Time', ({ timestamp }) => <time>{time(timestamp, 'clock')}</time>],
  ...EVENT_COLUMNS,
]

function Rows({ rows, isFiltered }: { rows: readonly LiveEvent[]; isFiltered: boolean }) {
  if (rows.length === 0 && !isFiltered) {
    return (
      <Empty title="No events yet." command={curlLine(location.origin, project.value.api_token)}>
        Events appear here within a second after they are sent.
      </Empty>
    )
  }
  return (
    <>
      <Table
        label="Events"
        rows={rows}
        keyOf={({ uuid }) => uuid}
        open={({ uuid }) => setQuery({ open: uuid })}
        columns={COLUMNS}
        none="No events match yet."
        query
      />
      <p class="quiet">The list shows the newest {LIVE_ROWS_MAX} events.</p>
    </>
  )
}

const RATE_WIDTH = 120
const RATE_HEIGHT = 24
/** The rate that is shown is the mean of this many seconds. */
const MEAN_SECONDS = 10

function Rate({ live: { state, rates } }: { live: Live }) {
  const most = Math.max(1, ...rates)
  const points = rates.map((rate, at) => {
    const x = (at / (rates.length - 1)) * RATE_WIDTH
    return `${x.toFixed(1)},${(RATE_HEIGHT - 1 - (rate / most) * (RATE_HEIGHT - 2)).toFixed(1)}`
  })
  // The current second is not over, so it is left out.
  const latest = rates.slice(-1 - MEAN_SECONDS, -1)
  const mean = latest.reduce((sum, rate) => sum + rate, 0) / MEAN_SECONDS
  const label = `Events per second in the last minute, at most ${exact(Math.max(...rates))}`
  return (
    <span class="row">
      <span role="status" class={state === 'live' ? 'badge' : 'badge off'}>
        {STATES[state]}
      </span>
      <svg class="sparkline" role="img" aria-label={label} viewBox={`0 0 ${RATE_WIDTH} ${RATE_HEIGHT}`}>
        <polyline points={points.join(' ')} />
      </svg>
      <span class="number">{mean.toFixed(1)}/s</span>
    </span>
  )
}
