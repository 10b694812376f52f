/**
 * The public routes around flags: decisions, remote configuration, OpenFeature, the files of the browser
 * SDK, and the products that SDKs ask for and that are not there.
 */
import type { Clock } from '../../../base/clock.ts'
import type { Settings } from '../../../config/settings.ts'
import { DailySalts } from '../../../engine/front/daily-salts.ts'
import type { FlagService } from '../../../engine/front/flag-service.ts'
import { DEFAULT_BROWSER_CAPTURE } from '../../../rules/access/organization.ts'
import type { ProjectDirectory } from '../../../rules/capture/project-directory.ts'
import type { ProjectDirectory as Projects } from '../../../store/catalog/project-store.ts'
import type { BodyBudget } from '../../server/body.ts'
import type { HttpServer } from '../../server/server.ts'
import { CookielessVisitors } from './cookieless-visitors.ts'
import { DECISION_PATHS, handleDecision } from './decide.ts'
import { KnownDecisions } from './known-decisions.ts'
import { handleOfrep, OFREP_PATHS } from './ofrep.ts'
import { type BrowserCaptureOf, CONFIG_PATHS, EMPTY_LISTS, handleEmptyList, handleRemoteConfig } from './remote-config.ts'
import { SdkFiles, sdkFolders } from './sdk-files.ts'
import { registerSdkRoutes } from './sdk-routes.ts'

/** What the public routes of flags work with. */
export interface FlagRouteOptions {
  readonly clock: Clock
  readonly directory: ProjectDirectory
  readonly budget: BodyBudget
  readonly flags: Pick<FlagService, 'decisions' | 'snapshots'>
  readonly projects: Pick<Projects, 'projectById' | 'projectByKey'>
  readonly settings: Pick<Settings, 'dataDir' | 'isForwardedForTrusted'>
}

/** Registers the public routes of flags; those for servers are in definitions.ts. */
export function registerFlagRoutes(server: HttpServer, options: FlagRouteOptions): void {
  const { clock, directory, budget, flags, projects, settings } = options
  const { decisions, snapshots } = flags
  const known = new KnownDecisions(directory, decisions)
  const browserCapture: BrowserCaptureOf = (id) =>
    projects.projectById(id) ?? DEFAULT_BROWSER_CAPTURE
  const visitors = new CookielessVisitors(new DailySalts(settings.dataDir), settings)
  const parts = { clock, directory, budget, decisions, known, browserCapture, visitors }
  const hasActiveFlags = (id: number): boolean => snapshots.of(id)?.hasActiveFlags === true
  const configParts = { directory, hasActiveFlags, browserCapture }
  const lists = Object.values(EMPTY_LISTS)
  server.raw(DECISION_PATHS, (exchange, head, pathIndex) => {
    handleDecision(parts, exchange, head, pathIndex)
  })
  server.raw(OFREP_PATHS, (exchange, head, pathIndex) => {
    handleOfrep(parts, exchange, head, pathIndex)
  })
  server.raw(CONFIG_PATHS, (exchange, head, pathIndex) => {
    handleRemoteConfig(configParts, exchange, head, pathIndex)
  })
  server.raw(Object.keys(EMPTY_LISTS), (exchange, _head, pathIndex) => {
    handleEmptyList(exchange, lists[pathIndex] ?? {})
  })
  const files = new SdkFiles(sdkFolders(settings.dataDir))
  registerSdkRoutes(server, { clock, directory: projects, files })
}
