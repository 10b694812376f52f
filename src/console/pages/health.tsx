/** The state of the daemon: its rates, its backlog, its disk, and the day on which the disk will be full. */
import {
  Ask,
  ago,
  bytes,
  Card,
  Chart,
  counted,
  exact,
  Got,
  List,
  may,
  Page,
  pageQuery,
  post,
  type Shapes,
  say,
  seconds,
  Table,
  Tile,
  Tiles,
  time,
} from '../kit.ts'

type Status = Shapes['Status']

const EVERY_MS = 10_000

/** The page "Health". Its data is requested again every ten seconds. */
export default function HealthPage() {
  return (
    <Page title="Health">
      <Got route="organization/status/" everyMs={EVERY_MS}>
        {(status) => (
          <>
            <Reasons {...status} />
            <Now {...status} />
            <Rates {...status} />
            <div class="grid">
              <Disk {...status} />
              <Threads {...status} />
            </div>
          </>
        )}
      </Got>
      <DeadLetters />
    </Page>
  )
}

function Reasons({ health, disk }: Status) {
  if (health.reasons.length === 0) return null
  return (
    <div class="notice bad" role="alert">
      <b>{health.status}</b>
      <ul>
        {health.reasons.map((reason) => (
          <li key={String(reason)}>{String(reason)}</li>
        ))}
      </ul>
      {disk.free_bytes < disk.reserve_bytes && (
        <p>
          {bytes(disk.free_bytes)} are free. Below {bytes(disk.reserve_bytes)}, Tenrec accepts no events. Clients then
          get the HTTP status 503 and send the events again for a while. Queries and flag decisions continue. To free
          space, remove other files from this disk, enlarge it, or restore a backup to a larger disk. Tenrec then
          accepts events again without a restart.
        </p>
      )}
    </div>
  )
}

function Now({ health, rates, backlog, dead_letters: dead, backups }: Status) {
  const last = rates.at(-1)
  const perSecond = (count: number | undefined) => exact(count && Math.round(count / 6) / 10)
  const shown = {
    State: health.status,
    'Events per second': perSecond(last?.accepted),
    'Flag decisions per second': perSecond(last?.decisions),
    'Response time (p99)': last?.p99_ms == null ? '–' : `${exact(last.p99_ms)} ms`,
    'Events in the queue': exact(backlog.events),
    'Processing delay': seconds(backlog.lag_seconds),
    'Failed events': exact(dead),
    'Last backup': ago(backups.last_at),
  }
  return (
    <Tiles>
      {Object.entries(shown).map(([label, words]) => (
        <Tile key={label} label={label}>
          {words}
        </Tile>
      ))}
    </Tiles>
  )
}

function Rates({ rates }: Status) {
  const labels = rates.map(({ at }) => time(at).slice(-8, -3))
  const names = { Accepted: 'accepted', Processed: 'processed', Decisions: 'decisions' } as const
  const lines = Object.entries(names).map(([label, name]) => ({ label, data: rates.map((rate) => rate[name]) }))
  return (
    <Card title="Events per minute, last 24 hours">
      {rates.length === 0 ? (
        <p class="none">Numbers appear after the first minute.</p>
      ) : (
        <Chart label="Rates" labels={labels} lines={lines} />
      )}
    </Card>
  )
}

function Disk({ disk: { used_bytes: used, free_bytes: free, reserve_bytes: reserve, full_at: fullAt } }: Status) {
  return (
    <Card title="Disk">
      <p>
        {bytes(used)} used, {bytes(free)} free. Below {bytes(reserve)} of free space, events are refused.
      </p>
      <progress max={free + used} value={used} aria-label="Used disk space" />
      <p>At the present rate, the disk {fullAt === null ? 'does not fill up' : `is full on ${time(fullAt, 'day')}`}.</p>
    </Card>
  )
}

function Threads({ threads, version, uptime_seconds: uptime }: Status) {
  return (
    <Card title="Threads">
      <Table
        label="Threads"
        rows={threads}
        columns={[
          ['Name', ({ name }) => name.replaceAll('_', ' ')],
          ['Threads', 'count', 'count'],
          ['Waiting tasks', 'queue_depth', 'count'],
        ]}
      />
      <p class="quiet">
        Tenrec {version} has been running for {seconds(uptime)}.
      </p>
    </Card>
  )
}

function DeadLetters() {
  return (
    <List
      title="Failed events: accepted, but not processed"
      label="Failed events"
      route="organization/dead_letters/"
      values={pageQuery()}
      above={({ length }) => length > 0 && may('organization:write') && <DeadLetterActions />}
      none="No failed events. Every accepted event was processed."
      columns={[
        ['Time', 'stored_at', 'time'],
        ['Reason', 'reason'],
        ['Size', 'bytes', 'bytes'],
        ['Body', ({ body }) => String(body ?? '').slice(0, 200), 'minor code'],
      ]}
    />
  )
}

function DeadLetterActions() {
  async function replay() {
    const { done, failed } = await post('organization/dead_letters/replay/', {}, {})
    say(`${counted(done, 'event')} processed, ${exact(failed)} failed again.`)
  }
  async function drop() {
    const { done } = await post('organization/dead_letters/drop/', {}, {})
    say(`${counted(done, 'event')} deleted.`)
  }
  return (
    <p class="row">
      <Ask label="Process all again" title="Process failed events again?" isDangerous={false} submit={replay}>
        Events that fail again stay in the list.
      </Ask>
      <Ask label="Delete all" title="Delete all failed events?" action="Delete failed events" submit={drop}>
        The events will be deleted permanently.
      </Ask>
    </p>
  )
}
