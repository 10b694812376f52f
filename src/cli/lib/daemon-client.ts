/**
 * Sends requests to a running daemon over HTTP, as any client does. The URL and the personal key come from options, or
 * else from `credentials.json` in the data directory.
 */
import { OperatorError, UsageError } from '../../base/errors.ts'
import { isObject, type JsonObject, parseJson } from '../../base/json.ts'
import { readCredentials } from '../../store/open-store.ts'
import { DAEMON_ANSWER_MS_MAX, METRICS_ANSWER_MS_MAX } from '../limits.ts'
import { type CommandInput, JSON_OPTION, type OptionTexts } from './command.ts'
import { printable } from './output.ts'

/** The option `--base-url`, which names a daemon. */
export const BASE_URL_OPTION: OptionTexts = {
  '--base-url URL':
    'Address of the daemon, such as http://127.0.0.1:8000. Default: the address in credentials.json.',
}

/** Options of commands that send requests to a daemon. */
export const DAEMON_OPTIONS: OptionTexts = {
  ...BASE_URL_OPTION,
  '--personal-key KEY': 'Personal key. Default: the key in credentials.json.',
}

/** Options of commands that also print the answer of the daemon. */
export const ANSWER_OPTIONS: OptionTexts = { ...DAEMON_OPTIONS, ...JSON_OPTION }

/** Returns a URL without slashes at its end. Throws `UsageError` if the text is not a URL. */
export function addressOf(url: string, example = 'http://127.0.0.1:8000'): string {
  if (URL.canParse(url) && /^https?:/.test(url)) return url.replace(/\/+$/, '')
  throw new UsageError(`--base-url: ${url} is not an address such as ${example}.`)
}

/** Returns the URL of the daemon from `--base-url` or `credentials.json`. Throws `UsageError` and `OperatorError`. */
export function daemonAddress(input: CommandInput): string {
  const url = input.text('base-url') ?? readCredentials(input.dataDir)?.baseUrl
  if (url !== undefined) return addressOf(url)
  throw new OperatorError(
    'There is no credentials.json that names the daemon. Name it with --base-url.',
  )
}

/** The answer of a daemon. */
export interface DaemonAnswer {
  readonly status: number
  readonly text: string
}

/** Sends a request to a path of a daemon. Throws `OperatorError` if the daemon does not answer. */
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
    throw new OperatorError(`No answer from ${baseUrl}. Is the daemon running?`, { cause })
  }
}

/** Sends requests to one daemon about one project. */
export class DaemonClient {
  readonly #baseUrl: string
  readonly #personalKey: string
  /** Path of the routes of the project, with a slash at its end. */
  readonly projectPath: string

  /** Throws `OperatorError` if the URL or the key is unknown, and `UsageError` for invalid options. */
  constructor(input: CommandInput) {
    const given = input.text('base-url')
    // The stored key belongs to one daemon and must not be sent to another one.
    const stored = given === undefined ? readCredentials(input.dataDir) : null
    const baseUrl = given ?? stored?.baseUrl
    const personalKey = input.text('personal-key') ?? stored?.personalKey
    if (baseUrl === undefined || personalKey === undefined) {
      throw new OperatorError(
        baseUrl === undefined
          ? 'There is no credentials.json that names the daemon. Give --base-url and --personal-key.'
          : 'Give --personal-key, too. The key in credentials.json is not used with --base-url.',
      )
    }
    this.#baseUrl = addressOf(baseUrl)
    this.#personalKey = personalKey
    this.projectPath = `/api/projects/${input.projectId}/`
  }

  /**
   * Sends a request to a path of the daemon. Returns the object in the body, or an empty object if there is no body.
   * Throws `OperatorError` with the reason if the daemon refuses the request or does not answer.
   */
  async ask(method: string, path: string, body?: unknown): Promise<JsonObject> {
    return accepted(await this.#send(method, path, body))
  }

  /** Reads an object that may not exist. Returns null for 404. */
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
  if (status < 300)
    throw new OperatorError(
      'The answer of the daemon is not a JSON object. Check the address of the daemon.',
    )
  const detail = isObject(answer) ? answer['detail'] : undefined
  const reason = typeof detail === 'string' ? printable(detail) : 'it gave no reason.'
  throw new OperatorError(`The daemon answered ${status}: ${reason}`)
}
