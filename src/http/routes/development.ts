/**
 * The routes that only `tenrec dev` serves. A test uses them to empty the project before it starts, and to read events.
 * They need no key, because the keys of the daemon that `tenrec dev` starts are public. docs/TESTING-YOUR-APP.md.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from '../../base/clock.ts'
import { invalidInput } from '../../base/errors.ts'
import { isObject } from '../../base/json.ts'
import type { TextChunks } from '../../base/pages.ts'
import { refusal } from '../../base/refusals.ts'
import type { ExportQueries } from '../../engine/threads/call-table.ts'
import { ANYBODY, done, type RouteServices, routesOf } from '../server/route.ts'
import type { ApiRequest, Route } from '../server/router.ts'
import * as is from '../server/schema.ts'
import {
  DEVELOPMENT_ANSWER_BYTES_MAX,
  DEVELOPMENT_EVENTS_MAX,
  DEVELOPMENT_WAIT_MS_MAX,
  DEVELOPMENT_WAITS_MAX,
} from './limits.ts'

/** The time between two checks whether the events of a waiting request have been processed, in milliseconds. */
const LOOK_MS = 10
const WAIT_MS_DEFAULT = 5000
const LINE_END = 10

/** The services that these routes need. */
export interface DevelopmentServices extends RouteServices {
  readonly clock: Clock
  readonly queries: ExportQueries
  /** Returns the number of the project to which the fixed project key of `tenrec dev` belongs at the moment. */
  readonly projectId: () => number
  /**
   * Replaces the project of the fixed key with an empty one. Resolves when requests with the key reach the new project.
   */
  readonly reset: () => Promise<void>
  /**
   * `accepted` returns the log position of the last event that was accepted. `processed` returns the log position of
   * the last event that was processed.
   */
  readonly accepted: () => number
  readonly processed: () => number
  /** Makes processing start at once, instead of after the usual pause. */
  readonly hurry: () => void
}

const EVENT = is.object({
  uuid: is.UUID,
  event: is.TEXT,
  distinct_id: is.TEXT,
  timestamp: is.TIME,
  properties: is.JSON_OBJECT,
})
const EVENTS_QUERY = is.options({
  event: is.about(is.TEXT, 'Return only events with this name.'),
  distinct_id: is.about(is.TEXT, 'Return only events with this distinct_id.'),
  count: is.about(is.WHOLE, 'Wait until there are this many events. The default is 0.'),
  wait: is.about(is.WHOLE, `The longest wait in milliseconds. The default is ${WAIT_MS_DEFAULT}.`),
})
const QUERY_NAMES = ['event', 'distinct_id', 'count', 'wait']

/** Which events a request asks for, and how long it waits for them. */
interface Wish {
  readonly event?: string
  readonly distinctId?: string
  readonly count: number
  readonly waitMs: number
}

/** An event in the form that a test receives. */
interface SeenEvent {
  readonly uuid: unknown
  readonly event: unknown
  readonly distinct_id: unknown
  readonly timestamp: unknown
  readonly properties: unknown
}

/** The events that were found, in order of arrival. */
interface Found {
  readonly events: readonly SeenEvent[]
  /** True if more events were found than one answer holds. */
  readonly hasMore: boolean
}

const route = routesOf<DevelopmentServices>('/_dev/', ANYBODY)

const RESET = route('POST', 'reset/', 'resetProject', 'Removes all data of the project.', {
  answers: { 200: done(is.object({ reset: is.BOOLEAN })) },
  audits: false,
  async handle({ services }) {
    await services.reset()
    return { reset: true }
  },
})

const EVENTS = route('GET', 'events/', 'awaitEvents', 'Lists events, and can wait for them.', {
  query: EVENTS_QUERY,
  answers: {
    200: done(
      is.object({
        count_reached: is.BOOLEAN,
        count: is.WHOLE,
        has_more: is.BOOLEAN,
        results: is.list(EVENT),
      }),
    ),
  },
  async handle(call) {
    refuseOtherNames(call.request)
    const { event, distinct_id: distinctId, count = 0, wait = WAIT_MS_DEFAULT } = call.query()
    const wish: Wish = {
      ...(event === undefined ? {} : { event }),
      ...(distinctId === undefined ? {} : { distinctId }),
      count: bounded('count', count, DEVELOPMENT_EVENTS_MAX),
      waitMs: bounded('wait', wait, DEVELOPMENT_WAIT_MS_MAX),
    }
    const { events, hasMore } = await awaitEvents(wish, call.services, call.request)
    return {
      count_reached: events.length >= wish.count,
      count: events.length,
      has_more: hasMore,
      results: events,
    }
  },
})

