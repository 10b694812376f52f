/** One keep-alive HTTP/1.1 connection of `tenrec bench`, with at most one request in flight. */
import { connect, type Socket } from 'node:net'
import { connect as connectSecurely } from 'node:tls'

const RECONNECT_MS = 50
const HEAD_END = '\r\n\r\n'

/** Receives the answers and the reconnections of connections. */
export interface ConnectionListener {
  /** Called when an answer is complete. The status is 0 if the connection was lost before the answer. */
  answered(connection: BenchConnection, status: number): void
  /** Called when a lost connection can be used again. */
  reopened(connection: BenchConnection): void
}

/** A connection that reconnects until `close` is called. */
export class BenchConnection {
  readonly #url: URL
  readonly #listener: ConnectionListener
  #socket: Socket | null = null
  #received = ''
  #isBusy = false
  #isClosed = false
  #isClosing = false
  /** The time at which the request in flight was due, in milliseconds of the monotonic clock. */
  intendedAtMs = 0

  constructor(url: URL, listener: ConnectionListener) {
    this.#url = url
    this.#listener = listener
  }

  /** Connects. Rejects with the error of the socket. */
  open(): Promise<void> {
    const isSecure = this.#url.protocol === 'https:'
    const host = this.#url.hostname.replace(/^\[|\]$/g, '')
    const port = Number(this.#url.port) || (isSecure ? 443 : 80)
    const socket = isSecure
      ? connectSecurely({ host, port, servername: host })
      : connect(port, host)
    this.#socket = socket
    this.#received = ''
    this.#isClosing = false
    socket.setNoDelay(true)
    socket.setEncoding('latin1')
    socket.on('data', (text: string) => this.#take(text))
    return new Promise((resolve, reject) => {
      socket.once(isSecure ? 'secureConnect' : 'connect', resolve)
      socket.once('error', reject)
      socket.on('close', () => this.#lost(socket))
    })
  }

  /** Sends a complete request. Call it only while no request is in flight. */
  send(request: string, intendedAtMs: number): void {
    this.intendedAtMs = intendedAtMs
    this.#isBusy = true
    this.#socket?.write(request)
  }

  close(): void {
    this.#isClosed = true
    this.#socket?.destroy()
  }

  #take(text: string): void {
    this.#received += text
    const headEnd = this.#received.indexOf(HEAD_END)
    if (headEnd < 0) return
    const head = this.#received.slice(0, headEnd).toLowerCase()
    const bodyStart = headEnd + HEAD_END.length
    const length = /\r\ncontent-length: *(\d+)/.exec(head)?.[1]
    const isChunked = length === undefined && head.includes('\r\ntransfer-encoding: chunked')
    const isWhole = isChunked
      ? this.#received.endsWith('0\r\n\r\n')
      : this.#received.length - bodyStart >= Number(length ?? 0)
    if (!isWhole) return
    this.#received = ''
    this.#isBusy = false
    this.#isClosing = head.includes('\r\nconnection: close')
    const status = Number(/^http\/1\.[01] (\d{3})/.exec(head)?.[1] ?? 0)
    if (this.#isClosing) this.#socket?.destroy()
    this.#listener.answered(this, status)
  }

  /** True if a request can be sent now. */
  get isUsable(): boolean {
    return !this.#isBusy && !this.#isClosing && !this.#isClosed
  }

  #lost(socket: Socket): void {
    if (socket !== this.#socket || this.#isClosed) return
    this.#isClosing = true
    if (this.#isBusy) {
      this.#isBusy = false
      this.#listener.answered(this, 0)
    }
    setTimeout(() => {
      if (this.#isClosed) return
      // If the connection cannot be opened, the close event of the socket calls this method again.
      this.open().then(
        () => this.#listener.reopened(this),
        () => {},
      )
    }, RECONNECT_MS).unref()
  }
}
