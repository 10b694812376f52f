/**
 * The routes of the files of posthog-js for PostHog's `<script>`: the SDK itself, and the scripts that it loads if the
 * page or the remote configuration needs them. Capturing events and deciding flags does not depend on these routes.
 * Source: docs/compatibility/decisions.md, "Snippet"; posthog-js `entrypoints/external-scripts-loader`.
 */
import type { Clock } from '../../../base/clock.ts'
import { ServiceError } from '../../../base/errors.ts'
import type { ProjectDirectory } from '../../../rules/access/project-directory.ts'
import { answerUnlessCached } from '../../server/etags.ts'
import type { Exchange } from '../../server/exchange.ts'
import { encodingOf, type RequestHead } from '../../server/framing.ts'
import { type PublicRecord, readable } from '../../server/public-route.ts'
import { type Answer, type Header, send, sendError } from '../../server/respond.ts'
import { done } from '../../server/route.ts'
import { projectOfPath } from './remote-config.ts'
import { SDK_LICENSE, type SdkFiles, type SdkRelease } from './sdk-files.ts'

/** The services that these routes need. */
export interface SdkRouteOptions {
  readonly clock: Clock
  readonly directory: Pick<ProjectDirectory, 'projectByKey'>
  readonly files: SdkFiles
}

/** The caching header for a path with the full version, whose content never changes. */
const KEPT: Header = ['Cache-Control', 'public, max-age=31536000, immutable']
/** The caching header for a path without the full version, whose content changes when another release is installed. */
const KEPT_BRIEFLY: Header = ['Cache-Control', 'public, max-age=300']
const VARY: Header = ['Vary', 'Accept-Encoding']

/** Sends a file. `version` is the version in the path, or null if the path has none. */
async function sendFile(
  { clock, files }: SdkRouteOptions,
  exchange: Exchange,
  head: RequestHead,
  name = '',
  version: string | null = null,
): Promise<void> {
  const release = await files.release(clock.monotonic())
  if (release === null) {
    const detail =
      'The files of posthog-js are not installed. Run `tenrec snippet install`, or use the npm package in your page.'
    throw new ServiceError('not_found', detail)
  }
  const encoding = encodingOf(head.acceptEncoding)
  const file = isVersionOf(release, version) ? await release.file(name, encoding) : null
  if (file === null) {
    const detail = `The installed version posthog-js ${release.version} has no file with this path.`
    sendError(exchange, new ServiceError('not_found', detail))
    return
  }
  const headers: Header[] = [version === release.version ? KEPT : KEPT_BRIEFLY, VARY]
  if (encoding !== 'identity') headers.push(['Content-Encoding', encoding])
  const isScript = name !== SDK_LICENSE
  const contentType = `${isScript ? 'application/javascript' : 'text/plain'}; charset=utf-8`
  const answer: Answer = { status: 200, contentType, body: file.bytes, isShared: true, headers }
  send(exchange, answerUnlessCached(head, file.etag, answer))
}

/** Returns true if the version in a path is the version of the release. A path may contain only the major version. */
function isVersionOf(release: SdkRelease, version: string | null): boolean {
  return (
    version === null || version === release.version || version === release.version.split('.')[0]
  )
}

const FILE = {
  answers: {
    200: { ...done(), type: 'application/javascript' },
    304: { description: 'The entity tag in If-None-Match is current.' },
  },
  errors: ['not_found', 'error'],
} as const

/** The routes of the files that PostHog's `<script>` loads. */
export const SDK_ROUTES: readonly PublicRecord<SdkRouteOptions>[] = [
  ...readable<SdkRouteOptions>({
    ...FILE,
    path: '/static/:name',
    id: 'SdkFile',
    summary: 'Returns a file of posthog-js.',
    handle: (services, exchange, head) => sendFile(services, exchange, head, head.segments[0]),
  }),
  ...readable<SdkRouteOptions>({
    ...FILE,
    path: '/static/:version/:name',
    id: 'SdkFileOfVersion',
    summary: 'Returns a file of a version of posthog-js.',
    handle: (services, exchange, head) =>
      sendFile(services, exchange, head, head.segments[1], head.segments[0]),
  }),
  ...readable<SdkRouteOptions>({
    ...FILE,
    path: '/array/:token/array.js',
    id: 'SdkOfProject',
    summary: 'Returns array.js for a project.',
    handle: (services, exchange, head) => {
      projectOfPath(services.directory, head)
      return sendFile(services, exchange, head, 'array.js')
    },
  }),
]
