/** The requests of `node:http`, with the interface of `front.ts`. */
import { IncomingMessage } from 'node:http'
import type { FrontRequest } from './front.ts'

/** Receives the body of a request while it is parsed. */
export interface BodyTaker {
  takeBody(chunk: Buffer): void
  /** Ends the body. `hasTrailer` is true if header lines followed the last chunk. */
  endBody(hasTrailer: boolean): void
}

/**
 * A request that Node has parsed. Its body goes directly to `bodyTaker` while it is parsed, and not into the buffer of
 * a stream. The body is therefore passed on without a copy, and before the next request in the same packet is parsed.
 * The stream itself is never read, and ends only if `release` is called.
 */
export class NodeRequest extends IncomingMessage {
  bodyTaker: BodyTaker | null = null

  /** Called by the parser of `node:http` with each chunk of the body, and with null at its end. */
  override push(chunk: Buffer | null): boolean {
    if (chunk !== null) {
      this.bodyTaker?.takeBody(chunk)
      return true
    }
    this.bodyTaker?.endBody(this.rawTrailers.length > 0)
    this.bodyTaker = null
    return false
  }

  /**
   * Called by Node after the answer, to discard the rest of the body. Does nothing, because `push` passes on every
   * chunk, so no rest is stored.
   */
  override resume(): this {
    return this
  }

  /**
   * Ends the stream, so that Node releases the request. Otherwise Node holds it until the next request on the
   * connection. Does nothing before the whole request has been received.
   */
  release(): void {
    if (!this.complete) return
    super.push(null)
    super.resume()
  }

  /** The declared length of the body in bytes: -1 if it is chunked, 0 if there is none. */
  get declaredBytes(): number {
    const { headers } = this
    if (headers['transfer-encoding'] !== undefined) return -1
    const length = headers['content-length']
    return length === undefined ? 0 : Number(length)
  }
}

/** The head of a request. */
export class NodeHead implements FrontRequest {
  parameters: readonly string[] = []
  readonly #method: string
  readonly #address: string
  /** The names and values of the headers, alternately, as the client wrote them. */
  readonly #headers: readonly string[]
  readonly #pathEnd: number

  /** `address` and `headers` are texts as Node reads them: each character stands for one byte. */
  constructor(method: string, address: string, headers: readonly string[]) {
    this.#method = method
    this.#address = address
    this.#headers = headers
    this.#pathEnd = address.indexOf('?')
  }

  /**
   * Reads the head of a request that Node's parser has refused, from the packet that begins with it. The result is only
   * used to answer the request, never to execute it. Returns null if the packet does not begin with a request, or if
   * the headers are incomplete.
   */
  static ofRefused(packet: Buffer): NodeHead | null {
    const end = packet.indexOf('\r\n\r\n')
    if (end < 0) return null
    const [first = '', ...lines] = packet.toString('latin1', 0, end).split('\r\n')
    const [, method, address] = /^([!-~]+) (\/[^ ]*) HTTP\/1\.1$/.exec(first) ?? []
    if (method === undefined || address === undefined) return null
    const headers: string[] = []
    for (const line of lines) {
      const [, name, value] = /^([^\s:]+):[ \t]*(.*?)[ \t]*$/.exec(line) ?? []
      if (name === undefined || value === undefined) return null
      headers.push(name, value)
    }
    return new NodeHead(method, address, headers)
  }

  getCaseSensitiveMethod(): string {
    return this.#method
  }

  getUrl(): string {
    return decoded(this.#pathEnd < 0 ? this.#address : this.#address.slice(0, this.#pathEnd))
  }

  getQuery(): string | undefined {
    return this.#pathEnd < 0 ? undefined : decoded(this.#address.slice(this.#pathEnd + 1))
  }

  getHeader(lowerCaseName: string): string {
    const { length } = this.#headers
    for (let index = 0; index + 1 < length; index += 2) {
      const name = this.#headers[index] ?? ''
      if (name.length !== lowerCaseName.length || name.toLowerCase() !== lowerCaseName) continue
      return decoded(this.#headers[index + 1] ?? '')
    }
    return ''
  }

  getParameter(index: number): string | undefined {
    return this.parameters[index]
  }

  forEach(take: (name: string, value: string) => void): void {
    const { length } = this.#headers
    for (let index = 0; index + 1 < length; index += 2) {
      take((this.#headers[index] ?? '').toLowerCase(), decoded(this.#headers[index + 1] ?? ''))
    }
  }
}

/** Decodes a text in which each character stands for one byte of UTF-8. */
function decoded(text: string): string {
  return /[\x80-\xff]/.test(text) ? Buffer.from(text, 'latin1').toString('utf8') : text
}
