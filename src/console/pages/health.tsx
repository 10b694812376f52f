/** How the daemon is: what it takes and answers, what waits, the disk with the day on which it is full. */
import {
  ago,
  bytes,
  Card,
  Chart,
  ConfirmButton,
  exact,
  may,
  Page,
  Pager,
  pageQuery,
  post,
  type Shapes,
  Shown,
  say,
  seconds,
  Table,
  Tile,
  Tiles,
  time,
  useGet,
} from '../kit.ts'

type Status = Shapes['Status']

const EVERY_MS = 10_000

/** The page; it asks again every ten seconds. */
export default function HealthPage() {
  const loaded = useGet('organization/status/', {}, { everyMs: EVERY_MS })
  return (
    <Page title="Health">
      <Shown of={loaded}>
        {(status) => (
          <>
            <Reasons status={status} />
            <Now status={status} />
            <Rates status={status} />
            <div class="grid">
              <Disk status={status} />
              <Threads status={status} />
            </div>
          </>
        )}
      </Shown>
      <DeadLetters />
    </Page>
  )
}

function Reasons({ status: { health, disk } }: { readonly status: Status }) {
  if (health.reasons.length === 0) return null
  return (
    <div class="notice bad" role="alert">
      <b>{health.status}</b>
      <ul>
        {health.reasons.map((reason) => (
          <li key={String(reason)}>{String(reason)}</li>
        ))}
      </ul>
      {disk.free_bytes < disk.reserve_bytes ? (
        <p>
          {bytes(disk.free_bytes)} are free, and below {bytes(disk.reserve_bytes)} nothing more is accepted: new events
          get 503, which clients send again for a while; reads and decisions go on. Make room: take away what else lies
          on this disk, enlarge it, or restore a backup on a larger one. Erasing makes no file smaller. Events are taken
          again as soon as there is room, without a restart.
        </p>
      ) : null}
    </div>
  )
}

function Now({
  status: { health, rates, backlog, uptime_seconds: uptime, version, dead_letters: dead, backups },
}: {
  readonly status: Status
}) {
  const last = rates.at(-1)
  const perSecond = (count: number | undefined) =>
    count === undefined ? '–' : exact(Math.round((count / 60) * 10) / 10)
  return (
    <Tiles>
      <Tile label="State">{health.status}</Tile>
      <Tile label="Events a second">{perSecond(last?.accepted)}</Tile>
      <Tile label="Decisions a second">{perSecond(last?.decisions)}</Tile>
      <Tile label="p99 of acknowledgements">{last?.p99_ms == null ? '–' : `${exact(last.p99_ms)} ms`}</Tile>
      <Tile label="Waiting to be processed">{exact(backlog.events)}</Tile>
      <Tile label="Behind">{seconds(backlog.lag_seconds)}</Tile>
      <Tile label="Dead letters">{exact(dead)}</Tile>
      <Tile label="Last backup">{ago(backups.last_at)}</Tile>
      <Tile label={`Tenrec ${version}, up`}>{seconds(uptime)}</Tile>
    </Tiles>
  )
}

function Rates({ status: { rates } }: { readonly status: Status }) {
  const labels = rates.map(({ at }) => time(at).slice(-8, -3))
  const line = (label: string, pick: (rate: Status['rates'][number]) => number) => ({
    label,
    data: rates.map(pick),
  })
  return (
    <Card title="The last 24 hours, a minute a point">
      {rates.length === 0 ? (
        <p class="none">The first minute is not over.</p>
      ) : (
        <Chart
          label="Rates"
          labels={labels}
          lines={[
            line('Accepted', ({ accepted }) => accepted),
            line('Processed', ({ processed }) => processed),
            line('Decisions', ({ decisions }) => decisions),
          ]}
        />
      )}
    </Card>
  )
}

function Disk({ status: { disk } }: { readonly status: Status }) {
  const all = disk.free_bytes + disk.used_bytes
  return (
    <Card title="Disk">
      <p>
        {bytes(disk.used_bytes)} used, {bytes(disk.free_bytes)} free; below {bytes(disk.reserve_bytes)} events are
        refused.
      </p>
      <progress max={all} value={disk.used_bytes} aria-label="Used of the disk" />
      <p>
        {disk.full_at === null
          ? 'At this rate it does not fill up.'
          : `At this rate it is full on ${time(disk.full_at, 'day')}.`}
      </p>
    </Card>
  )
}

function Threads({ status: { threads } }: { readonly status: Status }) {
  return (
    <Card title="Threads">
      <Table
        label="Threads"
        rows={threads}
        keyOf={({ name }) => name}
        columns={[
          { head: 'Name', cell: ({ name }) => name.replaceAll('_', ' ') },
          { head: 'How many', isNumber: true, cell: ({ count }) => exact(count) },
          { head: 'Waiting', isNumber: true, cell: ({ queue_depth: depth }) => exact(depth) },
        ]}
      />
    </Card>
  )
}

function DeadLetters() {
  const asked = pageQuery()
  const loaded = useGet('organization/dead_letters/', asked)
  const act = (what: 'replay' | 'drop') => async () => {
    const body = {}
    const outcome =
      what === 'replay'
        ? await post('organization/dead_letters/replay/', {}, body)
        : await post('organization/dead_letters/drop/', {}, body)
    say(`${exact(outcome.done)} done, ${exact(outcome.failed)} failed.`)
    loaded.reload()
  }
  return (
    <Card title="Dead letters: accepted, and not understood">
      <Shown of={loaded}>
        {({ results, count }) => (
          <>
            {count > 0 && may('organization:write') ? (
              <p class="row">
                <ConfirmButton
                  label="Process again"
                  title="Process dead letters again?"
                  isDangerous={false}
                  submit={act('replay')}
                >
                  <p>What fails again stays.</p>
                </ConfirmButton>
                <ConfirmButton label="Give up" title="Give dead letters up?" submit={act('drop')}>
                  <p>They are gone for good.</p>
                </ConfirmButton>
              </p>
            ) : null}
            <Table
              label="Dead letters"
              rows={results}
              keyOf={(_, index) => index}
              none="None: everything that was accepted was understood."
              columns={[
                { head: 'When', cell: ({ stored_at: at }) => time(at) },
                { head: 'Why', cell: ({ reason }) => reason },
                { head: 'Size', isNumber: true, cell: ({ bytes: size }) => bytes(size) },
                {
                  head: 'Body',
                  isMinor: true,
                  cell: ({ body }) => <code>{String(body ?? '').slice(0, 200)}</code>,
                },
              ]}
            />
            <Pager count={count} />
          </>
        )}
      </Shown>
    </Card>
  )
}
