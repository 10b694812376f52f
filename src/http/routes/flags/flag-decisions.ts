/**
 * The routes that show the value of flags for one user: evaluation_reasons, my_flags, local_evaluation, explain, usage
 * and remote_config. Source: docs/compatibility/flags.md, "Feature flag routes".
 */
import { ServiceError } from '../../../base/errors.ts'
import { isObject, type JsonObject } from '../../../base/json.ts'
import { USAGE_DAYS_MAX } from '../../../base/limits.ts'
import { optionalTimeText, timeText } from '../../../base/time.ts'
import { hasScope } from '../../../rules/access/scopes.ts'
import { requestOf } from '../../../rules/flags/decide.ts'
import { minimalFlagBody } from '../../../rules/flags/edit/flag-body.ts'
import { explainFlag, explanationBody } from '../../../rules/flags/explain.ts'
import { shownValue } from '../../../rules/flags/flag-outcomes.ts'
import type { Decisions } from '../../../rules/flags/types.ts'
import {
  type AnyRoute,
  done,
  emptyAnswer,
  forServers,
  inProject,
  routesOf,
} from '../../server/route.ts'
import { json } from '../../server/router.ts'
import * as is from '../../server/schema.ts'
import {
  areCohortsWanted,
  DEFINITION_ANSWERS,
  definitionsAnswer,
} from '../public/flag-definitions.ts'
import { distinctIdOf } from '../public/flag-request.ts'
import { type FlagCall, type FlagServices, flagInPath } from './flag-access.ts'
import {
  EXPLANATION,
  FLAG_VALUE,
  SEND_COHORTS,
  SUMMARY,
  USAGE,
  USAGE_OF_FLAGS,
} from './flag-schemas.ts'

const DAY_MS = 86_400_000
const USUAL_DAYS = 7
const DAYS = is.about(
  is.refused(
    { ...is.WHOLE, minimum: 1, maximum: USAGE_DAYS_MAX },
    `\`days\` must be a whole number from 1 to ${USAGE_DAYS_MAX}.`,
  ),
  `Number of days to go back. The default is ${USUAL_DAYS}.`,
)

const SERVER = forServers('feature_flag:read')
const GROUPS = is.about(jsonOf('groups', 'group types and keys'), 'Group types with their keys.')
/** For each group type, the properties of the group that the user belongs to. */
const GROUP_PROPERTIES = is.refused(
  is.exact(is.mapOf(is.JSON_OBJECT)),
  '`group_properties` must be a percent-encoded JSON object of group types and properties.',
)

const route = routesOf<FlagServices>(
  '/api/projects/:project_id/feature_flags/',
  inProject('feature_flag:read'),
)

