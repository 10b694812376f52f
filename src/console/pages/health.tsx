/** The state of the daemon: its rates, its backlog, and its disk with the day on which it will be full. */
import {
  Ask,
  ago,
  bytes,
  Card,
  Chart,
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

/** The page "Health". It refreshes every ten seconds. */
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
          {bytes(disk.free_bytes)} are free, and below {bytes(disk.reserve_bytes)} nothing more is accepted: new events
          get 503, which clients send again for a while; reads and decisions go on. Make room: take away what else lies
          on this disk, enlarge it, or restore a backup on a larger one. Erasing makes no file smaller. Events are taken
          again as soon as there is room, without a restart.
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
    'Events a second': perSecond(last?.accepted),
    'Decisions a second': perSecond(last?.decisions),
    'Acknowledged within (p99)': last?.p99_ms == null ? '–' : `${exact(last.p99_ms)} ms`,
    'Waiting to be processed': exact(backlog.events),
    Behind: seconds(backlog.lag_seconds),
    'Dead letters': exact(dead),
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
    <Card title="The last 24 hours, a minute a point">
      {rates.length === 0 ? (
        <p class="none">The first minute is not over.</p>
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
        {bytes(used)} used, {bytes(free)} free; below {bytes(reserve)} events are refused.
      </p>
      <progress max={free + used} value={used} aria-label="Used of the disk" />
      <p>At this rate it {fullAt === null ? 'does not fill up' : `is full on ${time(fullAt, 'day')}`}.</p>
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
          ['How many', 'count', 'count'],
          ['Waiting', 'queue_depth', 'count'],
        ]}
      />
      <p class="quiet">
        Tenrec {version}, up for {seconds(uptime)}.
      </p>
    </Card>
  )
}

function DeadLetters() {
  return (
    <List
      title="Dead letters: accepted, and not understood"
      label="Dead letters"
      route="organization/dead_letters/"
      values={pageQuery()}
      above={({ length }) => length > 0 && may('organization:write') && <DeadLetterActions />}
      none="None: everything that was accepted was understood."
      columns={[
        ['When', 'stored_at', 'time'],
        ['Why', 'reason'],
        ['Size', 'bytes', 'bytes'],
        ['Body', ({ body }) => String(body ?? '').slice(0, 200), 'minor code'],
      ]}
    />
  )
}

function DeadLetterActions() {
  const told = ({ done, failed }: { done: number; failed: number }) =>
    say(`${exact(done)} done, ${exact(failed)} failed.`)
  const replay = async () => told(await post('organization/dead_letters/replay/', {}, {}))
  const drop = async () => told(await post('organization/dead_letters/drop/', {}, {}))
  return (
    <p class="row">
      <Ask label="Process again" title="Process dead letters again?" isDangerous={false} submit={replay}>
        What fails again stays.
      </Ask>
      <Ask label="Give up" title="Give dead letters up?" submit={drop}>
        They are gone for good.
      </Ask>
    </p>
  )
}
