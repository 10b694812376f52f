/**
 * The public routes around flags: decisions, remote configuration, OpenFeature, and the products that
 * SDKs ask for and that are not there.
 */
import type { Clock } from '../../base/clock.ts'
import type { ProjectDirectory } from '../../ingest/project-directory.ts'
import type { FlagService } from '../../worker/flag-service.ts'
import type { BodyBudget } from '../body.ts'
import type { HttpServer } from '../server.ts'
import { DECISION_PATHS, handleDecision } from './decide.ts'
import { KnownDecisions } from './known-decisions.ts'
import { handleOfrep, OFREP_PATHS } from './ofrep.ts'
import {
  type BrowserCaptureOf,
  CONFIG_PATHS,
  EMPTY_LISTS,
  handleEmptyList,
  handleRemoteConfig,
} from './remote-config.ts'

/** What the public routes of flags work with. */
export interface FlagRouteOptions {
  readonly clock: Clock
  readonly directory: ProjectDirectory
  readonly budget: BodyBudget
  readonly flags: Pick<FlagService, 'decisions' | 'snapshots'>
  readonly browserCapture: BrowserCaptureOf
}

/** Registers the public routes of flags; those for servers are in definitions.ts. */
export function registerFlagRoutes(server: HttpServer, options: FlagRouteOptions): void {
  const { clock, directory, budget, flags, browserCapture } = options
  const { decisions, snapshots } = flags
  const known = new KnownDecisions(directory, decisions)
  const parts = { clock, directory, budget, decisions, known, browserCapture }
  const hasActiveFlags = (id: number): boolean => snapshots.of(id)?.hasActiveFlags === true
  const configParts = { directory, hasActiveFlags, browserCapture }
  const lists = Object.values(EMPTY_LISTS)
  server.raw(DECISION_PATHS, (exchange, request, head, pathIndex) => {
    handleDecision(parts, exchange, request, head, pathIndex)
  })
  server.raw(OFREP_PATHS, (exchange, request, head, pathIndex) => {
    handleOfrep(parts, exchange, request, head, pathIndex)
  })
  server.raw(CONFIG_PATHS, (exchange, request, head, pathIndex) => {
    handleRemoteConfig(configParts, exchange, request, head, pathIndex)
  })
  server.raw(Object.keys(EMPTY_LISTS), (exchange, _request, _head, pathIndex) => {
    handleEmptyList(exchange, lists[pathIndex] ?? {})
  })
}
