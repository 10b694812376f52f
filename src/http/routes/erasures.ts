/**
 * The routes of erasures and retention. Conditions are read only from the body, and an unknown member of the body is an
 * error, because a misspelled condition would otherwise erase more than intended. Source: docs/compatibility/events.md,
 * "Erasure and retention".
 */
import { invalidInput, ServiceError } from '../../base/errors.ts'
import { refusal } from '../../base/refusals.ts'
import { runRetention } from '../../engine/front/retention-schedule.ts'
import type { ErasureQueries } from '../../engine/threads/call-table.ts'
import { parseTimestamp } from '../../rules/capture/timestamp.ts'
import type { ErasureCriteria, RetentionPlan, RetentionView } from '../../rules/events/erasure.ts'
import type { PersonCommands } from '../../rules/persons/commands.ts'
import { pageUrls } from '../server/pages.ts'
import { RequestParameters } from '../server/parameters.ts'
import type { Answer } from '../server/respond.ts'
import {
  byAdministrators,
  type Call,
  done,
  inProject,
  type Resource,
  type RouteServices,
  routesOf,
} from '../server/route.ts'
import { json } from '../server/router.ts'
import type { Schema, TypeOf } from '../server/schema.ts'
import * as is from '../server/schema.ts'
import { answerRows, wishOf } from './formats.ts'
import {
  ERASURES_RUNNING_MAX,
  NAMED_RULES_MAX,
  RETENTION_DAYS_MAX,
  TEXT_UNITS_MAX,
} from './limits.ts'
import { unknown } from './persons/person-services.ts'

/** The smallest allowed `bytes_max`. Even the events of one quiet hour can exceed a smaller limit. */
const BYTES_MIN = 1024 ** 2

const UNKNOWN_PLAN =
  'Segments of events are damaged, so retention cannot tell what to erase there and leaves them alone. List them with `tenrec verify` and restore the store from a backup.'

const DRY_RUN = is.about(is.nullable(is.BOOLEAN), 'If true, only report how much would be erased.')
const DATED_RULES = is.list(
  is.object({ event: is.nullable(is.TEXT), before: is.nullable(is.TIME) }),
)
const CONDITION = is.nullable({
  ...is.TEXT,
  minLength: 1,
  maxLength: TEXT_UNITS_MAX,
} as Schema<string>)

function wholeNumbers(name: string, minimum: number, maximum: number): Schema<number | null> {
  const number: Schema<number | null> = is.nullable({ ...is.WHOLE, minimum, maximum })
  return is.refused(
    number,
    `\`${name}\` must be a whole number from ${minimum} to ${maximum}, or null.`,
  )
}

const RECEIPT = is.namedObject('Erasure', {
  id: is.WHOLE,
  origin: is.choice('person', 'request', 'retention'),
  status: is.choice('running', 'done', 'incomplete'),
  requested_by: is.about(
    is.nullable(is.TEXT),
    'E-mail address, or null if the daemon itself started the erasure.',
  ),
  requested_at: is.TIME,
  finished_at: is.nullable(is.TIME),
  criteria: is.object({
    event: is.nullable(is.TEXT),
    after: is.nullable(is.TIME),
    before: is.nullable(is.TIME),
    distinct_id: is.nullable(is.TEXT),
    person_id: is.nullable(is.UUID),
    rules: is.about(
      DATED_RULES,
      'For retention: the rule for each event name. Null stands for all other names.',
    ),
    arrived_through: is.about(
      is.nullable(is.TIME),
      'For retention by size: the newest arrival time that is erased.',
    ),
  }),
  events_removed: is.WHOLE,
  bytes_released: is.WHOLE,
  segments_unreadable: is.about(is.WHOLE, 'The number of damaged segments. They were not changed.'),
})
const ERASURE_REQUEST = is.named(
  'ErasureRequest',
  is.closed(
    is.options({
      event: is.about(CONDITION, 'Name of the events.'),
      after: is.about(CONDITION, 'Erase events from this time on.'),
      before: is.about(CONDITION, 'Erase events before this time.'),
      distinct_id: is.about(CONDITION, 'Erase events that were sent with this distinct_id.'),
      person_id: is.about(
        is.refused(is.nullable(is.CLIENT_UUID), '`person_id` must be the UUID of a person.'),
        'Erase events of this person.',
      ),
      dry_run: DRY_RUN,
    }),
  ),
)
const ESTIMATE = is.namedObject('ErasureEstimate', {
  dry_run: is.BOOLEAN,
  events: is.WHOLE,
  bytes: is.WHOLE,
})
const NAMED_RETENTION = is.named(
  'NamedRetention',
  is.closed(
    is.object({
      event: is.refused(
        { ...is.TEXT, minLength: 1, maxLength: TEXT_UNITS_MAX } as Schema<string>,
        'Each entry of `events` needs the name of an event.',
      ),
      days: is.about(
        wholeNumbers('events', 1, RETENTION_DAYS_MAX),
        'The number of days for which events are kept. Null keeps them forever.',
      ),
    }),
  ),
)
const RULES = is.namedObject('EventRetention', {
  days: is.nullable(is.WHOLE),
  bytes_max: is.nullable(is.WHOLE),
  events: is.list(NAMED_RETENTION),
  bytes: is.about(is.WHOLE, 'The number of bytes that the events take on disk now.'),
})
const RULES_REQUEST = is.named(
  'RetentionRequest',
  is.closed(
    is.options({
      days: wholeNumbers('days', 1, RETENTION_DAYS_MAX),
      bytes_max: wholeNumbers('bytes_max', BYTES_MIN, Number.MAX_SAFE_INTEGER),
      events: is.refused(
        is.nullable(is.list(NAMED_RETENTION, NAMED_RULES_MAX)),
        `\`events\` must be a list of at most ${NAMED_RULES_MAX} rules.`,
      ),
      dry_run: DRY_RUN,
    }),
  ),
)
const PLAN = is.namedObject('RetentionPlan', {
  dry_run: is.BOOLEAN,
  events: is.WHOLE,
  bytes: is.WHOLE,
  rules: DATED_RULES,
  arrived_through: is.nullable(is.TIME),
  is_running: is.BOOLEAN,
})

