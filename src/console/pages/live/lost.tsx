/** The tab "Rejected events". It shows which events were not stored and why, and warnings about stored events. */
import { ago, Card, counted, Got, plain, type Shapes, Table } from '../../kit.ts'

const EVERY_MS = 5000

/** The last tab of the page "Events". */
export function Lost() {
  return (
    <>
      <Card title="Rejected events">
        <Got route="project/ingestion_fates/" everyMs={EVERY_MS}>
          {({ results }) =>
            results.length === 0 ? (
              <p class="none">No event was rejected in the last week.</p>
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

/**
 * For each reason, its meaning in words. See docs/compatibility/events.md, "Events that are not stored", and errors.md.
 */
const REASONS: Readonly<Record<string, string>> = {
  no_event_name: 'Events without a name',
  no_distinct_id: 'Events without a distinct ID',
  ignored_event: 'Session recordings and heatmaps',
  client_ingestion_warning: 'Problems that an SDK reported',
  personless_person_event: 'Changes to a person in events without a person',
  cookieless_person_event: 'Identification of visitors without cookies',
  duplicate: 'Duplicates of stored events',
  properties_too_large: 'Events whose properties are too large',
  daily_limit: 'Events beyond the daily limit',
  dead_letter: 'Events that Tenrec could not process',
  invalid_payload: 'Requests with an invalid body',
  no_data: 'Requests without events',
  missing_api_key: 'Requests without a project key',
  invalid_api_key: 'Requests with an unknown project key',
  invalid_personal_api_key: 'Requests with a personal key',
  invalid_project: 'Requests for another project',
  request_too_large: 'Requests that are too large',
  throttled: 'Requests beyond the rate limit',
}

function Reason({ fate }: { fate: Shapes['IngestionFate'] }) {
  const { reason, count, last_seen_at: lastSeenAt, sentence, samples } = fate
  return (
    <details class="lost">
      <summary>
        <b>{REASONS[reason] ?? reason.replaceAll('_', ' ')}</b> <span class="number">{count.toLocaleString('en')}</span>{' '}
        <span class="quiet">
          last {ago(lastSeenAt)}. {sentence}
        </span>
      </summary>
      <Table
        label={`Samples of ${reason}`}
        rows={samples}
        none="No samples are stored."
        columns={[
          ['Time', 'at', 'time'],
          ['Event', ({ event }) => event ?? '–', 'cut'],
          ['Distinct ID', ({ distinct_id: id }) => id ?? '–', 'minor cut'],
          ['Content', ({ detail, body }) => <bdi>{body ?? detail}</bdi>],
        ]}
      />
      <p class="quiet">
        Code <code>{reason}</code>
      </p>
    </details>
  )
}

/** For each type of warning, its meaning in words. See docs/compatibility/events.md, "Ingestion warnings". */
const WARNINGS: Readonly<Record<string, string>> = {
  cannot_merge_already_identified: 'A person was not merged, because it is already identified',
  cannot_merge_with_illegal_distinct_id: 'A person was not merged, because the distinct ID is a placeholder',
}

function Warnings() {
  return (
    <Card title="Warnings about stored events">
      <Got route="project/ingestion_warnings/" values={{ limit: 100 }} everyMs={EVERY_MS}>
        {({ results }) => (
          <Table
            label="Warnings"
            rows={results}
            none="There are no warnings."
            query
            columns={[
              ['Time', 'timestamp', 'time'],
              ['Warning', ({ type }) => <Warning type={type} />],
              ['Count', 'count', 'count'],
              ['Details', ({ details }) => <Details of={details} />],
            ]}
          />
        )}
      </Got>
    </Card>
  )
}

function Warning({ type }: { type: string }) {
  const words = type.replaceAll('_', ' ')
  return <span title={type}>{WARNINGS[type] ?? words.charAt(0).toUpperCase() + words.slice(1)}</span>
}

function Details({ of }: { of: Readonly<Record<string, unknown>> }) {
  return (
    <details>
      <summary>{counted(Object.keys(of).length, 'value')}</summary>
      {Object.entries(of).map(([name, value]) => (
        <div key={name}>
          <span class="quiet">{name}</span> <bdi>{plain(value)}</bdi>
        </div>
      ))}
    </details>
  )
}
