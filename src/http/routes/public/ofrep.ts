/**
 * The routes of the OpenFeature Remote Evaluation Protocol (OFREP). SDKs of any vendor get the same decisions from them
 * as from `/flags/`. The routes need the key of a project. The evaluation context in a request describes the person.
 * Source: docs/compatibility/decisions.md, "OpenFeature".
 */

import type { Clock } from '../../../base/clock.ts'
import { ServiceError } from '../../../base/errors.ts'
import { FLAG_BODY_BYTES_MAX, FLAG_BODY_VALUES_MAX } from '../../../base/limits.ts'
import type { DecisionService, Repeatable } from '../../../engine/front/decisions.ts'
import type { Project, ProjectDirectory } from '../../../rules/access/project-directory.ts'
import { refuseManyValues } from '../../../rules/capture/json-text.ts'
import type { DecisionRequest, Decisions, EvaluationRuntime } from '../../../rules/flags/types.ts'
import { type BodyBudget, collectBody } from '../../server/body.ts'
import { answerUnlessCached, etagOf } from '../../server/etags.ts'
import type { Exchange } from '../../server/exchange.ts'
import type { RequestHead } from '../../server/framing.ts'
import { type PublicResource, preflight } from '../../server/public-route.ts'
import { type Header, send, sendError, sendJson } from '../../server/respond.ts'
import { ANYBODY, done } from '../../server/route.ts'
import { decodeSegment } from '../../server/router.ts'
import * as is from '../../server/schema.ts'
import { FLAG_VALUE } from '../flags/flag-schemas.ts'
import { resolveFlagProject } from './decide.ts'
import { type FlagChangeOptions, ofrepStreams } from './flag-changes.ts'
import { evaluationOf, type OfrepEvaluation, readContext } from './ofrep-values.ts'

const CONFIGURATION = {
  name: 'Tenrec',
  capabilities: {
    cacheInvalidation: { polling: { enabled: true, minPollingIntervalMs: 1000 } },
    flagEvaluation: { supportedTypes: ['boolean', 'string'] },
  },
}
/** The header that allows scripts of other origins to read the ETag. */
const EXPOSED: Header = ['Access-Control-Expose-Headers', 'ETag']

/** The services that the OFREP routes need. */
export interface OfrepOptions {
  readonly clock: Clock
  readonly directory: ProjectDirectory
  readonly budget: BodyBudget
  readonly decisions: DecisionService
  readonly changes: FlagChangeOptions
}

/** A request whose body has not arrived yet. */
interface OfrepCall {
  readonly project: Project
  /** The key of the flag that the request asks for. Null if it asks for all flags. */
  readonly key: string | null
  readonly head: RequestHead
}

/** Reads the request. If its path contains a key, it asks for that flag, otherwise for all flags. */
function takeContext(options: OfrepOptions, exchange: Exchange, head: RequestHead): void {
  let project: Project
  try {
    project = projectOf(options, head)
  } catch (error) {
    sendError(exchange, error, 'drain')
    return
  }
  const [segment] = head.segments
  const call = { project, key: segment === undefined ? null : decodeSegment(segment), head }
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
    evaluationRuntime: runtimeOf(call.head),
    isSurveyFlagsOnly: false,
  }
  const answer = ({ decided }: Repeatable): void => {
    if (call.key === null) answerAll(options, exchange, call, decided)
    else answerOne(options, exchange, call.project.id, call.key, decided)
  }
  const made = options.decisions.decideFully(call.project.id, request)
  if (!(made instanceof Promise)) answer(made)
  else made.then(answer).catch((error: unknown) => sendError(exchange, error))
}

function answerAll(
  { changes }: OfrepOptions,
  exchange: Exchange,
  call: OfrepCall,
  decided: Decisions,
): void {
  const streams = ofrepStreams(changes, exchange, call.head, call.project)
  const body = JSON.stringify({
    flags: decided.decisions.map(evaluationOf),
    metadata: {},
    eventStreams: streams.length === 0 ? undefined : streams,
  })
  const answer = { status: 200, contentType: 'application/json', body, headers: [EXPOSED] }
  send(exchange, answerUnlessCached(call.head, etagOf(body), answer))
}

function answerOne(
  { decisions }: OfrepOptions,
  exchange: Exchange,
  projectId: number,
  key: string,
  decided: Decisions,
): void {
  const decision = decided.decisions.find(({ flag }) => flag.key === key)
  if (decision !== undefined) {
    const evaluation = evaluationOf(decision)
    sendJson(exchange, 'errorCode' in evaluation ? 500 : 200, evaluation)
    return
  }
  const flags = decisions.snapshot(projectId)?.set.flags ?? []
  if (flags.some((flag) => flag.key === key)) {
    // The flag exists, but is switched off or not available to the runtime of the request.
    const disabled: OfrepEvaluation = { key, value: false, reason: 'DISABLED', metadata: {} }
    sendJson(exchange, 200, disabled)
    return
  }
  const errorDetails = 'The project has no flag with this key.'
  sendJson(exchange, 404, { key, errorCode: 'FLAG_NOT_FOUND', errorDetails })
}

