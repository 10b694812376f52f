/**
 * The routes `/decide/` and `/flags/`, which decide the flags of a user. All work happens on the main thread and takes
 * microseconds, because the body is small, the flags are compiled, and a person is read (through the memory map) only
 * if a flag needs it. Source: interface description, sections 4.4 and 9; docs/compatibility/decisions.md, "Decisions".
 */
import type { Clock } from '../../../base/clock.ts'
import { ServiceError } from '../../../base/errors.ts'
import type { JsonObject } from '../../../base/json.ts'
import { FLAG_BODY_BYTES_MAX, KEY_CHARACTERS_MAX } from '../../../base/limits.ts'
import type { DailySalts } from '../../../engine/front/daily-salts.ts'
import type { DecisionService } from '../../../engine/front/decisions.ts'
import type { Project, ProjectDirectory } from '../../../rules/access/project-directory.ts'
import { clientAddress } from '../../../rules/capture/address.ts'
import { COOKIELESS_ID, dayOf, visitorId } from '../../../rules/capture/cookieless.ts'
import { isEmptyValue } from '../../../rules/capture/fields.ts'
import { resolveProject } from '../../../rules/capture/key.ts'
import { NO_DECISIONS } from '../../../rules/flags/decide.ts'
import { type BodyBudget, collectBody } from '../../server/body.ts'
import type { Exchange } from '../../server/exchange.ts'
import type { RequestHead } from '../../server/framing.ts'
import {
  ANY_TEXT_TYPES,
  type PublicRecord,
  pascalCase,
  readable,
} from '../../server/public-route.ts'
import { sendError, sendJson, sendReused } from '../../server/respond.ts'
import { ANYBODY, done } from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { FLAG_VALUE } from '../flags/flag-schemas.ts'
import { answerBytes } from './decide-answers.ts'
import {
  decisionRequestOf,
  type FlagRequestHead,
  keepHead,
  readFlagRequest,
} from './flag-request.ts'
import type { KnownDecision, KnownDecisions } from './known-decisions.ts'
import { type BrowserCaptureOf, decisionOpening } from './remote-config.ts'

const NO_PROJECT = 0

/** The services and settings of flag decisions over HTTP. */
export interface DecideOptions {
  readonly clock: Clock
  readonly directory: ProjectDirectory
  readonly budget: BodyBudget
  readonly decisions: DecisionService
  readonly known: KnownDecisions
  readonly browserCapture: BrowserCaptureOf
  /** Returns true if a daily limit of a project is reached. */
  readonly isLimited: (projectId: number) => boolean
  readonly salts: Pick<DailySalts, 'saltOf'>
  readonly isForwardedForTrusted: boolean
}

function decide(
  options: DecideOptions,
  exchange: Exchange,
  head: RequestHead,
  isDecide: boolean,
): void {
  collectBody(exchange, head.contentLength, {
    bytesMax: FLAG_BODY_BYTES_MAX,
    budget: options.budget,
    onBody: (body) => {
      answerDecision(options, { exchange, head, body, isDecide })
    },
  })
}

/** Answers a GET with the defaults, because it names no project. */
function showDefaults(options: DecideOptions, exchange: Exchange, isDecide: boolean): void {
  sendReused(
    exchange,
    answerBytes({
      shape: isDecide ? 'decideEmpty' : 'flags2',
      decisions: NO_DECISIONS,
      nowMs: options.clock.now(),
      opening: decisionOpening(options.browserCapture(NO_PROJECT)),
    }),
  )
}

/** A request for decisions, with its body. */
interface DecisionCall {
  readonly exchange: Exchange
  readonly head: RequestHead
  readonly body: Uint8Array
  readonly isDecide: boolean
}

function answerDecision(options: DecideOptions, call: DecisionCall): void {
  const { clock, known } = options
  const { exchange, body, isDecide } = call
  const head = keepHead(call.head)
  const { query } = head
  const nowMs = clock.now()
  const name = known.nameOf(head, body)
  const before = name === null ? null : known.find(head, name)
  const hasConfig = isDecide || query.isConfigWanted
  // Answers are built in memory that the next answer overwrites. Nothing asynchronous may happen before the answer is
  // sent.
  const answer = ({ projectId, decided, repeated }: Made): void => {
    const parts = {
      shape: isDecide ? query.decideShape : query.flagsShape,
      opening: hasConfig ? decisionOpening(options.browserCapture(projectId)) : null,
      decisions: decided,
      nowMs,
    }
    if (options.isLimited(projectId)) {
      sendReused(exchange, answerBytes({ ...parts, isLimited: true }))
      return
    }
    sendReused(exchange, repeated === null ? answerBytes(parts) : known.answerOf(repeated, parts))
  }
  const made =
    before === null ? makeDecision(options, call, head, name, nowMs) : repeatedDecision(before)
  if (!(made instanceof Promise)) answer(made)
  else made.then(answer).catch((error: unknown) => sendError(exchange, error))
}

