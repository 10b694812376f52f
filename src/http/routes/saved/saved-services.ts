/** What the routes of saved things work with, and how they show insights. Source: docs/compatibility/saved.md, "Insights". */
import { ServiceError } from '../../../base/errors.ts'
import type { JsonObject } from '../../../base/json.ts'
import type { PageRequest } from '../../../base/pages.ts'
import { optionalTimeText, timeText } from '../../../base/time.ts'
import { type UserSummary, userSummary } from '../../../rules/access/user.ts'
import { questionOf } from '../../../rules/saved/insight-question.ts'
import {
  SAVED_DESCRIPTION_CHARACTERS_MAX,
  SAVED_NAME_CHARACTERS_MAX,
  SAVED_TAG_CHARACTERS_MAX,
  SAVED_TAGS_MAX,
} from '../../../rules/saved/limits.ts'
import type { Insight, InsightView, SavedPlace } from '../../../rules/saved/saved.ts'
import { denied, requireScope } from '../../server/auth.ts'
import { countedUrls, lenientPage, PAGE_LIMITS } from '../../server/pages.ts'
import type { Call } from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import {
  type OrganizationDirectory,
  type OrganizationServices,
  USER_SUMMARY,
} from '../organization/organization-services.ts'

/** The answer of a query. */
export interface InsightResult {
  readonly results: unknown
  readonly columns?: unknown
  readonly hasMore?: boolean
}

/**
 * Answers the question of an insight (rules/saved/insight-question.ts), whose body is not checked. Null for a
 * kind that is not answered; a `ServiceError` that it rejects with counts as no answer, too.
 */
export type ComputeInsight = (projectId: number, query: JsonObject) => Promise<InsightResult | null>

/** What the routes of saved things work with. */
export interface SavedServices extends OrganizationServices {
  readonly computeInsight: ComputeInsight
  /** The same for shared pages, which anybody may ask for again and again. */
  readonly computeShared: ComputeInsight
}

/** A request to one of these routes. */
export type SavedCall = Call<SavedServices>

/** What showing a saved thing takes. */
export interface Showing {
  readonly directory: Pick<OrganizationDirectory, 'userById' | 'projectById'>
  readonly compute: ComputeInsight
  readonly clock: OrganizationServices['clock']
}

/** `created_by` and the like. */
export const AUTHOR = is.nullable(USER_SUMMARY)
/** The name of an insight or a dashboard, as it is sent. */
export const NAME = is.nullable(is.text(SAVED_NAME_CHARACTERS_MAX))
/** Its description. */
export const DESCRIPTION = is.text(SAVED_DESCRIPTION_CHARACTERS_MAX)
/** Its tags. */
export const TAGS = is.list(is.text(SAVED_TAG_CHARACTERS_MAX), SAVED_TAGS_MAX)
/** True in a body: the thing is hidden; false: it is there again. */
export const DELETED = is.about(is.BOOLEAN, 'True deletes it, false brings it back.')
/** What users may do with what is saved: everybody of a project may change it. */
export const ACCESS_LEVEL = 'editor'
/** Parameters of a list. */
export const LIST_MEMBERS = is.pageParameters(PAGE_LIMITS.max)

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
  result: is.about(is.ANY, 'Null in lists, and for a query of a kind that is not answered.'),
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
})

/** How a request shows things to whoever has a personal key. */
export function showingTo({ services }: SavedCall): Showing {
  const { directory, clock, computeInsight: compute } = services
  return { directory, clock, compute }
}

/** Who did something, by number. */
export function authorOf({ directory }: Showing, userId: number | null): UserSummary | null {
  const user = userId === null ? null : directory.userById(userId)
  return user === null ? null : userSummary(user)
}

/** An insight as lists show it. */
export function insightItem(showing: Showing, { insight, tiles }: InsightView) {
  const { id, fields, createdById, createdAtMs, updatedAtMs } = insight
  const updatedAt = timeText(updatedAtMs)
  return {
    id,
    ...fields,
    filters: {},
    dashboards: tiles.map(({ dashboardId }) => dashboardId),
    dashboard_tiles: tiles.map((tile) => ({
      id: tile.id,
      dashboard_id: tile.dashboardId,
      deleted: false,
    })),
    last_refresh: null,
    refreshing: false,
    created_by: authorOf(showing, createdById),
    created_at: timeText(createdAtMs),
    updated_at: updatedAt,
    last_modified_at: updatedAt,
    user_access_level: ACCESS_LEVEL,
    result: null,
  }
}

/** A whole insight; `found`: the answer of its query. */
export function insightBody(
  showing: Showing,
  view: InsightView,
  found: InsightResult | null = null,
) {
  const { isDeleted, projectId } = view.insight
  return {
    ...insightItem(showing, view),
    last_refresh: optionalTimeText(found === null ? null : showing.clock.now()),
    result: found?.results ?? null,
    columns: found?.columns ?? null,
    hasMore: found?.hasMore ?? null,
    deleted: isDeleted,
    order: null,
    is_cached: false,
    timezone: showing.directory.projectById(projectId)?.timezone ?? 'UTC',
  }
}

/** The answer of an insight's query under the filters of a dashboard; null when there is none. */
export async function resultOf(
  { compute }: Pick<Showing, 'compute'>,
  { projectId, fields }: Insight,
  filters?: JsonObject,
): Promise<InsightResult | null> {
  const question = questionOf(fields.query, filters)
  if (question === null) return null
  try {
    return await compute(projectId, question)
  } catch (error) {
    if (error instanceof ServiceError) return null
    throw error
  }
}

/** Which thing the path names; a text that is no number stands for none. */
export function placeInPath(call: SavedCall): SavedPlace {
  return { projectId: call.projectId, id: call.number('id') ?? 0 }
}

/** What is there. Throws 404 `not_found` for null. */
export function existing<Thing>(thing: Thing | null, name: string): Thing {
  if (thing !== null) return thing
  throw new ServiceError('not_found', `the project has no such ${name}`)
}

/** The page of a list; `ask` gets the part that is wanted. */
export async function listPage<Item>(
  call: SavedCall,
  ask: (page: PageRequest) => Promise<{ count: number; results: readonly Item[] }>,
  bodyOf: (item: Item) => unknown,
) {
  const page = lenientPage(call)
  const { count, results } = await ask(page)
  return { count, ...countedUrls(call, page, results.length, count), results: results.map(bodyOf) }
}

/** Refuses JSON that is longer than may be stored. Throws 400 `invalid_input`. */
export function checkSize(attr: string, value: unknown, unitsMax: number): void {
  if (value === undefined || JSON.stringify(value).length <= unitsMax) return
  const detail = `${attr} may have ${unitsMax} characters of JSON at most`
  throw new ServiceError('invalid_input', detail, { attr })
}

/**
 * Saving a question, or filters of one, is asking it: the answer is shown with it. `before`: what is saved
 * already and may stay. Throws 403 `permission_denied`.
 */
export function requireAsking({ grant }: SavedCall, after: unknown, before: unknown): void {
  if (after === undefined || after === null) return
  if (JSON.stringify(after) !== JSON.stringify(before)) requireScope(grant, 'query:read')
}

/** What all projects see is for keys that are not limited to some. Throws 403 `permission_denied`. */
export function requireAllProjects({ grant }: SavedCall): void {
  if (grant.projectIds === 'all') return
  throw denied('the personal API key is limited to projects: it cannot annotate all of them')
}
