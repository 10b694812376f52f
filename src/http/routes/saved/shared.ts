/**
 * What a token of sharing opens, for anybody: as a page, and as JSON with `.json` behind the token. People who
 * made something are not named. Source: docs/compatibility/saved.md, "Shared pages".
 */
import { ServiceError } from '../../../base/errors.ts'
import type { Answer, Header } from '../../server/respond.ts'
import { ANYBODY, done, type Resource, routesOf } from '../../server/route.ts'
import { json } from '../../server/router.ts'
import * as is from '../../server/schema.ts'
import { ask } from '../organization/organization-services.ts'
import { DASHBOARD, dashboardWithResults } from './dashboards.ts'
import {
  INSIGHT,
  insightBody,
  resultOf,
  type SavedCall,
  type SavedServices,
  type Showing,
} from './saved-services.ts'
import { renderShared, SHARED_POLICY, type Shown } from './shared-page.ts'

const TOKEN = /^([\w-]{32})(\.json)?$/
const HTML_TYPE = 'text/html; charset=utf-8'
/** Neither the address, which is the key, nor what is shown stays anywhere. */
const HEADERS: readonly Header[] = [
  ['Cache-Control', 'no-store'],
  ['Referrer-Policy', 'no-referrer'],
  ['X-Robots-Tag', 'noindex'],
]
const SETTING = is.about(is.BOOLEAN, 'Only when it is true.')
const SHARED = is.namedObject(
  'Shared',
  { type: is.choice('scene', 'embed'), accessToken: is.TEXT, themes: is.list(is.ANY) },
  {
    ...{ dashboard: DASHBOARD, insight: INSIGHT },
    ...{ whitelabel: SETTING, noHeader: SETTING, showInspector: SETTING },
    ...{ legend: SETTING, detailed: SETTING, hideExtraDetails: SETTING },
  },
)
const CONTENT = {
  answers: { 200: { ...done(SHARED), type: 'text/html' } },
  errors: ['not_found', 'error', 'server_error'],
} as const

const route = routesOf<SavedServices>('', ANYBODY)

/** Shared pages. */
export const SHARED_RESOURCE: Resource<SavedServices> = {
  name: 'Shared pages',
  sentence: 'Insights and dashboards for whoever has the token. No key is needed.',
  segments: { token: is.about(is.TEXT, 'Of sharing; with .json behind it the answer is JSON.') },
  routes: [
    route('GET', '/shared/:token/', 'getShared', 'Shows what is shared.', {
      ...CONTENT,
      respond: (call) => answerShared(call, 'scene'),
    }),
    route('GET', '/embedded/:token/', 'getEmbedded', 'Shows what is shared, for a frame.', {
      ...CONTENT,
      respond: (call) => answerShared(call, 'embed'),
    }),
  ],
}

async function answerShared(call: SavedCall, type: 'scene' | 'embed'): Promise<Answer> {
  const [, accessToken, isJson] = TOKEN.exec(call.request.parameter('token')) ?? []
  const view = accessToken === undefined ? null : await ask(call, 'findShared', accessToken)
  if (view === null) throw new ServiceError('not_found', 'nothing is shared under this address')
  const showing = showingToAnybody(call)
  const shown: Shown =
    'insight' in view
      ? { insight: insightBody(showing, view, await resultOf(showing, view.insight)) }
      : { dashboard: await dashboardWithResults(showing, view) }
  const { settings } = view.sharing
  if (isJson === undefined) {
    const headers = [...HEADERS, ['Content-Security-Policy', SHARED_POLICY] as const]
    return { status: 200, contentType: HTML_TYPE, body: renderShared(shown, settings), headers }
  }
  const set = Object.entries(settings).filter(([, isSet]) => isSet)
  const body = { type, accessToken, ...shown, themes: [], ...Object.fromEntries(set) }
  return json(body, 200, HEADERS)
}

function showingToAnybody({ services }: SavedCall): Showing {
  const { directory, clock, computeShared: compute } = services
  const nobody = { userById: () => null, projectById: (id: number) => directory.projectById(id) }
  return { directory: nobody, clock, compute }
}
