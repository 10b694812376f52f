/** Shows an event of the stream in a drawer, with its fate and its warnings. */
import { Dialog, EventDrawer, Got, plain, Shown, setQuery, useGet } from '../../kit.ts'

/** The drawer with the event whose UUID is in the URL parameter `open`. */
export function LiveDrawer({ uuid }: { uuid: string }) {
  const loaded = useGet('project/events/{uuid}/', { uuid })
  const close = () => setQuery({ open: null })
  if (loaded.data === undefined) {
    return (
      <Dialog side title="Event" close={close}>
        <Shown of={loaded}>{() => null}</Shown>
      </Dialog>
    )
  }
  return (
    <EventDrawer event={loaded.data} close={close}>
      <Fate uuid={uuid} />
    </EventDrawer>
  )
}

function Fate({ uuid }: { uuid: string }) {
  const warnings = useGet('project/ingestion_warnings/', { limit: 100 }).data?.results ?? []
  const own = warnings.filter(({ details }) => Object.values(details).includes(uuid))
  return (
    <>
      <Got route="project/events/{event_id}/fate/" values={{ event_id: uuid }}>
        {({ status, reason, detail }) => (
          <p>
            <span class={status === 'stored' ? 'badge' : 'badge bad'}>{status}</span>{' '}
            {[reason, detail].filter((one) => one != null).join(': ')}
          </p>
        )}
      </Got>
      {own.map(({ type, details }) => (
        <p key={type} class="notice">
          <b>{type}</b> {plain(details)}
        </p>
      ))}
    </>
  )
}
