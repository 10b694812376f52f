/**
 * The common part of the routes of insights, dashboards, annotations and sharing, including the functions that show
 * insights. Source: docs/compatibility/saved.md, "Insights".
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
 * Runs the query of an insight (rules/saved/insight-question.ts). `question` is JSON whose members are not checked. The
 * result is written by `answerText`. Rejects with the `ServiceError` if the query is refused.
 */
export type ComputeInsight = (
  projectId: number,
  question: string,
  format: Extract<AnswerFormat, 'insight' | 'html'>,
) => Promise<Uint8Array>

/** The services that these routes need. */
export interface SavedServices extends OrganizationServices {
  readonly computeInsight: ComputeInsight
  /** Runs queries for shared pages. Anybody may request those repeatedly, so results are cached. */
  readonly computeShared: ComputeInsight
  /** The page that loads the console's program, which shows shared objects. Null if there is no console. */
  readonly shell: string | null
  /** Returns the text of the object that a token opens, or null. */
  readonly showShared: (request: SharedRequest) => Promise<SharedAnswer | null>
  /** Hashes the passwords of shared links, one after the other with those of users. */
  readonly passwords: Passwords
  readonly limits: Pick<RateLimits, 'attempt'>
}

/** A request to one of these routes. */
export type SavedCall = Call<SavedServices>

/** The user in `created_by` and similar members. */
export const AUTHOR = is.nullable(USER_SUMMARY)
/** The name of an insight or a dashboard in a body. */
export const NAME = is.nullable(is.text(SAVED_NAME_CHARACTERS_MAX))
/** The description of an insight or a dashboard in a body. */
export const DESCRIPTION = is.text(SAVED_DESCRIPTION_CHARACTERS_MAX)
/** The tags of an insight or a dashboard in a body. */
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
/** A whole insight. */
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

/** Returns the lookups with which objects are shown to a caller with a personal key. */
export function showingTo({ services }: Pick<SavedCall, 'services'>): Showing {
  const { directory } = services
  return {
    userById: (id) => directory.userById(id),
    timezoneOf: (projectId) => directory.projectById(projectId)?.timezone ?? 'UTC',
  }
}

/** Returns a whole insight that was created or changed. Its query is not run. */
export function changedInsight(call: SavedCall, view: InsightView) {
  const without = { last_refresh: null, error: null, result: null, columns: null, hasMore: null }
  return { ...insightMembers(showingTo(call), view), ...without }
}

/**
 * Returns the project and number of the object in the path. A text that is not a number becomes 0, which no object has.
 */
export function placeInPath(call: SavedCall): SavedPlace {
  return { projectId: call.projectId, id: call.number('id') ?? 0 }
}

/** Returns the object. Throws 404 `not_found` for null. */
export function existing<Thing>(thing: Thing | null, name: string): Thing {
  return found(thing, `The project has no such ${name}.`)
}

/** Refuses JSON that is longer than may be stored. Throws 400 `invalid_input`. */
export function checkSize(attr: string, value: unknown, unitsMax: number): void {
  if (value === undefined || JSON.stringify(value).length <= unitsMax) return
  const detail = `\`${attr}\` may have at most ${unitsMax} characters of JSON.`
  throw new ServiceError('invalid_input', detail, { attr })
}

/**
 * Checks the right to run a query that is saved, or changed by saved filters, because its result is shown later.
 * `before` is the stored value, which may stay as it is. Throws 403 `permission_denied`.
 */
export function requireAsking({ grant }: SavedCall, after: unknown, before: unknown): void {
  if (after === undefined || after === null) return
  if (JSON.stringify(after) !== JSON.stringify(before)) requireScope(grant, 'query:read')
}

/**
 * Refuses keys that are limited to some projects, for objects that all projects see. Throws 403 `permission_denied`.
 */
export function requireAllProjects({ grant }: SavedCall): void {
  if (grant.projectIds === 'all') return
  throw denied(
    'This personal API key is limited to some projects, so it cannot annotate all of them.',
  )
}
