/**
 * The routes for monitoring the process: liveness, readiness and metrics. They need no key and contain no data of
 * customers. docs/OPERATIONS.md, "Health".
 */
import type { MetricPage } from '../../base/metrics.ts'
import type { HttpServerName } from '../../config/settings-table.ts'
import type { Answer } from '../server/respond.ts'
import { ANYBODY, type Described, type DescribedResource, done } from '../server/route.ts'
import { json, type Route } from '../server/router.ts'
import * as is from '../server/schema.ts'

/** Which requests a daemon can serve at the moment. */
export interface Readiness {
  /** True if events are accepted. */
  readonly isReady: boolean
  /**
   * True if reads and flag decisions are answered, and if the daemon will accept events again without help from an
   * operator.
   */
  readonly isServing: boolean
  /** The reasons why events are refused, as sentences for the operator. Empty if the daemon is ready. */
  readonly reasons: readonly string[]
  /** Other problems, as sentences for the operator. They do not keep the daemon from accepting events. */
  readonly troubles: readonly string[]
}

/** The source of the daemon's state. It is read for every request to these routes, so reading must be cheap. */
export interface HealthSource {
  /** The HTTP library in use. */
  readonly httpServer: HttpServerName
  readiness(): Readiness
}

const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

interface HealthServices {
  readonly source: HealthSource
  readonly metrics: MetricPage
}

type WatchedPath = Pick<Described, 'path' | 'id' | 'summary' | 'answers'> & {
  readonly answer: (services: HealthServices) => Answer
}

const SCHEMA = is.object({
  status: is.choice('ok', 'degraded', 'unavailable'),
  reasons: is.list(is.TEXT),
})
const READINESS = readinessOf(SCHEMA)
const HEALTH_SCHEMA = is.object({
  status: is.choice('ok', 'degraded', 'unavailable'),
  reasons: is.list(is.TEXT),
  http_server: is.about(is.choice('uws', 'node'), 'The HTTP library in use.'),
})

const WATCHED: readonly WatchedPath[] = [
  {
    path: '/_livez/',
    id: 'Liveness',
    summary: 'Shows whether the process is running.',
    answers: { 200: done(SCHEMA) },
    // The answer itself shows that the process is alive, because it is sent by the event loop.
    answer: () => json({ status: 'ok', reasons: [] }),
  },
  {
    path: '/_readyz/',
    id: 'Readiness',
    summary: 'Shows whether events are accepted.',
    answers: READINESS,
    answer: readiness,
  },
  {
    path: '/_health/',
    id: 'Health',
    summary:
      'Shows whether requests are served. The status is degraded while events are refused but reads and flag decisions continue.',
    answers: readinessOf(HEALTH_SCHEMA),
    answer: health,
  },
  {
    path: '/metrics/',
    id: 'Metrics',
    summary: 'Returns metrics in the Prometheus text format.',
    answers: { 200: { ...done(), type: 'text/plain' } },
    answer: ({ metrics }) => ({ status: 200, contentType: METRICS_TYPE, body: metrics.render() }),
  },
]

/** The routes of liveness, readiness and metrics. docs/OPERATIONS.md, "Health". */
export const HEALTH: DescribedResource = {
  name: 'Health and metrics',
  sentence: 'For monitoring. No key is needed.',
  routes: WATCHED.flatMap(({ answer: _, id, ...rest }): readonly Described[] => [
    { ...rest, method: 'GET', id: `get${id}`, who: ANYBODY },
    {
      method: 'HEAD',
      path: rest.path,
      id: `head${id}`,
      summary: `The headers of GET ${rest.path}.`,
      who: ANYBODY,
      answers: { 200: done() },
    },
  ]),
}

/** Returns the routes of `HEALTH`. */
export function healthRoutes(source: HealthSource, metrics: MetricPage): readonly Route[] {
  return WATCHED.flatMap(({ path, answer }) => {
    const handler = (): Answer => answer({ source, metrics })
    return [
      { method: 'GET', path, handler, isUnlimited: true },
      { method: 'HEAD', path, handler, isUnlimited: true },
    ]
  })
}

function readinessOf(schema: typeof SCHEMA | typeof HEALTH_SCHEMA) {
  return {
    200: done(schema),
    503: { description: 'Events are not accepted. The reasons say why.', schema },
  }
}

function readiness({ source }: HealthServices): Answer {
  const { isReady, reasons } = source.readiness()
  return json({ status: isReady ? 'ok' : 'unavailable', reasons }, isReady ? 200 : 503)
}

/**
 * Returns the state that `/_health` shows. It is degraded if only reads and decisions are served, or if there are other
 * problems.
 */
export function healthOf({ isReady, isServing, reasons, troubles }: Readiness) {
  if (isServing && (!isReady || troubles.length > 0)) {
    return { status: 'degraded', reasons: [...reasons, ...troubles] }
  }
  return { status: isReady ? 'ok' : 'unavailable', reasons }
}

function health({ source }: HealthServices): Answer {
  const { status, reasons } = healthOf(source.readiness())
  // A spread of the object would take 0.6 us, four times as long as the rest of this function.
  const body = { status, reasons, http_server: source.httpServer }
  return json(body, status === 'unavailable' ? 503 : 200)
}
