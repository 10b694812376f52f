/** Creates the HTTP server of a daemon from the settings, with its limits and its audit log. */
import type { Clock } from '../../base/clock.ts'
import type { Logger } from '../../base/log.ts'
import { filesOfDaemon, openFilesMax } from '../../base/process-limits.ts'
import type { Settings } from '../../config/settings.ts'
import { AuditTrail } from '../../engine/front/audit-trail.ts'
import type { ServiceMetrics } from '../../engine/front/service-metrics.ts'
import type { OrganizationPort } from '../../engine/threads/organization-tasks.ts'
import { planOf } from '../../engine/threads/tasks.ts'
import { ConsoleFiles } from '../console/console-files.ts'
import { ConsoleSessions, type ConsoleSessionsOptions } from '../console/console-sessions.ts'
import { OidcLogins } from '../console/oidc-logins.ts'
import { OidcProvider } from '../console/oidc-provider.ts'
import type { BodyBudget } from './body.ts'
import { chooseFront } from './choose-front.ts'
import { RateLimits } from './rate-limits.ts'
import { HttpServer } from './server.ts'
import { TrustedProxies } from './url.ts'

/**
 * The number of open files that are reserved for stores, threads, logs and pipes of commands. The rest can be
 * connections.
 */
const RESERVED_FILES = 128
/**
 * With a low limit of open files, this number of connections is allowed, although the connections and the reserved
 * files together exceed the limit. With a still lower limit, fewer connections are allowed, but at least
 * `CONNECTIONS_MIN`.
 */
const SCARCE_CONNECTIONS = 32
const CONNECTIONS_MIN = 4

/** The services and settings that the server needs. */
export interface FrontOptions {
  readonly settings: Settings
  readonly clock: Clock
  readonly log: Logger
  readonly metrics: ServiceMetrics
  readonly budget: BodyBudget
  readonly queries: OrganizationPort
  /** The folder with the files of the console. The default is the folder that the build writes. */
  readonly consoleFolder: URL | undefined
  readonly directory: ConsoleSessionsOptions['directory']
}

/**
 * Creates a server without routes. Also creates the rate limits that public routes apply to projects, the sessions of
 * the console, and the page that loads the console.
 */
export function createFront(options: FrontOptions): {
  readonly server: HttpServer
  readonly limits: RateLimits
  /** The console's sessions. Absent if there is no console. */
  readonly sessions: ConsoleSessions | undefined
  /** The page that loads the console's program. Null if there is no console. */
  readonly shell: string | null
} {
  const { settings, clock, log, metrics, budget, queries, directory, consoleFolder } = options
  const { isConsoleOn, consolePath } = settings
  const trustedProxies = new TrustedProxies(settings.trustedProxies)
  const limits = new RateLimits({ ...settings, clock, refused: metrics.httpRateLimited })
  const trail = new AuditTrail({
    store: (entries) => queries.organization('recordAudit', entries),
    log,
    failures: metrics.auditFailures,
  })
  const { obstacle } = chooseFront(settings.httpServer)
  if (obstacle !== null) {
    log.info({ reason: obstacle }, 'uWebSockets.js cannot be loaded. node:http is used instead.')
  }
  const pages = isConsoleOn
    ? new ConsoleFiles({ path: consolePath, folder: consoleFolder, log })
    : undefined
  const server = new HttpServer({
    log,
    clock,
    metrics,
    budget,
    httpServer: settings.httpServer,
    connectionsMax: connectionsMaxOf(settings),
    waitingBytesMax: planOf(settings).waitingAnswersBytes,
    audit: { record: (entry) => trail.record(entry), clock, trustedProxies },
    limits,
    trustedProxies,
    pages,
  })
  const sessions = isConsoleOn
    ? new ConsoleSessions({ directory, queries, clock, log, limits, oidc: oidcOf(options) })
    : undefined
  return { server, limits, sessions, shell: pages?.shell ?? null }
}

/** Returns the logins with OpenID Connect, or null if the settings name no provider. */
function oidcOf({ settings, clock, log }: Pick<FrontOptions, 'settings' | 'clock' | 'log'>) {
  const { oidcIssuer, oidcClientId, oidcClientSecret, oidcLabel } = settings
  if (oidcIssuer === null || oidcClientId === null) return null
  const provider = new OidcProvider({
    issuer: oidcIssuer,
    clientId: oidcClientId,
    clientSecret: oidcClientSecret,
    emailDomains: settings.oidcEmailDomains,
    clock,
    log,
  })
  const isViewerMade = settings.oidcNewUsers === 'viewer'
  return new OidcLogins({ label: oidcLabel, isViewerMade, provider, clock })
}

/**
 * Returns how many connections may be open: the configured number, or less if the limit of open files is too low for
 * it.
 */
function connectionsMaxOf({ connectionsMax, workerThreads }: Settings): number {
  const filesMax = openFilesMax()
  // Half of the files that the daemon does not need at its start may be used for connections. The other half is left
  // for threads that start later.
  const scarce = Math.floor((filesMax - filesOfDaemon(workerThreads)) / 2)
  const least = Math.max(CONNECTIONS_MIN, Math.min(SCARCE_CONNECTIONS, scarce))
  const possible = Math.max(least, filesMax - RESERVED_FILES)
  return connectionsMax === 0 ? possible : Math.min(connectionsMax, possible)
}
