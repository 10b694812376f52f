/**
 * OpenFeature's remote evaluation protocol (OFREP): the same decisions for SDKs of any vendor. The key of
 * a project opens it; the context of the evaluation is the person.
 * Source: docs/COMPATIBILITY.md, "OpenFeature".
 */

import { createHash } from 'node:crypto'
import type { Clock } from '../../../base/clock.ts'
import { FLAG_BODY_BYTES_MAX, FLAG_BODY_VALUES_MAX } from '../../../base/limits.ts'
import type { DecisionService } from '../../../engine/front/decisions.ts'
import { refuseManyValues } from '../../../rules/capture/json-text.ts'
import type { Project, ProjectDirectory } from '../../../rules/capture/project-directory.ts'
import { isSameEtag } from '../../../rules/flags/definitions.ts'
import type { DecisionRequest, EvaluationRuntime } from '../../../rules/flags/types.ts'
import { type BodyBudget, collectBody } from '../../server/body.ts'
import type { Exchange } from '../../server/exchange.ts'
import type { RequestHead } from '../../server/framing.ts'
import {
  type Header,
  send,
  sendEmpty,
  sendError,
  sendJson,
  sendMethodNotAllowed,
} from '../../server/respond.ts'
import { decodeSegment } from '../../server/router.ts'
import { resolveFlagProject } from './decide.ts'
import { evaluationOf, type OfrepEvaluation, readContext } from './ofrep-values.ts'

/** The paths; the handler gets their index. */
export const OFREP_PATHS = [
  '/ofrep/v1/evaluate/flags',
  '/ofrep/v1/evaluate/flags/:key',
  '/ofrep/v1/configuration',
] as const

const CONFIGURATION_INDEX = 2
const CONFIGURATION = {
  name: 'Tenrec',
  capabilities: {
    cacheInvalidation: { polling: { enabled: true, minPollingIntervalMs: 1000 } },
    flagEvaluation: { supportedTypes: ['boolean', 'string'] },
  },
}
/** Scripts of other origins may read the ETag. */
const EXPOSED: Header = ['Access-Control-Expose-Headers', 'ETag']

/** What OFREP works with. */
export interface OfrepOptions {
  readonly clock: Clock
  readonly directory: ProjectDirectory
  readonly budget: BodyBudget
  readonly decisions: DecisionService
}

/** A request whose body is still to come. */
interface OfrepCall {
  readonly project: Project
  /** Null: all flags. */
  readonly key: string | null
  readonly ifNoneMatch: string
  readonly runtime: EvaluationRuntime
}

/** Answers a request of OFREP_PATHS. `head` is read before this returns. */
export function handleOfrep(
  options: OfrepOptions,
  exchange: Exchange,
  head: RequestHead,
  pathIndex: number,
): void {
  const isConfiguration = pathIndex === CONFIGURATION_INDEX
  const wanted = isConfiguration ? 'GET' : 'POST'
  if (exchange.method === 'OPTIONS') {
    sendEmpty(exchange, 204)
    return
  }
  if (exchange.method !== wanted) {
    sendMethodNotAllowed(exchange, `${wanted}, OPTIONS`)
    return
  }
  let project: Project
  try {
    project = resolveFlagProject(keyOf(head), undefined, options.directory)
  } catch (error) {
    sendError(exchange, error, isConfiguration ? 'keep' : 'drain')
    return
  }
  if (isConfiguration) {
    sendJson(exchange, 200, CONFIGURATION)
    return
  }
  const call: OfrepCall = {
    project,
    key: pathIndex === 0 ? null : decodeSegment(head.segments[0] ?? ''),
    ifNoneMatch: head.ifNoneMatch,
    runtime: runtimeOf(head),
  }
  collectBody(exchange, head.contentLength, {
    bytesMax: FLAG_BODY_BYTES_MAX,
    budget: options.budget,
    onBody: (body) => evaluate(options, exchange, call, body),
  })
}

function evaluate(
  options: OfrepOptions,
  exchange: Exchange,
  call: OfrepCall,
  body: Uint8Array,
): void {
  refuseManyValues(body, FLAG_BODY_VALUES_MAX)
  const context = readContext(body)
  if (context.kind === 'fault') {
    const { errorCode, errorDetails } = context
    const named = call.key === null ? {} : { key: call.key }
    sendJson(exchange, 400, { ...named, errorCode, errorDetails })
    return
  }
  const request: DecisionRequest = {
    ...context.request,
    nowMs: options.clock.now(),
    flagKeys: call.key === null ? null : [call.key],
    evaluationContexts: [],
    evaluationRuntime: call.runtime,
    isSurveyFlagsOnly: false,
  }
  if (call.key === null) evaluateAll(options, exchange, call, request)
  else evaluateOne(options, exchange, call.project.id, call.key, request)
}

function evaluateAll(
  { decisions }: OfrepOptions,
  exchange: Exchange,
  call: OfrepCall,
  request: DecisionRequest,
): void {
  const decided = decisions.decide(call.project.id, request)
  const body = JSON.stringify({ flags: decided.decisions.map(evaluationOf), metadata: {} })
  const digest = createHash('sha1').update(body).digest('hex')
  const etag = `"${digest.slice(0, 16)}"`
  const headers: readonly Header[] = [['ETag', etag], EXPOSED]
  if (call.ifNoneMatch !== '' && isSameEtag(call.ifNoneMatch, etag)) {
    sendEmpty(exchange, 304, headers)
    return
  }
  send(exchange, { status: 200, contentType: 'application/json', body, headers })
}

function evaluateOne(
  { decisions }: OfrepOptions,
  exchange: Exchange,
  projectId: number,
  key: string,
  request: DecisionRequest,
): void {
  const decided = decisions.decide(projectId, request)
  const decision = decided.decisions.find(({ flag }) => flag.key === key)
  if (decision !== undefined) {
    const evaluation = evaluationOf(decision)
    sendJson(exchange, 'errorCode' in evaluation ? 500 : 200, evaluation)
    return
  }
  const flags = decisions.snapshot(projectId)?.set.flags ?? []
  if (flags.some((flag) => flag.key === key)) {
    // It is switched off, or not for a request from there.
    const disabled: OfrepEvaluation = { key, value: false, reason: 'DISABLED', metadata: {} }
    sendJson(exchange, 200, disabled)
    return
  }
  const errorDetails = 'there is no flag with this key in the project'
  sendJson(exchange, 404, { key, errorCode: 'FLAG_NOT_FOUND', errorDetails })
}

/** The header of OpenFeature's own, or a Bearer token. */
function keyOf(head: RequestHead): string {
  if (head.apiKey !== '') return head.apiKey
  return /^Bearer\s+(\S+)\s*$/i.exec(head.authorization)?.[1] ?? ''
}

/** A browser says so; whatever else uses this protocol is a server. */
function runtimeOf(head: RequestHead): EvaluationRuntime {
  return head.origin !== '' || head.userAgent.startsWith('Mozilla/') ? 'client' : 'server'
}
