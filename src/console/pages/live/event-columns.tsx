/** The columns of an event that all lists of the page "Events" have. */
import { type Column, eventLabel, pageOf } from '../../kit.ts'
import type { LiveEvent } from './event-stream.ts'

/** The name of an event, its person, and where it happened. */
export const EVENT_COLUMNS: readonly Column<LiveEvent>[] = [
  ['Event', ({ event }) => eventLabel(event), 'cut'],
  ['Person', (event) => <Who event={event} />],
  ['Page or SDK', whereOf, 'minor cut'],
]

function Who({ event: { person_id: id, person_mode: mode, distinct_id: distinctId } }: { event: LiveEvent }) {
  const words = <bdi class="cut">{distinctId}</bdi>
  return mode === 'full' ? <a href={pageOf(`/persons/${id}`)}>{words}</a> : words
}

/** Returns the path or the screen of an event. The host is left out, because all events of a site have the same one. */
function whereOf({ properties }: LiveEvent): string {
  const { $pathname: path, $screen_name: screen, $lib: library } = properties
  return String(path ?? screen ?? library ?? '')
}
