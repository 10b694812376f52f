/**
 * Shows the object that a sharing token opens, without a key: as a page, or as JSON if `.json` follows the token. A
 * browser gets a page that loads the console's program, which reads the JSON. Other clients, and browsers without
 * JavaScript, get a static page. Authors are not named. Source: docs/compatibility/saved.md, "Shared pages".
 */
import { ServiceError } from '../../../base/errors.ts'
import { pagePolicy } from '../../../base/html/html.ts'
import type { SharedRequest } from '../../../engine/threads/saved-tasks.ts'
import { SHARED_STYLE } from '../../../rules/saved/shared-page.ts'
import { prefersType } from '../../server/framing.ts'
import type { Answer, Header } from '../../server/respond.ts'
import { ANYBODY, type Call, done, type Resource, routesOf } from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { DASHBOARD } from './dashboards.ts'
import { filledParts } from './filled-text.ts'
import { INSIGHT, type SavedServices } from './saved-services.ts'
import { DEAD_HEADERS, DEAD_PAGE, SHELL_HEADERS, shellAround } from './shared-shell.ts'

const TOKEN = /^([\w-]{32})(?:\.json)?$/
const HTML_TYPE = 'text/html; charset=utf-8'
/** The headers of the static page. Pages of any origin may show it in a frame. */
const STATIC_HEADERS: readonly Header[] = [
  ['Content-Security-Policy', pagePolicy(SHARED_STYLE, '*')],
]
/** Keeps caches, referrers and search engines from storing the content or the URL, which contains the token. */
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
  },
)
const PLAIN = is.options({
  plain: is.about(is.TEXT, 'If it is 1, browsers get the static page too.'),
})
const CONTENT = {
  query: PLAIN,
  answers: { 200: { ...done(SHARED), type: 'text/html' } },
  errors: ['not_found', 'error', 'server_error'],
} as const

const route = routesOf<SavedServices>('', ANYBODY)

/** The shared pages. */
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
  const isShell = isBrowser && shell !== null && call.query().plain !== '1'
  const format = isShell ? 'title' : isJson ? 'json' : 'html'
  const shown = token === undefined ? null : await showShared({ token, format, type })
  if (shown === null) {
    if (isBrowser) return pageOf(404, [Buffer.from(DEAD_PAGE)], DEAD_HEADERS)
    throw new ServiceError('not_found', 'Nothing is shared under this address.')
  }
  if (isShell) {
    const place = type === 'embed' ? 'embedded' : 'shared'
    const [before, after] = shellAround(shell, `/${place}/${token}?plain=1`)
    return pageOf(200, [Buffer.from(before), shown.text, Buffer.from(after)], SHELL_HEADERS)
  }
  const body = await filledParts(shown, { clock, compute })
  if (format === 'html') return pageOf(200, body, STATIC_HEADERS)
  return { status: 200, contentType: 'application/json', body, headers: HEADERS }
}

function pageOf(status: number, body: readonly Uint8Array[], own: readonly Header[]): Answer {
  return { status, contentType: HTML_TYPE, body, headers: [...HEADERS, ...own] }
}
