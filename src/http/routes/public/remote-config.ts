/**
 * What browser SDKs are told besides flags: the configuration that comes with every answer of `/decide/`,
 * and alone under `/array/<key>/`. Also the lists of products that are not offered, which SDKs ask for
 * all the same. Source: docs/compatibility/decisions.md, "Remote configuration".
 */
import { ServiceError } from '../../../base/errors.ts'
import { KEY_CHARACTERS_MAX } from '../../../base/limits.ts'
import type { BrowserCapture } from '../../../rules/access/organization.ts'
import type { Project, ProjectDirectory } from '../../../rules/access/project-directory.ts'
import { etagOf, unlessKept } from '../../server/etags.ts'
import type { Exchange } from '../../server/exchange.ts'
import type { RequestHead } from '../../server/framing.ts'
import { type PublicRecord, pascalCase, readable } from '../../server/public-route.ts'
import { type Header, send, sendJson } from '../../server/respond.ts'
import { done } from '../../server/route.ts'
import * as is from '../../server/schema.ts'

/**
 * The configuration of a project. `autocapture_opt_out` must be there: without it current browser SDKs
 * keep autocapture off for new visitors.
 */
function configOf(capture: BrowserCapture): object {
  return {
    config: { enable_collect_everything: true },
    toolbarParams: {},
    // The name of toolbarParams in older SDKs.
    editorParams: {},
    isAuthenticated: false,
    supportedCompression: ['gzip', 'gzip-js', 'lz64'],
    sessionRecording: false,
    captureDeadClicks: false,
    capturePerformance: capture.areWebVitalsCaptured
      ? { network_timing: false, web_vitals: true, web_vitals_allowed_metrics: null }
      : false,
    autocapture_opt_out: capture.isAutocaptureOff,
    autocaptureExceptions: capture.areExceptionsCaptured,
    // SDKs of phones read this one alone.
    errorTracking: { autocaptureExceptions: capture.areExceptionsCaptured, suppressionRules: [] },
    elementsChainAsString: true,
    heatmaps: false,
    flagsPersistenceDefault: false,
    defaultIdentifiedOnly: true,
    siteApps: [],
  }
}

/** By three switches: eight at most. */
const decisionOpenings = new Map<number, Uint8Array>()

/** The beginning of an answer with decisions that also has the configuration, as far as the comma behind it. */
export function decisionOpening(capture: BrowserCapture): Uint8Array {
  const switches =
    (capture.isAutocaptureOff ? 1 : 0) |
    (capture.areExceptionsCaptured ? 2 : 0) |
    (capture.areWebVitalsCaptured ? 4 : 0)
  let opening = decisionOpenings.get(switches)
  if (opening === undefined) {
    // Old SDKs look for `surveys` here; current ones do not read it here.
    const config = JSON.stringify({ ...configOf(capture), surveys: false })
    opening = Buffer.from(`${config.slice(0, -1)},`)
    decisionOpenings.set(switches, opening)
  }
  return opening
}

/** Path -> what is answered there: nothing of the kind exists. */
const EMPTY_LISTS: Readonly<Record<string, object>> = {
  '/api/surveys': { surveys: [], survey_config: null },
  '/api/early_access_features': { earlyAccessFeatures: [] },
  '/api/web_experiments': { experiments: [] },
  '/api/product_tours': { product_tours: [] },
}

const KEPT: Header = ['Cache-Control', 'public, max-age=300']
/** While there are no flags, browsers ask each time: the first flag is to be seen by the next page. */
const ASKED_AGAIN: Header = ['Cache-Control', 'public, no-cache']

/** What remote configuration works with. */
export interface RemoteConfigOptions {
  readonly directory: ProjectDirectory
  /** Whether a project has an active flag: browsers that are told no do not ask for flags. */
  readonly hasActiveFlags: (projectId: number) => boolean
  readonly browserCapture: BrowserCaptureOf
}

