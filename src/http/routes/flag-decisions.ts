/**
 * What flags are for somebody: the routes evaluation_reasons, my_flags, local_evaluation and
 * remote_config. Source: docs/COMPATIBILITY.md, "Feature flag routes".
 */
import { ServiceError } from '../../base/errors.ts'
import { isObject, type JsonObject } from '../../base/json.ts'
import { minimalFlagBody } from '../../rules/flags/edit/flag-body.ts'
import type { Decisions, Flag, FlagDecision } from '../../rules/flags/types.ts'
import { authoriseServer } from '../server/auth.ts'
import type { Answer } from '../server/respond.ts'
import { type ApiRequest, json } from '../server/router.ts'
import { emptyAnswer, type FlagAccess, type FlagRoutesOptions } from './flag-access.ts'
import { areCohortsWanted, definitionsAnswer } from './public/definitions.ts'
import { distinctIdOf } from './public/flag-request.ts'

const SCOPE = 'feature_flag:read'
const NOTHING: JsonObject = Object.freeze({})

/** Why each flag is what it is for a distinct_id; inactive flags are named, too. */
export function evaluationReasons(access: FlagAccess): Answer {
  const { request, options, projectId } = access
  const distinctId = request.query.get('distinct_id')
  if (distinctId === null || distinctId === '') {
    const detail = 'distinct_id is missing: send it in the query'
    throw new ServiceError('required', detail, { attr: 'distinct_id' })
  }
  const { decisions } = decideFor(access, distinctId)
  const reasons = decisions.map((decision): [string, unknown] => {
    const { flag, reason, conditionIndex } = decision
    const evaluation = { reason, condition_index: conditionIndex }
    return [flag.key, { value: shownValue(decision), evaluation }]
  })
  for (const { key, active } of options.flags.flagsOf(projectId)) {
    if (active) continue
    const evaluation = { reason: 'disabled', condition_index: null }
    reasons.push([key, { value: false, evaluation }])
  }
  return json(Object.fromEntries(reasons))
}

/** All flags with their value for the one who asks, newest first. */
export function myFlags(access: FlagAccess): Answer {
  const { options, projectId, user } = access
  const { decisions } = decideFor(access, user.distinctId)
  const values = new Map(decisions.map((decision) => [decision.flag.id, shownValue(decision)]))
  const flags = options.flags
    .flagsOf(projectId)
    .toSorted((a: Flag, b: Flag) => b.createdAtMs - a.createdAtMs || b.id - a.id)
  return json(
    flags.map((flag) => ({
      feature_flag: minimalFlagBody(flag),
      value: values.get(flag.id) ?? false,
    })),
  )
}

/** Definitions for SDKs that decide by themselves. */
export function localEvaluation(request: ApiRequest, options: FlagRoutesOptions): Answer {
  const { id } = authoriseServer(request, options.directory, SCOPE)
  const snapshot = options.decisions.snapshot(id)
  if (snapshot === null) {
    throw new ServiceError('not_found', 'the project has just been made; try again')
  }
  return definitionsAnswer(snapshot, request, areCohortsWanted(request))
}

/**
 * The payload of a flag with remote configuration, by its number or key: the stored JSON text as a JSON
 * string, which SDKs parse once more. A client that did not would confuse the text "42" with the number.
 * Source: PostHog posthog/api/feature_flag.py `remote_config`, posthog-node `getRemoteConfigPayload`.
 */
export function remoteConfig(request: ApiRequest, options: FlagRoutesOptions): Answer {
  const { id: projectId } = authoriseServer(request, options.directory, SCOPE)
  const text = request.parameter('id')
  const flag = /^[0-9]{1,15}$/.test(text)
    ? options.flags.flagById(projectId, Number(text))
    : options.flags.flagByKey(projectId, text)
  if (flag === null || flag.deleted || !flag.isRemoteConfiguration) return emptyAnswer(404)
  const { payloads } = flag.filters
  const payload = isObject(payloads) && Object.hasOwn(payloads, 'true') ? payloads['true'] : null
  return json(typeof payload === 'string' ? payload : null)
}

function decideFor(access: FlagAccess, distinctId: string): Decisions {
  const { request, options, projectId, nowMs } = access
  return options.decisions.decide(projectId, {
    distinctId: distinctIdOf(distinctId) ?? '',
    groups: groupsOf(request),
    personProperties: NOTHING,
    groupProperties: NOTHING,
    anonDistinctId: null,
    deviceId: null,
    nowMs,
    flagKeys: null,
    evaluationContexts: [],
    evaluationRuntime: 'all',
    isSurveyFlagsOnly: false,
  })
}

function groupsOf(request: ApiRequest): JsonObject {
  const text = request.query.get('groups')
  if (text === null || text === '') return NOTHING
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    value = null
  }
  if (isObject(value)) return value
  const detail = 'groups must be a JSON object of group types and keys, percent-encoded'
  throw new ServiceError('invalid_input', detail, { attr: 'groups' })
}

function shownValue({ isEnabled, variant }: FlagDecision): string | boolean {
  return isEnabled ? (variant ?? true) : false
}
