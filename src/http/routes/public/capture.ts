/**
 * The ingestion endpoints. A request is read, checked in place when it is small and in the pool when it
 * is large, and answered when its events are durable. Nothing here is proportional to the size of a
 * large body.
 * Source: interface description, section 4.4; docs/COMPATIBILITY.md, "Ingestion endpoints".
 */
import type { Clock } from '../../../base/clock.ts'
import { ServiceError } from '../../../base/errors.ts'
import { FRONT_BODY_BYTES_MAX, FRONT_SLOW_BYTES_MAX } from '../../../base/limits.ts'
import { refusal } from '../../../base/refusals.ts'
import type { AcknowledgeTarget, GroupCommit } from '../../../engine/front/group-commit.ts'
import type { WorkerPool } from '../../../engine/threads/pool.ts'
import { acceptCapture, type AcceptTools, type CaptureKind, type CaptureRequest, type RecordSink } from '../../../rules/capture/accept.ts'
import { clientAddress } from '../../../rules/capture/address.ts'
import { readQuery } from '../../../rules/capture/decode.ts'
import type { RecordEvents, RecordHeader } from '../../../rules/capture/log-block.ts'
import type { ProjectDirectory } from '../../../rules/capture/project-directory.ts'
import { Scanner } from '../../../rules/capture/scanner/scanner.ts'
import { type BodyBudget, collectBody } from '../../server/body.ts'
import type { Exchange } from '../../server/exchange.ts'
import type { RequestHead } from '../../server/framing.ts'
import { sendAccepted, sendEmpty, sendError, sendJson, sendMethodNotAllowed } from '../../server/respond.ts'

/** Path -> what it asks for. Each answers with and without one trailing slash, never by a redirect. */
export const CAPTURE_PATHS: Readonly<Record<string, CaptureKind>> = {
  '/capture': 'capture',
  '/batch': 'capture',
  '/e': 'capture',
  '/i/v0/e': 'capture',
  '/track': 'capture',
  '/engage': 'engage',
  '/s': 'session_recording',
}

const ALL_METHODS = 'GET, POST, OPTIONS'
const NO_GET = 'POST, OPTIONS'
const ACCEPTED = { status: 1 }
/** posthog-js pauses recordings for a minute when it reads this: nothing of them is stored. */
const RECORDINGS_PAUSED = { status: 1, quota_limited: ['recordings'] }
/** Bytes on their way to the disk from which on large bodies wait: small ones share their next flush. */
const COMMIT_BYTES_MAX = 64 * 1024 * 1024
const NO_BODY = new Uint8Array(0)

/** What the ingestion endpoints work with. */
export interface CaptureOptions {
  readonly clock: Clock
  readonly pool: Pick<WorkerPool, 'check'>
  readonly groupCommit: Pick<GroupCommit, 'add' | 'addBlock' | 'pendingBytes'>
  readonly directory: ProjectDirectory
  readonly budget: BodyBudget
  /** Bytes of a body on the wire. Beyond: 413. */
  readonly bodyBytesMax: number
  /** Bytes that a body may decode to. Beyond: 413. */
  readonly decodedBytesMax: number
  readonly isForwardedForTrusted: boolean
  readonly isGetCaptureEnabled: boolean
  /** Why nothing can be accepted at the moment, or null. */
  readonly refusal: () => ServiceError | null
  /** Counts a request that was checked by a thread; throws its refusal. */
  readonly admit?: (projectId: number) => void
  /** Events were handed to the group commit. */
  readonly onAccepted: (projectId: number, eventCount: number) => void
}

/** Handles the ingestion endpoints of one server. */
export class CaptureHandler {
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

