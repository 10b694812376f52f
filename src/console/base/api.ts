/**
 * Calls the API of the daemon. The types of paths, parameters and answers come from the API description, so that a call
 * of a route that does not exist fails to compile. The browser adds the session cookie. A header proves that the
 * request comes from the console.
 */
import { signal } from '@preact/signals'
import type { components, paths } from './api-types.d.ts'

/** The schemas that have a name in the API description. */
export type Shapes = components['schemas']

/** The header that proves that a request comes from the console. A page of another origin cannot send it. */
const CONSOLE_HEADER = 'X-Tenrec-Console'
/**
 * If the reader has made no input for this many milliseconds, the requests of the page count as unattended. Unattended
 * requests do not keep the session alive.
 */
const ATTENDED_MS = 300_000
/** The time of the last input of the reader, in milliseconds since the page was loaded. */
let touchedAtMs = performance.now()
const touch = () => {
  touchedAtMs = performance.now()
}
for (const kind of ['pointerdown', 'keydown', 'wheel', 'touchmove']) {
  addEventListener(kind, touch, { capture: true, passive: true })
}

/** An error that the daemon returned. `status` is 0 if the daemon cannot be reached. */
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

/** Returns the number of the project whose routes are called. */
let projectId: () => number | string = () => '@current'

/**
 * Sets the function that returns the number of the project whose routes are called. The function may throw an
 * `ApiError`.
 */
export function askAbout(tell: () => number): void {
  projectId = tell
}

/** The function that is called with the reason when the daemon no longer accepts the session. */
let endSession: (reason: string) => void = () => {}

/** Sets the function that is called when the session has ended. It gets the reason as a sentence. */
export function onSessionEnd(act: (reason: string) => void): void {
  endSession = act
}

/**
 * Sends a request. Throws an `ApiError` if the daemon cannot be reached. All requests go to `location.origin`, so that
 * the cookie is sent to no other server.
 */
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
      detail: 'Tenrec does not answer. Your input is kept. Try again when Tenrec runs.',
    })
  }
}

const LOOK_MS = 2000

/** Resolves if the daemon answers. Throws an `ApiError` otherwise. */
export async function reachDaemon(): Promise<void> {
  await fetchSafely(new Request(`${location.origin}/robots.txt`))
}

/** Retries until the daemon can be reached again. Pages then request the data that they could not load. */
function lookForDaemon(): void {
  setTimeout(() => void reachDaemon().catch(lookForDaemon), LOOK_MS)
}

/**
 * The routes by the names that pages use. The name of a route of the current project begins with `project/`, that of a
 * route of the organization with `organization/`. All other names are paths below `/api/`.
 */
type Routes = { [Path in keyof paths as Short<Path>]: paths[Path] }
type Short<Path> = Path extends `/api/projects/{project_id}/${infer Rest}`
  ? `project/${Rest}`
  : Path extends `/api/organizations/{org_id}/${infer Rest}`
    ? `organization/${Rest}`
    : Path extends `/api/${infer Rest}`
      ? Rest
      : never

type Method = 'get' | 'post' | 'put' | 'patch' | 'delete'
/** The names of the routes that accept a method. */
type RouteOf<M extends Method> = {
  [Name in keyof Routes]: Routes[Name] extends { readonly [K in M]: object } ? Name : never
}[keyof Routes]
type Operation<M extends Method, Name extends RouteOf<M>> = Routes[Name][M & keyof Routes[Name]]

/** The path and query parameters of a route, by name. */
type Values<Op> = Op extends { readonly parameters: infer All }
  ? Omit<In<All, 'path'>, 'project_id' | 'org_id'> & In<All, 'query'>
  : never
type In<All, Place extends string> = All extends { readonly [K in Place]?: infer Found }
  ? [NonNullable<Found>] extends [never]
    ? unknown
    : NonNullable<Found>
  : unknown
