/**
 * The routes of scheduled changes of flags, and of the preview that shows what such a change would do. Source:
 * docs/compatibility/schedules.md, "Routes".
 */
import { ServiceError } from '../../../base/errors.ts'
import { given, type JsonObject } from '../../../base/json.ts'
import { REHEARSAL_SAMPLE_MAX, REHEARSAL_SAMPLE_USUAL } from '../../../base/limits.ts'
import type { ScheduleCommand } from '../../../engine/threads/tasks.ts'
import { bodyOfChange } from '../../../rules/flags/schedule/flag-move.ts'
import {
  flagIdOf,
  RAMP_VALUE,
  rampOf,
  type ScheduleRequest,
} from '../../../rules/flags/schedule/schedule-input.ts'
import { scheduledBody } from '../../../rules/flags/schedule/scheduled-body.ts'
import {
  OPERATIONS,
  RECURRENCE_INTERVALS,
  type ScheduledChange,
} from '../../../rules/flags/schedule/scheduled-change.ts'
import type { Flag } from '../../../rules/flags/types.ts'
import {
  type AnyRoute,
  type Call,
  done,
  inProject,
  type Resource,
  routesOf,
} from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { collectionOf, existing } from '../collection.ts'
import { USER_SUMMARY } from '../organization/organization-services.ts'
import { type FlagCall, type FlagServices, requireEdit, summaryOf } from './flag-access.ts'

const BASE = '/api/projects/:project_id/scheduled_changes/'
const READER = inProject('feature_flag:read')

const RECORD_ID = is.about(is.TEXT_OR_NUMBER, 'Number of the flag.')
const MODEL = is.choice('FeatureFlag')
const INTERVAL = is.nullable(is.choice(...RECURRENCE_INTERVALS))
const RAMP_PLAN = is.named('RampPlan', RAMP_VALUE)
const PAYLOAD = is.named(
  'ScheduledPayload',
  is.openObject({
    operation: is.choice(...OPERATIONS),
    // The rules check the value, because its form depends on the operation.
    value: is.about(
      is.unchecked({ anyOf: [is.BOOLEAN, RAMP_PLAN, is.JSON_OBJECT] }),
      'update_status: true or false. add_release_condition: an object with `groups`. update_variants: an object with `variants` and `payloads`. ramp: see RampPlan.',
    ),
  }),
)
const SHARE = is.nullable(is.NUMBER)
const GUARD_LOOK = is.namedObject('RampGuardLook', {
  event: is.TEXT,
  worse: is.choice('higher', 'lower'),
  tolerance: is.NUMBER,
  value: is.about(
    is.TEXT,
    'The value of the flag whose persons are compared with those who get false.',
  ),
  persons_without_flag: is.WHOLE,
  persons_without_flag_with_event: is.WHOLE,
  persons_with_flag: is.WHOLE,
  persons_with_flag_with_event: is.WHOLE,
  difference: is.about(
    SHARE,
    'Estimated difference between the shares of persons with the event. Null if there are too few data.',
  ),
  difference_at_least: is.about(
    SHARE,
    'Lower bound of the difference. It is valid even if the guard is checked many times. Null if `worse` is `lower`.',
  ),
  difference_at_most: is.about(
    SHARE,
    'Upper bound of the difference. It is valid even if the guard is checked many times. Null if `worse` is `higher`.',
  ),
  is_violated: is.BOOLEAN,
  missing: is.about(is.nullable(is.TEXT), 'Why there is no bound yet.'),
})
const RAMP = is.namedObject('Ramp', {
  state: is.choice('running', 'halted', 'turned_back', 'done'),
  reason: is.about(is.nullable(is.TEXT), 'Why the ramp halted or turned back.'),
  condition: is.WHOLE,
  rollout_percentage_before: SHARE,
  active_before: is.BOOLEAN,
  on_breach: is.choice('turn_back', 'halt'),
  steps: is.list(
    is.object({
      rollout_percentage: is.NUMBER,
      due_at: is.about(is.nullable(is.TIME), 'When the step will be made, if nothing stops it.'),
      executed_at: is.nullable(is.TIME),
    }),
  ),
  guards: is.list(is.object({ event: is.TEXT, worse: is.TEXT, tolerance: is.NUMBER })),
  watched_from: is.about(is.nullable(is.TIME), 'Guards count exposures from this time on.'),
  looked_at: is.about(
    is.nullable(is.TIME),
    'When this machine last checked the guards. Null if not since its start.',
  ),
  looks: is.about(is.list(GUARD_LOOK), 'The results of the guards at that check.'),
})
const SCHEDULED_CHANGE = is.namedObject('ScheduledChange', {
  id: is.WHOLE,
  team_id: is.WHOLE,
  record_id: is.TEXT,
  model_name: MODEL,
  payload: PAYLOAD,
  scheduled_at: is.about(is.TIME, 'When the change is made next.'),
  executed_at: is.about(is.nullable(is.TIME), 'When it ended, successfully or not.'),
  failure_reason: is.nullable(is.TEXT),
  created_at: is.TIME,
  created_by: is.nullable(USER_SUMMARY),
  updated_at: is.TIME,
  is_recurring: is.BOOLEAN,
  recurrence_interval: INTERVAL,
  cron_expression: is.about(is.NOTHING, 'Not supported.'),
  last_executed_at: is.nullable(is.TIME),
  end_date: is.nullable(is.TIME),
  timezone: is.TEXT,
  ramp: is.nullable(RAMP),
})

