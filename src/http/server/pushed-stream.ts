/**
 * An answer with server-sent events, for a client that mostly waits. There may be thousands of such answers, so the
 * stream itself keeps no messages. If the client cannot take a message at once, the code that sends the messages must
 * pause, and continue when `onDrained` is called. A client that does not read therefore occupies no more memory than
 * the buffer of its socket and one message.
 */
import type { Exchange } from './exchange.ts'

/** The functions that a stream calls when something happens on it. */
export interface StreamEvents {
  /** Called when the client has read everything that was sent, after `send` returned false. */
  readonly onDrained: () => void
  /** Called once when the client has left, or when `cut` was called. */
  readonly onLeft: () => void
}

/** The message that is being written, and the exchange on which it is written. */
let current: Exchange | null = null
let message: Uint8Array = new Uint8Array(0)
let isTaken = true

/**
 * Writes the current message. The function is not a closure, because a closure would be allocated for each message and
 * each client.
 */
function writeMessage(): void {
  if (current !== null) isTaken = current.response.write(message)
}

/** The stream of one client. */
export class PushedStream {
  readonly #exchange: Exchange

  /** Begins the answer. Its head is sent together with the first message. */
  constructor(exchange: Exchange, writeHead: () => void, { onDrained, onLeft }: StreamEvents) {
    this.#exchange = exchange
    if (!exchange.isOpen) {
      exchange.finish(200)
      // `onLeft` is called later, because the caller does not have this stream yet.
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

  /**
   * Sends bytes, which are copied. Returns false if the client is behind with reading, so that not all bytes could be
   * sent at once. The caller must then send nothing more until `onDrained` is called.
   */
  send(bytes: Uint8Array): boolean {
    if (!this.#exchange.isOpen) return false
    current = this.#exchange
    message = bytes
    this.#exchange.response.cork(writeMessage)
    current = null
    return isTaken
  }

  /** Ends the answer as HTTP requires, so that the client sees a complete answer. */
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
