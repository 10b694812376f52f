/**
 * Asks a running daemon over HTTP, as any client does: with the address and the personal key from the
 * options, else from `credentials.json` in the data directory.
 */
import { OperatorError } from '../../base/errors.ts'
import { isObject } from '../../base/json.ts'
import { readCredentials } from '../../store/open-store.ts'
import { DAEMON_ANSWER_MS_MAX } from '../limits.ts'
import type { CommandInput, OptionDefinition } from './command.ts'
import { printable } from './output.ts'

/** Options of commands that ask a daemon. */
export const DAEMON_OPTIONS: readonly OptionDefinition[] = [
  {
    name: 'base-url',
    placeholder: 'URL',
    sentence: 'The daemon, such as http://127.0.0.1:8000; without it from credentials.json.',
  },
  {
    name: 'personal-key',
    placeholder: 'KEY',
    sentence: 'A personal key; without it from credentials.json.',
  },
]

/** Requests to one daemon. */
export class DaemonClient {
  readonly #baseUrl: string
  readonly #personalKey: string

  /** Throws `OperatorError` when it is not known whom to ask. */
  constructor(input: CommandInput) {
    const given = input.options.get('base-url')
    const key = input.options.get('personal-key')
    // The key of one daemon is nobody else's business.
    const stored = given === undefined ? readCredentials(input.settings().dataDir) : null
    const baseUrl = given ?? stored?.baseUrl
    const personalKey = key ?? stored?.personalKey
    if (baseUrl === undefined || personalKey === undefined) {
      const missing = baseUrl === undefined ? '--base-url and --personal-key' : '--personal-key'
      throw new OperatorError(`name the daemon with ${missing}: credentials.json does not`)
    }
    this.#baseUrl = baseUrl.replace(/\/+$/, '')
    this.#personalKey = personalKey
  }

  /**
   * Sends a request to a path behind the base URL. Answers the JSON of the body, null when there is
   * none. Throws `OperatorError` with the reason when the daemon refuses or does not answer.
   */
  async ask(method: string, path: string, body?: unknown): Promise<unknown> {
    const { status, answer } = await this.#send(method, path, body)
    return accepted(status, answer)
  }

  /** The same for reading something that may not be there: null after 404. */
  async find(path: string): Promise<unknown> {
    const { status, answer } = await this.#send('GET', path)
    return status === 404 ? null : accepted(status, answer)
  }

  async #send(
    method: string,
    path: string,
    body?: unknown,
  ): Promise<{ readonly status: number; readonly answer: unknown }> {
    const headers = { Authorization: `Bearer ${this.#personalKey}` }
    const content = body === undefined ? {} : { body: JSON.stringify(body) }
    try {
      const response = await fetch(`${this.#baseUrl}${path}`, {
        method,
        headers: body === undefined ? headers : { ...headers, 'Content-Type': 'application/json' },
        redirect: 'error',
        signal: AbortSignal.timeout(DAEMON_ANSWER_MS_MAX),
        ...content,
      })
      return { status: response.status, answer: parseAnswer(await response.text()) }
    } catch (cause) {
      const message = `no answer from ${this.#baseUrl}: is the daemon running?`
      throw new OperatorError(message, { cause })
    }
  }
}

function accepted(status: number, answer: unknown): unknown {
  if (status < 300) return answer
  const detail = isObject(answer) ? answer['detail'] : undefined
  const reason = typeof detail === 'string' ? printable(detail) : 'it gave no reason'
  throw new OperatorError(`the daemon answered ${status}: ${reason}`)
}

function parseAnswer(text: string): unknown {
  if (text === '') return null
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