/** A decision to answer. `repeated` is the cached decision if it was found in the cache, otherwise null. */
interface Made extends Pick<KnownDecision, 'projectId' | 'decided'> {
  readonly repeated: KnownDecision | null
}

function repeatedDecision(repeated: KnownDecision): Made {
  return { projectId: repeated.projectId, decided: repeated.decided, repeated }
}

/**
 * Reads the request and decides. `name` is the name under which the request may be cached, or null. The order of the
 * checks is part of the protocol: first the body, then the key, the project and the distinct_id.
 */
function makeDecision(
  options: DecideOptions,
  { exchange, head: sent, body, isDecide }: DecisionCall,
  head: FlagRequestHead,
  name: string | null,
  nowMs: number,
): Made | Promise<Made> {
  const { directory, decisions, known } = options
  const request = readFlagRequest(head, body, isDecide)
  const project = resolveFlagProject(request.key, request.projectId, directory)
  if (request.areFlagsDisabled) {
    return { projectId: project.id, decided: NO_DECISIONS, repeated: null }
  }
  const { distinctId } = request
  if (distinctId === null) {
    const detail = '`distinct_id` is missing. Send the ID of the user as a text or a number.'
    throw new ServiceError('missing_distinct_id', detail)
  }
  // Only web pages send the header Origin, and only visitors of web pages can refuse cookies.
  const visitor =
    distinctId === COOKIELESS_ID && sent.origin !== ''
      ? visitorOf(options, exchange, sent, project.id, request.body, nowMs)
      : distinctId
  const asked = decisionRequestOf(request, head, visitor, nowMs)
  const projectId = project.id
  const meaning = known.meaningOf(projectId, asked, request.jsonBytes)
  // A request is not cached in two cases. If it comes from visitors without cookies, the same bytes may stand for
  // another visitor each time. If it has a personal key, the key may lose its rights at any time.
  if (
    name !== null &&
    meaning !== null &&
    visitor === distinctId &&
    request.key === project.apiKey
  ) {
    known.keepRequest(name, { head, apiKey: project.apiKey, projectId, meaning })
  }
  const repeated = meaning === null ? null : known.findMeant(meaning)
  if (repeated !== null) return repeatedDecision(repeated)
  const made = decisions.decideFully(projectId, asked)
  // If `made` is a promise, the person is stored on another machine, and the decision is not cached.
  if (made instanceof Promise) {
    return made.then(({ decided }) => ({ projectId, decided, repeated: null }))
  }
  const { decided, basis } = made
  if (meaning !== null && basis !== null) {
    known.keep(meaning, { projectId, decided, basis, answer: null })
  }
  return { projectId, decided, repeated: null }
}

/**
 * Returns the distinct ID of the visitor who has sent a request without cookies. The request contains an ID that all
 * such visitors share. The returned ID is the one that the events of the visitor get, too. If the shared ID were used,
 * a flag for a tenth of all users would be on for all visitors without cookies or for none of them. The first call of a
 * day may wait for the disk. Source: docs/compatibility/persons.md, "Visitors without cookies".
 */