const CHANGED = {
  model_name: MODEL,
  payload: PAYLOAD,
  scheduled_at: is.about(is.nullable(is.TEXT), 'When the change is made. A ramp may leave it out.'),
  is_recurring: is.BOOLEAN,
  recurrence_interval: INTERVAL,
  end_date: is.about(is.nullable(is.TEXT), 'When a recurring change ends.'),
  cron_expression: is.about(is.nullable(is.TEXT), 'Not supported. A value is refused.'),
}
const DRAFT = is.named(
  'ScheduledChangeDraft',
  is.openObject({ record_id: RECORD_ID, model_name: MODEL, payload: PAYLOAD }, CHANGED),
)
const CHANGES = is.named(
  'ScheduledChangeChanges',
  is.openObject(
    {},
    {
      record_id: RECORD_ID,
      ...CHANGED,
      state: is.about(is.choice('running', 'halted'), 'Halts a ramp, or lets it go on.'),
    },
  ),
)
const PREVIEWED = is.named(
  'ScheduledPreviewDraft',
  is.openObject(
    { record_id: RECORD_ID, payload: PAYLOAD },
    {
      sample: is.about(
        is.WHOLE,
        `The number of persons or groups to evaluate. The default is ${REHEARSAL_SAMPLE_USUAL}, the maximum ${REHEARSAL_SAMPLE_MAX}.`,
      ),
    },
  ),
)
const PREVIEW = is.namedObject('ScheduledPreview', {
  steps: is.list(
    is.object({
      rollout_percentage: is.about(SHARE, 'Null for all operations but ramp.'),
      enabled: is.about(
        is.WHOLE,
        'The number of evaluated persons or groups that have the flag after the step.',
      ),
      newly_enabled: is.about(is.WHOLE, 'By how much `enabled` grows with the step, or 0.'),
      newly_disabled: is.about(is.WHOLE, 'By how much `enabled` shrinks with the step, or 0.'),
      sampled: is.about(is.WHOLE, 'Number of evaluated persons or groups.'),
      total: is.about(
        is.WHOLE,
        'Number of all persons or groups. An estimate if not all were evaluated.',
      ),
      group_type_index: is.about(
        is.nullable(is.WHOLE),
        'The group type, or null if persons were evaluated.',
      ),
    }),
  ),
})

type Writing = Call<FlagServices>

const collection = collectionOf<FlagServices>(BASE, READER, inProject('feature_flag:write'))
const route = routesOf<FlagServices>(BASE, READER)

/** The routes of scheduled changes. */
export const SCHEDULED_RESOURCE: Resource<FlagServices> = {
  name: 'Scheduled changes',
  sentence: 'Scheduled changes of feature flags, and ramps that stop if a guard finds a problem.',
  segments: { id: is.about(is.WHOLE, 'Number of the scheduled change.') },
  routes: [
    ...collection({
      name: 'ScheduledChange',
      noun: 'a scheduled change',
      one: ':id/',
      schema: SCHEDULED_CHANGE,
      list: {
        says: 'Lists scheduled changes, newest first.',
        query: {
          model_name: is.about(is.TEXT, 'FeatureFlag, or nothing.'),
          record_id: is.about(is.TEXT, 'Number of a flag.'),
        },
        items(call) {
          const { model_name: model = 'FeatureFlag', record_id: recordId } = call.query()
          const flagId = recordId === undefined ? null : flagIdOf(recordId)
          const isNone = model !== 'FeatureFlag' || (recordId !== undefined && flagId === null)
          return isNone ? [] : call.services.queries.scheduledChanges(call.projectId, flagId)
        },
        show: bodyOf,
      },
      async find(call) {
        const { services, projectId } = call
        const found = await services.queries.scheduledChange(projectId, call.number('id') ?? 0)
        return existing(found, 'The project has no such scheduled change.')
      },
      show: bodyOf,
      get: {},
      create: {
        says: 'Schedules a change of a flag.',
        body: DRAFT,
        make(call) {
          const request = call.body() as ScheduleRequest
          const flag = flagOf(call, request.record_id ?? '')
          requireEdit(call, flag)
          return write(call, { kind: 'create', flagId: flag.id, request: membersOf(request) })
        },
      },
      patch: {
        body: CHANGES,
        change(call, { id, flagId }) {
          requireEditById(call, flagId)
          const request = membersOf(call.body() as ScheduleRequest)
          return write(call, { kind: 'modify', id, request })
        },
      },
      remove: {
        says: 'Removes a scheduled change. The flag stays as it is.',
        async run(call) {
          const id = call.number('id') ?? 0
          const found = await call.services.queries.scheduledChange(call.projectId, id)
          const { flagId } = existing(found, 'The project has no such scheduled change.')
          requireEditById(call, flagId)
          await write(call, { kind: 'remove', id })
        },
      },
    }),
    previewRoute(),
  ],
}