/** Returns the routes. Only `tenrec dev` may serve them. */
export function developmentRoutes(services: DevelopmentServices): readonly Route[] {
  return [RESET, EVENTS].map((record) => record.bind(services))
}

/**
 * Throws 400 for an unknown query parameter. A test with a misspelled parameter would otherwise pass or fail for the
 * wrong reason.
 */
function refuseOtherNames({ query }: ApiRequest): void {
  const other = [...query.keys()].find((name) => !QUERY_NAMES.includes(name))
  if (other === undefined) return
  throw invalidInput(other.slice(0, 100), `is not a parameter. Use ${QUERY_NAMES.join(', ')}`)
}

function bounded(name: string, value: number, max: number): number {
  if (Number.isInteger(value) && value >= 0 && value <= max) return value
  throw invalidInput(name, `must be a whole number from 0 to ${max}`)
}

let waitingCount = 0

/**
 * Waits until all events that were accepted before the request, and at least the requested number, have been processed.
 * When the waiting time is over, resolves with the events that have been processed by then.
 */
async function awaitEvents(
  wish: Wish,
  services: DevelopmentServices,
  request: ApiRequest,
): Promise<Found> {
  if (waitingCount >= DEVELOPMENT_WAITS_MAX) {
    throw refusal('development_waits', { limit: DEVELOPMENT_WAITS_MAX })
  }
  const { clock } = services
  const deadlineMs = clock.monotonic() + wish.waitMs
  let hasLeft = false
  request.onLeave(() => {
    hasLeft = true
  })
  const acceptedBefore = services.accepted()
  let readThrough = -1
  waitingCount++
  try {
    for (;;) {
      const processed = services.processed()
      const isOver = hasLeft || clock.monotonic() >= deadlineMs
      const isNew = processed >= acceptedBefore && processed > readThrough
      if (isNew || isOver) {
        readThrough = processed
        const found = await readEvents(wish, services)
        if (found.events.length >= wish.count || isOver) return found
      }
      if (processed < services.accepted()) services.hurry()
      await sleep(LOOK_MS)
    }
  } finally {
    waitingCount--
  }
}

/** Returns the matching events that have been processed so far. */
async function readEvents(
  { event, distinctId }: Wish,
  { queries, projectId }: DevelopmentServices,
): Promise<Found> {
  const task = {
    projectId: projectId(),
    afterId: 0,
    format: 'ndjson',
    ...(event === undefined ? {} : { event }),
    ...(distinctId === undefined ? {} : { distinctId }),
  } as const
  const body = await queries.eventExport(task, () => {})
  const events: SeenEvent[] = []
  let bytes = 0
  for await (const chunk of chunksOf(body)) {
    for (const line of linesOf(chunk)) {
      bytes += line.length
      const isFull =
        events.length === DEVELOPMENT_EVENTS_MAX || bytes > DEVELOPMENT_ANSWER_BYTES_MAX
      if (isFull && events.length > 0) {
        if ('next' in body) body.cancel()
        return { events, hasMore: true }
      }
      events.push(seenEvent(line))
    }
  }
  return { events, hasMore: false }
}

/** Yields the chunks of a body. Each chunk consists of whole lines. */
async function* chunksOf(body: Uint8Array | TextChunks): AsyncGenerator<Uint8Array> {
  if (!('next' in body)) {
    yield body
    return
  }
  for (let chunk = await body.next(); chunk !== null; chunk = await body.next()) yield chunk
}

function* linesOf(chunk: Uint8Array): Generator<Uint8Array> {
  let start = 0
  while (start < chunk.length) {
    const end = chunk.indexOf(LINE_END, start)
    yield chunk.subarray(start, end < 0 ? chunk.length : end)
    start = end < 0 ? chunk.length : end + 1
  }
}

function seenEvent(line: Uint8Array): SeenEvent {
  const value: unknown = JSON.parse(Buffer.from(line).toString())
  if (!isObject(value)) throw new TypeError('an exported event is no object')
  const { uuid, event, distinct_id, timestamp, properties } = value
  return { uuid, event, distinct_id, timestamp, properties }
}
