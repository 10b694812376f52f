/**
 * The ingestion endpoints. A small request is checked on the main thread, and a large one in the worker pool, because
 * the main thread does no work that grows with the size of a large body. A request is answered when its events are
 * durable. Source: interface description, section 4.4; docs/compatibility/ingestion.md, "Ingestion endpoints".
 */
import type { Clock } from '../../../base/clock.ts'
import { ServiceError } from '../../../base/errors.ts'
import { FRONT_BODY_BYTES_MAX, FRONT_SLOW_BYTES_MAX } from '../../../base/limits.ts'
import { refusal } from '../../../base/refusals.ts'
import type { Slab } from '../../../base/slabs.ts'
import type {
  AcknowledgeTarget,
  GroupCommit,
  RequestBlock,
} from '../../../engine/front/group-commit.ts'
import type { DailyLimits } from '../../../engine/front/shares/daily-limits.ts'
import type { FairShares, Sender, SenderAccount } from '../../../engine/front/shares/fair-shares.ts'
import type { WorkerPool } from '../../../engine/threads/pool.ts'
import type { ProjectDirectory } from '../../../rules/access/project-directory.ts'
import { CAPTURE_SCOPE } from '../../../rules/access/scopes.ts'
import {
  type AcceptTools,
  acceptCapture,
  type CaptureKind,
  type CaptureRequest,
  type RecordSink,
} from '../../../rules/capture/accept.ts'
import { clientAddress } from '../../../rules/capture/address.ts'
import { captureEventShape } from '../../../rules/capture/capture-schema.ts'
import { bearerKey, limitedAnswer } from '../../../rules/capture/capture-v1.ts'
import { readQuery } from '../../../rules/capture/decode.ts'
import type { RecordEvents, RecordHeader } from '../../../rules/capture/log-block.ts'
import { Scanner } from '../../../rules/capture/scanner/scanner.ts'
import { type BodyBudget, collectBody } from '../../server/body.ts'
import type { Exchange } from '../../server/exchange.ts'
import type { RequestHead } from '../../server/framing.ts'
import {
  ANY_TEXT_TYPES,
  bindPublic,
  type PublicRecord,
  type PublicResource,
  type PublicRoute,
  pascalCase,
  preflight,
} from '../../server/public-route.ts'
import { send, sendAccepted, sendEmpty, sendError, sendJson } from '../../server/respond.ts'
import { ANYBODY, done } from '../../server/route.ts'
import type { Members } from '../../server/schema.ts'
import * as is from '../../server/schema.ts'
import type { AddressesBehind } from '../../server/url.ts'
import { CAPTURE_WAITING_BYTES_MAX } from '../limits.ts'

/**
 * The kind of request for each ingestion path. Each path works with and without a trailing slash, and no request is
 * redirected.
 */
export const CAPTURE_PATHS: Readonly<Record<string, CaptureKind>> = {
  '/capture': 'capture',
  '/batch': 'capture',
  '/e': 'capture',
  '/i/v0/e': 'capture',
  '/track': 'capture',
  '/engage': 'engage',
  '/s': 'session_recording',
  '/i/v0/ai/batch': 'capture',
  '/i/v1/analytics/events': 'capture_v1',
  '/i/v1/ai/events': 'capture_v1',
}

const ACCEPTED = { status: 1 }
/**
 * The answer to a recording. Recordings are not stored. When posthog-js reads this answer, it sends no recordings for a
 * minute.
 */
const RECORDINGS_PAUSED = { status: 1, quota_limited: ['recordings'] }
/**
 * The answer when a daily limit of the project is reached. When posthog-js reads this answer, it sends no events for a
 * minute.
 */
const EVENTS_LIMITED = { status: 1, quota_limited: ['events'] }
const NO_BODY = new Uint8Array(0)
const JSON_TYPE = 'application/json'

