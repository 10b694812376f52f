/** The state of the daemon, for people with a key. docs/compatibility/api.md, "Status". */
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
  at: is.about(is.TIME, 'Its begin; the last minute is not over.'),
  accepted: is.about(is.WHOLE, 'Events that were acknowledged.'),
  processed: is.about(is.WHOLE, 'Events that were stored or dropped.'),
  decisions: is.about(is.WHOLE, 'Requests for flags.'),
  p50_ms: is.about(
    is.nullable(is.NUMBER),
    'Time of half of the ingestion requests; null without any that was timed (one in 16).',
  ),
  p99_ms: is.nullable(is.NUMBER),
})
const STATUS = is.namedObject('Status', {
  version: is.TEXT,
  started_at: is.TIME,
  uptime_seconds: is.WHOLE,
  health: is.object({
    status: is.about(is.choice('ok', 'degraded', 'unavailable'), 'As /_health.'),
    reasons: is.list(is.TEXT),
  }),
  disk: is.object({
    free_bytes: is.WHOLE,
    used_bytes: is.about(is.WHOLE, 'Of the store.'),
    reserve_bytes: is.about(is.NUMBER, 'Below that nothing more is accepted.'),
    full_at: is.about(
      is.nullable(is.TIME),
      'When the reserve is reached at the pace of the last day; null: not in sight.',
    ),
  }),
  backlog: is.object({
    events: is.about(is.WHOLE, 'Accepted and not processed.'),
    bytes: is.WHOLE,
    lag_seconds: is.NUMBER,
  }),
  rates: is.about(is.list(POINT), 'The last 24 hours, since the start.'),
  backups: is.object({
    last_at: is.about(is.nullable(is.TIME), 'In the folder beside the data directory.'),
  }),
  dead_letters: is.WHOLE,
  threads: is.list(is.object({ name: is.TEXT, count: is.WHOLE, queue_depth: is.WHOLE })),
})

const route = organizationRoutes<StatusServices>('status/')

/** The route `GET status/`. */
export const STATUS_ROUTES = [
  route('GET', '', 'getStatus', 'Tells how the server is, with a day of rates.', {
    answers: { 200: done(STATUS) },
    async handle({ services: { status, queries } }) {
      const { version, started_at, uptime_seconds, ...rest } = status.now()
      const health = healthOf(status.readiness())
      const backups = { last_at: await queries.lastBackup() }
      return { version, started_at, uptime_seconds, health, ...rest, backups }
    },
  }),
]
