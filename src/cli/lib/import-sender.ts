/**
 * Sends request bodies to a daemon, one after the other over one connection, because the result for persons depends on
 * the order of events. While one body is in flight, the next one is being filled.
 */
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { setTimeout as sleep } from 'node:timers/promises'
import { OperatorError } from '../../base/errors.ts'
import { isObject, parseJson } from '../../base/json.ts'
import {
  IMPORT_ANSWER_BYTES_MAX,
  IMPORT_ANSWER_MS_MAX,
  IMPORT_ATTEMPTS_MAX,
  IMPORT_DETAIL_CHARACTERS_MAX,
  IMPORT_RETRY_MS_MAX,
} from '../limits.ts'
import { printable } from './output.ts'

const RETRY_MS_DEFAULT = 1000

interface Answer {
  readonly status: number
  readonly retryAfter: string
  readonly text: string
}

/** Thrown if the daemon, or a proxy in front of it, refuses a body because of its content. */
export class RefusedBodyError extends OperatorError {
  /** Reason in the answer of the server. */
  readonly reason: string

  constructor(message: string, reason: string) {
    super(message)
    this.reason = reason
  }
}

/**
 * A server answers with these statuses if the events in a body are at fault, and not the sender. Firewalls answer 403
 * and 406 to texts that look like an attack.
 */
const STATUSES_OF_CONTENT = [400, 403, 406, 413, 422]
/** A server answers with these statuses, or with any from `SERVER_ERROR`, if the same body may be accepted later. */
const STATUSES_OF_LOAD = [408, 425, 429]
const SERVER_ERROR = 500

/** A connection to a daemon. Close it when no request is in flight. */
export class BodySender {
  readonly #url: URL
  readonly #agent: HttpAgent | HttpsAgent
  readonly #onWait: (text: string) => void
  #toldReason = ''

  /**
   * `onWait` is called with the reason why a body is sent again, unless the reason is the same as in the previous call.
   */
  constructor(url: string, onWait: (text: string) => void) {
    this.#url = new URL(url)
    this.#onWait = onWait
    const options = { keepAlive: true, maxSockets: 1 }
    this.#agent = this.#url.protocol === 'https:' ? new HttpsAgent(options) : new HttpAgent(options)
  }

  /**
   * Sends a body, and retries while the daemon is busy or restarts. Rejects with `RefusedBodyError` if the events are
   * refused. Rejects with `OperatorError` if the request is refused for another reason, or if the daemon accepts
   * nothing for too long.
   */
  async send(body: Buffer): Promise<void> {
    let reason = 'it does not answer'
    for (let attempt = 0; attempt < IMPORT_ATTEMPTS_MAX; attempt++) {
      const answer = await this.#post(body).catch((error: unknown) => {
        reason = reasonOf(error)
        return null
      })
      if (answer?.status === 200) {
        this.#checkAccepted(answer.text)
        return
      }
      let retryMs = RETRY_MS_DEFAULT
      if (answer !== null) {
        reason = `${answer.status}: ${detailOf(answer.text)}`
        if (!isTemporary(answer.status)) {
          const message = `${this.#url.href} answered ${printable(reason)}`
          if (STATUSES_OF_CONTENT.includes(answer.status)) {
            throw new RefusedBodyError(message, printable(reason))
          }
          throw new OperatorError(message)
        }
        retryMs = retryMsOf(answer.retryAfter)
      }
      if (attempt === 0) this.#tell(printable(reason))
      await sleep(retryMs)
    }
    throw new OperatorError(
      `${this.#url.href} accepted no events for a long time: ${printable(reason)}`,
    )
  }

  /** Throws `OperatorError` if an answer with the status 200 does not mean that the events are stored. */
  #checkAccepted(text: string): void {
    const body = parseJson(text)
    const limited = isObject(body) ? body['quota_limited'] : undefined
    if (Array.isArray(limited) && limited.includes('events')) {
      throw new OperatorError(
        `${this.#url.href} stores no more events today: a daily limit of the project is reached. Raise it with 'tenrec project set', or wait until midnight UTC. Then continue with --resume.`,
      )
    }
    if (!isObject(body) || !Object.hasOwn(body, 'status')) {
      throw new OperatorError(
        `${this.#url.href} answered 200, but not as Tenrec does: ${printable(detailOf(text))}. Check --base-url.`,
      )
    }
  }

  #tell(reason: string): void {
    if (reason === this.#toldReason) return
    this.#toldReason = reason
    this.#onWait(`waiting, because ${this.#url.href} accepts no events now: ${reason}`)
  }

  close(): void {
    this.#agent.destroy()
  }

  #post(body: Buffer): Promise<Answer> {
    const request = this.#url.protocol === 'https:' ? httpsRequest : httpRequest
    return new Promise((resolve, reject) => {
      const sent = request(
        this.#url,
        {
          method: 'POST',
          agent: this.#agent,
          headers: { 'Content-Type': 'application/json', 'Content-Length': body.length },
          signal: AbortSignal.timeout(IMPORT_ANSWER_MS_MAX),
        },
        (response) => {
          readAnswer(response).then(resolve, reject)
        },
      )
      sent.once('error', reject)
      sent.end(body)
    })
  }
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  // If a name has several addresses and none of them answers, the error has a code, but no message.
  return error.message === '' && 'code' in error ? String(error.code) : error.message
}

function isTemporary(status: number): boolean {
  return status >= SERVER_ERROR || STATUSES_OF_LOAD.includes(status)
}

/** Returns for how long a `Retry-After`, in seconds or as a date, asks to wait, in milliseconds. */
function retryMsOf(retryAfter: string): number {
  const seconds = Number(retryAfter)
  const ms = Number.isNaN(seconds) ? Date.parse(retryAfter) - Date.now() : seconds * 1000
  return ms > 0 ? Math.min(ms, IMPORT_RETRY_MS_MAX) : RETRY_MS_DEFAULT
}

async function readAnswer(response: IncomingMessage): Promise<Answer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of response) {
    if (!Buffer.isBuffer(chunk) || bytes > IMPORT_ANSWER_BYTES_MAX) continue
    chunks.push(chunk)
    bytes += chunk.length
  }
  return {
    status: response.statusCode ?? 0,
    retryAfter: response.headers['retry-after'] ?? '',
    text: Buffer.concat(chunks).toString('utf8'),
  }
}

/** Returns the reason that an answer contains. If the answer does not come from Tenrec, it is returned unchanged. */
function detailOf(text: string): string {
  const body = parseJson(text)
  const detail = isObject(body) ? body['detail'] : undefined
  return typeof detail === 'string' ? detail : text.slice(0, IMPORT_DETAIL_CHARACTERS_MAX)
}
