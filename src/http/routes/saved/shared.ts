/**
 * Shows the object that a sharing token opens, without a key: as a page, or as JSON if `.json` follows the token.
 * Authors are not named. Source: docs/compatibility/saved.md, "Shared pages".
 */
import { ServiceError } from '../../../base/errors.ts'
import { pagePolicy } from '../../../base/html/html.ts'
import type { SharedRequest } from '../../../engine/threads/saved-tasks.ts'
import { SHARED_STYLE } from '../../../rules/saved/shared-page.ts'
import type { Answer, Header } from '../../server/respond.ts'
import { ANYBODY, done, type Resource, routesOf } from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { DASHBOARD } from './dashboards.ts'
import { filledParts } from './filled-text.ts'
import { INSIGHT, type SavedCall, type SavedServices } from './saved-services.ts'

const TOKEN = /^([\w-]{32})(\.json)?$/
const HTML_TYPE = 'text/html; charset=utf-8'
/** The Content-Security-Policy of the page. Pages of any origin may show it in a frame. */
const SHARED_POLICY = pagePolicy(SHARED_STYLE, '*')
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
const CONTENT = {
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

async function answerShared(call: SavedCall, type: SharedRequest['type']): Promise<Answer> {
  const { clock, computeShared: compute, showShared } = call.services
  const [, token, isJson] = TOKEN.exec(call.request.parameter('token')) ?? []
  const format: SharedRequest['format'] = isJson === undefined ? 'html' : 'json'
  const shown = token === undefined ? null : await showShared({ token, format, type })
  if (shown === null) throw new ServiceError('not_found', 'Nothing is shared under this address.')
  const policy = ['Content-Security-Policy', SHARED_POLICY] as const
  const headers = format === 'json' ? HEADERS : [...HEADERS, policy]
  const body = await filledParts(shown, { clock, compute })
  return {
    status: 200,
    contentType: format === 'json' ? 'application/json' : HTML_TYPE,
    body,
    headers,
  }
}
