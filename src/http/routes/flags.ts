/**
 * The routes of feature flags. Reads answer from memory; changes are made by a thread of the pool and
 * answered when they are durable and every later decision sees them. Source: interface description,
 * section 4.1; docs/COMPATIBILITY.md, "Feature flag routes".
 */
import { ServiceError } from '../../base/errors.ts'
import type { FlagCommand } from '../../engine/threads/tasks.ts'
import type { Scope } from '../../rules/access/scopes.ts'
import { uncheckedPatterns } from '../../rules/flags/flag-faults.ts'
import type { Flag } from '../../rules/flags/types.ts'
import type { Answer } from '../server/respond.ts'
import { type ApiHandler, type ApiRequest, json, type Route } from '../server/router.ts'
import { actorOf, emptyAnswer, type FlagAccess, flagIdInPath, flagInPath, type FlagRoutesOptions, openFlagAccess, presentFlag, requireEdit, requireWritable, unknownFlag } from './flag-access.ts'
import { evaluationReasons, localEvaluation, myFlags, remoteConfig } from './flag-decisions.ts'
import { listFlags, queryUrl } from './flag-list.ts'
import { wishOf } from './formats.ts'
import { answerLog, type LogPlace, skipParameter } from './log-page.ts'
import { compileInTurns } from './pattern-turns.ts'

const FLAGS_PATH = '/api/projects/:project_id/feature_flags/'
const FLAG_PATH = `${FLAGS_PATH}:id/`
const ENTRIES_DEFAULT = 10
/** A larger limit is taken for this one: an entry may hold two whole flags. */
const ENTRIES_MAX = 100
const PAGES_MAX = 1_000_000_000
const READ = 'feature_flag:read'
const WRITE = 'feature_flag:write'

/** The routes under `/api/projects/:project_id/feature_flags/`, apart from role access. */
export function flagRoutes(options: FlagRoutesOptions): readonly Route[] {
  const route = (
    method: Route['method'],
    path: string,
    scope: Scope,
    handle: (access: FlagAccess) => Answer | Promise<Answer>,
  ): Route => {
    const handler: ApiHandler = (request) => handle(openFlagAccess(request, options, scope))
    return { method, path, handler }
  }
  return [
    route('GET', FLAGS_PATH, READ, listFlags),
    route('POST', FLAGS_PATH, WRITE, createFlag),
    route('GET', `${FLAGS_PATH}activity/`, 'activity_log:read', (access) =>
      listActivity(access, null),
    ),
    route('GET', `${FLAGS_PATH}evaluation_reasons/`, READ, evaluationReasons),
    route('GET', `${FLAGS_PATH}my_flags/`, READ, myFlags),
    { ...route('POST', `${FLAGS_PATH}user_blast_radius/`, READ, countReached), isRead: true },
    served(options, `${FLAGS_PATH}local_evaluation/`, localEvaluation),
    route('GET', FLAG_PATH, READ, getFlag),
    route('PATCH', FLAG_PATH, WRITE, (access) => updateFlag(access, false)),
    route('PUT', FLAG_PATH, WRITE, (access) => updateFlag(access, true)),
    { ...route('DELETE', FLAG_PATH, WRITE, refuseDeletion), isRefusal: true },
    route('GET', `${FLAG_PATH}activity/`, 'activity_log:read', listOwnActivity),
    route('POST', `${FLAG_PATH}dashboard/`, WRITE, addDashboard),
    served(options, `${FLAG_PATH}remote_config/`, remoteConfig),
  ]
}

/** A route that takes secret keys of projects, too. */
function served(
  options: FlagRoutesOptions,
  path: string,
  handle: (request: ApiRequest, options: FlagRoutesOptions) => Answer,
): Route {
  return { method: 'GET', path, handler: (request) => handle(request, options) }
}