/** Returns the project of the key. The key is in the header X-API-Key or in a Bearer token. */
function projectOf({ directory }: OfrepOptions, { apiKey, authorization }: RequestHead): Project {
  const key = apiKey || (/^Bearer\s+(\S+)\s*$/i.exec(authorization)?.[1] ?? '')
  if (key === '') {
    const detail = 'The request has no project key. Send it in the header "X-API-Key".'
    throw new ServiceError('no_api_key', detail)
  }
  return resolveFlagProject(key, undefined, directory)
}

/**
 * Returns the runtime of the client that sent a request. Browsers are recognized by their headers. Every other client
 * of this protocol is a server.
 */
function runtimeOf(head: RequestHead): EvaluationRuntime {
  return head.origin !== '' || head.userAgent.startsWith('Mozilla/') ? 'client' : 'server'
}

const ALL_FLAGS = '/ofrep/v1/evaluate/flags'
const ONE_FLAG = `${ALL_FLAGS}/:key`
const CONFIGURATION_PATH = '/ofrep/v1/configuration'
const BY_PROJECT_KEY = { ...ANYBODY, credentials: ['projectKeyHeader'] } as const
const REQUEST = is.namedObject('OfrepRequest', {
  context: is.openObject({ targetingKey: is.TEXT }),
})
const EVALUATION = is.named(
  'OfrepEvaluation',
  is.openObject(
    { key: is.TEXT },
    {
      value: FLAG_VALUE,
      reason: is.choice('TARGETING_MATCH', 'SPLIT', 'DEFAULT', 'DISABLED'),
      variant: is.TEXT,
      metadata: is.mapOf({ type: ['string', 'number'] }),
      errorCode: is.TEXT,
      errorDetails: is.TEXT,
    },
  ),
)
const FAULT = is.named(
  'OfrepFault',
  is.openObject({ errorCode: is.TEXT, errorDetails: is.TEXT }, { key: is.TEXT }),
)
const BAD_CONTEXT = { description: 'The body or its context is not valid.', schema: FAULT }
const ERRORS = ['invalid_api_key', 'request_too_large', 'server_error'] as const

/**
 * The routes of OpenFeature's remote evaluation, for the API description. docs/compatibility/decisions.md,
 * "OpenFeature".
 */
export const OFREP: PublicResource<OfrepOptions> = {
  name: 'OpenFeature',
  sentence: 'The same flag evaluations in the OpenFeature Remote Evaluation Protocol.',
  routes: [
    {
      method: 'POST',
      path: ALL_FLAGS,
      id: 'evaluateFlags',
      summary: 'Evaluates all flags.',
      who: BY_PROJECT_KEY,
      body: REQUEST,
      answers: {
        200: done(
          is.object(
            { flags: is.list(EVALUATION), metadata: is.JSON_OBJECT },
            {
              eventStreams: is.about(
                is.list(
                  is.object({
                    type: is.choice('sse'),
                    url: is.TEXT,
                    inactivityDelaySec: is.WHOLE,
                  }),
                ),
                'The stream that tells when to evaluate again. Absent if streams are turned off.',
              ),
            },
          ),
        ),
        304: { description: 'The entity tag in If-None-Match is current.' },
        400: BAD_CONTEXT,
      },
      errors: ERRORS,
      handle: takeContext,
    },
    preflight(ALL_FLAGS, 'EvaluateFlags'),
    {
      method: 'POST',
      path: ONE_FLAG,
      id: 'evaluateFlag',
      summary: 'Evaluates one flag.',
      who: BY_PROJECT_KEY,
      body: REQUEST,
      answers: {
        200: done(EVALUATION),
        400: BAD_CONTEXT,
        404: { description: 'The flag does not exist.', schema: FAULT },
        500: { description: 'The flag cannot be evaluated.', schema: FAULT },
      },
      errors: ERRORS,
      handle: takeContext,
    },
    preflight(ONE_FLAG, 'EvaluateFlag'),
    {
      method: 'GET',
      path: CONFIGURATION_PATH,
      id: 'getOfrepConfiguration',
      summary: 'Lists the supported features of the protocol.',
      who: BY_PROJECT_KEY,
      answers: { 200: done(is.openObject({ name: is.TEXT, capabilities: is.JSON_OBJECT })) },
      errors: ['invalid_api_key', 'server_error'],
      handle: (services, exchange, head) => {
        projectOf(services, head)
        sendJson(exchange, 200, CONFIGURATION)
      },
    },
    preflight(CONFIGURATION_PATH, 'OfrepConfiguration'),
  ],
}