/** The services and settings of the ingestion endpoints. */
export interface CaptureOptions {
  readonly clock: Clock
  readonly pool: Pick<WorkerPool, 'check'>
  readonly groupCommit: Pick<GroupCommit, 'add' | 'addBlock' | 'pendingBytes'>
  readonly directory: ProjectDirectory
  readonly budget: BodyBudget
  /** The largest body in bytes, as it is sent. A larger body is refused with 413. */
  readonly bodyBytesMax: number
  /** The largest body in bytes, after decoding. A larger body is refused with 413. */
  readonly decodedBytesMax: number
  readonly isForwardedForTrusted: boolean
  readonly isGetCaptureEnabled: boolean
  /** Counts how much of each sender's work is waiting, and limits its share of the queue. */
  readonly shares: Pick<FairShares, 'of'>
  /** Finds the IP address of the client that sent a request. */
  readonly addresses: Pick<AddressesBehind, 'of'>
  readonly limits: Pick<DailyLimits, 'isReached'>
  /**
   * Returns the error that refuses a request of a sender at the moment, or null if the request can be accepted. `bytes`
   * and `events` are the size of the request, if it is known.
   */
  readonly refusal: (account: SenderAccount, bytes?: number, events?: number) => ServiceError | null
  /**
   * Counts a request for a project after a worker thread has checked it. Throws an error if the request must be
   * refused.
   */
  readonly admit?: (projectId: number) => void
  /**
   * Called when events were passed to the group commit. `bytes` is the number of bytes that they take in the group
   * commit.
   */
  readonly onAccepted: (projectId: number, eventCount: number, bytes: number) => void
  /** Called when events were dropped because a daily limit of the project is reached. */
  readonly onLimited?: (projectId: number, eventCount: number) => void
  /**
   * Called when a request is refused because of its content. `request` is null if its body was too large to be read.
   */
  readonly onRefused?: (error: ServiceError, request: CaptureRequest | null) => void
}

/** Where a request came from. */
interface Origin {
  /** The IP address at the other end of the connection. */
  readonly peer: string
  readonly sender: Sender
}

/**
 * The memory that holds a body: a slab (base/slabs.ts), memory of its own (null), or memory that is only valid until
 * the call returns (`lent`).
 */
type BodyMemory = Slab | null | 'lent'

/** Handles the ingestion endpoints of one server. */
class CaptureHandler {
  readonly #options: CaptureOptions
  readonly #tools: AcceptTools

