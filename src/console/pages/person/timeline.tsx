/** The events of a person, newest first, grouped by day and session. */
import { useEffect, useState } from 'preact/hooks'
import {
  Button,
  Choice,
  counted,
  EventDrawer,
  eventLabel,
  get,
  plain,
  type Shapes,
  Shown,
  seconds,
  time,
  useEventNames,
  useLoaded,
} from '../../kit.ts'

type Event = Shapes['Event']

const EVENTS_A_PAGE = 100

/** The list of the events of a person, with a filter for the event name. */
export function Timeline({ personId }: { personId: string }) {
  const [cursor, setCursor] = useState<string>()
  const [name, setName] = useState('')
  const [events, setEvents] = useState<readonly Event[]>([])
  const [opened, setOpened] = useState<Event | null>(null)
  const loaded = useLoaded(`timeline ${personId} ${name} ${cursor}`, (signal) => read(personId, name, cursor, signal))
  // When a further page arrives, its events are appended to those that are already shown.
  const { data } = loaded
  useEffect(() => {
    if (data?.cursor === cursor && data?.name === name)
      setEvents((before) => (cursor === undefined ? data.results : [...before, ...data.results]))
  }, [data, cursor, name])
  const names = useEventNames()
  function choose(chosen: string) {
    setName(chosen)
    setCursor(undefined)
  }
  return (
    <>
      <p class="row">
        <Choice
          label="Events"
          isQuiet
          value={name}
          options={[['', 'All events'], ...names.map((one) => [one, eventLabel(one)] as const)]}
          change={choose}
        />
      </p>
      <Shown of={loaded}>
        {({ next }) => (
          <>
            <ol class="timeline">
              {events.map((event, place) => (
                <Entry key={event.uuid} events={events} place={place} open={() => setOpened(event)} />
              ))}
            </ol>
            {events.length === 0 && <p class="none">No events.</p>}
            {next !== null && <Button press={() => setCursor(next)}>Show earlier events</Button>}
          </>
        )}
      </Shown>
      {opened && <EventDrawer event={opened} close={() => setOpened(null)} />}
    </>
  )
}

async function read(personId: string, name: string, cursor: string | undefined, signal: AbortSignal) {
  const asked = {
    person_id: personId,
    limit: EVENTS_A_PAGE,
    ...(name !== '' && { event: name }),
    ...(cursor !== undefined && { cursor }),
  }
  const { results, next } = await get('project/events/', asked, signal)
  return { results, next: next && new URL(next, location.origin).searchParams.get('cursor'), cursor, name }
}

interface EntryProps {
  readonly events: readonly Event[]
  readonly place: number
  readonly open: () => void
}

/** Shows an event. The newest event of a day or of a visit is shown below a heading with the day or the visit. */
function Entry({ events, place, open }: EntryProps) {
  const [event, before] = [events[place] as Event, events[place - 1]]
  const { properties, timestamp } = event
  const day = time(timestamp, 'day')
  const session = sessionOf(event)
  const isNewDay = before === undefined || time(before.timestamp, 'day') !== day
  const isNewVisit = session !== '' && (isNewDay || before === undefined || sessionOf(before) !== session)
  return (
    <>
      {isNewDay && <li class="timeline-day">{day}</li>}
      {isNewVisit && <li class="visit">{visitOf(events, place)}</li>}
      <li class="row">
        <time class="quiet">{time(timestamp, 'clock')}</time>
        <button type="button" class="link" onClick={open}>
          {eventLabel(event.event)}
        </button>
        <span class="cut">
          {plain(properties['$pathname'] ?? properties['$screen_name'] ?? properties['$current_url'])}
        </span>
      </li>
    </>
  )
}

function sessionOf({ properties }: Event): string {
  return plain(properties['$session_id'])
}

/**
 * Returns a description of the visit whose newest event is at the index `place`: `Visit of 3m 12s, 6 pageviews, from
 * google.com`.
 */
function visitOf(events: readonly Event[], place: number): string {
  const session = sessionOf(events[place] as Event)
  const end = events.findIndex((event, at) => at > place && sessionOf(event) !== session)
  const own = events.slice(place, end === -1 ? undefined : end)
  const [newest, oldest] = [own[0], own.at(-1)]
  if (newest === undefined || oldest === undefined) return 'Visit'
  const lasted = (Date.parse(newest.timestamp) - Date.parse(oldest.timestamp)) / 1000
  const pages = own.filter(({ event }) => event === '$pageview').length
  const from = plain(oldest.properties['$referring_domain']).replace('$direct', '')
  const parts = [
    lasted < 1 ? 'Visit' : `Visit of ${seconds(lasted)}`,
    pages > 0 ? counted(pages, 'pageview') : counted(own.length, 'event'),
    from !== '' && `from ${from}`,
  ]
  return parts.filter((one) => one !== false).join(', ')
}
