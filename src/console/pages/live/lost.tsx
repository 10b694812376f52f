/** "Lost & odd": events that have no stored row, why, and what was odd about others. */
import {
  ago,
  Card,
  exact,
  get,
  plain,
  project,
  type Shapes,
  Shown,
  Table,
  TakeAlong,
  time,
  useGet,
  useLoaded,
} from '../../kit.ts'

/** Something odd, as the daemon lists it. */
export type Warning = Shapes['IngestionWarning']

const EVERY_MS = 5000

/** The newest warnings of the project. */
export async function askWarnings(signal: AbortSignal): Promise<readonly Warning[]> {
  return (await get('project/ingestion_warnings/', { limit: 100 }, signal)).results
}

/** The second tab of the page "Live". */
export function Lost() {
  return (
    <>
      <LostEvents />
      <Warnings />
    </>
  )
}

function LostEvents() {
  const loaded = useGet('project/ingestion_fates/', {}, { everyMs: EVERY_MS })
  return (
    <Card title="Not stored">
      <Shown of={loaded}>
        {({ results }) =>
          results.length === 0 ? (
            <p class="none">Nothing was lost.</p>
          ) : (
            results.map((fate) => <Reason key={fate.reason} fate={fate} />)
          )
        }
      </Shown>
    </Card>
  )
}

function Reason({ fate }: { readonly fate: Shapes['IngestionFate'] }) {
  const { reason, count, last_seen_at: lastSeenAt, sentence, samples } = fate
  return (
    <details class="lost">
      <summary>
        <code>{reason}</code> <b>{exact(count)}</b>{' '}
        <span class="quiet">
          last {ago(lastSeenAt)}. {sentence}
        </span>
      </summary>
      <Table
        label={`Samples of ${reason}`}
        rows={samples}
        keyOf={(_, index) => index}
        none="No sample was kept."
        columns={[
          { head: 'When', cell: ({ at }) => time(at) },
          { head: 'Event', cell: ({ event }) => <bdi class="cut">{event ?? '–'}</bdi> },
          {
            head: 'distinct_id',
            isMinor: true,
            cell: ({ distinct_id: id }) => <bdi class="cut">{id ?? '–'}</bdi>,
          },
          {
            head: 'What',
            cell: ({ detail, body }) => <bdi>{body ?? detail}</bdi>,
          },
        ]}
      />
    </details>
  )
}

function Warnings() {
  const loaded = useLoaded(`warnings ${project.value.id}`, askWarnings, { everyMs: EVERY_MS })
  return (
    <Card title="Stored, and odd">
      <Shown of={loaded}>
        {(warnings) => (
          <>
            <Table
              label="Warnings"
              rows={warnings}
              keyOf={(_, index) => index}
              none="Nothing was odd."
              columns={[
                { head: 'When', cell: ({ timestamp }) => time(timestamp) },
                { head: 'What', cell: ({ type }) => <code>{type}</code> },
                { head: 'Times', isNumber: true, cell: ({ count }) => exact(count) },
                {
                  head: 'Details',
                  cell: ({ details }) => <bdi class="cut">{plain(details)}</bdi>,
                },
              ]}
            />
            <TakeAlong
              name="warnings"
              head={['when', 'what', 'times', 'details']}
              rows={() => warnings.map((one) => [one.timestamp, one.type, one.count, one.details])}
            />
          </>
        )}
      </Shown>
    </Card>
  )
}