  constructor(options: CaptureOptions) {
    this.#options = options
    this.#tools = {
      scanner: new Scanner(),
      directory: options.directory,
      decodedBytesMax: Math.min(FRONT_BODY_BYTES_MAX, options.decodedBytesMax),
      slowBytesMax: FRONT_SLOW_BYTES_MAX,
      outlinedBytesMax: FRONT_SLOW_BYTES_MAX,
    }
  }

  /** Answers one POST or GET. */
  handle(exchange: Exchange, head: RequestHead, kind: CaptureKind): void {
    const { addresses, shares, budget, bodyBytesMax } = this.#options
    const { contentLength } = head
    const peer = exchange.peerAddress
    const sender = shares.of(addresses.of(peer, head.forwardedFor))
    const isLarge = contentLength !== null && contentLength > FRONT_BODY_BYTES_MAX
    // A body that is too large is refused as too large, even if no events are accepted at the moment. Otherwise its
    // client would be told to send it again later, which would never succeed.
    const canFit = contentLength === null || contentLength <= bodyBytesMax
    const refusal = this.#options.refusal(isLarge ? sender.large : sender.small)
    if (refusal !== null && canFit) {
      sendError(exchange, refusal, 'drain')
      return
    }
    const origin = { peer, sender }
    if (exchange.method === 'GET') {
      this.#take(exchange, head, kind, origin, NO_BODY, 'lent')
      return
    }
    collectBody(exchange, contentLength, {
      bytesMax: bodyBytesMax,
      budget,
      reservations: sender,
      usesSlabs: true,
      onTooLarge: (error) => this.#options.onRefused?.(error, null),
      onBody: (body, isTransient, slab) =>
        this.#take(exchange, head, kind, origin, body, isTransient ? 'lent' : slab),
    })
  }

  #take(
    exchange: Exchange,
    head: RequestHead,
    kind: CaptureKind,
    { peer, sender }: Origin,
    body: Uint8Array,
    memory: BodyMemory,
  ): void {
    const { isForwardedForTrusted, limits } = this.#options
    const { contentType, contentEncoding, query, forwardedFor } = head
    const isV1 = kind === 'capture_v1'
    const request: CaptureRequest = {
      kind,
      method: exchange.method === 'GET' ? 'GET' : 'POST',
      contentType,
      contentEncoding,
      query,
      address: clientAddress(forwardedFor, peer, isForwardedForTrusted),
      arrivedAtMs: this.#options.clock.now(),
      body,
      v1: isV1 ? captureV1Headers(head) : null,
    }
    if (body.length > FRONT_BODY_BYTES_MAX) {
      this.#checkInPool(exchange, request, sender, memory)
      return
    }
    const { groupCommit } = this.#options
    const waiting = new WaitingRequest(exchange, request, sender.small, groupCommit, limits)
    try {
      const { projectId, eventCount, answer } = acceptCapture(request, this.#tools, waiting)
      if (isV1) waiting.answer = answer ?? null
      if (waiting.bytes > 0) {
        this.#options.onAccepted(projectId, eventCount, waiting.bytes)
        return
      }
      if (waiting.isLimited) this.#options.onLimited?.(projectId, eventCount)
      waiting.acknowledge(null)
    } catch (error) {
      const isTooLargeHere = error instanceof ServiceError && error.code === 'request_too_large'
      if (isTooLargeHere) this.#checkInPool(exchange, request, sender, memory)
      else {
        if (error instanceof ServiceError) this.#options.onRefused?.(error, request)
        sendError(exchange, error)
      }
    }
  }

  #checkInPool(
    exchange: Exchange,
    request: CaptureRequest,
    sender: Sender,
    memory: BodyMemory,
  ): void {
    const { admit, budget, groupCommit, limits, pool } = this.#options
    // It has turned out only now that the request is large, so the limit for large requests is checked here.
    const refused = this.#options.refusal(sender.large)
    if (refused !== null) throw refused
    const isLent = memory === 'lent'
    if (isLent) {
      // For a body that arrived in one chunk, nothing has been reserved yet. From now on the body may wait, so memory
      // for it is reserved.
      if (!sender.tryReserve(request.body.length)) throw refusal(sender.fullReason)
      exchange.hold(sender, request.body.length)
    }
    const body = isLent ? new Uint8Array(request.body) : request.body
    const waiting = new WaitingRequest(exchange, request, sender.large, groupCommit, limits)
    const waiter = {
      sender,
      isWanted: () => exchange.isOpen,
      hasRoom: () => groupCommit.pendingBytes < CAPTURE_WAITING_BYTES_MAX,
      slab: isLent ? null : memory,
      takeSlab: (bytes: number) => budget.slabs.take(bytes),
      ...(admit === undefined ? {} : { admit }),
    }
    pool
      .check({ ...request, body }, waiter)
      .then((result) => {
        if (result.kind === 'refused') {
          const error = ServiceError.fromBody(result.error, result.retryAfterSeconds)
          // The body was transferred to the worker thread, so it is empty here.
          this.#options.onRefused?.(error, { ...request, body: NO_BODY })
          waiting.acknowledge(error)
          return
        }
        waiting.answer = result.answer
        if (result.eventCount === 0) waiting.acknowledge(null)
        else this.#takeBlock(result, waiting)
      })
      .catch((error: unknown) => sendError(exchange, error))
  }

  /** Accepts a large request, now that its size and its number of events are known. */
  #takeBlock(request: RequestBlock, waiting: WaitingRequest): void {
    const { limits, groupCommit } = this.#options
    const { block, projectId, eventCount } = request
    waiting.isLimited = limits.isReached(projectId)
    const refused = this.#options.refusal(waiting.account, block.bytes, eventCount)
    if (refused === null && !waiting.isLimited) {
      groupCommit.addBlock(request, waiting)
      this.#options.onAccepted(projectId, eventCount, block.bytes)
      return
    }
    block.slab?.release()
    if (waiting.isLimited) this.#options.onLimited?.(projectId, eventCount)
    waiting.acknowledge(waiting.isLimited ? null : refused)
  }
}