/** The services that these routes need. */
export interface ErasureServices extends RouteServices {
  readonly queries: ErasureQueries
  readonly commands: PersonCommands
}

const ERASURES = '/api/projects/:project_id/erasures/'
const erasure = routesOf<ErasureServices>(
  ERASURES,
  inProject('person:read'),
  inProject('person:write'),
)
// Retention rules are settings of the project, so their routes need the scopes for projects.
const retention = routesOf<ErasureServices>(
  '/api/projects/:project_id/retention/',
  inProject('project:read'),
  byAdministrators(inProject('project:write')),
)

/** The routes of erasures and of retention. */
export const ERASURE_RESOURCE: Resource<ErasureServices> = {
  name: 'Erasures',
  sentence: 'Permanent removal of events, and how long events are kept.',
  segments: { id: is.about(is.WHOLE, 'Number of the erasure.') },
  routes: [
    erasure('GET', '', 'listErasures', 'Lists erasure receipts, newest first.', {
      query: is.options(is.pageParameters(10_000)),
      answers: { 200: done(is.pageOf(RECEIPT)) },
      async respond(call) {
        const { request, services, projectId } = call
        const parameters = new RequestParameters(request)
        const { limit, offset } = parameters.page()
        const wish = wishOf(request, 'json')
        const page = await services.queries.listErasures(projectId, limit, offset, wish)
        const urls = pageUrls(call, parameters, page)
        return answerRows('json', page, 'results', { count: page.count, ...urls })
      },
    }),
    erasure('POST', '', 'createErasure', 'Removes events permanently, in the background.', {
      body: ERASURE_REQUEST,
      answers: {
        200: { description: 'This was a dry run. Nothing was erased.', schema: ESTIMATE },
        202: done(RECEIPT),
      },
      errors: ['throttled'],
      respond: createErasure,
    }),
    erasure('GET', ':id/', 'getErasure', 'Shows one receipt.', {
      answers: { 200: done(RECEIPT) },
      async handle(call) {
        const id = call.number('id')
        const { queries } = call.services
        const receipt = id === null ? null : await queries.getErasure(call.projectId, id)
        if (receipt !== null) return receipt
        throw new ServiceError('not_found', 'The project has no such erasure.')
      },
    }),
    retention('GET', '', 'getEventRetention', 'Shows how long events are kept.', {
      answers: { 200: done(RULES) },
      handle: async ({ services, projectId }) =>
        rulesBody(await services.queries.getRetention(projectId)),
    }),
    retention('PUT', '', 'putEventRetention', 'Sets how long events are kept.', {
      body: RULES_REQUEST,
      answers: { 200: done({ anyOf: [RULES, PLAN] }) },
      async handle(call) {
        const { services, projectId, nowMs } = call
        const { days = null, bytes_max: bytesMax = null, events, dry_run: isDryRun } = call.body()
        const rules = { days, bytesMax, events: events ?? [] }
        if (new Set(rules.events.map(({ event }) => event)).size < rules.events.length) {
          throw invalidInput('events', 'must not name an event twice')
        }
        if (isDryRun === true) {
          return planBody(await services.queries.planRetention(projectId, rules, nowMs))
        }
        await services.commands.run(projectId, call.actor, { kind: 'set_retention', rules })
        return rulesBody(await services.queries.getRetention(projectId))
      },
    }),
    retention(
      'POST',
      'run/',
      'runEventRetention',
      'Removes the events that are past their retention now.',
      {
        body: is.closed(is.options({ dry_run: DRY_RUN })),
        answers: {
          200: { description: 'Nothing had to be erased, or this was a dry run.', schema: PLAN },
          202: done(RECEIPT),
        },
        async respond(call) {
          const { services, projectId, nowMs, actor } = call
          const { queries, commands, clock } = services
          if (call.body().dry_run === true) {
            return json(planBody(await queries.planRetention(projectId, null, nowMs)))
          }
          const ports = { queries, commands, clock }
          const { plan, receipt } = await runRetention(ports, projectId, actor)
          return receipt === null ? json({ ...planBody(plan), dry_run: false }) : json(receipt, 202)
        },
      },
    ),
  ],
}