/** The routes that show the value of flags for one user. */
export const FLAG_DECISION_ROUTES: readonly AnyRoute<FlagServices>[] = [
  route('GET', 'evaluation_reasons/', 'getEvaluationReasons', 'Why flags have their values.', {
    query: is.object(
      { distinct_id: is.about(is.TEXT, 'The distinct_id to evaluate the flags for.') },
      { groups: GROUPS },
    ),
    answers: {
      200: done(
        is.mapOf(
          is.object({
            id: is.about(is.WHOLE, 'Flag number.'),
            value: FLAG_VALUE,
            evaluation: is.object({ reason: is.TEXT, condition_index: is.nullable(is.WHOLE) }),
          }),
        ),
      ),
    },
    async handle(call) {
      const { distinct_id: distinctId, groups } = call.query()
      const { decisions } = await lookUp(call, distinctId, groups)
      const reasons = decisions.map((decision): [string, unknown] => {
        const { flag, reason, conditionIndex } = decision
        const evaluation = { reason, condition_index: conditionIndex }
        return [flag.key, { id: flag.id, value: shownValue(decision), evaluation }]
      })
      // Inactive flags are not evaluated, but are listed too.
      for (const { id, key, active } of call.services.flags.flagsOf(call.projectId)) {
        if (active) continue
        const evaluation = { reason: 'disabled', condition_index: null }
        reasons.push([key, { id, value: false, evaluation }])
      }
      return Object.fromEntries(reasons)
    },
  }),
  route('GET', 'my_flags/', 'listMyFlags', 'Lists flags with their values for the caller.', {
    query: is.options({ groups: GROUPS }),
    answers: { 200: done(is.list(is.object({ feature_flag: SUMMARY, value: FLAG_VALUE }))) },
    async handle(call) {
      const { decisions } = await lookUp(call, call.user.distinctId, call.query().groups)
      const values = new Map(decisions.map((decision) => [decision.flag.id, shownValue(decision)]))
      const flags = call.services.flags.flagsOf(call.projectId)
      return flags
        .toSorted((a, b) => b.createdAtMs - a.createdAtMs || b.id - a.id)
        .map((flag) => ({
          feature_flag: minimalFlagBody(flag),
          value: values.get(flag.id) ?? false,
        }))
    },
  }),
  route('GET', 'local_evaluation/', 'getLocalEvaluation', 'Returns flag definitions for SDKs.', {
    who: SERVER,
    query: is.options({ send_cohorts: SEND_COHORTS }),
    answers: DEFINITION_ANSWERS,
    respond({ request, services, projectId }) {
      const snapshot = services.decisions.snapshot(projectId)
      if (snapshot === null) {
        throw new ServiceError('not_found', 'The project was created a moment ago. Try again.')
      }
      return definitionsAnswer(snapshot, request, areCohortsWanted(request))
    },
  }),
  route('GET', 'usage/', 'listFlagUsage', 'Counts the decisions of every flag.', {
    query: is.options({ days: DAYS }),
    answers: { 200: done(USAGE_OF_FLAGS) },
    handle(call) {
      const { services, projectId } = call
      const { days = USUAL_DAYS } = call.query()
      const ids = services.flags.flagsOf(projectId).map(({ id }) => id)
      const { sinceMs, flags } = services.decisions.usageOfFlags(ids, days)
      return {
        results: flags.map(({ lastMs, ...flag }) => ({
          ...flag,
          last_evaluated_at: optionalTimeText(lastMs),
        })),
        since: timeText(sinceMs),
      }
    },
  }),
  route('GET', ':id/explain/', 'explainFeatureFlag', 'Explains the value of a flag for one user.', {
    query: is.object(
      {
        distinct_id: is.about(is.TEXT, 'The distinct_id of the user. Stored properties are used.'),
      },
      {
        groups: GROUPS,
        person_properties: is.about(
          jsonOf('person_properties', 'properties'),
          'Properties that take precedence over the stored ones.',
        ),
        group_properties: is.about(
          GROUP_PROPERTIES,
          'Properties of groups that take precedence over the stored ones, by group type.',
        ),
      },
    ),
    answers: { 200: done(EXPLANATION) },
    async handle(call) {
      const { services, projectId, grant, nowMs } = call
      const flag = flagInPath(call)
      const given = call.query()
      const request = requestOf({
        distinctId: distinctIdOf(given.distinct_id) ?? '',
        groups: given.groups ?? {},
        personProperties: given.person_properties ?? {},
        groupProperties: given.group_properties ?? {},
        nowMs,
      })
      const snapshot = services.decisions.snapshot(projectId)
      const explanation =
        snapshot === null
          ? null
          : explainFlag(
              snapshot.compiled,
              flag.key,
              request,
              await services.decisions.sources(snapshot, request),
            )
      return explanationBody(flag, explanation, hasScope(grant.scopes, 'person:read'))
    },
  }),
  route('GET', ':id/usage/', 'getFeatureFlagUsage', 'Counts the values that a flag had, by hour.', {
    query: is.options({ days: DAYS }),
    answers: { 200: done(USAGE) },
    handle(call) {
      const { id } = flagInPath(call)
      const { days = USUAL_DAYS } = call.query()
      const fromMs = call.nowMs - days * DAY_MS
      const { sinceMs, lastMs, rows } = call.services.decisions.usage(id, fromMs)
      return {
        results: rows.map(({ hourMs, value, count }) => ({ at: timeText(hourMs), value, count })),
        last_evaluated_at: optionalTimeText(lastMs),
        since: timeText(sinceMs),
      }
    },
  }),
  route('GET', ':id/remote_config/', 'getFlagRemoteConfig', 'Returns the payload of a flag.', {
    who: SERVER,
    answers: {
      200: done(
        is.about(is.nullable(is.TEXT), 'The payload as JSON text, which must be parsed once more.'),
      ),
      404: { description: 'The flag does not exist (no body), or the project does not exist.' },
    },
    /**
     * Returns the payload of the flag named in the path by number or key. The answer is the stored JSON text as a
     * JSON string, so clients parse it twice, as the SDKs do. A client that parsed it only once would confuse the text
     * "42" with the number. Source: PostHog posthog/api/feature_flag.py `remote_config`, posthog-node
     * `getRemoteConfigPayload`.
     */
    respond({ request, services, projectId }) {
      const text = request.parameter('id')
      const flag = /^[0-9]{1,15}$/.test(text)
        ? services.flags.flagById(projectId, Number(text))
        : services.flags.flagByKey(projectId, text)
      if (flag === null || flag.deleted || !flag.isRemoteConfiguration) return emptyAnswer(404)
      const { payloads } = flag.filters
      const payload =
        isObject(payloads) && Object.hasOwn(payloads, 'true') ? payloads['true'] : null
      return json(typeof payload === 'string' ? payload : null)
    },
  }),
]

function jsonOf(name: string, what: string) {
  const detail = `\`${name}\` must be a JSON object of ${what}, percent-encoded.`
  return is.refused(is.exact(is.JSON_OBJECT), detail)
}

/**
 * Decides all flags for one user. The decisions are not counted as usage of the flags, because somebody only inspects
 * them.
 */
async function lookUp(
  { services, projectId, nowMs }: FlagCall,
  distinctId: string,
  groups: JsonObject = {},
): Promise<Decisions> {
  const request = requestOf({ distinctId: distinctIdOf(distinctId) ?? '', groups, nowMs })
  return services.decisions.lookUp(projectId, request)
}
