/** What a person did: events, the newest first, parted by day and by session. */

import { useEffect, useState } from 'preact/hooks'
import { EventDrawer, get, plain, type Shapes, Shown, time, useLoaded } from '../../kit.ts'

type Event = Shapes['Event']

const EVENTS_A_PAGE = 100

/** The events of a person. */
export function Timeline({ personId }: { readonly personId: string }) {
  const [pages, setPages] = useState<readonly string[]>([])
  const [more, setMore] = useState<readonly Event[]>([])
  const [opened, setOpened] = useState<Event | null>(null)
  const cursor = pages.at(-1)
  const loaded = useLoaded(`timeline ${personId} ${cursor}`, (signal) => read(personId, cursor, signal))
  // A further page goes behind those that are shown.
  const { data } = loaded
  useEffect(() => {
    if (data !== undefined && data.cursor === cursor)
      setMore((before) => (cursor === undefined ? data.events : [...before, ...data.events]))
  }, [data, cursor])
  return (
    <>
      <Shown of={loaded}>
        {({ next }) => (
          <>
            <ol class="timeline">
              {more.map((event, place) => (
                <Entry key={event.uuid} event={event} before={more[place - 1]} open={() => setOpened(event)} />
              ))}
            </ol>
            {more.length === 0 ? <p class="none">No events.</p> : null}
            {next === null ? null : (
              <button type="button" onClick={() => setPages([...pages, next])}>
                Earlier events
              </button>
            )}
          </>
        )}
      </Shown>
      {opened === null ? null : <EventDrawer event={opened} close={() => setOpened(null)} />}
    </>
  )
}

async function read(personId: string, cursor: string | undefined, signal: AbortSignal) {
  const query = {
    person_id: personId,
    limit: EVENTS_A_PAGE,
    ...(cursor === undefined ? {} : { cursor }),
  }
  const { results, next } = await get('project/events/', query, signal)
  const following = next === null ? null : new URL(next, location.origin).searchParams.get('cursor')
  return { events: results, next: following, cursor }
}

function Entry({
  event,
  before,
  open,
}: {
  readonly event: Event
  readonly before: Event | undefined
  readonly open: () => void
}) {
  const day = time(event.timestamp, 'day')
  const session = plain(event.properties['$session_id'])
  const isNewDay = before === undefined || time(before.timestamp, 'day') !== day
  const isNewSession = session !== '' && (before === undefined || plain(before.properties['$session_id']) !== session)
  const page = event.properties['$pathname'] ?? event.properties['$current_url'] ?? ''
  return (
    <>
      {isNewDay ? <li class="timeline-day">{day}</li> : null}
      {isNewSession ? <li class="timeline-session quiet">Session {session.slice(0, 8)}</li> : null}
      <li>
        <button type="button" class="link" onClick={open}>
          {event.event}
        </button>{' '}
        <span>{plain(page)}</span> <time class="quiet">{time(event.timestamp, 'clock')}</time>
      </li>
    </>
  )
}