type ErasureCall = Call<ErasureServices, Schema, typeof ERASURE_REQUEST>

async function createErasure(call: ErasureCall): Promise<Answer> {
  const { services, projectId, actor } = call
  const body = call.body()
  const criteria = criteriaOf(body)
  const { queries } = services
  if (body.dry_run === true) {
    const estimate = await queries.estimateErasure(projectId, criteria)
    if (estimate === null) throw unknown('person')
    return json({ dry_run: true, ...estimate })
  }
  if ((await queries.runningErasures(projectId)) >= ERASURES_RUNNING_MAX) {
    throw refusal('erasures_full', { limit: ERASURES_RUNNING_MAX })
  }
  const command = { kind: 'erase_events', criteria } as const
  const result = await services.commands.run(projectId, actor, command)
  if (result.kind !== 'done') throw unknown('person')
  if (result.erasure === undefined) throw new TypeError('the change answered no receipt')
  return json(result.erasure, 202)
}

function criteriaOf(body: TypeOf<typeof ERASURE_REQUEST>): ErasureCriteria {
  const criteria: ErasureCriteria = {
    event: body.event ?? null,
    afterMs: timeOf('after', body.after),
    beforeMs: timeOf('before', body.before),
    distinctId: body.distinct_id ?? null,
    personId: body.person_id ?? null,
  }
  if (Object.values(criteria).every((condition) => condition === null)) {
    const detail =
      'The body names no events. Send `event`, `after`, `before`, `distinct_id` or `person_id`.'
    throw new ServiceError('required', detail, { attr: 'event' })
  }
  const { afterMs, beforeMs } = criteria
  if (afterMs !== null && beforeMs !== null && afterMs >= beforeMs) {
    throw invalidInput('before', 'must be later than `after`')
  }
  return criteria
}

function timeOf(name: string, text: string | null = null): number | null {
  if (text === null) return null
  const timeMs = parseTimestamp(text)
  if (timeMs === null) throw invalidInput(name, 'must be a time such as 2024-05-01T12:00:00Z')
  return timeMs
}

function rulesBody({ rules, bytes }: RetentionView): object {
  return { days: rules.days, bytes_max: rules.bytesMax, events: rules.events, bytes }
}

/**
 * Returns the body that describes a retention plan. Throws 500 `data_corrupted` if the plan is incomplete because of
 * damaged segments.
 */
function planBody(plan: RetentionPlan): object {
  const { rules, arrivedThroughMs, events, bytes, isRunning } = plan
  if (!plan.isComplete) throw new ServiceError('data_corrupted', UNKNOWN_PLAN)
  return {
    dry_run: true,
    events,
    bytes,
    rules: rules
      .filter(({ afterMs }) => afterMs === null)
      .map(({ event, beforeMs }) => ({ event, before: momentText(beforeMs) })),
    arrived_through: momentText(arrivedThroughMs),
    is_running: isRunning,
  }
}

function momentText(timeMs: number | null): string | null {
  return timeMs === null ? null : new Date(timeMs).toISOString()
}
