/**
 * Streams that tell a client that the flags of its project have changed: one stream for OpenFeature's protocol (OFREP),
 * and one for clients without an SDK. A message contains the version of the flags, but nothing about the flags
 * themselves. Source: docs/compatibility/decisions.md, "Changes of flags".
 */
import { ServiceError } from '../../../base/errors.ts'
import type {
  FlagListenerRequest,
  FlagListeners,
  FlagMessageForm,
} from '../../../engine/front/flag-listeners.ts'
import type { Project, ProjectDirectory } from '../../../rules/access/project-directory.ts'
import type { Exchange } from '../../server/exchange.ts'
import type { RequestHead } from '../../server/framing.ts'
import { type PublicRecord, pascalCase, preflight } from '../../server/public-route.ts'
import { sendStream } from '../../server/respond.ts'
import { ANYBODY } from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { addressBehindProxies, baseUrl, type TrustedProxies } from '../../server/url.ts'

/** The number of seconds after which a hidden page should close its stream. This is the default of OFREP. */
const INACTIVITY_SECONDS = 120
const OFREP_PATH = '/ofrep/v1/event_stream'

/** The services and settings of the streams. */
export interface FlagChangeOptions {
  /** Finds projects for requests to open a stream. Each such request is counted against the limits of the project. */
  readonly directory: Pick<ProjectDirectory, 'projectByKey'>
  /** Finds projects without counting a request. */
  readonly projects: Pick<ProjectDirectory, 'projectByKey'>
  readonly listeners: Pick<FlagListeners, 'isOn' | 'refusalFor' | 'open'>
  readonly publicUrl: string | null
  readonly trustedProxies: TrustedProxies
}

/** A stream of flag changes in the form in which answers of OFREP describe it. */
export interface OfrepStream {
  readonly type: 'sse'
  readonly url: string
  readonly inactivityDelaySec: number
}

/**
 * Returns descriptions of the streams that a client of a project may open. The answer to an OFREP evaluation contains
 * them.
 */
export function ofrepStreams(
  { listeners, publicUrl, trustedProxies }: FlagChangeOptions,
  exchange: Pick<Exchange, 'peerAddress'>,
  head: RequestHead,
  project: Pick<Project, 'apiKey'>,
): readonly OfrepStream[] {
  if (!listeners.isOn) return []
  const base = baseUrl({ head, peerAddress: exchange.peerAddress }, { publicUrl, trustedProxies })
  const url = `${base}${OFREP_PATH}?token=${encodeURIComponent(project.apiKey)}`
  return [{ type: 'sse', url, inactivityDelaySec: INACTIVITY_SECONDS }]
}

/** Opens a stream. Throws `ServiceError` if the key is wrong or if there are too many streams. */
function listen(
  options: FlagChangeOptions,
  form: FlagMessageForm,
  exchange: Exchange,
  head: RequestHead,
): void {
  const { directory, projects, listeners, trustedProxies } = options
  // A request with a chunked body is refused. Its connection would have to be closed at the end of the answer (see
  // `Exchange.endsConnection`), but this answer never ends by itself.
  if (head.isChunked) throw new ServiceError('bad_request', 'Send this request without a body.')
  const key = keyOf(head)
  const project = directory.projectByKey(key)
  if (project === null) {
    throw new ServiceError('invalid_api_key', 'No project has this key. Check `token`.')
  }
  if (!listeners.isOn) {
    const detail = 'Streams of flag changes are turned off. Ask for the flags at intervals.'
    throw new ServiceError('not_found', detail)
  }
  const projectId = project.id
  const request: FlagListenerRequest = {
    projectId,
    address: addressBehindProxies(exchange.peerAddress, head.forwardedFor, trustedProxies),
    form,
    lastVersion: head.lastEventId,
    isAllowed: () => projects.projectByKey(key)?.id === projectId,
  }
  const refused = listeners.refusalFor(request)
  if (refused !== null) throw refused
  const stream = sendStream(exchange, {
    onDrained: () => listener.drained(),
    onLeft: () => listener.left(),
  })
  const listener = listeners.open(request, stream)
}

/** Returns the key in the query or in a header. Browsers can send it only in the query. Throws 401 if there is none. */
function keyOf({ query, apiKey, authorization }: RequestHead): string {
  const bearer = /^Bearer\s+(\S+)\s*$/i.exec(authorization)?.[1] ?? ''
  const key = new URLSearchParams(query).get('token') || apiKey || bearer
  if (key !== '') return key
  throw new ServiceError('no_api_key', 'The request has no project key. Send it as `token`.')
}

function streamOf(
  path: string,
  form: FlagMessageForm,
  description: string,
): readonly PublicRecord<FlagChangeOptions>[] {
  const id = pascalCase(path)
  return [
    {
      method: 'GET',
      path,
      id: `get${id}`,
      summary: 'Tells a client when the flags of its project have changed.',
      who: { ...ANYBODY, credentials: ['projectKey', 'projectKeyHeader'] },
      query: is.options({ token: is.about(is.TEXT, 'The project key, if no header has it.') }),
      answers: { 200: { description, type: 'text/event-stream' } },
      errors: ['invalid_api_key', 'not_found', 'throttled', 'server_error'],
      handle: (options, exchange, head) => listen(options, form, exchange, head),
    },
    preflight(path, id),
  ]
}

/** The routes that stream flag changes. */
export const FLAG_CHANGE_ROUTES: readonly PublicRecord<FlagChangeOptions>[] = [
  ...streamOf(
    OFREP_PATH,
    'ofrep',
    'A stream of server-sent events that does not end: message ({"type": "refetchEvaluation", "etag"}).',
  ),
  ...streamOf(
    '/flags/changes',
    'plain',
    'A stream of server-sent events that does not end: flags ({"version"}), at the beginning and after each change.',
  ),
]
