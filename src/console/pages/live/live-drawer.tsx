/** One event of the stream, at the side, with what became of it and what was odd about it. */
import { Dialog, EventDrawer, plain, project, Shown, setQuery, useGet, useLoaded } from '../../kit.ts'
import { askWarnings } from './lost.tsx'

/** The drawer of the event that the address names in `open`. */
export function LiveDrawer({ uuid }: { readonly uuid: string }) {
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

function Fate({ uuid }: { readonly uuid: string }) {
  const fate = useGet('project/events/{event_id}/fate/', { event_id: uuid })
  const warnings = useLoaded(`warnings ${project.value.id}`, askWarnings)
  const own = (warnings.data ?? []).filter(({ details }) => Object.values(details).includes(uuid))
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
