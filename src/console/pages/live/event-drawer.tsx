/** One event, at the side: what it holds, whose it is, what became of it, and a command that sends it again. */
import {
  api,
  ask,
  CopyButton,
  Dialog,
  inProject,
  may,
  pageOf,
  plain,
  project,
  quoted,
  type Shapes,
  Shown,
  setQuery,
  Table,
  time,
  useLoaded,
} from '../../kit.ts'
import { askWarnings, type Warning } from './lost.tsx'

type Event = Shapes['Event']

/** The drawer of the event that the address names in `open`. */
export function EventDrawer({ uuid }: { readonly uuid: string }) {
  const loaded = useLoaded(`event ${project.value.id} ${uuid}`, (signal) =>
    ask(
      api.GET('/api/projects/{project_id}/events/{uuid}/', {
        params: { path: { ...inProject.value, uuid } },
        signal,
      }),
    ),
  )
  return (
    <Dialog side title={loaded.data?.event ?? 'Event'} close={() => setQuery({ open: null })}>
      <Shown of={loaded}>
        {(event) => (
          <>
            <Facts event={event} />
            <Fate uuid={uuid} />
            <h3>Properties</h3>
            <Table
              label="Properties"
              rows={Object.entries(event.properties)}
              keyOf={([name]) => name}
              columns={[
                { head: 'Name', cell: ([name]) => <bdi>{name}</bdi> },
                { head: 'Value', cell: ([, value]) => <bdi>{plain(value)}</bdi> },
              ]}
            />
            <CopyButton label="Copy as curl" text={() => captureOf(event)} />
          </>
        )}
      </Shown>
    </Dialog>
  )
}

function Facts({ event }: { readonly event: Event }) {
  return (
    <dl class="facts">
      <dt>Time</dt>
      <dd>{time(event.timestamp)}</dd>
      <dt>Arrived</dt>
      <dd>{time(event.created_at)}</dd>
      <dt>distinct_id</dt>
      <dd>
        <bdi>{event.distinct_id}</bdi>
      </dd>
      <dt>Person</dt>
      <dd>
        {may('person:read') && event.person_mode === 'full' ? (
          <a href={pageOf(`/persons/${event.person_id}`)}>{event.person_id}</a>
        ) : (
          'None: it was sent without one'
        )}
      </dd>
      <dt>uuid</dt>
      <dd>
        <code>{event.uuid}</code>
      </dd>
    </dl>
  )
}

/** What became of it, and what was odd about it. */
function Fate({ uuid }: { readonly uuid: string }) {
  const fate = useLoaded(`fate ${project.value.id} ${uuid}`, (signal) =>
    ask(
      api.GET('/api/projects/{project_id}/events/{event_id}/fate/', {
        params: { path: { ...inProject.value, event_id: uuid } },
        signal,
      }),
    ),
  )
  const warnings = useLoaded(`warnings ${project.value.id}`, askWarnings)
  const own = (warnings.data ?? []).filter((one) => isOf(one, uuid))
  return (
    <>
      <Shown of={fate}>
        {({ status, reason, detail }) => (
          <p>
            <span class={status === 'stored' ? 'badge' : 'badge bad'}>{status}</span>{' '}
            {[reason, detail].filter((one) => one != null).join(': ')}
          </p>
        )}
      </Shown>
      {own.map(({ type, details }) => (
        <p key={type} class="notice">
          <b>{type}</b> {plain(details)}
        </p>
      ))}
    </>
  )
}

function isOf({ details }: Warning, uuid: string): boolean {
  return Object.values(details).includes(uuid)
}

/** A command that captures the same again, as a new event. */
function captureOf({ event, distinct_id, timestamp, properties }: Event): string {
  const body = { api_key: project.value.api_token, event, distinct_id, timestamp, properties }
  return [
    `curl -s ${quoted(`${location.origin}/capture/`)}`,
    `-H 'Content-Type: application/json'`,
    `-d ${quoted(JSON.stringify(body))}`,
  ].join(' \\\n  ')
}
