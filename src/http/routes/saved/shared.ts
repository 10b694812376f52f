/**
 * The routes that show, without a key, the object that a sharing token opens. A browser gets a page that loads the
 * console's program, which then requests the object as JSON (the token followed by `.json`). Other clients, and
 * browsers without JavaScript, get a static page. The authors of the object are not named. If the link has a password,
 * nothing is shown until the reader has exchanged the password for a proof. Later requests send this proof. No cookie
 * is set. Source: docs/compatibility/saved.md, "Shared pages" and "Passwords of shared pages".
 */
import { ServiceError } from '../../../base/errors.ts'
import { pagePolicy } from '../../../base/html/html.ts'
import { timeText } from '../../../base/time.ts'
import type { SharedRequest } from '../../../engine/threads/saved-tasks.ts'
import type { SharePassword } from '../../../rules/saved/saved.ts'
import { shareProof } from '../../../rules/saved/shared-access.ts'
import { SHARED_STYLE } from '../../../rules/saved/shared-page.ts'
import { prefersType } from '../../server/framing.ts'
import type { Answer, Header } from '../../server/respond.ts'
import { ANYBODY, type Call, done, type Resource, routesOf } from '../../server/route.ts'
import { json } from '../../server/router.ts'
import * as is from '../../server/schema.ts'
import { addressBehindProxies } from '../../server/url.ts'
import { PASSWORD_CHARACTERS_MAX } from '../limits.ts'
import { ask } from '../organization/organization-services.ts'
import { DASHBOARD } from './dashboards.ts'
import { filledParts } from './filled-text.ts'
import { INSIGHT, type SavedServices } from './saved-services.ts'
import {
  DEAD_HEADERS,
  DEAD_PAGE,
  type Frames,
  LOCKED_PAGE,
  lockedHeaders,
  shellAround,
  shellHeaders,
} from './shared-shell.ts'

const TOKEN = /^([\w-]{32})(?:\.json)?$/
const HTML_TYPE = 'text/html; charset=utf-8'
/** The headers of the static page, which say who may embed it in a frame: pages of any origin (`*`) or none. */
const STATIC_HEADERS: Readonly<Record<Frames, readonly Header[]>> = {
  '*': [['Content-Security-Policy', pagePolicy(SHARED_STYLE, '*')]],
  "'none'": [['Content-Security-Policy', pagePolicy(SHARED_STYLE, "'none'")]],
}
/** The title of a page whose content is shown only with a password. */
const LOCKED_TITLE = 'Shared page'
/**
 * Headers that keep the content out of caches and search engines. They also keep the URL, which contains the token, out
 * of the Referer header.
 */
const HEADERS: readonly Header[] = [
  ['Cache-Control', 'no-store'],
  ['Referrer-Policy', 'no-referrer'],
  ['X-Robots-Tag', 'noindex'],
]
const SETTING = is.about(is.BOOLEAN, 'Present only if it is true.')
const SHARED = is.namedObject(
  'Shared',
  { type: is.choice('scene', 'embed'), accessToken: is.TEXT, themes: is.list(is.ANY) },
  {
    dashboard: DASHBOARD,
    insight: INSIGHT,
    whitelabel: SETTING,
    noHeader: SETTING,
    showInspector: SETTING,
    legend: SETTING,
    detailed: SETTING,
    hideExtraDetails: SETTING,
    rangeChangesAllowed: SETTING,
  },
)
const PLAIN = is.options({
  plain: is.about(is.TEXT, 'If it is 1, browsers get the static page too.'),
  range: is.about(is.TEXT, 'The range of all charts, such as 7d, if the link allows other ranges.'),
})
const PASSWORD = is.named(
  'SharedPassword',
  is.openObject({ password: is.text(PASSWORD_CHARACTERS_MAX) }, {}),
)
const UNLOCKED = is.namedObject('UnlockedShared', {
  shareToken: is.about(is.TEXT, 'Send it as "Authorization: Bearer <shareToken>".'),
  expires_at: is.TIME,
})
const CONTENT = {
  query: PLAIN,
  answers: { 200: { ...done(SHARED), type: 'text/html' } },
  errors: [
    ...(['not_found', 'not_authenticated', 'permission_denied'] as const),
    ...(['invalid_input', 'error', 'server_error'] as const),
  ],
} as const
const UNLOCKING = {
  body: PASSWORD,
  answers: { 200: done(UNLOCKED) },
  // The audit log has no entries for this route: it changes nothing, and strangers could fill the log.
  audits: false,
  errors: [
    ...(['not_found', 'authentication_failed', 'invalid_input', 'parse_error'] as const),
    ...(['request_too_large', 'unsupported_media_type', 'throttled'] as const),
    ...(['error', 'server_error'] as const),
  ],
} as const

const route = routesOf<SavedServices>('', ANYBODY)