/** What browsers capture by themselves for a project; the defaults for an unknown one. */
export type BrowserCaptureOf = (projectId: number) => BrowserCapture

function showConfig(
  options: RemoteConfigOptions,
  exchange: Exchange,
  head: RequestHead,
  isScript: boolean,
): void {
  const project = projectOfPath(options.directory, head)
  const hasFeatureFlags = options.hasActiveFlags(project.id)
  // Without the key `surveys`: posthog-js loads its surveys when it is there, whatever it says.
  const config = JSON.stringify({
    ...configOf(options.browserCapture(project.id)),
    token: project.apiKey,
    hasFeatureFlags,
  })
  const body = isScript ? scriptOf(project.apiKey, config) : config
  const headers = [hasFeatureFlags ? KEPT : ASKED_AGAIN]
  const contentType = isScript ? 'application/javascript; charset=utf-8' : 'application/json'
  send(exchange, unlessKept(head, etagOf(body), { status: 200, contentType, body, headers }))
}

/** The project whose key is the first segment of a path. Throws 404 `not_found`. */
export function projectOfPath(
  directory: Pick<ProjectDirectory, 'projectByKey'>,
  { segments: [token = ''] }: RequestHead,
): Project {
  const project = token.length > KEY_CHARACTERS_MAX ? null : directory.projectByKey(token)
  if (project !== null) return project
  const detail = 'there is no project with this key; copy it from the settings of the project'
  throw new ServiceError('not_found', detail)
}

/** A script that leaves the configuration where browser SDKs look for it. */
function scriptOf(token: string, config: string): string {
  const name = escapeScript(JSON.stringify(token))
  const value = `{config:${escapeScript(config)},siteApps:[]}`
  return `(function(){var c=window._POSTHOG_REMOTE_CONFIG=window._POSTHOG_REMOTE_CONFIG||{};c[${name}]=${value}})();\n`
}

/** JSON that can stand in a script, also in one that is part of a page. */
function escapeScript(json: string): string {
  return json.replace(/[<\u2028\u2029]/g, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}

const UNCHANGED = { description: 'The tag in If-None-Match is that of the answer.' }
const ERRORS = ['not_found', 'error'] as const

/** The configuration under `/array/`. */
export const CONFIG_ROUTES: readonly PublicRecord<RemoteConfigOptions>[] = [
  ...readable<RemoteConfigOptions>({
    path: '/array/:token/config',
    id: 'RemoteConfig',
    summary: 'The configuration as JSON.',
    answers: {
      200: done(
        is.named(
          'RemoteConfig',
          is.openObject({
            token: is.TEXT,
            hasFeatureFlags: is.BOOLEAN,
            supportedCompression: is.list(is.TEXT),
          }),
        ),
      ),
      304: UNCHANGED,
    },
    errors: ERRORS,
    handle: (services, exchange, head) => showConfig(services, exchange, head, false),
  }),
  ...readable<RemoteConfigOptions>({
    path: '/array/:token/config.js',
    id: 'RemoteConfigScript',
    summary: 'The same as a script.',
    answers: { 200: { ...done(), type: 'application/javascript' }, 304: UNCHANGED },
    errors: ERRORS,
    handle: (services, exchange, head) => showConfig(services, exchange, head, true),
  }),
]

/** Products that SDKs ask for and that are not there. */
export const EMPTY_LIST_ROUTES: readonly PublicRecord<unknown>[] = Object.entries(
  EMPTY_LISTS,
).flatMap(([path, empty]) =>
  readable({
    path,
    id: pascalCase(path.slice('/api/'.length)),
    summary: 'An empty list.',
    answers: {
      200: done(
        is.openObject(Object.fromEntries(Object.keys(empty).map((name) => [name, is.ANY]))),
      ),
    },
    errors: ['error'],
    handle: (_, exchange) => sendJson(exchange, 200, empty),
  }),
)
