/**
 * Asks a running daemon over HTTP, as any client does: at the address and with the personal key from the
 * options, else from `credentials.json` in the data directory.
 */
import { OperatorError, UsageError } from '../../base/errors.ts'
import { isObject, type JsonObject, parseJson } from '../../base/json.ts'
import { readCredentials } from '../../store/open-store.ts'
import { DAEMON_ANSWER_MS_MAX, METRICS_ANSWER_MS_MAX } from '../limits.ts'
import { type CommandInput, JSON_OPTION, type OptionTexts } from './command.ts'
import { printable } from './output.ts'

/** The option that names a daemon. */
export const BASE_URL_OPTION: OptionTexts = {
  '--base-url URL': 'The daemon, such as http://127.0.0.1:8000; without it from credentials.json.',
}

/** Options of commands that ask a daemon. */
export const DAEMON_OPTIONS: OptionTexts = {
  ...BASE_URL_OPTION,
  '--personal-key KEY': 'A personal key; without it from credentials.json.',
}

/** Options of those that also print what it answers. */
export const ANSWER_OPTIONS: OptionTexts = { ...DAEMON_OPTIONS, ...JSON_OPTION }

/** An address without a slash at its end. Throws `UsageError` for a text that is none. */
export function addressOf(url: string, example = 'http://127.0.0.1:8000'): string {
  if (URL.canParse(url) && /^https?:/.test(url)) return url.replace(/\/+$/, '')
  throw new UsageError(`--base-url: ${url} is no address such as ${example}`)
}

/** The address that `--base-url` or `credentials.json` names. Throws `UsageError` and `OperatorError`. */
export function daemonAddress(input: CommandInput): string {
  const url = input.text('base-url') ?? readCredentials(input.dataDir)?.baseUrl
  if (url !== undefined) return addressOf(url)
  throw new OperatorError('name the daemon with --base-url: credentials.json does not')
}

/** An answer of a daemon. */
export interface DaemonAnswer {
  readonly status: number
  readonly text: string
}

/** Sends a request to a path behind an address. Throws `OperatorError` when there is no answer. */
export async function ask(
  baseUrl: string,
  path: string,
  options: RequestInit = {},
  answerMsMax = METRICS_ANSWER_MS_MAX,
): Promise<DaemonAnswer> {
  try {
    const response = await fetch(`${baseUrl}${path}`, {
      redirect: 'manual',
      signal: AbortSignal.timeout(answerMsMax),
      ...options,
    })
    return { status: response.status, text: await response.text() }
  } catch (cause) {
    throw new OperatorError(`no answer from ${baseUrl}: is the daemon running?`, { cause })
  }
}

/** Requests to one daemon about one project. */
export class DaemonClient {
  readonly #baseUrl: string
  readonly #personalKey: string
  /** The path of the routes of the project, with a slash at its end. */
  readonly projectPath: string

  /** Throws `OperatorError` when it is not known whom to ask, and `UsageError`. */
  constructor(input: CommandInput) {
    const given = input.text('base-url')
    // The key of one daemon is nobody else's business.
    const stored = given === undefined ? readCredentials(input.dataDir) : null
    const baseUrl = given ?? stored?.baseUrl
    const personalKey = input.text('personal-key') ?? stored?.personalKey
    if (baseUrl === undefined || personalKey === undefined) {
      const missing = baseUrl === undefined ? '--base-url and --personal-key' : '--personal-key'
      throw new OperatorError(`name the daemon with ${missing}: credentials.json does not`)
    }
    this.#baseUrl = addressOf(baseUrl)
    this.#personalKey = personalKey
    this.projectPath = `/api/projects/${input.projectId}/`
  }

  /**
   * Sends a request to a path behind the base URL. Answers the object of the body, an empty one when there
   * is no body. Throws `OperatorError` with the reason when the daemon refuses or does not answer.
   */
  async ask(method: string, path: string, body?: unknown): Promise<JsonObject> {
    return accepted(await this.#send(method, path, body))
  }

  /** The same for reading something that may not be there: null after 404. */
  async find(path: string): Promise<JsonObject | null> {
    const answer = await this.#send('GET', path)
    return answer.status === 404 ? null : accepted(answer)
  }

  #send(method: string, path: string, body?: unknown): Promise<DaemonAnswer> {
    const options: RequestInit = {
      method,
      headers: { Authorization: `Bearer ${this.#personalKey}`, 'Content-Type': 'application/json' },
      body: body === undefined ? null : JSON.stringify(body),
      redirect: 'error',
    }
    return ask(this.#baseUrl, path, options, DAEMON_ANSWER_MS_MAX)
  }
}

function accepted({ status, text }: DaemonAnswer): JsonObject {
  const answer = text === '' ? {} : parseJson(text)
  if (status < 300 && isObject(answer)) return answer
  if (status < 300) throw new OperatorError('the daemon gave no answer that can be read')
  const detail = isObject(answer) ? answer['detail'] : undefined
  const reason = typeof detail === 'string' ? printable(detail) : 'it gave no reason'
  throw new OperatorError(`the daemon answered ${status}: ${reason}`)
}
