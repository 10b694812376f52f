/** The tab "Lost & odd": events that have no stored row, with the reasons, and warnings about other events. */
import { ago, Card, exact, Got, type Shapes, Table } from '../../kit.ts'

const EVERY_MS = 5000

/** The second tab of the page "Live". */
export function Lost() {
  return (
    <>
      <Card title="Not stored">
        <Got route="project/ingestion_fates/" everyMs={EVERY_MS}>
          {({ results }) =>
            results.length === 0 ? (
              <p class="none">Nothing was lost.</p>
            ) : (
              results.map((fate) => <Reason key={fate.reason} fate={fate} />)
            )
          }
        </Got>
      </Card>
      <Warnings />
    </>
  )
}

function Reason({ fate }: { fate: Shapes['IngestionFate'] }) {
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
        none="No sample was kept."
        columns={[
          ['When', 'at', 'time'],
          ['Event', ({ event }) => event ?? '–', 'cut'],
          ['distinct_id', ({ distinct_id: id }) => id ?? '–', 'minor cut'],
          ['What', ({ detail, body }) => <bdi>{body ?? detail}</bdi>],
        ]}
      />
    </details>
  )
}

function Warnings() {
  return (
    <Card title="Stored, and odd">
      <Got route="project/ingestion_warnings/" values={{ limit: 100 }} everyMs={EVERY_MS}>
        {({ results }) => (
          <>
            <Table
              label="Warnings"
              rows={results}
              none="Nothing was odd."
              query
              columns={[
                ['When', 'timestamp', 'time'],
                ['What', 'type', 'code'],
                ['Times', 'count', 'count'],
                ['Details', 'details', 'cut'],
              ]}
            />
          </>
        )}
      </Got>
    </Card>
  )
}