const SHARED = {
  compression: is.about(
    is.choice('gzip', 'gzip-js', 'base64', 'b64', 'lz64', 'lz-string'),
    'The encoding of the payload. Gzip is recognized without it.',
  ),
  sent_at: is.about(is.TEXT, 'When the client sent the request, by its own clock.'),
  _: is.about(is.TEXT, 'The same time as sent_at, in milliseconds since 1970.'),
  beacon: is.about(is.choice('1'), 'The page is being closed. The answer is 204.'),
  project_id: is.about(
    is.TEXT,
    `The project, if a personal key (scope ${CAPTURE_SCOPE}) is used instead of a project key.`,
  ),
}
const API_KEY = is.about(is.TEXT, 'The project key. Also accepted as token.')
const EVENT = is.named('CaptureEvent', {
  ...captureEventShape.schema,
  properties: {
    event: is.about(is.TEXT, 'The name of the event. An event without a name is not stored.'),
    distinct_id: is.about(
      is.TEXT_OR_NUMBER,
      'The ID of the user. It can also be sent in properties.',
    ),
    timestamp: is.about(
      is.TEXT_OR_NUMBER,
      'The time of the event. The default is the time of arrival.',
    ),
    api_key: API_KEY,
    ...(captureEventShape.schema['properties'] as Members),
  },
  additionalProperties: true,
})
const BATCH = is.named(
  'CaptureBatch',
  is.openObject(
    { batch: is.list(EVENT) },
    {
      api_key: API_KEY,
      sent_at: SHARED.sent_at,
      historical_migration: is.about(
        is.BOOLEAN,
        'The events are historical and are imported from another system.',
      ),
      project_id: is.about(
        is.TEXT_OR_NUMBER,
        `The project, if a personal key (scope ${CAPTURE_SCOPE}) is sent as api_key.`,
      ),
    },
  ),
)
const BODY = is.named('CaptureBody', {
  description:
    'One event, several events in batch, or a list. The key is in the body or in an event.',
  anyOf: [BATCH, EVENT, is.list(EVENT)],
})
const DONE = done(is.object({ status: is.choice(1) }, { quota_limited: is.list(is.TEXT) }))
const ANSWERS = { 200: DONE, 204: { description: 'Accepted. The query has beacon=1.' } }
const ERRORS = [
  'invalid_input',
  'invalid_api_key',
  'error',
  'server_error',
  'request_too_large',
] as const

const V1_EVENT = is.named(
  'CaptureV1Event',
  is.openObject(
    {
      event: is.about(is.TEXT, 'The name of the event. An event without a name is dropped.'),
      uuid: is.about(is.TEXT, 'The UUID under which the answer reports the result.'),
      distinct_id: is.about(is.TEXT_OR_NUMBER, 'The ID of the user.'),
    },
    {
      timestamp: is.about(
        is.TEXT_OR_NUMBER,
        'The time of the event. The default is the time of arrival.',
      ),
      session_id: is.about(is.TEXT, 'Stored as the property $session_id.'),
      window_id: is.about(is.TEXT, 'Stored as the property $window_id.'),
      properties: is.JSON_OBJECT,
      options: is.openObject(
        {},
        {
          cookieless_mode: is.about(is.BOOLEAN, 'The property $cookieless_mode.'),
          disable_skew_correction: is.about(is.BOOLEAN, 'The property $ignore_sent_at.'),
          process_person_profile: is.about(is.BOOLEAN, 'The property $process_person_profile.'),
          product_tour_id: is.about(is.TEXT, 'The property $product_tour_id.'),
        },
      ),
    },
  ),
)
const V1_BODY = is.named(
  'CaptureV1Body',
  is.openObject(
    { batch: is.list(V1_EVENT) },
    {
      created_at: is.about(is.TEXT, 'When the SDK created the batch. Ignored.'),
      historical_migration: is.about(
        is.BOOLEAN,
        'The events are historical and are imported from another system.',
      ),
    },
  ),
)
const V1_DONE = done(
  is.object({
    results: is.about(
      is.mapOf(is.object({ result: is.choice('ok', 'warning', 'drop') }, { details: is.TEXT })),
      'The result of each event by its UUID: ok and warning mean that it was accepted, drop that it is not stored.',
    ),
  }),
)

type CaptureRecord = PublicRecord<CaptureHandler>

