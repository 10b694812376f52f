/**
 * The remote configuration: all settings of browser SDKs except flags. Answers of `/decide/` and some of `/flags/`
 * contain it, and the routes under `/array/<key>/` return it alone. The empty lists of products that Tenrec does not
 * have are here, too, because SDKs ask for them anyway. Source: docs/compatibility/decisions.md, "Remote
 * configuration".
 */
import { ServiceError } from '../../../base/errors.ts'
import { KEY_CHARACTERS_MAX } from '../../../base/limits.ts'
import type { BrowserCapture } from '../../../rules/access/organization.ts'
import type { Project, ProjectDirectory } from '../../../rules/access/project-directory.ts'
import { answerUnlessCached, etagOf } from '../../server/etags.ts'
import type { Exchange } from '../../server/exchange.ts'
import type { RequestHead } from '../../server/framing.ts'
import { type PublicRecord, pascalCase, readable } from '../../server/public-route.ts'
import { type Header, send, sendJson } from '../../server/respond.ts'
import { done } from '../../server/route.ts'
import * as is from '../../server/schema.ts'

/**
 * Returns the configuration of a project. `autocapture_opt_out` must be present, because current browser SDKs otherwise
 * keep autocapture off for new visitors.
 */
function configOf(capture: BrowserCapture): object {
  return {
    config: { enable_collect_everything: true },
    toolbarParams: {},
    // Older SDKs read toolbarParams under this name.
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
    // Mobile SDKs read only this member.
    errorTracking: { autocaptureExceptions: capture.areExceptionsCaptured, suppressionRules: [] },
    elementsChainAsString: true,
    heatmaps: false,
    flagsPersistenceDefault: false,
    defaultIdentifiedOnly: true,
    siteApps: [],
  }
}

/** The results of `decisionOpening` for each combination of three switches. There are at most eight. */
const decisionOpenings = new Map<number, Uint8Array>()

/**
 * Returns the bytes with which an answer with the configuration begins: the opening brace, the configuration, and the
 * comma after it.
 */
export function decisionOpening(capture: BrowserCapture): Uint8Array {
  const switches =
    (capture.isAutocaptureOff ? 1 : 0) |
    (capture.areExceptionsCaptured ? 2 : 0) |
    (capture.areWebVitalsCaptured ? 4 : 0)
  let opening = decisionOpenings.get(switches)
  if (opening === undefined) {
    // Old SDKs read `surveys` here. Current ones do not.
    const config = JSON.stringify({ ...configOf(capture), surveys: false })
    opening = Buffer.from(`${config.slice(0, -1)},`)
    decisionOpenings.set(switches, opening)
  }
  return opening
}

/** For each path of a product that Tenrec does not have, its empty answer. */
const EMPTY_LISTS: Readonly<Record<string, object>> = {
  '/api/surveys': { surveys: [], survey_config: null },
  '/api/early_access_features': { earlyAccessFeatures: [] },
  '/api/web_experiments': { experiments: [] },
  '/api/product_tours': { product_tours: [] },
}

const KEPT: Header = ['Cache-Control', 'public, max-age=300']
/**
 * The header for a project without active flags. Browsers then ask each time whether the configuration has changed, so
 * that they notice the first flag at the next page.
 */
const ASKED_AGAIN: Header = ['Cache-Control', 'public, no-cache']

/** The services that the remote configuration needs. */
export interface RemoteConfigOptions {
  readonly directory: ProjectDirectory
  /** Returns true if a project has an active flag. If it has none, browsers do not request flags. */
  readonly hasActiveFlags: (projectId: number) => boolean
  readonly browserCapture: BrowserCaptureOf
}

/** Returns what browsers may capture for a project. Returns the defaults if the project is unknown. */
export type BrowserCaptureOf = (projectId: number) => BrowserCapture

function showConfig(
  options: RemoteConfigOptions,
  exchange: Exchange,
  head: RequestHead,
  isScript: boolean,
): void {
  const project = projectOfPath(options.directory, head)
  const hasFeatureFlags = options.hasActiveFlags(project.id)
  // The key `surveys` is left out. posthog-js loads its survey code if the key is present, whatever its value.
  const config = JSON.stringify({
    ...configOf(options.browserCapture(project.id)),
    token: project.apiKey,
    hasFeatureFlags,
  })
  const body = isScript ? scriptOf(project.apiKey, config) : config
  const headers = [hasFeatureFlags ? KEPT : ASKED_AGAIN]
  const contentType = isScript ? 'application/javascript; charset=utf-8' : 'application/json'
  send(
    exchange,
    answerUnlessCached(head, etagOf(body), { status: 200, contentType, body, headers }),
  )
}

/** Returns the project whose key is in the path, directly after its fixed part. Throws 404 `not_found`. */
export function projectOfPath(
  directory: Pick<ProjectDirectory, 'projectByKey'>,
  { segments: [token = ''] }: RequestHead,
): Project {
  const project = token.length > KEY_CHARACTERS_MAX ? null : directory.projectByKey(token)
  if (project !== null) return project
  const detail = 'No project has this key. Copy the key from the settings of the project.'
  throw new ServiceError('not_found', detail)
}

/** Returns a script that stores the configuration of a project in the variable in which browser SDKs look for it. */
function scriptOf(token: string, config: string): string {
  const name = escapeScript(JSON.stringify(token))
  const value = `{config:${escapeScript(config)},siteApps:[]}`
  return `(function(){var c=window._POSTHOG_REMOTE_CONFIG=window._POSTHOG_REMOTE_CONFIG||{};c[${name}]=${value}})();\n`
}

/** Escapes JSON, so that it can be part of a script, even inside an HTML page. */
function escapeScript(json: string): string {
  return json.replace(/[<\u2028\u2029]/g, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}

const UNCHANGED = { description: 'The entity tag in If-None-Match is current.' }
const ERRORS = ['not_found', 'error'] as const

/** The configuration routes under `/array/`. */
export const CONFIG_ROUTES: readonly PublicRecord<RemoteConfigOptions>[] = [
  ...readable<RemoteConfigOptions>({
    path: '/array/:token/config',
    id: 'RemoteConfig',
    summary: 'Returns the configuration as JSON.',
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
    summary: 'Returns the configuration as a script.',
    answers: { 200: { ...done(), type: 'application/javascript' }, 304: UNCHANGED },
    errors: ERRORS,
    handle: (services, exchange, head) => showConfig(services, exchange, head, true),
  }),
]

/** The routes of products that SDKs ask for but that Tenrec does not have. */
export const EMPTY_LIST_ROUTES: readonly PublicRecord<unknown>[] = Object.entries(
  EMPTY_LISTS,
).flatMap(([path, empty]) =>
  readable({
    path,
    id: pascalCase(path.slice('/api/'.length)),
    summary: 'Returns an empty list.',
    answers: {
      200: done(
        is.openObject(Object.fromEntries(Object.keys(empty).map((name) => [name, is.ANY]))),
      ),
    },
    errors: ['error'],
    handle: (_, exchange) => sendJson(exchange, 200, empty),
  }),
)