/** Flags are never removed; the answer has no body. */
function refuseDeletion(): Answer {
  return { ...emptyAnswer(405), headers: [['Allow', 'GET, PATCH, PUT']] }
}

async function getFlag(access: FlagAccess): Promise<Answer> {
  return json(await presentWhole(access, flagInPath(access)))
}

/** The flag with what of it can never match. */
async function presentWhole(access: FlagAccess, flag: Flag): Promise<unknown> {
  await compileInTurns(uncheckedPatterns(flag.filters), ['unicode'])
  return presentFlag(access, flag, true)
}

async function createFlag(access: FlagAccess): Promise<Answer> {
  const body = jsonBytes(access.request)
  return json(await change(access, { kind: 'create', body }), 201)
}

async function updateFlag(access: FlagAccess, isKeyRequired: boolean): Promise<Answer> {
  const flag = flagInPath(access)
  requireEdit(access, flag)
  const body = jsonBytes(access.request)
  return json(await change(access, { kind: 'update', id: flag.id, body, isKeyRequired }))
}

async function addDashboard(access: FlagAccess): Promise<Answer> {
  const flag = flagInPath(access)
  requireEdit(access, flag)
  await change(access, { kind: 'add_dashboard', id: flag.id })
  return json({ success: true })
}

/** Has a change made and answers the flag as it is then. */
async function change(access: FlagAccess, command: FlagCommand): Promise<unknown> {
  const { options, projectId, nowMs } = access
  requireWritable(access)
  const actor = actorOf(access)
  const { id } = await options.queries.changeFlag({ projectId, actor, nowMs, command })
  options.refresh()
  const flag = options.flags.flagById(projectId, id)
  // Somebody else may have removed it for good in the meantime.
  if (flag === null) throw unknownFlag()
  return presentWhole(access, flag)
}

async function countReached(access: FlagAccess): Promise<Answer> {
  const { request, options, projectId, nowMs } = access
  const timezone = options.directory.projectById(projectId)?.timezone ?? 'UTC'
  const body = jsonBytes(request)
  return json(await options.queries.blastRadius({ projectId, timezone, nowMs, body }))
}

async function listOwnActivity(access: FlagAccess): Promise<Answer> {
  const id = flagIdInPath(access)
  return id === null ? emptyAnswer(404) : listActivity(access, id)
}

async function listActivity(access: FlagAccess, flagId: number | null): Promise<Answer> {
  const { request, options, projectId, base } = access
  const limit = Math.min(positive(request, 'limit', ENTRIES_DEFAULT), ENTRIES_MAX)
  const page = Math.min(positive(request, 'page', 1), PAGES_MAX)
  const skip = skipParameter(request, limit)
  const offset = (page - 1) * limit + skip
  const wish = wishOf(request, 'json')
  const found = await options.queries.flagActivity(projectId, flagId, offset, limit - skip, wish)
  if (found === null) return emptyAnswer(404)
  const url = (place: LogPlace): string =>
    queryUrl(request, base, {
      page: String(place.page),
      limit: String(limit),
      skip: place.skip === 0 ? null : String(place.skip),
    })
  return answerLog('json', found, { page, limit, skip }, url)
}

function positive(request: ApiRequest, name: string, whenAbsent: number): number {
  const text = request.query.get(name)
  if (text === null || text === '') return whenAbsent
  const number = /^[0-9]{1,15}$/.test(text) ? Number(text) : 0
  if (number > 0) return number
  throw new ServiceError('invalid_input', `${name} must be a whole number from 1`, { attr: name })
}

/** The body, unread. Throws 415 `unsupported_media_type` when it is declared as something else than JSON. */
function jsonBytes({ body, contentType }: ApiRequest): Uint8Array {
  const mediaType = (contentType.split(';')[0] ?? '').trim().toLowerCase()
  if (body.length === 0 || mediaType === '' || mediaType === 'application/json') return body
  throw new ServiceError('unsupported_media_type', 'send the body as application/json')
}
