/**
 * Reads evaluation contexts, and writes evaluations, in the form of the OpenFeature Remote Evaluation Protocol (OFREP).
 * Source: docs/compatibility/decisions.md, "OpenFeature".
 */
import { isUtf8 } from 'node:buffer'
import { isObject, type OwnObject } from '../../../base/json.ts'
import { parseJsonText } from '../../../rules/capture/json-text.ts'
import type { DecisionReason, DecisionRequest, FlagDecision } from '../../../rules/flags/types.ts'
import { distinctIdOf } from './flag-request.ts'

/** The attributes of an evaluation context that are not properties of the person. */
const SPECIAL_ATTRIBUTES: ReadonlySet<string> = new Set([
  'targetingKey',
  '$groups',
  '$group_properties',
  '$anon_distinct_id',
  '$device_id',
])

/** The members of a decision request that come from an evaluation context. */
export type ContextRequest = Pick<
  DecisionRequest,
  'distinctId' | 'groups' | 'personProperties' | 'groupProperties' | 'anonDistinctId' | 'deviceId'
>

/** The content of an evaluation context, or the reason why it cannot be read. */
export type ReadContext =
  | { readonly kind: 'context'; readonly request: ContextRequest }
  | {
      readonly kind: 'fault'
      readonly errorCode: 'PARSE_ERROR' | 'INVALID_CONTEXT' | 'TARGETING_KEY_MISSING'
      readonly errorDetails: string
    }

/** The evaluation of a flag, or the error if it could not be computed. */
export type OfrepEvaluation =
  | {
      readonly key: string
      readonly value: boolean | string
      readonly reason: OfrepReason
      readonly variant?: string
      readonly metadata: Readonly<Record<string, string | number>>
    }
  | { readonly key: string; readonly errorCode: 'GENERAL'; readonly errorDetails: string }

type OfrepReason = 'TARGETING_MATCH' | 'SPLIT' | 'DEFAULT' | 'DISABLED'

/**
 * The reasons that are reported as `TARGETING_MATCH` even if the flag is off, because these reasons depend on the user.
 */
const TARGETED: ReadonlySet<DecisionReason> = new Set([
  'super_condition_value',
  'holdout_condition_value',
])

/** Reads the evaluation context in a body. The time is linear in its size. */
export function readContext(bytes: Uint8Array): ReadContext {
  const body = parse(bytes)
  if (!isObject(body)) return fault('PARSE_ERROR', 'The body must be a JSON object in UTF-8.')
  const context = body['context']
  if (!isObject(context)) return fault('INVALID_CONTEXT', '`context` must be an object.')
  const targetingKey = context['targetingKey']
  if (targetingKey === undefined || targetingKey === null || targetingKey === '') {
    const detail = '`context.targetingKey` is missing. Send the ID of the user.'
    return fault('TARGETING_KEY_MISSING', detail)
  }
  const distinctId = distinctIdOf(targetingKey)
  if (distinctId === null) return fault('INVALID_CONTEXT', '`context.targetingKey` must be a text.')
  const groups = context['$groups'] ?? {}
  if (!isObject(groups)) return fault('INVALID_CONTEXT', '`context.$groups` must be an object.')
  const groupProperties = context['$group_properties'] ?? {}
  if (!isObject(groupProperties)) {
    return fault('INVALID_CONTEXT', '`context.$group_properties` must be an object.')
  }
  const personProperties: OwnObject = {}
  for (const [name, value] of Object.entries(context)) {
    if (!SPECIAL_ATTRIBUTES.has(name)) personProperties[name] = value
  }
  return {
    kind: 'context',
    request: {
      distinctId,
      groups,
      personProperties,
      groupProperties,
      anonDistinctId: distinctIdOf(context['$anon_distinct_id']) || null,
      deviceId: distinctIdOf(context['$device_id']) || null,
    },
  }
}

/** Returns a decision in the form of an OFREP evaluation. */
export function evaluationOf(decision: FlagDecision): OfrepEvaluation {
  const { flag, isEnabled, variant, reason, conditionIndex, payload } = decision
  const { key } = flag
  if (decision.isFailed) {
    const errorDetails = `${decision.description}. Use the last value that you have, or the default.`
    return { key, errorCode: 'GENERAL', errorDetails }
  }
  const value = isEnabled ? (variant ?? true) : false
  return {
    key,
    value,
    reason: reasonOf(reason, isEnabled, variant),
    ...(isEnabled && variant !== null ? { variant } : {}),
    metadata: {
      flagId: flag.id,
      version: flag.version,
      reason,
      ...(conditionIndex === null ? {} : { conditionIndex }),
      ...(payload === null ? {} : { payload }),
    },
  }
}

function reasonOf(reason: DecisionReason, isEnabled: boolean, variant: string | null): OfrepReason {
  if (reason === 'condition_match' && variant !== null) return 'SPLIT'
  return isEnabled || TARGETED.has(reason) ? 'TARGETING_MATCH' : 'DEFAULT'
}

/** Parses JSON in UTF-8. Returns undefined if the bytes are not valid. */
function parse(bytes: Uint8Array): unknown {
  if (!isUtf8(bytes)) return undefined
  try {
    return parseJsonText(bytes, Number.POSITIVE_INFINITY, 'all')
  } catch {
    return undefined
  }
}

function fault(
  errorCode: Extract<ReadContext, { kind: 'fault' }>['errorCode'],
  errorDetails: string,
): ReadContext {
  return { kind: 'fault', errorCode, errorDetails }
}