type Body<Op> = Op extends {
  readonly requestBody?: { readonly content: { readonly 'application/json': infer Taken } }
}
  ? Taken
  : unknown
/** The JSON in the answer of a route. The console does not request CSV tables. */
type Answer<Op> = Op extends { readonly responses: infer All }
  ? {
      [Status in keyof All & (200 | 201 | 202)]: All[Status] extends {
        readonly content: { readonly 'application/json': infer Given }
      }
        ? Given
        : undefined
    }[keyof All & (200 | 201 | 202)]
  : never

/** The names of the routes that accept GET. */
export type GetRoute = RouteOf<'get'>
/** The parameters of a route that accepts GET. */
export type ValuesOf<Name extends GetRoute> = Values<Operation<'get', Name>>
/** The answer of a route that accepts GET. */
export type Answered<Name extends GetRoute> = Answer<Operation<'get', Name>>

/** Requests a route with GET and returns its answer. Throws an `ApiError`. */
export async function get<Name extends GetRoute>(
  route: Name,
  values: ValuesOf<Name> = {} as never,
  signal?: AbortSignal,
): Promise<Answered<Name>> {
  return jsonOf(await send('get', route, { values, signal }))
}

/** Returns the function that calls routes with one method other than GET. That function throws an `ApiError`. */
function changing<M extends Method>(method: M) {
  return async <Name extends RouteOf<M>>(
    route: Name,
    values: Values<Operation<M, Name>>,
    body?: Body<Operation<M, Name>>,
    signal?: AbortSignal,
  ): Promise<Answer<Operation<M, Name>>> =>
    jsonOf(await send(method, String(route), { values, body, signal }))
}

/** Sends a POST, for a change or for a query that is too long for a URL. */
export const post = changing('post')
/** Sends a PUT, which replaces an object. */
export const put = changing('put')
/** Sends a PATCH, which changes some members of an object. */
export const patch = changing('patch')
/** Sends a DELETE. */
export const remove = changing('delete')

interface Sent {
  readonly values: object
  readonly body?: unknown
  readonly signal?: AbortSignal | undefined
}

/**
 * Calls a route and returns the response without reading its body. Throws an `ApiError` if the daemon answers with an
 * error.
 */
export async function send(
  method: Method,
  route: string,
  { values, body, signal }: Sent,
): Promise<Response> {
  const left = new Map<string, unknown>(Object.entries(values))
  const place = route
    .replace(/^project\//, () => `projects/${projectId()}/`)
    .replace(/^organization\//, 'organizations/@current/')
    .replace(/\{(\w+)\}/g, (_, name: string) => {
      const value = left.get(name)
      left.delete(name)
      return encodeURIComponent(String(value))
    })
  const query = new URLSearchParams()
  for (const [name, value] of left) {
    for (const one of [value ?? []].flat()) query.append(name, String(one))
  }
  const search = query.size === 0 ? '' : `?${query.toString()}`
  const request = new Request(`${location.origin}/api/${place}${search}`, {
    method: method.toUpperCase(),
    signal: signal ?? null,
    ...(body !== undefined && {
      body: JSON.stringify(body),
      headers: { 'Content-Type': 'application/json' },
    }),
  })
  const response = await fetchSafely(request)
  if (response.ok) return response
  throw refusalOf(response.status, await response.json().catch(() => null))
}

async function jsonOf<Data>(response: Response): Promise<Data> {
  const text = await response.text()
  // The type comes from the API description. If the response has no body, the value is undefined.
  return (text === '' ? undefined : JSON.parse(text)) as Data
}

/** Returns the error that the body of a response describes. */
export function refusalOf(status: number, body: unknown): ApiError {
  const { code, detail, attr } = (body ?? {}) as { code?: string; detail?: string; attr?: string }
  const error = new ApiError(status, {
    code: code ?? 'error',
    detail: detail ?? `Tenrec answered with the HTTP status ${status}.`,
    attr: attr ?? null,
  })
  if (status === 401) endSession(error.message)
  return error
}
