/**
 * Flags as SDKs load them that decide by themselves: definitions under the paths of all their
 * generations, and the list that the first generation read. For servers: the key is secret.
 * Source: docs/COMPATIBILITY.md, "Local evaluation".
 */
import type { Clock } from '../../../base/clock.ts'
import { ServiceError } from '../../../base/errors.ts'
import type { FlagSnapshot, FlagSnapshots } from '../../../engine/front/flag-snapshots.ts'
import type { Project } from '../../../rules/capture/project-directory.ts'
import {
  type FlagDefinitions,
  flagDefinitions,
  isSameEtag,
} from '../../../rules/flags/definitions.ts'
import { flagBody } from '../../../rules/flags/edit/flag-body.ts'
import { authoriseServer, type ServerKeyDirectory } from '../../server/auth.ts'
import type { Answer } from '../../server/respond.ts'
import { type ApiRequest, json, type Route } from '../../server/router.ts'

const SCOPE = 'feature_flag:read'
/** These paths name no project: the key does, or `token`. */
const CURRENT_PROJECT = '@current'

/** What definitions work with. */
export interface DefinitionOptions {
  readonly clock: Clock
  readonly directory: ServerKeyDirectory
  readonly snapshots: Pick<FlagSnapshots, 'of'>
}

/** Written once for each snapshot. */
interface KnownDefinitions {
  full?: FlagDefinitions
  plain?: FlagDefinitions
}

const known = new WeakMap<FlagSnapshot, KnownDefinitions>()

/** The routes of SDKs for definitions. */
export function definitionRoutes(options: DefinitionOptions): readonly Route[] {
  const definitions =
    (hasCohortsAlways: boolean) =>
    (request: ApiRequest): Answer => {
      const project = authoriseServer(request, options.directory, SCOPE, CURRENT_PROJECT)
      const hasCohorts = hasCohortsAlways || areCohortsWanted(request)
      return definitionsAnswer(snapshotOf(options, project), request, hasCohorts)
    }
  const list = (request: ApiRequest): Answer => {
    const project = authoriseServer(request, options.directory, SCOPE, CURRENT_PROJECT)
    return legacyList(snapshotOf(options, project), options.clock.now())
  }
  return [
    { method: 'GET', path: '/flags/definitions/', handler: definitions(true) },
    { method: 'GET', path: '/api/feature_flag/local_evaluation/', handler: definitions(false) },
    { method: 'GET', path: '/api/feature_flag/', handler: list },
  ]
}

/**
 * The definitions of a snapshot for a request: 304 when it has them already. Linear in the size of the
 * flags after a change, else a constant.
 */
export function definitionsAnswer(
  snapshot: FlagSnapshot,
  request: Pick<ApiRequest, 'ifNoneMatch'>,
  hasCohorts: boolean,
): Answer {
  let written = known.get(snapshot)
  if (written === undefined) {
    written = {}
    known.set(snapshot, written)
  }
  const name = hasCohorts ? 'full' : 'plain'
  written[name] ??= flagDefinitions(snapshot.set, hasCohorts)
  const { body, etag } = written[name]
  const headers = [
    ['ETag', etag],
    ['Cache-Control', 'private, must-revalidate'],
  ] as const
  const { ifNoneMatch } = request
  if (ifNoneMatch !== '' && isSameEtag(ifNoneMatch, etag)) {
    return { status: 304, contentType: '', body: '', headers }
  }
  return { status: 200, contentType: 'application/json', body, headers }
}

/** `send_cohorts` bare, `true` or `1`. */
export function areCohortsWanted(request: Pick<ApiRequest, 'query'>): boolean {
  const value = request.query.get('send_cohorts')
  return value !== null && value !== 'false' && value !== '0'
}

/** All in one page, because the clients read only the first. */
function legacyList({ set }: FlagSnapshot, nowMs: number): Answer {
  const context = {
    createdBy: null,
    lastModifiedBy: null,
    canEdit: false,
    cohortName: (id: number) => set.cohorts.get(id)?.name ?? null,
    hasDetails: false,
    nowMs,
  }
  const results = set.flags.map((flag) => flagBody(flag, context))
  return json({ count: results.length, next: null, previous: null, results })
}

function snapshotOf({ snapshots }: DefinitionOptions, project: Project): FlagSnapshot {
  const snapshot = snapshots.of(project.id)
  if (snapshot === null)
    throw new ServiceError('not_found', 'the project has just been made; try again')
  return snapshot
}
