/** The route that streams events when they are stored. docs/compatibility/events.md, "Events as they come". */
import { invalidInput } from '../../base/errors.ts'
import type { LiveEvents } from '../../engine/front/live-events.ts'
import { type AnyRoute, inProject, type RouteServices, routesOf } from '../server/route.ts'
import * as is from '../server/schema.ts'
import { LIVE_STREAMS_OF_SESSION_MAX, STREAM_NAMES_MAX } from './limits.ts'

/** The services that the stream needs. */
export interface StreamServices extends RouteServices {
  readonly live: Pick<LiveEvents, 'open'>
}

const route = routesOf<StreamServices>('/api/projects/:project_id/', inProject('event:read'))

/** The route that streams events. */
export const STREAM_ROUTES: readonly AnyRoute<StreamServices>[] = [
  route('GET', 'events/stream/', 'streamEvents', 'Streams events as they are stored.', {
    query: is.options({
      event: is.about(
        is.TEXT,
        `Send only events with this name. May be repeated up to ${STREAM_NAMES_MAX} times.`,
      ),
      distinct_id: is.about(is.TEXT, 'Send only events with this distinct_id.'),
    }),
    answers: {
      200: {
        description:
          'A stream of server-sent events that does not end: event (a row of the event list), missed ({"count"}: the number of events that were left out) and replaced ({"detail"}: this stream was closed to make room for a newer one).',
        type: 'text/event-stream',
      },
    },
    async respond(call) {
      const { request, services, projectId, grant } = call
      const events = request.query.getAll('event').filter((name) => name !== '')
      if (events.length > STREAM_NAMES_MAX) {
        throw invalidInput('event', `may be given at most ${STREAM_NAMES_MAX} times`)
      }
      const { distinct_id: distinctId = null } = call.query()
      const { keyId, session } = grant
      const stream = await services.live.open({
        // Each browser tab of a session has its own filter, so a session may have several streams at a time.
        owner: `${session === undefined ? `key ${keyId}` : `session ${session.id}`} ${projectId}`,
        ownedMax: session === undefined ? 1 : LIVE_STREAMS_OF_SESSION_MAX,
        filter: { projectId, events, distinctId },
        isAllowed: () => call.isStillAllowed(),
      })
      // Cancels the stream if the client leaves before the answer begins. Once the answer has begun, the code that
      // sends it detects that the client has left.
      request.onLeave(() => stream.cancel())
      return {
        status: 200,
        contentType: 'text/event-stream',
        body: stream,
        headers: [
          ['Cache-Control', 'no-store'],
          ['X-Accel-Buffering', 'no'],
        ],
      }
    },
  }),
]
