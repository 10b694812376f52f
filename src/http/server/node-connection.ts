/** Connections of `node:http`, and when they end. */
import { ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { addressBytes } from '../../base/addresses.ts'
import { ServiceError } from '../../base/errors.ts'
import type { FrontConnection } from './front.ts'
import {
  BODY_STANDSTILL_BYTES_MAX,
  CONNECTION_IDLE_MS_MAX,
  CONNECTION_LINGER_MS_MAX,
} from './limits.ts'
import { NodeRequest } from './node-request.ts'
import type { NodeResponse, ResponseConnection } from './node-response.ts'

/** What a connection tells the server. */
export interface ConnectionOwner {
  /** Something is on its way: asks for calls of `isMoving` until `isQuiet`. */
  watch(): void
  /** The connection has ended. Called once. */
  forget(): void
}

/** One connection with the answer that is being given on it. */
export class NodeConnection implements FrontConnection, ResponseConnection {
  /** The answer to the last request; null before the first one. */
  current: NodeResponse | null = null
  readonly #socket: Socket
  readonly #owner: ConnectionOwner
  #isClosed = false
  #isEnding = false
  /** When an ended connection is closed that the client has not closed itself. */
  #closesAtMs: number | null = null
  /** What was received of a body, or waits to be sent, since when: of both, what is on its way. */
  #bodyOf: NodeResponse | null = null
  #bodyBytes = 0
  #bodySinceMs = 0
  #waitingBytes = 0
  #waitingSinceMs = 0

  constructor(socket: Socket, owner: ConnectionOwner) {
    this.#socket = socket
    this.#owner = owner
    socket.on('close', () => this.close())
    socket.on('end', () => {
      if (this.isBusy) this.close()
    })
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** No further request is carried out. */
  get isEnding(): boolean {
    return this.#isEnding
  }

  /** A request has no answer yet. */
  get isBusy(): boolean {
    return this.current !== null && !this.current.isEnded
  }

  /** An answer is complete and has not left. */
  get isFlushing(): boolean {
    return this.current?.isFlushing === true
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#isEnding = true
    this.current?.abort()
    this.#socket.destroy()
    this.#owner.forget()
  }

  closeWhenFlushed(): void {
    if (this.isBusy || !this.isFlushing) {
      this.close()
      return
    }
    this.#socket.destroySoon()
    this.#linger()
  }

  endWithAnswer(): void {
    this.#isEnding = true
  }

  /** Refuses, for all requests on this connection. */
  endWith(status: number, detail: string): void {
    const body = refusalBody(detail)
    const head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n`
    this.#socket.end(head + body)
    this.#linger()
  }

  /** Node's part of the answer to a request that its parser has refused: nothing more is read. */
  lastResponse(method: string): ServerResponse {
    const request = new NodeRequest(this.#socket)
    request.method = method
    request.httpVersionMajor = 1
    request.httpVersionMinor = 1
    const response = new ServerResponse(request)
    response.assignSocket(this.#socket)
    response.on('finish', () => this.#socket.end())
    this.#linger()
    return response
  }

  watch(): void {
    if (!this.#isClosed) this.#owner.watch()
  }

  pause(): void {
    this.#socket.pause()
  }

  getRemoteAddress(): ArrayBuffer {
    return addressBytes(this.#socket.remoteAddress ?? '')
  }

  /** False when what is on its way has made no progress for too long. */
  isMoving(nowMs: number): boolean {
    if (this.#closesAtMs !== null) return nowMs < this.#closesAtMs
    const { current } = this
    if (current === null) return true
    return current.isBodyComplete
      ? this.#isSending(current, nowMs)
      : this.#isReceiving(current, nowMs)
  }

  /** Nothing is on its way. */
  get isQuiet(): boolean {
    if (this.#closesAtMs !== null) return false
    const { current } = this
    if (current === null) return true
    return current.isBodyComplete && (!current.isEnded || this.#socket.writableLength === 0)
  }

  #isReceiving(current: NodeResponse, nowMs: number): boolean {
    const { receivedBytes } = current
    if (this.#bodyOf === current) {
      if (nowMs - this.#bodySinceMs < CONNECTION_IDLE_MS_MAX) return true
      if (receivedBytes - this.#bodyBytes <= BODY_STANDSTILL_BYTES_MAX) return false
    }
    this.#bodyOf = current
    this.#bodyBytes = receivedBytes
    this.#bodySinceMs = nowMs
    return true
  }

  /** Of answers that are not complete, http/server/waiting-answers.ts takes care. */
  #isSending(current: NodeResponse, nowMs: number): boolean {
    const waitingBytes = current.isEnded ? this.#socket.writableLength : 0
    if (waitingBytes === 0 || waitingBytes !== this.#waitingBytes) {
      this.#waitingBytes = waitingBytes
      this.#waitingSinceMs = nowMs
      return true
    }
    return nowMs - this.#waitingSinceMs < CONNECTION_IDLE_MS_MAX
  }

  /** A connection that is closed while the client sends is reset, and the answer may be lost. */
  #linger(): void {
    this.#isEnding = true
    this.#closesAtMs = performance.now() + CONNECTION_LINGER_MS_MAX
    this.watch()
  }
}

/** The JSON of a refusal of the whole request. */
export function refusalBody(detail: string): string {
  return JSON.stringify(new ServiceError('bad_request', detail).toBody())
}
