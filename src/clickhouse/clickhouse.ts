/**
 * The access to ClickHouse through its HTTP interface. It uses Node's own client, which keeps connections open and,
 * unlike fetch, sends rows without copying them. Every request may be repeated without harm: an inserted row replaces
 * an equal one, and a deletion selects its rows by a condition.
 */
import { once } from 'node:events'
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import type { WarehouseAddress } from '../config/warehouse-address.ts'
import { ANSWER_BYTES_MAX, INSERT_MS_MAX, QUERY_MS_MAX } from './limits.ts'

/** The error of a request to ClickHouse that failed. Its message never contains the password. */
export class WarehouseError extends Error {
  override readonly name = 'WarehouseError'
  /** True if ClickHouse itself refused the request. Sending the same request again then does not help. */
  readonly isRefusal: boolean

  constructor(message: string, isRefusal: boolean, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.isRefusal = isRefusal
  }
}

const EXPLANATION_CHARACTERS = 300
const OK = 200

/** Sends requests to ClickHouse. */
export class ClickHouse {
  readonly #address: WarehouseAddress
  readonly #agent: HttpAgent | HttpsAgent
  readonly #stopping: AbortSignal | null

  /** If `stopping` is aborted, all running requests are aborted. */
  constructor(address: WarehouseAddress, stopping: AbortSignal | null = null) {
    this.#address = address
    this.#agent = new (isSecure(address) ? HttpsAgent : HttpAgent)({ keepAlive: true })
    this.#stopping = stopping
  }

  /** The URL of the database, without user and password. */
  get place(): string {
    return `${this.#address.origin}/${this.#address.database}`
  }

  /**
   * Returns the whole answer to a statement, in its own memory. With `isAnywhere`, the request names no database, so
   * that the statement also works if the database does not exist yet. Throws `WarehouseError`.
   */
  ask(sql: string, { msMax = QUERY_MS_MAX, isAnywhere = false } = {}): Promise<Buffer> {
    // With `wait_end_of_query`, ClickHouse sends an answer only when the answer is complete. Otherwise, a failure in
    // the middle of an answer would look like its end.
    const query = { wait_end_of_query: '1', ...this.#databaseOf(isAnywhere) }
    return this.#send(query, sql, msMax)
  }

  /**
   * Inserts rows with the statement `insert`. Throws `WarehouseError`. After an error it is unknown whether the rows
   * were stored.
   */
  async insert(insert: string, rows: Uint8Array): Promise<void> {
    await this.#send({ query: insert, ...this.#databaseOf(false) }, rows, INSERT_MS_MAX)
  }

  #databaseOf(isAnywhere: boolean): Readonly<Record<string, string>> {
    return isAnywhere ? {} : { database: this.#address.database }
  }

  async #send(
    query: Readonly<Record<string, string>>,
    body: string | Uint8Array,
    msMax: number,
  ): Promise<Buffer> {
    try {
      return await this.#sendOnce(query, body, msMax)
    } catch (cause) {
      if (cause instanceof WarehouseError) throw cause
      // ClickHouse may have closed an idle connection at the moment when it was used again. The request is therefore
      // sent once more.
      if (isTimeout(cause)) throw this.#silent(cause, msMax)
      return await this.#sendOnce(query, body, msMax).catch((again: unknown) => {
        throw again instanceof WarehouseError ? again : this.#silent(again, msMax)
      })
    }
  }

  async #sendOnce(
    query: Readonly<Record<string, string>>,
    body: string | Uint8Array,
    msMax: number,
  ): Promise<Buffer> {
    const { origin, authorization } = this.#address
    const timeout = AbortSignal.timeout(msMax)
    const stopping = this.#stopping
    const send = isSecure(this.#address) ? httpsRequest : httpRequest
    const request = send(`${origin}/?${new URLSearchParams(query).toString()}`, {
      method: 'POST',
      agent: this.#agent,
      headers: {
        'content-length': Buffer.byteLength(body),
        ...(authorization === null ? {} : { authorization }),
      },
      signal: stopping === null ? timeout : AbortSignal.any([timeout, stopping]),
    })
    // If an error occurs after the start of an answer, the code that reads the body reports it. This listener only
    // prevents that the same error ends the process.
    request.on('error', () => {})
    request.end(body)
    try {
      const [response] = (await once(request, 'response')) as [IncomingMessage]
      return this.#answerOf(response.statusCode ?? 0, await bytesOf(response))
    } catch (cause) {
      throw timeout.aborted ? timeout.reason : cause
    }
  }

  #answerOf(status: number, answer: Buffer): Buffer {
    if (status === OK) return answer
    const text = answer.toString('utf8', 0, EXPLANATION_CHARACTERS).replace(/\s+/g, ' ').trim()
    throw new WarehouseError(`ClickHouse at ${this.place} refused the request: ${text}`, true)
  }

  #silent(cause: unknown, msMax: number): WarehouseError {
    const why = isTimeout(cause) ? ` within ${msMax} ms` : `: ${reasonOf(cause)}`
    return new WarehouseError(`ClickHouse at ${this.place} does not answer${why}`, false, cause)
  }
}

function isSecure({ origin }: WarehouseAddress): boolean {
  return origin.startsWith('https:')
}

async function bytesOf(response: IncomingMessage): Promise<Buffer> {
  const parts: Uint8Array[] = []
  let bytes = 0
  for await (const part of response) {
    // The cast is right: a response without an encoding yields Buffers.
    const chunk = part as Buffer
    bytes += chunk.length
    if (bytes > ANSWER_BYTES_MAX) {
      throw new WarehouseError(
        `An answer of ClickHouse has more than ${ANSWER_BYTES_MAX} bytes, so it was not read.`,
        true,
      )
    }
    parts.push(chunk)
  }
  const whole = Buffer.allocUnsafeSlow(bytes)
  let end = 0
  for (const part of parts) {
    whole.set(part, end)
    end += part.length
  }
  return whole
}

function isTimeout(cause: unknown): boolean {
  return cause instanceof DOMException && cause.name === 'TimeoutError'
}

function reasonOf(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause)
  return (cause as NodeJS.ErrnoException).code ?? cause.message
}
