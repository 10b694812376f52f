/** Connections of `node:http`, and when they end. */
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

/** In the place of bytes that wait: all have left. */
const LINGERS = -1

const ignore = (): void => {}

/** One connection with the answer that is being given on it. */
export class NodeConnection implements FrontConnection, ResponseConnection {
  /** The answer to the last request; null before the first one. */
  current: NodeResponse | null = null
  readonly #socket: Socket
  readonly #onClosed: () => void
  #isClosed = false
  #isEnding = false
  /** The last answer is on its way, or the client has to close the connection. */
  #isLingering = false
  /** Counters at the last look at which something had moved, and the time of that look. */
  #seenBytes = 0
  #seenWaitingBytes = 0
  #seenBodyOf: NodeResponse | null = null
  #seenAtMs = performance.now()

  constructor(socket: Socket, onClosed: () => void) {
    this.#socket = socket
    this.#onClosed = onClosed
    socket.on('close', () => this.close())
    // Every error closes the socket. Node listens for them, but not behind CONNECT.
    socket.on('error', ignore)
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
   * A connection that is closed while the client sends is reset, and what was answered may be lost: the client has some
   * time to close it. What it sends until then is thrown away.
   */
  closeWhenTaken(): void {
    this.#isEnding = true
    this.#isLingering = true
    this.#socket.end()
  }

  takeNoMore(): void {
    this.#isEnding = true
  }

  /** Refuses all requests on this connection. */
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

  /** False when nothing has moved for too long. */
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
    // The answer is being made, or http/server/waiting-answers.ts looks after it.
    if (this.isBusy) this.#seenAtMs = nowMs
    const { bytesRead, writableLength } = this.#socket
    if (bytesRead !== this.#seenBytes || writableLength !== this.#seenWaitingBytes) {
      this.#seenBytes = bytesRead
      this.#seenWaitingBytes = writableLength
      this.#seenAtMs = nowMs
    }
    return nowMs - this.#seenAtMs < CONNECTION_IDLE_MS_MAX
  }

  /** Of a body that is being received, some bytes must have come within the time. */
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

/** The JSON of a refusal of the whole request. */
export function refusalBody(detail: string): string {
  return JSON.stringify(new ServiceError('bad_request', detail).toBody())
}
