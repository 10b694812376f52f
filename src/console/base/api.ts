/**
 * The daemon's API as pages ask it. Paths, parameters and answers are typed from the API's own description;
 * what no route answers does not compile. The cookie of the session goes along by itself, the header says
 * that it was this console that asked.
 */
import { signal } from '@preact/signals'
import type { components, paths } from './api-types.d.ts'

/** Shapes that the description has a name for. */
export type Shapes = components['schemas']

/** Proves that a request comes from the console: no other page can send it. */
const CONSOLE_HEADER = 'X-Tenrec-Console'
/** Time after which what a page asks is asked by nobody: it does not keep the session alive. */
const ATTENDED_MS = 300_000
/** When somebody has touched the page. */
let touchedAtMs = performance.now()
const touch = () => {
  touchedAtMs = performance.now()
}
for (const kind of ['pointerdown', 'keydown', 'wheel', 'touchmove']) {
  addEventListener(kind, touch, { capture: true, passive: true })
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

/** Which project the page is about. */
let projectId: () => number | string = () => '@current'

/** Says which project routes are asked for. */
export function askAbout(tell: () => number): void {
  projectId = tell
}

/** Called when the daemon does not know the session any more. */
let endSession = () => {}

/** Says what happens when a session has ended. */
export function onSessionEnd(act: () => void): void {
  endSession = act
}

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

/**
 * Routes as pages name them: those of the project that the page is about below `project/`, those of the
 * organization below `organization/`, others as they stand below `/api/`.
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
/** Names of the routes that answer to a method. */
type RouteOf<M extends Method> = {
  [Name in keyof Routes]: Routes[Name] extends { readonly [K in M]: object } ? Name : never
}[keyof Routes]
type Operation<M extends Method, Name extends RouteOf<M>> = Routes[Name][M & keyof Routes[Name]]

/** What a route takes in its path and behind it, by name. */
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
/** Its JSON; routes that also answer as a table are not asked for one. */
type Answer<Op> = Op extends { readonly responses: infer All }
  ? {
      [Status in keyof All & (200 | 201 | 202)]: All[Status] extends {
        readonly content: { readonly 'application/json': infer Given }
      }
        ? Given
        : undefined
    }[keyof All & (200 | 201 | 202)]
  : never

/** Names of the routes that can be read. */
export type GetRoute = RouteOf<'get'>
/** What such a route takes. */
export type ValuesOf<Name extends GetRoute> = Values<Operation<'get', Name>>
/** What it answers. */
export type Answered<Name extends GetRoute> = Answer<Operation<'get', Name>>

/** Asks a route. Throws an `ApiError`. */
export async function get<Name extends GetRoute>(
  route: Name,
  values: ValuesOf<Name> = {} as never,
  signal?: AbortSignal,
): Promise<Answered<Name>> {
  return jsonOf(await send('get', route, { values, signal }))
}

/** What a page is asked for by methods that change something. Throws an `ApiError`. */
function changing<M extends Method>(method: M) {
  return async <Name extends RouteOf<M>>(
    route: Name,
    values: Values<Operation<M, Name>>,
    body?: Body<Operation<M, Name>>,
    signal?: AbortSignal,
  ): Promise<Answer<Operation<M, Name>>> =>
    jsonOf(await send(method, String(route), { values, body, signal }))
}

/** Asks to change something, or a question that is too long for an address. */
export const post = changing('post')
/** Puts something in the place of what is there. */
export const put = changing('put')
/** Changes some of what is there. */
export const patch = changing('patch')
/** Asks for DELETE. */
export const remove = changing('delete')

interface Sent {
  readonly values: object
  readonly body?: unknown
  readonly signal?: AbortSignal | undefined
}

/** The answer of a route, unread. Throws an `ApiError` when it is a refusal. */
export async function send(
  method: Method,
  route: string,
  { values, body, signal }: Sent,
): Promise<Response> {
  const left = new Map<string, unknown>(Object.entries(values))
  const place = route
    .replace(/^project\//, `projects/${projectId()}/`)
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
  // The description says what comes; without a body it is nothing.
  return (text === '' ? undefined : JSON.parse(text)) as Data
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
