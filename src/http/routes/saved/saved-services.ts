/**
 * The common part of the routes of insights, dashboards, annotations and sharing: the services, the schemas, and the
 * functions that show insights. Source: docs/compatibility/saved.md, "Insights".
 */
import { ServiceError } from '../../../base/errors.ts'
import type { SharedAnswer, SharedRequest } from '../../../engine/threads/saved-tasks.ts'
import type { AnswerFormat } from '../../../rules/queries/answer-formats.ts'
import {
  SAVED_DESCRIPTION_CHARACTERS_MAX,
  SAVED_NAME_CHARACTERS_MAX,
  SAVED_TAG_CHARACTERS_MAX,
  SAVED_TAGS_MAX,
} from '../../../rules/saved/limits.ts'
import type { InsightView, SavedPlace } from '../../../rules/saved/saved.ts'
import { insightMembers, type Showing } from '../../../rules/saved/saved-bodies.ts'
import type { Passwords } from '../../console/passwords.ts'
import { denied, requireScope } from '../../server/auth.ts'
import type { RateLimits } from '../../server/rate-limits.ts'
import type { Call } from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { existing as found } from '../collection.ts'
import { type OrganizationServices, USER_SUMMARY } from '../organization/organization-services.ts'

/**
 * Runs the query of an insight (rules/saved/insight-question.ts). `question` is JSON whose members have not been
 * checked. The result is the text that `answerText` writes. Rejects with a `ServiceError` if the query is refused.
 */
export type ComputeInsight = (
  projectId: number,
  question: string,
  format: Extract<AnswerFormat, 'insight' | 'html'>,
) => Promise<Uint8Array>

/** The services that the routes of saved objects need. */
export interface SavedServices extends OrganizationServices {
  readonly computeInsight: ComputeInsight
  /** Runs the queries of shared pages. Its results are cached, because anybody may request such a page repeatedly. */
  readonly computeShared: ComputeInsight
  /** The HTML page that loads the console's program, which shows shared objects. Null if there is no console. */
  readonly shell: string | null
  /** Returns the text of the object that the token of a shared link opens, or null if there is none. */
  readonly showShared: (request: SharedRequest) => Promise<SharedAnswer | null>
  /** Hashes the passwords of shared links. They wait in the same queue as the passwords of users. */
  readonly passwords: Passwords
  readonly limits: Pick<RateLimits, 'attempt'>
}

/** A request to one of the routes of saved objects. */
export type SavedCall = Call<SavedServices>

/** A user in the member `created_by` and similar members. */
export const AUTHOR = is.nullable(USER_SUMMARY)
/** The name of an insight or a dashboard in the body of a request. */
export const NAME = is.nullable(is.text(SAVED_NAME_CHARACTERS_MAX))
/** The description of an insight or a dashboard in the body of a request. */
export const DESCRIPTION = is.text(SAVED_DESCRIPTION_CHARACTERS_MAX)
/** The tags of an insight or a dashboard in the body of a request. */
export const TAGS = is.list(is.text(SAVED_TAG_CHARACTERS_MAX), SAVED_TAGS_MAX)
/** The member of a body that hides an object (true) or restores it (false). */
export const DELETED = is.about(is.BOOLEAN, 'True deletes it, false restores it.')

/** The error that explains why an insight has no result. */
export const NO_RESULT = is.about(
  is.nullable(is.namedObject('NoResult', { type: is.TEXT, message: is.TEXT })),
  'Error code and message, if the query is refused.',
)

const INSIGHT_MEMBERS = {
  id: is.WHOLE,
  short_id: is.TEXT,
  name: is.nullable(is.TEXT),
  derived_name: is.nullable(is.TEXT),
  query: is.nullable(is.JSON_OBJECT),
  filters: is.JSON_OBJECT,
  dashboards: is.list(is.WHOLE),
  dashboard_tiles: is.list(
    is.object({ id: is.WHOLE, dashboard_id: is.WHOLE, deleted: is.BOOLEAN }),
  ),
  description: is.nullable(is.TEXT),
  last_refresh: is.nullable(is.TIME),
  refreshing: is.BOOLEAN,
  saved: is.BOOLEAN,
  tags: is.list(is.TEXT),
  favorited: is.BOOLEAN,
  created_by: AUTHOR,
  created_at: is.TIME,
  updated_at: is.TIME,
  last_modified_at: is.TIME,
  user_access_level: is.TEXT,
  result: is.about(is.ANY, 'Null in lists, and if the query is refused.'),
}
/** An insight in a list. */
export const INSIGHT_ITEM = is.namedObject('InsightItem', INSIGHT_MEMBERS)
/** An insight with its result, in an answer. */
export const INSIGHT = is.namedObject('Insight', {
  ...INSIGHT_MEMBERS,
  columns: is.ANY,
  hasMore: is.nullable(is.BOOLEAN),
  deleted: is.BOOLEAN,
  order: is.NOTHING,
  is_cached: is.BOOLEAN,
  timezone: is.TEXT,
  error: NO_RESULT,
})

/** Returns the functions that look up users and time zones when an object is shown to a caller with a personal key. */
export function showingTo({ services }: Pick<SavedCall, 'services'>): Showing {
  const { directory } = services
  return {
    userById: (id) => directory.userById(id),
    timezoneOf: (projectId) => directory.projectById(projectId)?.timezone ?? 'UTC',
  }
}

/** Returns the members of an insight that was created or changed. Its query is not run. */
export function changedInsight(call: SavedCall, view: InsightView) {
  const without = { last_refresh: null, error: null, result: null, columns: null, hasMore: null }
  return { ...insightMembers(showingTo(call), view), ...without }
}

/**
 * Returns the project and the number in the path. If the text in the path is not a number, the number is 0, which no
 * object has.
 */
export function placeInPath(call: SavedCall): SavedPlace {
  return { projectId: call.projectId, id: call.number('id') ?? 0 }
}

/** Returns an object. If it is null, throws 404 `not_found`. */
export function existing<Thing>(thing: Thing | null, name: string): Thing {
  return found(thing, `The project has no such ${name}.`)
}

/** Throws 400 `invalid_input` for JSON that is longer than may be stored. */
export function checkSize(attr: string, value: unknown, unitsMax: number): void {
  if (value === undefined || JSON.stringify(value).length <= unitsMax) return
  const detail = `\`${attr}\` may have at most ${unitsMax} characters of JSON.`
  throw new ServiceError('invalid_input', detail, { attr })
}

/**
 * Throws 403 `permission_denied` if a caller who may not run queries changes a saved query or saved filters. The result
 * of the query is shown later, so saving it needs the same right as running it. `before` is the stored value, which may
 * stay as it is.
 */
export function requireAsking({ grant }: SavedCall, after: unknown, before: unknown): void {
  if (after === undefined || after === null) return
  if (JSON.stringify(after) !== JSON.stringify(before)) requireScope(grant, 'query:read')
}

/**
 * Throws 403 `permission_denied` for a key that is limited to some projects. Such a key must not change an object that
 * all projects show.
 */
export function requireAllProjects({ grant }: SavedCall): void {
  if (grant.projectIds === 'all') return
  throw denied(
    'This personal API key is limited to some projects, so it cannot annotate all of them.',
  )
}
