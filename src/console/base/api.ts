/**
 * The daemon's API as pages ask it. Paths, parameters and answers are typed from the API's own description;
 * what no route answers does not compile. The cookie of the session goes along by itself, the header says
 * that it was this console that asked.
 */
import { signal } from '@preact/signals'
import createClient from 'openapi-fetch'
import type { components, paths } from './api-types.d.ts'

/** Shapes that the description has a name for. */
export type Shapes = components['schemas']

/** Proves that a request comes from the console: no other page can send it. */
const CONSOLE_HEADER = 'X-Tenrec-Console'
/** Time after which what a page asks is asked by nobody: it does not keep the session alive. */
const ATTENDED_MS = 300_000
/** When somebody has touched the page. */
let touchedAtMs = performance.now()
for (const kind of ['pointerdown', 'keydown', 'wheel', 'touchmove']) {
  addEventListener(
    kind,
    () => {
      touchedAtMs = performance.now()
    },
    { capture: true, passive: true },
  )
}

/** A refusal of the daemon, or `status` 0 when it cannot be reached. */
export class ApiError extends Error {
  readonly status: number
  readonly code: string
  readonly attr: string | null

  constructor(
    status: number,
    { code, detail, attr }: { code: string; detail: string; attr?: string | null },
  ) {
    super(detail)
    this.status = status
    this.code = code
    this.attr = attr ?? null
  }
}

/** False while the daemon cannot be reached. */
export const isOnline = signal(true)

/** Called when the daemon does not know the session any more. */
let endSession = () => {}

/** Says what happens when a session has ended. */
export function onSessionEnd(act: () => void): void {
  endSession = act
}

/** Asks the daemon; the path stands behind its method. Use it within `ask`. */
export const api = createClient<paths>({
  baseUrl: location.origin,
  fetch: fetchSafely,
})

/** A request of the console whose failures are an `ApiError`. `location.origin` is the only host that is ever asked. */
export async function fetchSafely(request: Request): Promise<Response> {
  const isAttended = performance.now() - touchedAtMs < ATTENDED_MS
  request.headers.set(CONSOLE_HEADER, isAttended ? '1' : 'unattended')
  try {
    const response = await fetch(request)
    isOnline.value = true
    return response
  } catch (error) {
    if (request.signal.aborted) throw error
    if (isOnline.value) lookForDaemon()
    isOnline.value = false
    throw new ApiError(0, {
      code: 'unreachable',
      detail: 'The daemon does not answer. What you entered is kept: try again when it runs.',
    })
  }
}

const LOOK_MS = 2000

/** Resolves if the daemon answers. Throws an `ApiError`. */
export async function reachDaemon(): Promise<void> {
  await fetchSafely(new Request(`${location.origin}/robots.txt`))
}

/** Looks until the daemon is back; what could not be loaded is asked again then. */
function lookForDaemon(): void {
  setTimeout(() => void reachDaemon().catch(lookForDaemon), LOOK_MS)
}

interface Outcome<Data> {
  readonly data?: Data
  readonly error?: unknown
  readonly response: Response
}

/** The JSON of an answer; routes that also answer as a table are not asked for one. Throws an `ApiError`. */
export async function ask<Data>(
  outcome: Promise<Outcome<Data>>,
): Promise<Exclude<NonNullable<Data>, string>> {
  const { data, error, response } = await outcome
  if (response.ok) return data as Exclude<NonNullable<Data>, string>
  throw refusalOf(response.status, error)
}

/** What a body of a refusal says. */
export function refusalOf(status: number, body: unknown): ApiError {
  if (status === 401) endSession()
  const { code, detail, attr } = (body ?? {}) as { code?: string; detail?: string; attr?: string }
  return new ApiError(status, {
    code: code ?? 'error',
    detail: detail ?? `The daemon answered ${status}.`,
    attr: attr ?? null,
  })
}
