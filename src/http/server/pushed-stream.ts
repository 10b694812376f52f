/**
 * An answer of server-sent events to a client that mostly waits, of which there may be thousands. It keeps no text: a
 * message that the client cannot take now is the caller's to send later, so a stopped reader holds no more than the
 * messages in the buffer of its socket and one behind it.
 */
import type { Exchange } from './exchange.ts'

/** What the owner of a stream does with it. */
export interface StreamEvents {
  /** Called when the client has read everything that was sent, after `send` returned false. */
  readonly onDrained: () => void
  /** Called once when the client has left, or when `cut` was called. */
  readonly onLeft: () => void
}

/** The message that is being written, and the exchange to which it is written. */
let current: Exchange | null = null
let message: Uint8Array = new Uint8Array(0)
let isTaken = true

/** Writes the message. It is not a closure, which would be allocated for each message of each client. */
function writeMessage(): void {
  if (current !== null) isTaken = current.response.write(message)
}

/** The stream of one client. */
export class PushedStream {
  readonly #exchange: Exchange

  /** Begins the answer with its head, which is sent with the first message. */
  constructor(exchange: Exchange, writeHead: () => void, { onDrained, onLeft }: StreamEvents) {
    this.#exchange = exchange
    if (!exchange.isOpen) {
      exchange.finish(200)
      // The caller may not have kept this stream yet.
      queueMicrotask(onLeft)
      return
    }
    exchange.onAbort = () => {
      onLeft()
      exchange.finish(200)
    }
    exchange.response.onWritable(() => {
      onDrained()
      return true
    })
    exchange.response.cork(writeHead)
  }

  /** Sends bytes, which are copied. Returns false if the client has not read enough to take them at once. */
  send(bytes: Uint8Array): boolean {
    if (!this.#exchange.isOpen) return false
    current = this.#exchange
    message = bytes
    this.#exchange.response.cork(writeMessage)
    current = null
    return isTaken
  }

  /** Ends the answer in order. */
  end(): void {
    const { response, isOpen } = this.#exchange
    if (!isOpen) return
    response.cork(() => response.end())
    this.#exchange.finish(200)
  }

  /** Closes the connection at once. */
  cut(): void {
    if (this.#exchange.isOpen) this.#exchange.response.close()
  }
}
