/**
 * Builds the JSON of insights, dashboards and their tiles for clients. Source: docs/compatibility/saved.md, "Insights".
 */
import { timeText } from '../../base/time.ts'
import { type UserFacts, type UserSummary, userSummary } from '../access/user.ts'
import type { Dashboard, InsightView, Tile, TileView } from './saved.ts'

/**
 * The restriction level and the privilege level of every dashboard. In the protocol of PostHog, these numbers mean that
 * every user of the project may change the dashboard.
 */
const EVERYBODY_LEVEL = 21
const EDIT_LEVEL = 37
/** The access level of saved objects. Every user of a project may change them. */
const ACCESS_LEVEL = 'editor'

/** The lookups that the JSON needs in addition to the saved object. */
export interface Showing {
  /** Returns the user with an id, or null if the user must not be named. */
  readonly userById: (id: number) => UserFacts | null
  readonly timezoneOf: (projectId: number) => string
}

/** Returns the summary of the user with an id, or null. */
export function authorOf(
  { userById }: Pick<Showing, 'userById'>,
  userId: number | null,
): UserSummary | null {
  const user = userId === null ? null : userById(userId)
  return user === null ? null : userSummary(user)
}

/** Returns an insight as lists show it. */
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

/** Returns the members of a complete insight that do not depend on its result. */
export function insightMembers(showing: Showing, view: InsightView) {
  const { last_refresh: _, result: __, ...item } = insightItem(showing, view)
  const { isDeleted, projectId } = view.insight
  return {
    ...item,
    deleted: isDeleted,
    order: null,
    is_cached: false,
    timezone: showing.timezoneOf(projectId),
  }
}

/** Returns a dashboard as lists show it. */
export function dashboardItem(showing: Showing, dashboard: Dashboard) {
  const { id, fields, isDeleted, projectId, sharing, createdById, createdAtMs } = dashboard
  return {
    id,
    name: fields.name,
    description: fields.description,
    pinned: fields.pinned,
    created_at: timeText(createdAtMs),
    created_by: authorOf(showing, createdById),
    last_accessed_at: null,
    is_shared: sharing?.isEnabled === true,
    deleted: isDeleted,
    creation_mode: 'default',
    tags: fields.tags,
    restriction_level: EVERYBODY_LEVEL,
    effective_restriction_level: EVERYBODY_LEVEL,
    effective_privilege_level: EDIT_LEVEL,
    user_access_level: ACCESS_LEVEL,
    access_control_version: 'v2',
    last_refresh: null,
    team_id: projectId,
  }
}

/** Returns the members of a complete dashboard except its tiles. */
export function dashboardMembers(showing: Showing, dashboard: Dashboard) {
  const { filters, variables } = dashboard.fields
  return {
    ...dashboardItem(showing, dashboard),
    filters,
    variables,
    breakdown_colors: [],
    data_color_theme_id: null,
    persisted_filters: nullIfEmpty(filters),
    persisted_variables: nullIfEmpty(variables),
  }
}

/** Returns the members of a tile, except its insight and the members that depend on the result of the insight. */
export function tileMembers(showing: Showing, { id, layouts, color, text }: TileView) {
  return {
    id,
    layouts,
    color,
    text: text && textBody(showing, id, text),
    order: null,
    is_cached: false,
  }
}

function textBody(showing: Showing, id: number, text: NonNullable<Tile['text']>) {
  return {
    id,
    body: text.body,
    created_by: authorOf(showing, text.createdById),
    last_modified_at: timeText(text.lastModifiedAtMs),
    last_modified_by: authorOf(showing, text.lastModifiedById),
  }
}

function nullIfEmpty(members: object): object | null {
  return Object.keys(members).length === 0 ? null : members
}
