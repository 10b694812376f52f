/** Connections of `node:http`, and the rules for closing them. */
import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { addressBytes } from '../../base/addresses.ts'
import { ServiceError } from '../../base/errors.ts'
import type { FrontConnection } from './front.ts'
import {
  BODY_STANDSTILL_BYTES_MAX,
  CONNECTION_IDLE_MS_MAX,
  CONNECTION_LINGER_MS_MAX,
} from './limits.ts'
import type { NodeResponse, ResponseConnection } from './node-response.ts'

/**
 * A special value of `#seenWaitingBytes`: all bytes have been sent, and the client has some time left to close the
 * connection.
 */
const LINGERS = -1

const ignore = (): void => {}

/** One connection, with the answer that is being sent on it. */
export class NodeConnection implements FrontConnection, ResponseConnection {
  /** The answer to the last request. Null before the first request. */
  current: NodeResponse | null = null
  readonly #socket: Socket
  readonly #onClosed: () => void
  #isClosed = false
  #isEnding = false
  /** True once the last answer of the connection is written. The client then has some time to close the connection. */
  #isLingering = false
  /** The counters of the last check that found progress, and the time of that check. */
  #seenBytes = 0
  #seenWaitingBytes = 0
  #seenBodyOf: NodeResponse | null = null
  #seenAtMs = performance.now()

  constructor(socket: Socket, onClosed: () => void) {
    this.#socket = socket
    this.#onClosed = onClosed
    socket.on('close', () => this.close())
    // Node handles errors itself, but not after CONNECT. Every error also closes the socket, so there is nothing else
    // to do.
    socket.on('error', ignore)
    socket.on('end', () => {
      if (this.isBusy) this.close()
    })
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** True if no further request on this connection is executed. */
  get isEnding(): boolean {
    return this.#isEnding
  }

  /** True if a request has no answer yet. */
  get isBusy(): boolean {
    return this.current !== null && !this.current.isEnded
  }

  /** True if the client has the answer to its last request and has sent no other request. */
  get isIdle(): boolean {
    const { current } = this
    const isAnswered = current?.isEnded === true && current.isBodyComplete
    return isAnswered && !this.#isLingering && this.waitingBytes === 0
  }

  get waitingBytes(): number {
    return this.#socket.writableLength
  }

  write(data: string | Uint8Array, onTaken?: (error?: Error | null) => void): void {
    this.#socket.write(data, 'latin1', onTaken)
  }

  together(write: () => void): void {
    this.#socket.cork()
    write()
    this.#socket.uncork()
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#isEnding = true
    this.current?.abort()
    this.#socket.destroy()
    this.#onClosed()
  }

  /**
   * Ends the sending side of the connection after all written bytes, and gives the client some time to close the
   * connection. If the server closed it while the client still sends, the connection would be reset, and the client
   * might not see the answer. Bytes that the client sends in this time are discarded.
   */
  closeWhenTaken(): void {
    this.#isEnding = true
    this.#isLingering = true
    this.#socket.end()
  }

  takeNoMore(): void {
    this.#isEnding = true
  }

  /** Answers with an error and refuses all further requests on this connection. */
  endWith(status: number, detail: string): void {
    const body = refusalBody(detail)
    const head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n`
    this.#socket.write(head + body)
    this.closeWhenTaken()
  }

  pause(): void {
    this.#socket.pause()
  }

  getRemoteAddress(): ArrayBuffer {
    return addressBytes(this.#socket.remoteAddress ?? '')
  }

  /** Returns false if the connection has made no progress for too long, and must be closed. */
  isMoving(nowMs: number): boolean {
    if (this.#isLingering && this.waitingBytes === 0) {
      if (this.#seenWaitingBytes === LINGERS)
        return nowMs - this.#seenAtMs < CONNECTION_LINGER_MS_MAX
      this.#seenWaitingBytes = LINGERS
      this.#seenAtMs = nowMs
      return true
    }
    const { current } = this
    if (current?.isBodyComplete === false && !this.#isLingering)
      return this.#isReceiving(current, nowMs)
    // While a request has no complete answer, the client is not to blame for a pause. If the client is slow to read a
    // large answer, http/server/waiting-answers.ts cuts it off.
    if (this.isBusy) this.#seenAtMs = nowMs
    const { bytesRead, writableLength } = this.#socket
    if (bytesRead !== this.#seenBytes || writableLength !== this.#seenWaitingBytes) {
      this.#seenBytes = bytesRead
      this.#seenWaitingBytes = writableLength
      this.#seenAtMs = nowMs
    }
    return nowMs - this.#seenAtMs < CONNECTION_IDLE_MS_MAX
  }

  /** Returns false if too few bytes of a request body have arrived within the time limit. */
  #isReceiving(current: NodeResponse, nowMs: number): boolean {
    const { receivedBytes } = current
    if (this.#seenBodyOf === current) {
      if (nowMs - this.#seenAtMs < CONNECTION_IDLE_MS_MAX) return true
      if (receivedBytes - this.#seenBytes <= BODY_STANDSTILL_BYTES_MAX) return false
    }
    this.#seenBodyOf = current
    this.#seenBytes = receivedBytes
    this.#seenAtMs = nowMs
    return true
  }
}

/** Returns the JSON of an error about a whole request. */
export function refusalBody(detail: string): string {
  return JSON.stringify(new ServiceError('bad_request', detail).toBody())
}