/** The ingestion routes: `/capture/`, and the other paths that do the same. */
export const CAPTURE: PublicResource<CaptureHandler> = {
  name: 'Ingestion',
  sentence: 'Sends events. All paths take the same bodies. 200 means that the events are on disk.',
  routes: Object.entries(CAPTURE_PATHS).flatMap(([path, kind]): readonly CaptureRecord[] => {
    const id = `Events${pascalCase(path)}`
    const handle: CaptureRecord['handle'] = (capture, exchange, head) =>
      capture.handle(exchange, head, kind)
    if (kind === 'capture_v1') return captureV1Records(path, id, handle)
    return [
      {
        method: 'GET',
        path,
        id: `get${id}`,
        summary: 'Sends events in the query.',
        who: { ...ANYBODY, credentials: ['projectKey'] },
        query: is.object(
          { data: is.about(is.TEXT, 'The payload, as JSON or base64 of JSON.') },
          {
            ...SHARED,
            api_key: is.about(is.TEXT, 'The project key, if there is no token.'),
          },
        ),
        answers: ANSWERS,
        errors: ERRORS,
        handle,
      },
      {
        method: 'POST',
        path,
        id: `post${id}`,
        summary: `Sends events to ${path}.`,
        who: ANYBODY,
        query: is.options(SHARED),
        body: BODY,
        bodyTypes: ANY_TEXT_TYPES,
        answers: ANSWERS,
        errors: ERRORS,
        handle,
      },
      {
        ...preflight(path, id),
        answers: { 200: DONE },
        handle: (_, exchange) => sendJson(exchange, 200, ACCEPTED),
      },
    ]
  }),
}

function captureV1Records(
  path: string,
  id: string,
  handle: CaptureRecord['handle'],
): readonly CaptureRecord[] {
  return [
    {
      method: 'POST',
      path,
      id: `post${id}`,
      summary: 'Sends events with capture v1, which reports the result of each event.',
      who: { ...ANYBODY, credentials: ['projectKeyBearer'] },
      query: is.options({ project_id: SHARED.project_id }),
      body: V1_BODY,
      answers: { 200: V1_DONE },
      errors: [...ERRORS, 'unsupported_media_type'],
      handle,
    },
    preflight(path, id),
  ]
}

/** Returns the routes of `CAPTURE`. The GET routes are left out unless the settings enable them. */
export function captureRoutes(options: CaptureOptions): readonly PublicRoute[] {
  const { isGetCaptureEnabled } = options
  const routes = bindPublic(CAPTURE.routes, new CaptureHandler(options))
  return routes.filter(({ method }) => method !== 'GET' || isGetCaptureEnabled)
}

/** A request that passes its events to the group commit and is answered when they are durable. */
class WaitingRequest implements AcknowledgeTarget, RecordSink {
  readonly account: SenderAccount
  /** True if a daily limit of the project is reached. The events of the request are then not added. */
  isLimited = false
  /** How many bytes the events take in the group commit. */
  bytes = 0
  /** The JSON answer of capture v1. Null for every other protocol. */
  answer: string | null = null
  readonly #exchange: Exchange
  readonly #groupCommit: CaptureOptions['groupCommit']
  readonly #limits: CaptureOptions['limits']
  readonly #isRecording: boolean
  readonly #query: string

  constructor(
    exchange: Exchange,
    request: CaptureRequest,
    account: SenderAccount,
    groupCommit: CaptureOptions['groupCommit'],
    limits: CaptureOptions['limits'],
  ) {
    this.account = account
    this.#exchange = exchange
    this.#groupCommit = groupCommit
    this.#limits = limits
    this.#isRecording = request.kind === 'session_recording'
    this.#query = request.query
  }

  add(header: RecordHeader, events: RecordEvents): void {
    this.isLimited = this.#limits.isReached(header.projectId)
    if (!this.isLimited) this.bytes = this.#groupCommit.add(header, events, this)
  }

  acknowledge(error: ServiceError | null): void {
    const exchange = this.#exchange
    if (error !== null) sendError(exchange, error)
    else if (this.answer !== null) this.#sendResults(this.answer)
    else if (this.#query !== '' && readQuery(this.#query).beacon === '1') sendEmpty(exchange, 204)
    else if (this.#isRecording) sendJson(exchange, 200, RECORDINGS_PAUSED)
    else if (this.isLimited) sendJson(exchange, 200, EVENTS_LIMITED)
    else sendAccepted(exchange)
  }

  #sendResults(answer: string): void {
    const body = this.isLimited ? limitedAnswer(answer) : answer
    send(this.#exchange, { status: 200, contentType: JSON_TYPE, body })
  }
}

function captureV1Headers({ authorization, sdkInfo, requestTimestamp }: RequestHead) {
  return { key: bearerKey(authorization), sdkInfo, sentAt: requestTimestamp }
}