function visitorOf(
  { salts, isForwardedForTrusted }: DecideOptions,
  exchange: Exchange,
  { forwardedFor, origin, userAgent }: RequestHead,
  projectId: number,
  { timezone, cookieless_hash_extra: extra }: JsonObject,
  nowMs: number,
): string {
  const day = dayOf(nowMs, nowMs, typeof timezone === 'string' ? timezone : '')
  return visitorId(salts.saltOf(day), {
    projectId,
    address: clientAddress(forwardedFor, exchange.peerAddress, isForwardedForTrusted),
    host: origin.replace(/^[a-z]+:\/\//, '').toLowerCase(),
    userAgent,
    extra: typeof extra === 'string' ? extra : '',
  })
}

/**
 * Returns the project that a key belongs to. For a personal key, it is the project named in the request, as in
 * requests with events. Throws ServiceError `no_api_key`, `invalid_api_key`, `invalid_personal_api_key` or
 * `invalid_project`. Source: docs/compatibility/decisions.md, "Refused flag requests".
 */
export function resolveFlagProject(
  key: unknown,
  projectId: unknown,
  directory: ProjectDirectory,
): Project {
  if (isEmptyValue(key)) {
    const detail = "The request has no project key. Send it as 'token' or 'api_key' in the body."
    throw new ServiceError('no_api_key', detail)
  }
  const text = typeof key === 'string' && key.length <= KEY_CHARACTERS_MAX ? key : null
  const own = text === null ? null : directory.projectByKey(text)
  if (own !== null) return own
  return resolveProject(key, projectId, directory, null)
}

const DECISION_REQUEST = is.named(
  'DecisionRequest',
  is.openObject(
    { distinct_id: is.about(is.TEXT_OR_NUMBER, 'The ID of the user.') },
    {
      token: is.about(is.TEXT, 'The project key. Also accepted as api_key.'),
      groups: is.about(is.JSON_OBJECT, 'Group types with their keys.'),
      person_properties: is.about(
        is.JSON_OBJECT,
        'Properties that take precedence over the stored ones.',
      ),
      group_properties: is.about(
        is.mapOf(is.JSON_OBJECT),
        'Properties of groups that take precedence over the stored ones, by group type.',
      ),
      $anon_distinct_id: is.about(is.TEXT_OR_NUMBER, 'The distinct_id of the user before login.'),
      $device_id: is.about(
        is.TEXT_OR_NUMBER,
        'The ID of the device, for flags that are evaluated by device.',
      ),
      flag_keys_to_evaluate: is.about(is.list(is.TEXT), 'Evaluate only these flags.'),
      evaluation_contexts: is.about(
        is.list(is.TEXT),
        'Leave out flags that are only for other contexts.',
      ),
      evaluation_runtime: is.about(
        is.TEXT,
        'client, server or all. Flags for another runtime are left out.',
      ),
      disable_flags: is.about(is.BOOLEAN, 'Return an answer without flags.'),
      project_id: is.about(is.TEXT_OR_NUMBER, 'The project, if a personal key is sent as token.'),
    },
  ),
)
const DECISION = is.namedObject(
  'Decision',
  {
    key: is.TEXT,
    enabled: is.BOOLEAN,
    variant: is.nullable(is.TEXT),
    reason: is.object({
      code: is.TEXT,
      condition_index: is.nullable(is.WHOLE),
      description: is.TEXT,
    }),
    metadata: is.object({
      id: is.WHOLE,
      version: is.WHOLE,
      description: is.NOTHING,
      payload: is.about(is.nullable(is.TEXT), 'A JSON text.'),
      has_experiment: is.BOOLEAN,
    }),
  },
  { failed: is.BOOLEAN },
)
const DECISIONS = is.named(
  'Decisions',
  is.about(
    is.openObject(
      { requestId: is.UUID, evaluatedAt: is.WHOLE },
      {
        flags: is.mapOf(DECISION),
        featureFlags: { anyOf: [is.mapOf(FLAG_VALUE), is.list(is.TEXT)] },
        featureFlagPayloads: is.mapOf(is.TEXT),
        errorsWhileComputingFlags: is.BOOLEAN,
        errorComputingFlags: is.BOOLEAN,
        quotaLimited: is.about(
          is.list(is.TEXT),
          'Contains "events" while a daily limit of the project is reached.',
        ),
      },
    ),
    'The members depend on v. The answer may also contain the configuration for browsers.',
  ),
)
const QUERY = is.options({
  v: is.about(is.TEXT, 'Version of the form of the answer.'),
  config: is.about(is.BOOLEAN, 'Include the configuration for browsers.'),
  compression: is.about(is.TEXT, 'The encoding of the body.'),
  only_evaluate_survey_feature_flags: is.about(
    is.BOOLEAN,
    'Return only flags whose key begins with survey-targeting-.',
  ),
})

/** The routes of `/flags/` and `/decide/`. */
export const DECISION_ROUTES: readonly PublicRecord<DecideOptions>[] = [
  '/flags',
  '/decide',
].flatMap((path): readonly PublicRecord<DecideOptions>[] => {
  const isDecide = path === '/decide'
  const id = pascalCase(path)
  const [get, head, options] = readable<DecideOptions>({
    path,
    id,
    summary: 'Returns the configuration for browsers, without flags.',
    answers: { 200: done(DECISIONS) },
    errors: ['error', 'server_error'],
    handle: (services, exchange) => showDefaults(services, exchange, isDecide),
  })
  return [
    get,
    head,
    {
      method: 'POST',
      path,
      id: `post${id}`,
      summary: 'Evaluates the feature flags of a user.',
      who: { ...ANYBODY, credentials: ['none', 'projectKey'] },
      query: QUERY,
      body: DECISION_REQUEST,
      bodyTypes: ANY_TEXT_TYPES,
      answers: { 200: done(DECISIONS) },
      errors: [
        ...(['malformed_data', 'invalid_api_key', 'request_too_large'] as const),
        ...(['error', 'server_error'] as const),
      ],
      handle: (services, exchange, head) => decide(services, exchange, head, isDecide),
    },
    isDecide
      ? {
          ...options,
          answers: { 200: done(is.object({ status: is.NUMBER })) },
          handle: (_, exchange) => sendJson(exchange, 200, { status: 1 }),
        }
      : options,
  ]
})
