/**
 * The routes of feature flags. Reads are answered from memory. A thread of the worker pool makes the changes. A change
 * is answered when it is durable and every later decision uses it. Source: interface description, section 4.1;
 * docs/compatibility/flags.md, "Feature flag routes".
 */
import type { FlagCommand } from '../../../engine/threads/tasks.ts'
import { hasScope } from '../../../rules/access/scopes.ts'
import { uncheckedPatterns } from '../../../rules/flags/flag-faults.ts'
import type { Flag } from '../../../rules/flags/types.ts'
import { logQuery, PAGE_LIMITS } from '../../server/pages.ts'
import type { Answer } from '../../server/respond.ts'
import {
  type Call,
  done,
  emptyAnswer,
  inProject,
  type Resource,
  routesOf,
} from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { answerLog } from '../formats.ts'
import { PAGE_FLAG_CHANGES_MAX, PAGES_MAX } from '../limits.ts'
import { compileInTurns } from '../persons/pattern-turns.ts'
import {
  type FlagCall,
  type FlagServices,
  flagIdInPath,
  flagInPath,
  presentFlag,
  requireEdit,
  unknownFlag,
} from './flag-access.ts'
import { FLAG_DECISION_ROUTES } from './flag-decisions.ts'
import { FLAG_FILE_ROUTES } from './flag-files.ts'
import { listFlags } from './flag-list.ts'
import {
  ACTIVITY_PAGE,
  CHANGES,
  CONDITION,
  DRAFT,
  FEATURE_FLAG,
  NAMES,
  REHEARSAL,
  REHEARSED,
  RUNTIME,
} from './flag-schemas.ts'

const ENTRIES = { default: 10, max: PAGE_FLAG_CHANGES_MAX }
const LOG = { who: inProject('activity_log:read'), query: logQuery(ENTRIES) }

const route = routesOf<FlagServices>(
  '/api/projects/:project_id/feature_flags/',
  inProject('feature_flag:read'),
  inProject('feature_flag:write'),
)

/** The routes of feature flags, except those of role access. */
export const FLAG_RESOURCE: Resource<FlagServices> = {
  name: 'Feature flags',
  sentence: 'Management of feature flags.',
  segments: { id: is.about(is.WHOLE, 'Flag number.') },
  routes: [
    route('GET', '', 'listFeatureFlags', 'Lists flags, newest first.', {
      query: is.options({
        active: is.about(
          is.TEXT,
          'true: active flags. STALE: active flags that are on for everyone and older than 30 days. Any other value: inactive flags.',
        ),
        search: is.about(is.TEXT, 'Part of the key or name.'),
        type: is.about(
          is.TEXT,
          'The type of the flags: boolean, multivariant, experiment or remote_config.',
        ),
        created_by_id: is.about(is.WHOLE, 'Number of the user who created the flags.'),
        tags: is.about(NAMES, 'Any of these tags.'),
        excluded_properties: is.about(NAMES, 'Flag keys to leave out.'),
        evaluation_runtime: is.about(RUNTIME, 'Where the flags are evaluated.'),
        order: is.about(is.TEXT, 'The member to sort by. A leading - means descending.'),
        ...is.pageParameters(PAGE_LIMITS.max),
      }),
      answers: { 200: done(is.pageOf(FEATURE_FLAG)) },
      respond: listFlags,
    }),
    route('POST', '', 'createFeatureFlag', 'Creates a flag.', {
      body: DRAFT,
      answers: { 201: done(FEATURE_FLAG) },
      errors: ['conflict'],
      handle: (call) => change(call, { kind: 'create', body: call.request.jsonBytes() }),
    }),
    route('GET', 'activity/', 'listFlagsActivity', 'Lists the changes of all flags.', {
      ...LOG,
      answers: { 200: done(ACTIVITY_PAGE) },
      respond: (call) => listActivity(call, null),
    }),
    ...FLAG_DECISION_ROUTES,
    ...FLAG_FILE_ROUTES,
    route(
      'POST',
      'user_blast_radius/',
      'countBlastRadius',
      'Estimates how many people a condition matches.',
      {
        who: inProject('feature_flag:read'),
        body: is.openObject(
          { condition: is.nullable(CONDITION) },
          { group_type_index: is.nullable(is.WHOLE) },
        ),
        answers: { 200: done(is.object({ users_affected: is.WHOLE, total_users: is.WHOLE })) },
        audits: false,
        handle: (call) => call.services.queries.blastRadius(...countTask(call)),
      },
    ),
    route(
      'POST',
      'rehearse/',
      'rehearseFeatureFlag',
      'Estimates for which persons or groups a change would alter the value of the flag.',
      {
        who: inProject('feature_flag:read'),
        body: REHEARSED,
        answers: { 200: done(REHEARSAL) },
        audits: false,
        async handle(call) {
          const answer = await call.services.queries.rehearseFlag(...countTask(call))
          return hasScope(call.grant.scopes, 'person:read') ? answer : { ...answer, examples: [] }
        },
      },
    ),
    route('GET', ':id/', 'getFeatureFlag', 'Shows one flag, including a deleted one.', {
      answers: { 200: done(FEATURE_FLAG) },
      handle: (call) => presentWhole(call, flagInPath(call)),
    }),
    route('PATCH', ':id/', 'patchFeatureFlag', 'Updates a flag.', {
      body: CHANGES,
      answers: { 200: done(FEATURE_FLAG) },
      errors: ['conflict'],
      handle: (call) => updateFlag(call, false),
    }),
    route('PUT', ':id/', 'putFeatureFlag', 'Updates a flag. The key is required.', {
      body: DRAFT,
      answers: { 200: done(FEATURE_FLAG) },
      errors: ['conflict'],
      handle: (call) => updateFlag(call, true),
    }),
    route(
      'DELETE',
      ':id/',
      'deleteFeatureFlag',
      'Not supported, because flags are never removed. The answer has no body.',
      {
        answers: {},
        isRefusal: true,
        respond: () => emptyAnswer(405, [['Allow', 'GET, PATCH, PUT']]),
      },
    ),
    route('GET', ':id/activity/', 'listFlagActivity', 'Lists the changes of a flag.', {
      ...LOG,
      answers: {
        200: done(ACTIVITY_PAGE),
        404: { description: 'The flag does not exist (no body), or the project does not exist.' },
      },
      respond(call) {
        const id = flagIdInPath(call)
        return id === null ? emptyAnswer(404) : listActivity(call, id)
      },
    }),
    route(
      'POST',
      ':id/dashboard/',
      'createFlagDashboard',
      'Creates the dashboard of a flag, if the flag has none.',
      {
        answers: { 200: done(is.object({ success: is.BOOLEAN })) },
        async handle(call) {
          await change(call, { kind: 'add_dashboard', id: editableFlag(call).id })
          return { success: true }
        },
      },
    ),
  ],
}

