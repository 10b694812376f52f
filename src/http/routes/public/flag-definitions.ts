/**
 * The routes that return flag definitions to SDKs that evaluate flags locally, under the paths that each generation of
 * SDKs uses. The list of flags that the first generation reads is here, too. These routes are for servers, because
 * their key is secret. Source: docs/compatibility/decisions.md, "Local evaluation".
 */
import { createHash } from 'node:crypto'
import { ServiceError } from '../../../base/errors.ts'
import type { FlagSnapshot, FlagSnapshots } from '../../../engine/front/flag-snapshots.ts'
import { flagBody } from '../../../rules/flags/edit/flag-body.ts'
import { definitionTexts } from '../../../rules/flags/flag-definitions.ts'
import type { FlagSet } from '../../../rules/flags/types.ts'
import { answerUnlessCached } from '../../server/etags.ts'
import { textBody, textChunks } from '../../server/json-pieces.ts'
import type { Answer } from '../../server/respond.ts'
import {
  type AnyRoute,
  type Call,
  done,
  forServers,
  type RouteServices,
  routesOf,
} from '../../server/route.ts'
import type { ApiRequest } from '../../server/router.ts'
import * as is from '../../server/schema.ts'
import { DEFINITIONS, FEATURE_FLAG, SEND_COHORTS } from '../flags/flag-schemas.ts'

/** The services that these routes need. */
export interface DefinitionServices extends RouteServices {
  readonly snapshots: Pick<FlagSnapshots, 'of'>
}

/** The definitions of all flags of a project as JSON. */
interface Definitions {
  /** The JSON, in consecutive parts. */
  readonly body: readonly Uint8Array[]
  /** The weak ETag, such as `W/"0123456789abcdef"`. Equal bodies have equal ETags. */
  readonly etag: string
}

/**
 * The cached definitions of one snapshot, with cohorts (`full`) and without them (`plain`). Each is written when it is
 * first requested.
 */
interface KnownDefinitions {
  full?: Promise<Definitions>
  plain?: Promise<Definitions>
}

const ETAG_CHARACTERS = 16
const known = new WeakMap<FlagSnapshot, KnownDefinitions>()

const TOKEN = is.about(is.TEXT, 'Key of the project.')
/** The answers of a route that returns definitions. */
export const DEFINITION_ANSWERS = {
  200: done(DEFINITIONS),
  304: { description: 'The entity tag in If-None-Match is current.' },
}

const route = routesOf<DefinitionServices>('', forServers('feature_flag:read'))

/**
 * The routes that return definitions to SDKs. Their paths name no project. The project comes from the parameter
 * `token`, from the header X-PostHog-Project-Api-Key, or from a key that is limited to one project.
 */
export const DEFINITION_ROUTES: readonly AnyRoute<DefinitionServices>[] = [
  route('GET', '/flags/definitions/', 'getDefinitions', 'Returns flag definitions with cohorts.', {
    query: is.options({ token: TOKEN }),
    answers: DEFINITION_ANSWERS,
    errors: ['invalid_project'],
    respond: (call) => definitionsAnswer(snapshotOf(call), call.request, true),
  }),
  route(
    'GET',
    '/api/feature_flag/local_evaluation/',
    'getSdkDefinitions',
    'Returns flag definitions for SDKs, under the older path.',
    {
      query: is.options({ token: TOKEN, send_cohorts: SEND_COHORTS }),
      answers: DEFINITION_ANSWERS,
      errors: ['invalid_project'],
      respond: (call) =>
        definitionsAnswer(snapshotOf(call), call.request, areCohortsWanted(call.request)),
    },
  ),
  route('GET', '/api/feature_flag/', 'listSdkFlags', 'Lists all flags on one page, for old SDKs.', {
    query: is.options({ token: TOKEN }),
    answers: { 200: done(is.pageOf(FEATURE_FLAG)) },
    errors: ['invalid_project'],
    respond: (call) => legacyList(snapshotOf(call), call.nowMs),
  }),
]

/**
 * Returns an answer with the definitions of a snapshot, or 304 if the client has cached them. The first call for a
 * snapshot takes time linear in the size of the flags, and later calls take constant time.
 */
export async function definitionsAnswer(
  snapshot: FlagSnapshot,
  { head }: Pick<ApiRequest, 'head'>,
  hasCohorts: boolean,
): Promise<Answer> {
  let written = known.get(snapshot)
  if (written === undefined) {
    written = {}
    known.set(snapshot, written)
  }
  const name = hasCohorts ? 'full' : 'plain'
  written[name] ??= writeDefinitions(snapshot, hasCohorts)
  const { body, etag } = await written[name]
  const headers = [['Cache-Control', 'private, must-revalidate']] as const
  return answerUnlessCached(head, etag, {
    status: 200,
    contentType: 'application/json',
    body,
    headers,
  })
}

/** Writes the definitions of a snapshot once for all clients. Other requests get their turns while it runs. */
async function writeDefinitions({ set }: FlagSnapshot, hasCohorts: boolean): Promise<Definitions> {
  const body: Buffer[] = []
  const hash = createHash('sha256')
  for await (const chunk of textChunks(definitionTexts(set, hasCohorts))) {
    body.push(chunk)
    hash.update(chunk)
  }
  return { body, etag: `W/"${hash.digest('hex').slice(0, ETAG_CHARACTERS)}"` }
}

/** Returns true if the query has the parameter `send_cohorts`, unless its value is `false` or `0`. */
export function areCohortsWanted(request: Pick<ApiRequest, 'query'>): boolean {
  const value = request.query.get('send_cohorts')
  return value !== null && value !== 'false' && value !== '0'
}

/** Returns all flags on one page, because SDKs of the first generation read only the first page. */
function legacyList({ set }: FlagSnapshot, nowMs: number): Answer {
  return { status: 200, contentType: 'application/json', body: textBody(legacyTexts(set, nowMs)) }
}

function* legacyTexts({ flags, cohorts }: FlagSet, nowMs: number): Iterable<string> {
  const context = {
    createdBy: null,
    lastModifiedBy: null,
    canEdit: false,
    cohortName: (id: number) => cohorts.get(id)?.name ?? null,
    hasDetails: false,
    nowMs,
  }
  yield `{"count":${flags.length},"next":null,"previous":null,"results":[`
  for (const [index, flag] of flags.entries()) {
    if (index > 0) yield ','
    yield JSON.stringify(flagBody(flag, context))
  }
  yield ']}'
}

function snapshotOf({ services, projectId }: Call<DefinitionServices>): FlagSnapshot {
  const snapshot = services.snapshots.of(projectId)
  if (snapshot !== null) return snapshot
  throw new ServiceError('not_found', 'The project was created a moment ago. Try again.')
}
