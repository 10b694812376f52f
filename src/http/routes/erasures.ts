/** The routes of erasures and of retention. Source: docs/COMPATIBILITY.md, "Erasure and retention". */
import { ServiceError } from '../../base/errors.ts'
import { refusal } from '../../base/refusals.ts'
import { runRetention } from '../../engine/front/retention-schedule.ts'
import type { ErasureQueries, PersonQueries } from '../../engine/threads/calls.ts'
import type { Scope } from '../../rules/access/scopes.ts'
import type { ErasureReceipt, RetentionPlan, RetentionView } from '../../rules/events/erasure.ts'
import { authenticate, userOf } from '../server/auth.ts'
import { pageUrls, RequestParameters } from '../server/parameters.ts'
import type { Answer } from '../server/respond.ts'
import { json, type Route } from '../server/router.ts'
import { readDryRun, readErasureRequest, readRetentionRequest } from './erasure-fields.ts'
import { answerRows, wishOf } from './formats.ts'
import { requireAdministrator } from './organization-access.ts'
import {
  type Access,
  change,
  openAccess,
  type PersonRoutesOptions,
  unknownPerson,
} from './person-access.ts'

const PROJECT_PATH = '/api/projects/:project_id/'
const ERASURES_PATH = `${PROJECT_PATH}erasures/`
const RETENTION_PATH = `${PROJECT_PATH}retention/`

/** Erasures of a project that may be at work; a further one is refused with 429. */
const RUNNING_MAX = 100

const UNKNOWN_PLAN =
  "segments of events are damaged, so what retention would erase of them is not known; retention leaves them alone. 'tenrec verify' lists them, restore the store from a backup"

/** What these routes work with. */
export interface ErasureRoutesOptions extends PersonRoutesOptions {
  readonly queries: PersonQueries & ErasureQueries
}

type Handler = (access: Access, erasures: ErasureQueries) => Promise<Answer>

/** The routes under `/api/projects/:project_id/` that erase events. */
export function erasureRoutes(options: ErasureRoutesOptions): readonly Route[] {
  const route = (method: Route['method'], path: string, scope: Scope, handle: Handler): Route => ({
    method,
    path,
    handler: (request) => {
      const access = openAccess(request, options, scope)
      // Rules belong to the settings of the project.
      if (scope === 'project:write') {
        requireAdministrator({ user: userOf(authenticate(request, options.directory)) })
      }
      return handle(access, options.queries)
    },
  })
  return [
    route('GET', ERASURES_PATH, 'person:read', listErasures),
    route('POST', ERASURES_PATH, 'person:write', createErasure),
    route('GET', `${ERASURES_PATH}:id/`, 'person:read', getErasure),
    route('GET', RETENTION_PATH, 'project:read', getRetention),
    route('PUT', RETENTION_PATH, 'project:write', putRetention),
    route('POST', `${RETENTION_PATH}run/`, 'project:write', startRetention),
  ]
}

async function listErasures(
  { request, projectId, base }: Access,
  erasures: ErasureQueries,
): Promise<Answer> {
  const parameters = new RequestParameters(request)
  const { limit, offset } = parameters.page()
  const wish = wishOf(request, 'json')
  const page = await erasures.listErasures(projectId, limit, offset, wish)
  const urls = pageUrls(request, base, parameters, page)
  return answerRows('json', page, 'results', { count: page.count, ...urls })
}

async function getErasure(
  { request, projectId }: Access,
  erasures: ErasureQueries,
): Promise<Answer> {
  const text = request.parameter('id')
  const id = /^[0-9]{1,10}$/.test(text) ? Number(text) : 0
  const receipt = await erasures.getErasure(projectId, id)
  if (receipt === null) throw new ServiceError('not_found', 'the project has no such erasure')
  return json(receipt)
}

async function createErasure(access: Access, erasures: ErasureQueries): Promise<Answer> {
  const { criteria, isDryRun } = readErasureRequest(access.request)
  if (isDryRun) {
    const estimate = await erasures.estimateErasure(access.projectId, criteria)
    if (estimate === null) throw unknownPerson()
    return json({ dry_run: true, ...estimate })
  }
  const runningCount = await erasures.runningErasures(access.projectId)
  if (runningCount >= RUNNING_MAX) {
    throw refusal('erasures_full', { limit: RUNNING_MAX })
  }
  const { erasure } = await change(access, { kind: 'erase_events', criteria })
  return accepted(erasure)
}

async function getRetention({ projectId }: Access, erasures: ErasureQueries): Promise<Answer> {
  return json(retentionBody(await erasures.getRetention(projectId)))
}

async function putRetention(access: Access, erasures: ErasureQueries): Promise<Answer> {
  const { projectId, options } = access
  const { rules, isDryRun } = readRetentionRequest(access.request)
  if (isDryRun) {
    return json(planBody(await erasures.planRetention(projectId, rules, options.clock.now())))
  }
  await change(access, { kind: 'set_retention', rules })
  return json(retentionBody(await erasures.getRetention(projectId)))
}

async function startRetention(access: Access, erasures: ErasureQueries): Promise<Answer> {
  const { projectId, options, actor } = access
  if (readDryRun(access.request)) {
    return json(planBody(await erasures.planRetention(projectId, null, options.clock.now())))
  }
  const { commands, clock } = options
  const { plan, receipt } = await runRetention(
    { queries: erasures, commands, clock },
    projectId,
    actor,
  )
  if (receipt !== null) return accepted(receipt)
  return json({ ...planBody(plan), dry_run: false })
}

function accepted(receipt: ErasureReceipt | undefined): Answer {
  if (receipt === undefined) throw new TypeError('the change answered no receipt')
  return json(receipt, 202)
}

function retentionBody({ rules, bytes }: RetentionView): object {
  return { days: rules.days, bytes_max: rules.bytesMax, events: rules.events, bytes }
}

/** Throws 500 `data_corrupted` when nobody can say what would go. */
function planBody(plan: RetentionPlan): object {
  const { rules, arrivedThroughMs, events, bytes, isRunning } = plan
  if (!plan.isComplete) throw new ServiceError('data_corrupted', UNKNOWN_PLAN)
  return {
    dry_run: true,
    events,
    bytes,
    rules: rules
      .filter(({ afterMs }) => afterMs === null)
      .map(({ event, beforeMs }) => ({ event, before: timeText(beforeMs) })),
    arrived_through: timeText(arrivedThroughMs),
    is_running: isRunning,
  }
}

function timeText(timeMs: number | null): string | null {
  return timeMs === null ? null : new Date(timeMs).toISOString()
}