/** Returns the arguments of the call with which the worker pool counts the users who match a condition. */
function countTask({ request, services, projectId, nowMs }: FlagCall) {
  const timezone = services.directory.projectById(projectId)?.timezone ?? 'UTC'
  const task = { projectId, timezone, nowMs, body: request.jsonBytes() }
  return [task, (giveUp: () => void) => request.onLeave(giveUp)] as const
}

/**
 * Returns the JSON of a flag with all details. The details include the filters that can never match, so all patterns
 * are compiled first.
 */
async function presentWhole(call: FlagCall, flag: Flag): Promise<unknown> {
  await compileInTurns(uncheckedPatterns(flag.filters), ['unicode'])
  return presentFlag(call, flag, true)
}

async function updateFlag(call: FlagCall, isKeyRequired: boolean): Promise<unknown> {
  const { id } = editableFlag(call)
  return change(call, { kind: 'update', id, body: call.request.jsonBytes(), isKeyRequired })
}

/** Returns the flag named in the path. Throws 403 if the caller may not change it. */
function editableFlag(call: FlagCall): Flag {
  const flag = flagInPath(call)
  requireEdit(call, flag)
  return flag
}

/** Makes a change and returns the JSON of the changed flag. */
async function change(call: FlagCall, command: FlagCommand): Promise<unknown> {
  const { request, services, projectId, nowMs, actor } = call
  const refusal = services.refusal()
  if (refusal !== null) throw refusal
  const { id } = await request.noting((audit) =>
    services.queries.changeFlag({ projectId, actor, nowMs, command, audit }),
  )
  services.refresh()
  const flag = services.flags.flagById(projectId, id)
  // Another client may have removed the flag permanently in the meantime.
  if (flag === null) throw unknownFlag()
  return presentWhole(call, flag)
}

async function listActivity(
  call: Call<FlagServices, typeof LOG.query>,
  flagId: number | null,
): Promise<Answer> {
  const { services, projectId } = call
  const { limit = ENTRIES.default, page = 1 } = call.query()
  const place = { limit: Math.min(limit, ENTRIES.max), page: Math.min(page, PAGES_MAX) }
  const read: Parameters<typeof answerLog>[3] = (offset, count, wish) =>
    services.queries.flagActivity(projectId, flagId, offset, count, wish)
  return (await answerLog(call, 'json', place, read, true)) ?? emptyAnswer(404)
}
