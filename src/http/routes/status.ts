/** The route that shows the state of the daemon to people with a key. docs/compatibility/api.md, "Status". */
import type { ServiceStatus } from '../../engine/front/service-status.ts'
import type { StatusQueries } from '../../engine/threads/call-table.ts'
import { done } from '../server/route.ts'
import * as is from '../server/schema.ts'
import { type HealthSource, healthOf } from './health.ts'
import {
  type OrganizationServices,
  organizationRoutes,
} from './organization/organization-services.ts'

/** The services that the status route needs. */
export interface StatusServices extends OrganizationServices {
  readonly queries: OrganizationServices['queries'] & StatusQueries
  readonly status: Pick<HealthSource, 'readiness'> & { now(): ServiceStatus }
}

const POINT = is.namedObject('StatusMinute', {
  at: is.about(is.TIME, 'Start of the minute. The last minute is not over yet.'),
  accepted: is.about(is.WHOLE, 'The number of events that were acknowledged.'),
  processed: is.about(is.WHOLE, 'The number of events that were stored or dropped.'),
  decisions: is.about(is.WHOLE, 'The number of requests for flags.'),
  p50_ms: is.about(
    is.nullable(is.NUMBER),
    'Median time of the ingestion requests. One request in 16 is timed. Null if none was timed.',
  ),
  p99_ms: is.nullable(is.NUMBER),
})
const STATUS = is.namedObject('Status', {
  version: is.TEXT,
  started_at: is.TIME,
  uptime_seconds: is.WHOLE,
  health: is.object({
    status: is.about(
      is.choice('ok', 'degraded', 'unavailable'),
      'The same as `status` in the answer of /_health.',
    ),
    reasons: is.list(is.TEXT),
  }),
  disk: is.object({
    free_bytes: is.WHOLE,
    used_bytes: is.about(is.WHOLE, 'The number of bytes of the store on disk.'),
    reserve_bytes: is.about(
      is.NUMBER,
      'The number of free bytes on disk below which no more events are accepted.',
    ),
    full_at: is.about(
      is.nullable(is.TIME),
      'Estimated time at which the reserve is reached, from the growth of the last day. Null if that is not foreseeable.',
    ),
  }),
  backlog: is.object({
    events: is.about(
      is.WHOLE,
      'The number of events that were accepted and are not processed yet.',
    ),
    bytes: is.WHOLE,
    lag_seconds: is.NUMBER,
  }),
  rates: is.about(
    is.list(POINT),
    'One entry for each minute of the last 24 hours, or since the start.',
  ),
  backups: is.object({
    last_at: is.about(
      is.nullable(is.TIME),
      'The time of the last backup in the folder next to the data directory.',
    ),
  }),
  dead_letters: is.WHOLE,
  threads: is.list(is.object({ name: is.TEXT, count: is.WHOLE, queue_depth: is.WHOLE })),
})

const route = organizationRoutes<StatusServices>('status/')

/** The route `GET status/`. */
export const STATUS_ROUTES = [
  route('GET', '', 'getStatus', 'Shows the status of the server, with the rates of one day.', {
    answers: { 200: done(STATUS) },
    async handle({ services: { status, queries } }) {
      const { version, started_at, uptime_seconds, ...rest } = status.now()
      const health = healthOf(status.readiness())
      const backups = { last_at: await queries.lastBackup() }
      return { version, started_at, uptime_seconds, health, ...rest, backups }
    },
  }),
]
