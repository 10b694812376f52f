/** The events of a person, newest first, grouped by day and session. */
import { useEffect, useState } from 'preact/hooks'
import { Button, EventDrawer, get, plain, type Shapes, Shown, time, useLoaded } from '../../kit.ts'

type Event = Shapes['Event']

const EVENTS_A_PAGE = 100

/** The timeline of a person. */
export function Timeline({ personId }: { personId: string }) {
  const [cursor, setCursor] = useState<string>()
  const [events, setEvents] = useState<readonly Event[]>([])
  const [opened, setOpened] = useState<Event | null>(null)
  const loaded = useLoaded(`timeline ${personId} ${cursor}`, (signal) => read(personId, cursor, signal))
  // A further page is appended to the events that are shown.
  const { data } = loaded
  useEffect(() => {
    if (data?.cursor === cursor && data !== undefined)
      setEvents((before) => (cursor === undefined ? data.results : [...before, ...data.results]))
  }, [data, cursor])
  return (
    <>
      <Shown of={loaded}>
        {({ next }) => (
          <>
            <ol class="timeline">
              {events.map((event, place) => (
                <Entry key={event.uuid} event={event} before={events[place - 1]} open={() => setOpened(event)} />
              ))}
            </ol>
            {events.length === 0 && <p class="none">No events.</p>}
            {next !== null && <Button press={() => setCursor(next)}>Earlier events</Button>}
          </>
        )}
      </Shown>
      {opened && <EventDrawer event={opened} close={() => setOpened(null)} />}
    </>
  )
}

async function read(personId: string, cursor: string | undefined, signal: AbortSignal) {
  const asked = { person_id: personId, limit: EVENTS_A_PAGE, ...(cursor !== undefined && { cursor }) }
  const { results, next } = await get('project/events/', asked, signal)
  return { results, next: next && new URL(next, location.origin).searchParams.get('cursor'), cursor }
}

interface EntryProps {
  readonly event: Event
  readonly before: Event | undefined
  readonly open: () => void
}

function Entry({ event: { event, properties, timestamp }, before, open }: EntryProps) {
  const day = time(timestamp, 'day')
  const session = plain(properties['$session_id'])
  const isNewDay = before === undefined || time(before.timestamp, 'day') !== day
  const isNewSession = session !== '' && plain(before?.properties['$session_id']) !== session
  return (
    <>
      {isNewDay && <li class="timeline-day">{day}</li>}
      {isNewSession && <li class="quiet">Session {session.slice(0, 8)}</li>}
      <li>
        <button type="button" class="link" onClick={open}>
          {event}
        </button>{' '}
        <span>{plain(properties['$pathname'] ?? properties['$current_url'])}</span>{' '}
        <time class="quiet">{time(timestamp, 'clock')}</time>
      </li>
    </>
  )
}
