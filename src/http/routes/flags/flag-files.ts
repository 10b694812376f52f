/**
 * The routes for flags that are kept in a file: return all flags as such a file, show which changes a file would make,
 * and make these changes. Source: docs/compatibility/flags.md, "Flags in files".
 */
import { ServiceError } from '../../../base/errors.ts'
import { REHEARSAL_SAMPLE_USUAL } from '../../../base/limits.ts'
import type { FlagSnapshot } from '../../../engine/front/flag-snapshots.ts'
import { requireOwnKeys } from '../../../rules/flags/edit/flags-file.ts'
import { portableFlag } from '../../../rules/flags/edit/portable-flag.ts'
import type { FlagSet } from '../../../rules/flags/types.ts'
import { ANSWER_TEXT_UNITS_MAX } from '../../server/limits.ts'
import { type AnyRoute, done, inProject, routesOf } from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { type FlagCall, type FlagServices, requireEdit } from './flag-access.ts'
import { FLAGS_FILE_BODY, PLAN, PLAN_TO_APPLY, PLAN_WISH } from './flag-schemas.ts'

const route = routesOf<FlagServices>(
  '/api/projects/:project_id/feature_flags/',
  inProject('feature_flag:read'),
  inProject('feature_flag:write'),
)

/** The routes for flags that are kept in a file. */
export const FLAG_FILE_ROUTES: readonly AnyRoute<FlagServices>[] = [
  route('GET', 'file/', 'getFlagsFile', 'Returns all flags in the form of a file.', {
    answers: { 200: done(FLAGS_FILE_BODY) },
    async respond(call) {
      const { request, services, projectId } = call
      const { set } = snapshotOf(call)
      const task = { projectId, timezone: set.timezone, afterId: 0 }
      const body =
        shortFile(set) ??
        (await services.queries.flagsFile(task, (cancel) => request.onLeave(cancel)))
      return { status: 200, contentType: 'application/json', body }
    },
  }),
  route(
    'POST',
    'plan/',
    'planFeatureFlags',
    'Shows what would change if flags were set to the state in files.',
    {
      who: inProject('feature_flag:read'),
      body: PLAN_WISH,
      answers: { 200: done(PLAN) },
      audits: false,
      handle(call) {
        const { request, services, projectId, nowMs } = call
        const { flags, sample = REHEARSAL_SAMPLE_USUAL } = call.body()
        requireOwnKeys(flags, 'flags')
        const task = { projectId, timezone: timezoneOf(call), nowMs, flags, sampleMax: sample }
        return services.queries.planFlags(task, (giveUp) => request.onLeave(giveUp))
      },
    },
  ),
  route('POST', 'apply/', 'applyFlagPlan', 'Changes flags as a plan says: all or none of them.', {
    body: PLAN_TO_APPLY,
    answers: { 200: done(is.object({ ids: is.list(is.WHOLE) })) },
    errors: ['conflict'],
    async handle(call) {
      const { request, services, projectId, nowMs, actor } = call
      const { flags, versions } = call.body()
      requireOwnKeys(flags, 'flags')
      for (const { key } of flags) {
        const flag = services.flags.flagByKey(projectId, String(key))
        if (flag !== null) requireEdit(call, flag)
      }
      const refusal = services.refusal()
      if (refusal !== null) throw refusal
      const timezone = timezoneOf(call)
      const applied = await request.noting((audit) =>
        services.queries.applyFlags({ projectId, timezone, actor, nowMs, flags, versions, audit }),
      )
      services.refresh()
      return applied
    },
  }),
]

/** Returns the file with all flags. Returns null if the file is so long that a worker thread must write it. */
function shortFile(set: FlagSet): string | null {
  const texts: string[] = []
  let units = 0
  for (const flag of set.flags) {
    const text = JSON.stringify(portableFlag(flag, set))
    units += text.length
    if (units > ANSWER_TEXT_UNITS_MAX) return null
    texts.push(text)
  }
  return `{"flags":[${texts.join(',')}]}`
}

function timezoneOf({ services, projectId }: FlagCall): string {
  return services.directory.projectById(projectId)?.timezone ?? 'UTC'
}

function snapshotOf({ services, projectId }: FlagCall): FlagSnapshot {
  const snapshot = services.decisions.snapshot(projectId)
  if (snapshot !== null) return snapshot
  throw new ServiceError('not_found', 'The project was created a moment ago. Try again.')
}
