/** A drawer that shows an event with all its properties. */
import type { ComponentChildren } from 'preact'
import type { Shapes } from '../base/api.ts'
import { plain, time } from '../base/format.ts'
import { eventLabel } from '../base/labels.ts'
import { pageOf } from '../base/page.ts'
import { project } from '../base/session.ts'
import { CopyButton, quoted } from './copy.tsx'
import { Dialog } from './dialog.tsx'
import { PropertyTable } from './properties.tsx'
import { Facts } from './tiles.tsx'

type Event = Shapes['Event']

interface DrawerProps {
  readonly event: Event
  readonly close: () => void
  readonly children?: ComponentChildren
}

/** The drawer of an event. `children` are shown between its common fields and its properties. */
export function EventDrawer({ event, close, children }: DrawerProps) {
  const person = (
    <a href={pageOf(`/persons/${event.person_id}`)} onClick={close}>
      {event.person_id}
    </a>
  )
  return (
    <Dialog title={eventLabel(event.event)} close={close} side>
      <Facts
        of={{
          Time: time(event.timestamp),
          Received: time(event.created_at),
          Event: <code>{event.event}</code>,
          'Distinct ID': <code>{plain(event.distinct_id)}</code>,
          Person: person,
          UUID: <code>{event.uuid}</code>,
        }}
      />
      {children}
      <p class="row">
        <CopyButton label="Copy as curl" text={() => captureOf(event)} />
        <CopyButton label="Copy as JSON" text={() => JSON.stringify(event, null, 2)} />
      </p>
      <PropertyTable properties={event.properties} />
    </Dialog>
  )
}

/** Returns a shell command that sends the same content as a new event. */
function captureOf({ event, distinct_id: id, properties }: Event): string {
  const body = { api_key: project.value.api_token, event, distinct_id: id, properties }
  return `curl ${quoted(`${location.origin}/capture/`)} -H 'Content-Type: application/json' \\\n  -d ${quoted(JSON.stringify(body))}`
}