function previewRoute(): AnyRoute<FlagServices> {
  return route(
    'POST',
    'preview/',
    'previewScheduledChange',
    'Estimates how many persons or groups would get the flag.',
    {
      who: READER,
      body: PREVIEWED,
      answers: { 200: done(PREVIEW) },
      audits: false,
      async handle(call) {
        const { record_id: recordId, payload, sample } = call.body()
        const flag = flagOf(call, recordId)
        const steps: JsonObject[] = []
        let enabledBefore: number | null = null
        for (const { percentage, body } of bodiesOf(payload, flag)) {
          const wanted = given({ ...body, id: flag.id, sample })
          const { values, sampled, total, group_type_index } = await rehearse(call, wanted)
          const isOn = values.filter(({ value }) => value !== false)
          const before = enabledBefore ?? isOn.reduce((sum, one) => sum + one.before, 0)
          const enabled = isOn.reduce((sum, one) => sum + one.after, 0)
          steps.push({
            rollout_percentage: percentage,
            enabled,
            newly_enabled: Math.max(0, enabled - before),
            newly_disabled: Math.max(0, before - enabled),
            sampled,
            total,
            group_type_index,
          })
          enabledBefore = enabled
        }
        return { steps }
      },
    },
  )
}

/**
 * Returns, for each step of a scheduled change, the body of a PATCH request that makes the same change to the flag. A
 * change that is no ramp has one step. Throws 400.
 */
function bodiesOf(payload: JsonObject, flag: Flag) {
  const ramp = rampOf(payload, flag)
  if (ramp === null) return [{ percentage: null, body: bodyOfChange({ payload, ramp }, flag) }]
  return ramp.steps.map(({ rolloutPercentage }, index) => {
    const steps = ramp.steps.map((step, at) => ({ ...step, executedAtMs: at < index ? 0 : null }))
    const body = bodyOfChange({ payload, ramp: { ...ramp, steps } }, flag)
    return { percentage: rolloutPercentage, body: { ...body, active: true } }
  })
}

function rehearse({ services, projectId, nowMs, request }: FlagCall, body: JsonObject) {
  const timezone = services.directory.projectById(projectId)?.timezone ?? 'UTC'
  const bytes = new TextEncoder().encode(JSON.stringify(body))
  const task = { projectId, timezone, nowMs, body: bytes }
  return services.queries.rehearseFlag(task, (giveUp) => request.onLeave(giveUp))
}

function bodyOf({ services }: FlagCall, change: ScheduledChange): JsonObject {
  const { projectId, id, createdBy } = change
  return scheduledBody(change, {
    createdBy: summaryOf(services, createdBy.userId),
    looks: services.schedule.looksOf(projectId, id),
  })
}

/** Returns the flag whose number a request sends as `record_id`. Throws 400 `does_not_exist`. */
function flagOf({ services, projectId }: FlagCall, recordId: string | number): Flag {
  const id = flagIdOf(recordId)
  const flag = id === null ? null : services.flags.flagById(projectId, id)
  if (flag !== null) return flag
  const detail = 'The project has no such flag. Send the number of a flag as `record_id`.'
  throw new ServiceError('does_not_exist', detail, { attr: 'record_id' })
}

/**
 * Throws 403 if the caller may not change the flag. If the flag no longer exists, everybody may change what was
 * scheduled for it.
 */
function requireEditById(call: FlagCall, flagId: number): void {
  const flag = call.services.flags.flagById(call.projectId, flagId)
  if (flag !== null) requireEdit(call, flag)
}

/** Returns the members of a body that the rules read, as a plain object that can be sent to a thread. */
function membersOf(request: ScheduleRequest): ScheduleRequest {
  const { record_id, payload, scheduled_at, is_recurring, recurrence_interval } = request
  const { end_date, cron_expression, state } = request
  return given({
    record_id,
    payload,
    scheduled_at,
    is_recurring,
    recurrence_interval,
    end_date,
    cron_expression,
    state,
  })
}

async function write(call: Writing, command: ScheduleCommand): Promise<ScheduledChange> {
  const { request, services, projectId, nowMs, actor } = call
  const refusal = services.refusal()
  if (refusal !== null) throw refusal
  return await request.noting((audit) =>
    services.queries.scheduleFlag({ projectId, actor, nowMs, command, audit }),
  )
}
