/** Requests of `node:http` in the shape of `front.ts`. */
import { IncomingMessage, METHODS } from 'node:http'
import type { FrontRequest } from './front.ts'

/** What takes the body of a request while it is parsed. */
export interface BodyTaker {
  takeBody(chunk: Buffer): void
  /** `hasTrailer`: lines of headers came behind the last chunk. */
  endBody(hasTrailer: boolean): void
}

const NO_PARAMETERS: readonly string[] = []

/**
 * A request that Node has parsed. Its body goes to `bodyTaker` in the moment in which it is parsed, instead of into the
 * buffer of a stream: so it is handed on before a request that follows in the same packet, and without a copy. Nobody
 * reads the stream, and it never ends.
 */
export class NodeRequest extends IncomingMessage implements FrontRequest {
  bodyTaker: BodyTaker | null = null
  parameters = NO_PARAMETERS
  #queryStart: number | undefined

  /** Called by the parser of `node:http`; null at the end. */
  override push(chunk: Buffer | null): boolean {
    if (chunk !== null) {
      this.bodyTaker?.takeBody(chunk)
      return true
    }
    this.bodyTaker?.endBody(this.rawTrailers.length > 0)
    this.bodyTaker = null
    return false
  }

  /** Called when the answer is out, to throw away what was not read: there is nothing. */
  override resume(): this {
    return this
  }

  /** The declared length of the body; -1 when it comes in chunks, 0 when there is none. */
  get declaredBytes(): number {
    const { headers } = this
    if (headers['transfer-encoding'] !== undefined) return -1
    const length = headers['content-length']
    return length === undefined ? 0 : Number(length)
  }

  getCaseSensitiveMethod(): string {
    return this.method ?? ''
  }

  getUrl(): string {
    const { url = '' } = this
    const start = this.#findQuery(url)
    return decoded(start < 0 ? url : url.slice(0, start))
  }

  getQuery(): string | undefined {
    const { url = '' } = this
    const start = this.#findQuery(url)
    return start < 0 ? undefined : decoded(url.slice(start + 1))
  }

  getHeader(lowerCaseName: string): string {
    return headerOf(this.rawHeaders, lowerCaseName)
  }

  getParameter(index: number): string | undefined {
    return this.parameters[index]
  }

  forEach(take: (name: string, value: string) => void): void {
    forEachHeader(this.rawHeaders, take)
  }

  #findQuery(url: string): number {
    this.#queryStart ??= url.indexOf('?')
    return this.#queryStart
  }
}

/** A request that Node's parser has refused, as far as its text can be read: to answer it, never to carry it out. */
export class RefusedRequest implements FrontRequest {
  parameters = NO_PARAMETERS
  readonly #method: string
  readonly #path: string
  readonly #query: string | undefined
  readonly #rawHeaders: readonly string[]

  /** The method is one of HTTP that Node knows. */
  get isKnownMethod(): boolean {
    return METHODS.includes(this.#method)
  }

  get method(): string {
    return this.#method
  }

  private constructor(line: RegExpExecArray, rawHeaders: readonly string[]) {
    const [, method = '', path = '', query] = line
    this.#method = method
    this.#path = path
    this.#query = query
    this.#rawHeaders = rawHeaders
  }

  /** Reads the text of a packet that begins with a request; null when it does not, or lacks the end of its headers. */
  static read(packet: Buffer): RefusedRequest | null {
    const end = packet.indexOf('\r\n\r\n')
    if (end < 0) return null
    const [first = '', ...lines] = packet.toString('latin1', 0, end).split('\r\n')
    const line = /^([!-~]+) (\/[^ ?]*)(?:\?([^ ]*))? HTTP\/1\.1$/.exec(first)
    if (line === null) return null
    const rawHeaders: string[] = []
    for (const header of lines) {
      const [, name, value] = /^([^\s:]+):[ \t]*(.*?)[ \t]*$/.exec(header) ?? []
      if (name === undefined || value === undefined) return null
      rawHeaders.push(name, value)
    }
    return new RefusedRequest(line, rawHeaders)
  }

  getCaseSensitiveMethod(): string {
    return this.#method
  }

  getUrl(): string {
    return decoded(this.#path)
  }

  getQuery(): string | undefined {
    return this.#query === undefined ? undefined : decoded(this.#query)
  }

  getHeader(lowerCaseName: string): string {
    return headerOf(this.#rawHeaders, lowerCaseName)
  }

  getParameter(index: number): string | undefined {
    return this.parameters[index]
  }

  forEach(take: (name: string, value: string) => void): void {
    forEachHeader(this.#rawHeaders, take)
  }
}

/** `raw` has names and values in turn, as the client wrote them. */
function forEachHeader(raw: readonly string[], take: (name: string, value: string) => void): void {
  for (let index = 0; index + 1 < raw.length; index += 2) {
    take((raw[index] ?? '').toLowerCase(), decoded(raw[index + 1] ?? ''))
  }
}

function headerOf(raw: readonly string[], lowerCaseName: string): string {
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const name = raw[index] ?? ''
    if (name.length !== lowerCaseName.length || name.toLowerCase() !== lowerCaseName) continue
    return decoded(raw[index + 1] ?? '')
  }
  return ''
}

/** Node reads bytes as Latin-1. They are UTF-8. */
function decoded(text: string): string {
  return /[\x80-\xff]/.test(text) ? Buffer.from(text, 'latin1').toString('utf8') : text
}
