/**
 * Routes for those who watch the process: liveness, readiness and metrics. They need no key and tell
 * nothing about customers. docs/OPERATIONS.md, "Health".
 */
import type { MetricPage } from '../../base/metrics.ts'
import type { Answer } from './respond.ts'
import { type ApiHandler, json, type Route } from './router.ts'

/** How well a daemon serves. */
export interface Readiness {
  /** Events are accepted. */
  readonly isReady: boolean
  /** At least reads and decisions are answered, and what is refused will mend by itself. */
  readonly isServing: boolean
  /** Sentences for the operator why events are refused; none when it is ready. */
  readonly reasons: readonly string[]
  /** Sentences about what else is wrong: events are accepted all the same. */
  readonly troubles: readonly string[]
}

/** What the daemon knows about itself. Asked on every request: keep it cheap. */
export interface HealthSource {
  readiness(): Readiness
}

const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

/**
 * `/_livez`, `/_readyz` (whether events are accepted), `/_health` (200 also while reads and decisions are
 * all that is served, or something is damaged) and `/metrics`, for GET and HEAD.
 */
export function healthRoutes(source: HealthSource, metrics: MetricPage): readonly Route[] {
  const readiness = (): Answer => {
    const { isReady, reasons } = source.readiness()
    return json({ status: isReady ? 'ok' : 'unavailable', reasons }, isReady ? 200 : 503)
  }
  const health = (): Answer => {
    const { isReady, isServing, reasons, troubles } = source.readiness()
    if (!isServing || (isReady && troubles.length === 0)) return readiness()
    return json({ status: 'degraded', reasons: [...reasons, ...troubles] })
  }
  return [
    // That this runs at all is the answer: the event loop turns.
    ...readable('/_livez/', () => json({ status: 'ok', reasons: [] })),
    ...readable('/_readyz/', readiness),
    ...readable('/_health/', health),
    ...readable('/metrics/', () => ({
      status: 200,
      contentType: METRICS_TYPE,
      body: metrics.render(),
    })),
  ]
}

function readable(path: string, handler: ApiHandler): readonly Route[] {
  return [
    { method: 'GET', path, handler, isUnlimited: true },
    { method: 'HEAD', path, handler, isUnlimited: true },
  ]
}