  /** Answers one request of a path of CAPTURE_PATHS. `head` is read before this returns. */
  handle(exchange: Exchange, head: RequestHead, kind: CaptureKind): void {
    const { method } = exchange
    if (method === 'OPTIONS') {
      sendJson(exchange, 200, ACCEPTED)
    } else if (method === 'POST' || (method === 'GET' && this.#options.isGetCaptureEnabled)) {
      this.#capture(exchange, head, kind)
    } else {
      sendMethodNotAllowed(exchange, this.#options.isGetCaptureEnabled ? ALL_METHODS : NO_GET)
    }
  }

  #capture(exchange: Exchange, head: RequestHead, kind: CaptureKind): void {
    const refusal = this.#options.refusal()
    if (refusal !== null) {
      sendError(exchange, refusal, 'drain')
      return
    }
    const draft = this.#draft(exchange, head, kind)
    if (draft.method === 'GET') {
      this.#take(exchange, draft, NO_BODY, true)
      return
    }
    collectBody(exchange, head.contentLength, {
      bytesMax: this.#options.bodyBytesMax,
      budget: this.#options.budget,
      onBody: (body, isTransient) => this.#take(exchange, draft, body, isTransient),
    })
  }

  #draft(exchange: Exchange, head: RequestHead, kind: CaptureKind): CaptureRequest {
    const { isForwardedForTrusted } = this.#options
    const isForwarded = isForwardedForTrusted && head.forwardedFor !== ''
    return {
      kind,
      method: exchange.method === 'GET' ? 'GET' : 'POST',
      contentType: head.contentType,
      contentEncoding: head.contentEncoding,
      query: head.query,
      // Asking for the peer costs as much as reading all headers: only when it is needed.
      address: clientAddress(
        head.forwardedFor,
        isForwarded ? '' : exchange.peerAddress,
        isForwardedForTrusted,
      ),
      arrivedAtMs: 0,
      body: NO_BODY,
    }
  }

  /** The body is complete. `isTransient`: its memory is gone when this returns. */
  #take(exchange: Exchange, draft: CaptureRequest, body: Uint8Array, isTransient: boolean): void {
    const request = { ...draft, arrivedAtMs: this.#options.clock.now(), body }
    if (body.length > FRONT_BODY_BYTES_MAX) {
      this.#checkInPool(exchange, request, isTransient)
      return
    }
    const waiting = new WaitingRequest(exchange, request, this.#options.groupCommit)
    try {
      const accepted = acceptCapture(request, this.#tools, waiting)
      if (accepted.eventCount === 0) waiting.acknowledge(null)
      else this.#options.onAccepted(accepted.projectId, accepted.eventCount)
    } catch (error) {
      const isTooLargeHere = error instanceof ServiceError && error.code === 'request_too_large'
      if (isTooLargeHere) this.#checkInPool(exchange, request, isTransient)
      else sendError(exchange, error)
    }
  }

  #checkInPool(exchange: Exchange, request: CaptureRequest, isTransient: boolean): void {
    const { budget, groupCommit, pool } = this.#options
    if (isTransient) {
      // A body that came in one piece has nothing reserved yet, and may now wait.
      if (!budget.tryReserve(request.body.length)) throw refusal('bodies_full')
      exchange.hold(budget, request.body.length)
    }
    const body = isTransient ? new Uint8Array(request.body) : request.body
    const waiting = new WaitingRequest(exchange, request, groupCommit)
    const waiter = {
      isWanted: () => exchange.isOpen,
      hasRoom: () => groupCommit.pendingBytes < COMMIT_BYTES_MAX,
    }
    pool
      .check({ ...request, body }, waiter)
      .then((result) => {
        if (result.kind === 'refused') {
          waiting.acknowledge(ServiceError.fromBody(result.error, result.retryAfterSeconds))
          return
        }
        this.#options.admit?.(result.projectId)
        if (result.eventCount === 0) {
          waiting.acknowledge(null)
        } else {
          groupCommit.addBlock(result.block, result.eventCount, waiting)
          this.#options.onAccepted(result.projectId, result.eventCount)
        }
      })
      .catch((error: unknown) => sendError(exchange, error))
  }
}

/** A request that hands its events to the group commit and is answered when they are durable. */
class WaitingRequest implements AcknowledgeTarget, RecordSink {
  readonly #exchange: Exchange
  readonly #groupCommit: CaptureOptions['groupCommit']
  readonly #isRecording: boolean
  readonly #query: string

  constructor(
    exchange: Exchange,
    request: CaptureRequest,
    groupCommit: CaptureOptions['groupCommit'],
  ) {
    this.#exchange = exchange
    this.#groupCommit = groupCommit
    this.#isRecording = request.kind === 'session_recording'
    this.#query = request.query
  }

  add(header: RecordHeader, events: RecordEvents): void {
    this.#groupCommit.add(header, events, this)
  }

  acknowledge(error: ServiceError | null): void {
    const exchange = this.#exchange
    if (error !== null) sendError(exchange, error)
    else if (this.#query !== '' && readQuery(this.#query).beacon === '1') sendEmpty(exchange, 204)
    else if (this.#isRecording) sendJson(exchange, 200, RECORDINGS_PAUSED)
    else sendAccepted(exchange)
  }
}