/** The routes of shared pages. */
export const SHARED_RESOURCE: Resource<SavedServices> = {
  name: 'Shared pages',
  sentence: 'Insights and dashboards for anyone who has the token. No key is needed.',
  segments: {
    token: is.about(is.TEXT, 'Sharing token. With .json at the end, the answer is JSON.'),
  },
  routes: [
    route('GET', '/shared/:token/', 'getShared', 'Shows the shared insight or dashboard.', {
      ...CONTENT,
      respond: (call) => answerShared(call, 'scene'),
    }),
    route(
      'GET',
      '/embedded/:token/',
      'getEmbedded',
      'Shows the shared insight or dashboard, for embedding in a frame.',
      {
        ...CONTENT,
        respond: (call) => answerShared(call, 'embed'),
      },
    ),
    route(
      'POST',
      '/shared/:token/',
      'unlockShared',
      'Exchanges the password of a link for a token that opens it for some hours.',
      { ...UNLOCKING, respond: unlock },
    ),
    route('POST', '/embedded/:token/', 'unlockEmbedded', 'Same as POST /shared/:token.', {
      ...UNLOCKING,
      respond: unlock,
    }),
  ],
}

async function answerShared(
  call: Call<SavedServices, typeof PLAIN>,
  type: SharedRequest['type'],
): Promise<Answer> {
  const { clock, computeShared: compute, showShared, shell } = call.services
  const name = call.request.parameter('token')
  const [, token] = TOKEN.exec(name) ?? []
  const isJson = name.endsWith('.json')
  const isBrowser = !isJson && prefersType(call.request.head.accept, 'text/html')
  const { plain, range = null } = call.query()
  const isShell = isBrowser && shell !== null && plain !== '1'
  // The page that loads the console's program contains only the title. The program later requests the content, with the
  // range.
  const wish = isShell
    ? { format: 'title' as const, range: null, proof: '' }
    : { format: isJson ? ('json' as const) : ('html' as const), range, proof: proofOf(call) }
  const found = token === undefined ? null : await showShared({ token, type, ...wish })
  if (found === null) {
    if (isBrowser) return pageOf(404, [Buffer.from(DEAD_PAGE)], DEAD_HEADERS)
    throw nothingShared()
  }
  const { shown, isEmbeddable } = found
  const frames = isEmbeddable ? '*' : "'none'"
  if (isShell) {
    const place = type === 'embed' ? 'embedded' : 'shared'
    const [before, after] = shellAround(shell, `/${place}/${token}?plain=1`)
    const title = shown?.text ?? Buffer.from(LOCKED_TITLE)
    return pageOf(200, [Buffer.from(before), title, Buffer.from(after)], shellHeaders(frames))
  }
  if (shown === null) {
    if (isBrowser) return pageOf(401, [Buffer.from(LOCKED_PAGE)], lockedHeaders(frames))
    throw new ServiceError(
      'not_authenticated',
      'This shared page needs a password. Send it with POST to this address, without `.json`, and then send the `shareToken` of the answer in the header "Authorization: Bearer <shareToken>".',
    )
  }
  const body = await filledParts(shown, { clock, compute })
  if (!isJson) return pageOf(200, body, STATIC_HEADERS[frames])
  return { status: 200, contentType: 'application/json', body, headers: HEADERS }
}

/**
 * Exchanges the password of a link for a proof. Answers 404 both for a link without a password and for a link that
 * opens nothing. A failure counts as a failed login of the IP address and of the link.
 */
async function unlock(call: Call<SavedServices, is.Schema, typeof PASSWORD>): Promise<Answer> {
  const { request, services } = call
  const { clock, limits, passwords } = services
  // The address is read before anything asynchronous, because it is lost when the client leaves.
  const { forwardedFor } = request.head
  const address = addressBehindProxies(request.peerAddress, forwardedFor, services.trustedProxies)
  const { password } = call.body()
  const [, token = ''] = TOKEN.exec(request.parameter('token')) ?? []
  const lock = token === '' ? null : await ask(call, 'shareLock', token)
  if (lock?.isPasswordRequired !== true) throw nothingShared()
  const find = async (): Promise<SharePassword | null> => {
    for (const one of lock.passwords) if (await passwords.isRight(password, one.hash)) return one
    return null
  }
  // The failures are counted for an account whose name contains a space. No e-mail address does, so it is not the
  // account of a user.
  const right = await limits.attempt(address, find, `shared ${token}`, 'share_failures')
  if (right === null) throw new ServiceError('authentication_failed', 'The password is wrong.')
  const { text, untilMs } = shareProof(token, right, clock.now())
  return json({ shareToken: text, expires_at: timeText(untilMs) }, 200, HEADERS)
}

/** Returns the proof in the Authorization header of a request, or '' if there is none. */
function proofOf({ request }: Pick<Call<SavedServices>, 'request'>): string {
  return /^Bearer\s+(\S+)$/.exec(request.head.authorization)?.[1] ?? ''
}

function nothingShared(): ServiceError {
  return new ServiceError('not_found', 'Nothing is shared under this address.')
}

function pageOf(status: number, body: readonly Uint8Array[], own: readonly Header[]): Answer {
  return { status, contentType: HTML_TYPE, body, headers: [...HEADERS, ...own] }
}
