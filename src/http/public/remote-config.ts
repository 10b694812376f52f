/**
 * What browser SDKs are told besides flags: the configuration that comes with every answer of `/decide/`,
 * and alone under `/array/<key>/`. Also the lists of products that are not offered, which SDKs ask for
 * all the same. Source: docs/COMPATIBILITY.md, "Remote configuration".
 */
import type { HttpRequest } from 'uWebSockets.js'
import { ServiceError } from '../../base/errors.ts'
import { KEY_CHARACTERS_MAX } from '../../base/limits.ts'
import type { Project, ProjectDirectory } from '../../ingest/project-directory.ts'
import type { Exchange } from '../exchange.ts'
import {
  type Header,
  send,
  sendEmpty,
  sendError,
  sendJson,
  sendMethodNotAllowed,
} from '../respond.ts'

/**
 * The configuration of every project. `autocapture_opt_out` must be there: without it current browser
 * SDKs keep autocapture off for new visitors.
 */
const BASE_CONFIG = {
  config: { enable_collect_everything: true },
  toolbarParams: {},
  // The name of toolbarParams in older SDKs.
  editorParams: {},
  isAuthenticated: false,
  supportedCompression: ['gzip', 'gzip-js', 'lz64'],
  sessionRecording: false,
  captureDeadClicks: false,
  capturePerformance: false,
  autocapture_opt_out: false,
  autocaptureExceptions: false,
  elementsChainAsString: true,
  surveys: false,
  heatmaps: false,
  flagsPersistenceDefault: false,
  defaultIdentifiedOnly: true,
  siteApps: [],
}

/** The members of the configuration as JSON, without braces. */
export const BASE_CONFIG_MEMBERS = JSON.stringify(BASE_CONFIG).slice(1, -1)

/** Paths of `/array/`; the handler gets their index. */
export const CONFIG_PATHS = ['/array/:token/config', '/array/:token/config.js'] as const

/** Path -> what is answered there: nothing of the kind exists. */
export const EMPTY_LISTS: Readonly<Record<string, object>> = {
  '/api/surveys': { surveys: [], survey_config: null },
  '/api/early_access_features': { earlyAccessFeatures: [] },
  '/api/web_experiments': { experiments: [] },
  '/api/product_tours': { product_tours: [] },
}

const CACHE_HEADER: Header = ['Cache-Control', 'public, max-age=300']
const READ_METHODS = 'GET, HEAD, OPTIONS'

/** What remote configuration works with. */
export interface RemoteConfigOptions {
  readonly directory: ProjectDirectory
  /** Whether a project has an active flag: browsers that are told no do not ask for flags. */
  readonly hasActiveFlags: (projectId: number) => boolean
}

/** Answers a request of CONFIG_PATHS. `pathIndex` 1 is the script. */
export function handleRemoteConfig(
  options: RemoteConfigOptions,
  exchange: Exchange,
  request: HttpRequest,
  pathIndex: number,
): void {
  if (isAnsweredByMethod(exchange)) return
  const project = findProject(options.directory, request.getParameter(0) ?? '')
  if (project === null) {
    const detail = 'there is no project with this key; copy it from the settings of the project'
    sendError(exchange, new ServiceError('not_found', detail))
    return
  }
  const config = JSON.stringify({
    ...BASE_CONFIG,
    token: project.apiKey,
    hasFeatureFlags: options.hasActiveFlags(project.id),
  })
  send(exchange, {
    status: 200,
    contentType: pathIndex === 1 ? 'application/javascript; charset=utf-8' : 'application/json',
    body: pathIndex === 1 ? scriptOf(project.apiKey, config) : config,
    headers: [CACHE_HEADER],
  })
}

/** Answers a request of EMPTY_LISTS; `list` is its entry. */
export function handleEmptyList(exchange: Exchange, list: object): void {
  if (!isAnsweredByMethod(exchange)) sendJson(exchange, 200, list)
}

/** Answers what is no GET or HEAD; true when it was one of those. */
function isAnsweredByMethod(exchange: Exchange): boolean {
  const { method } = exchange
  if (method === 'GET' || method === 'HEAD') return false
  if (method === 'OPTIONS') sendEmpty(exchange, 204)
  else sendMethodNotAllowed(exchange, READ_METHODS)
  return true
}

function findProject(directory: ProjectDirectory, token: string): Project | null {
  return token.length > KEY_CHARACTERS_MAX ? null : directory.projectByKey(token)
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
