/** A client with its own loopback address, so that the daemon can distinguish an attacker from ordinary clients. */
import { Agent, request } from 'node:http'
import { PERSONAL_KEY, PROJECT_KEY } from '../fixtures/daemon.ts'
import type { Body } from './bodies.ts'

const ANSWER_MS_MAX = 120_000
/** The part of an answer that is kept. Of the rest, only the length counts. */
const ANSWER_BYTES_KEPT_MAX = 4 * 1024 ** 2
/** The maximum pause of a refused sender before it sends the same request again. */
const RETRY_MS_MAX = 1000

/** The outcome of a request. */
export interface Reply {
  /** 0 if the connection was refused or closed. */
  readonly status: number
  readonly ms: number
  /** Bytes of the body of the answer. */
  readonly bytes: number
  readonly text: string
  readonly retryAfterSeconds: number
}

export interface ClientOptions {
  readonly url: string
  /** The source address of the requests, such as 127.0.0.2. */
  readonly address: string
  readonly connectionsMax: number
  /** Sends `X-Forwarded-For` with this address, as a proxy on the same machine does. */
  readonly forwardedFor?: string
}

interface Outgoing {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: Buffer
}

/** The outcomes of a group of requests. */
export interface SendResult {
  /** Maps each status to the number of answers with it. */
  readonly statuses: Readonly<Record<string, number>>
  readonly bytes: number
  readonly acceptedEvents: number
}

export class Client {
  readonly #options: ClientOptions
  readonly #agent: Agent
  /** The times of the first and the last answer 503 to events, on the clock of `performance.now()`, or null. */
  refusedAtMs: readonly [number, number] | null = null

  constructor(options: ClientOptions) {
    this.#options = options
    const { connectionsMax } = options
    this.#agent = new Agent({ keepAlive: true, maxSockets: connectionsMax, timeout: 5000 })
  }

  /** Sends one compressed body of events. */
  async batch({ packed }: Body): Promise<Reply> {
    const headers = { 'Content-Type': 'application/json', 'Content-Encoding': 'gzip' }
    const reply = await this.#send({ method: 'POST', path: '/batch/', headers, body: packed })
    const nowMs = performance.now()
    if (reply.status === 503) this.refusedAtMs = [this.refusedAtMs?.[0] ?? nowMs, nowMs]
    return reply
  }

  /** Sends JSON to a public route, with the project key added. */
  post(path: string, value: object): Promise<Reply> {
    const body = Buffer.from(JSON.stringify({ api_key: PROJECT_KEY, ...value }))
    const headers = { 'Content-Type': 'application/json' }
    return this.#send({ method: 'POST', path, headers, body })
  }

  /** Reads or changes data below `/api/projects/1/` with the personal key. */
  api(method: string, path: string, value?: object): Promise<Reply> {
    const headers = { Authorization: `Bearer ${PERSONAL_KEY}`, 'Content-Type': 'application/json' }
    const outgoing = { method, path: `/api/projects/1/${path}`, headers }
    if (value === undefined) return this.#send(outgoing)
    const body = Buffer.from(JSON.stringify(value))
    return this.#send({ method, path: outgoing.path, headers, body })
  }

  get(path: string): Promise<Reply> {
    return this.#send({ method: 'GET', path, headers: {} })
  }

  /**
   * Sends bodies, `concurrency` at a time. A refused body is sent again after a pause, until `endMs` on the clock of
   * `performance.now()`.
   */
  async sendAll(bodies: readonly Body[], concurrency: number, endMs: number): Promise<SendResult> {
    const statuses: Record<string, number> = {}
    const waiting = [...bodies]
    let bytes = 0
    let acceptedEvents = 0
    const work = async (): Promise<void> => {
      for (let body = waiting.shift(); body !== undefined; body = waiting.shift()) {
        for (let isDone = false; !isDone && performance.now() < endMs; ) {
          const reply = await this.batch(body)
          bytes += body.packed.length
          statuses[reply.status] = (statuses[reply.status] ?? 0) + 1
          if (reply.status === 200) acceptedEvents += body.events
          isDone = reply.status !== 0 && reply.status !== 503 && reply.status !== 429
          const pauseMs = Math.min(RETRY_MS_MAX, Math.max(100, reply.retryAfterSeconds * 1000))
          if (!isDone) await pause(pauseMs)
        }
      }
    }
    await Promise.all(Array.from({ length: concurrency }, work))
    return { statuses, bytes, acceptedEvents }
  }

  close(): void {
    this.#agent.destroy()
  }

  #send({ method, path, headers, body }: Outgoing): Promise<Reply> {
    const { url, address, forwardedFor } = this.#options
    const startMs = performance.now()
    const allHeaders: Record<string, string | number> = { ...headers }
    if (forwardedFor !== undefined) allHeaders['X-Forwarded-For'] = forwardedFor
    if (body !== undefined) allHeaders['Content-Length'] = body.length
    return new Promise((resolve) => {
      let isAnswered = false
      const finish = (status: number, bytes = 0, text = '', retryAfterSeconds = 0): void => {
        if (isAnswered) return
        isAnswered = true
        resolve({ status, bytes, text, retryAfterSeconds, ms: performance.now() - startMs })
      }
      const outgoing = request(`${url}${path}`, {
        method,
        headers: allHeaders,
        localAddress: address,
        agent: this.#agent,
        timeout: ANSWER_MS_MAX,
      })
      outgoing.on('response', (incoming) => {
        const kept: Buffer[] = []
        let bytes = 0
        incoming.on('data', (chunk: Buffer) => {
          if (bytes < ANSWER_BYTES_KEPT_MAX) kept.push(chunk)
          bytes += chunk.length
        })
        incoming.on('error', () => finish(0))
        incoming.on('end', () => {
          const text = Buffer.concat(kept).toString('utf8')
          const retryAfter = Number(incoming.headers['retry-after'] ?? 0)
          finish(
            incoming.statusCode ?? 0,
            bytes,
            text,
            Number.isFinite(retryAfter) ? retryAfter : 0,
          )
        })
        incoming.on('close', () => finish(0))
      })
      outgoing.on('timeout', () => outgoing.destroy(new Error('no answer in time')))
      outgoing.on('error', () => finish(0))
      outgoing.end(body)
    })
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
