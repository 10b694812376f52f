/**
 * The public routes around flags: decisions, remote configuration, OpenFeature, and the files of the browser SDK. There
 * are also routes with empty lists, for products that SDKs ask for but that Tenrec does not have.
 */
import type { Clock } from '../../../base/clock.ts'
import type { Settings } from '../../../config/settings.ts'
import { DailySalts } from '../../../engine/front/daily-salts.ts'
import type { FlagService } from '../../../engine/front/flag-service.ts'
import { type PlanSetting, planOf } from '../../../engine/threads/tasks.ts'
import { DEFAULT_BROWSER_CAPTURE } from '../../../rules/access/organization.ts'
import type { ProjectDirectory } from '../../../rules/access/project-directory.ts'
import type { ProjectDirectory as Projects } from '../../../store/catalog/organization-store.ts'
import type { BodyBudget } from '../../server/body.ts'
import { bindPublic, type PublicRoute } from '../../server/public-route.ts'
import type { DescribedResource } from '../../server/route.ts'
import { about, TEXT } from '../../server/schema.ts'
import { TrustedProxies } from '../../server/url.ts'
import { DECISION_ROUTES } from './decide.ts'
import { FLAG_CHANGE_ROUTES } from './flag-changes.ts'
import { DEFINITION_ROUTES } from './flag-definitions.ts'
import { KnownDecisions } from './known-decisions.ts'
import { OFREP } from './ofrep.ts'
import { type BrowserCaptureOf, CONFIG_ROUTES, EMPTY_LIST_ROUTES } from './remote-config.ts'
import { SdkFiles, sdkFolders } from './sdk-files.ts'
import { SDK_ROUTES } from './sdk-routes.ts'

/** The services and settings that the public flag routes need. */
export interface FlagRouteOptions {
  readonly clock: Clock
  readonly directory: ProjectDirectory
  readonly budget: BodyBudget
  /** Returns true if a daily limit of a project is reached. */
  readonly isLimited: (projectId: number) => boolean
  readonly flags: Pick<FlagService, 'decisions' | 'snapshots' | 'listeners'>
  readonly projects: Pick<Projects, 'projectById' | 'projectByKey'>
  readonly settings: Pick<
    Settings,
    'dataDir' | 'isForwardedForTrusted' | 'publicUrl' | 'trustedProxies' | PlanSetting
  >
}

/** The routes of decisions, and of definitions for SDKs that evaluate flags locally, for the API description. */
export const FLAG_DECISIONS: DescribedResource = {
  name: 'Flag decisions',
  sentence: 'The feature flags that are on for a user. The project key is in the body or query.',
  routes: [...DECISION_ROUTES, ...DEFINITION_ROUTES, ...FLAG_CHANGE_ROUTES],
}

/**
 * The routes of remote configuration and of the browser SDK, for the API description. docs/compatibility/decisions.md,
 * "Remote configuration".
 */
export const REMOTE_CONFIG: DescribedResource = {
  name: 'Remote configuration',
  sentence:
    'Settings for browsers besides flags, the browser SDK, and empty lists for products that are not supported.',
  segments: {
    token: about(TEXT, 'Project key.'),
    version: about(TEXT, 'Version of posthog-js, such as 1.449.2 or 1.'),
    name: about(TEXT, 'File name, such as array.js.'),
  },
  routes: [...SDK_ROUTES, ...CONFIG_ROUTES, ...EMPTY_LIST_ROUTES],
}

/**
 * Returns the public routes around flags. The routes of definitions, which are for servers, are in flag-definitions.ts.
 */
export function publicFlagRoutes(options: FlagRouteOptions): readonly PublicRoute[] {
  const { clock, directory, budget, flags, isLimited, projects, settings } = options
  const { decisions, snapshots } = flags
  const browserCapture: BrowserCaptureOf = (id) =>
    projects.projectById(id) ?? DEFAULT_BROWSER_CAPTURE
  const known = new KnownDecisions(directory, decisions, planOf(settings).decisionsBytes)
  const salts = new DailySalts(settings.dataDir)
  const { isForwardedForTrusted } = settings
  const deciding = { clock, directory, budget, decisions, known, browserCapture, isLimited }
  const hasActiveFlags = (id: number): boolean => snapshots.of(id)?.hasActiveFlags === true
  const changes = {
    directory,
    projects,
    listeners: flags.listeners,
    publicUrl: settings.publicUrl,
    trustedProxies: new TrustedProxies(settings.trustedProxies),
  }
  const files = new SdkFiles(sdkFolders(settings.dataDir))
  return [
    ...bindPublic(DECISION_ROUTES, { ...deciding, salts, isForwardedForTrusted }),
    ...bindPublic(OFREP.routes, { ...deciding, changes }),
    ...bindPublic(FLAG_CHANGE_ROUTES, changes),
    ...bindPublic(CONFIG_ROUTES, { directory, hasActiveFlags, browserCapture }),
    ...bindPublic(EMPTY_LIST_ROUTES, null),
    ...bindPublic(SDK_ROUTES, { clock, directory: projects, files }),
  ]
}
