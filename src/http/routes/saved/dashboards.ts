/** The routes of dashboards. Source: docs/compatibility/saved.md, "Dashboards". */
import { invalidInput } from '../../../base/errors.ts'
import { given, isObject } from '../../../base/json.ts'
import { timeText } from '../../../base/time.ts'
import {
  DASHBOARD_FILTERS_UNITS_MAX,
  TILE_COLOR_CHARACTERS_MAX,
  TILE_LAYOUTS_UNITS_MAX,
  TILE_TEXT_CHARACTERS_MAX,
  TILES_MAX,
} from '../../../rules/saved/limits.ts'
import type {
  Dashboard,
  DashboardView,
  Tile,
  TileChange,
  TileView,
} from '../../../rules/saved/saved.ts'
import {
  type Call,
  done,
  inProject,
  type Resource,
  refusedRoute,
  routesOf,
} from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { DASHBOARD_RESULTS_MS_MAX, DASHBOARD_RESULTS_UNITS_MAX } from '../limits.ts'
import { ask, change } from '../organization/organization-services.ts'
import {
  ACCESS_LEVEL,
  AUTHOR,
  authorOf,
  checkSize,
  DELETED,
  DESCRIPTION,
  existing,
  INSIGHT,
  insightBody,
  LIST_MEMBERS,
  listPage,
  NAME,
  placeInPath,
  requireAsking,
  resultOf,
  type SavedCall,
  type SavedServices,
  type Showing,
  showingTo,
  TAGS,
} from './saved-services.ts'

const DASHBOARDS = '/api/projects/:project_id/dashboards/'
/** Everybody of the project may change a dashboard, in the numbers of the protocol. */
const EVERYBODY_LEVEL = 21
const EDIT_LEVEL = 37

const ITEM_MEMBERS = {
  id: is.WHOLE,
  name: is.nullable(is.TEXT),
  description: is.TEXT,
  pinned: is.BOOLEAN,
  created_at: is.TIME,
  created_by: AUTHOR,
  last_accessed_at: is.about(is.NOTHING, 'Nobody notes it.'),
  is_shared: is.BOOLEAN,
  deleted: is.BOOLEAN,
  creation_mode: is.TEXT,
  tags: is.list(is.TEXT),
  restriction_level: is.WHOLE,
  effective_restriction_level: is.WHOLE,
  effective_privilege_level: is.WHOLE,
  user_access_level: is.TEXT,
  access_control_version: is.TEXT,
  last_refresh: is.nullable(is.TIME),
  team_id: is.WHOLE,
}
const DASHBOARD_ITEM = is.namedObject('DashboardItem', ITEM_MEMBERS)
const TILE = is.namedObject('DashboardTile', {
  id: is.WHOLE,
  layouts: is.JSON_OBJECT,
  color: is.nullable(is.TEXT),
  insight: is.nullable(INSIGHT),
  text: is.nullable(
    is.namedObject('TileText', {
      id: is.WHOLE,
      body: is.TEXT,
      created_by: AUTHOR,
      last_modified_at: is.TIME,
      last_modified_by: AUTHOR,
    }),
  ),
  order: is.NOTHING,
  last_refresh: is.nullable(is.TIME),
  is_cached: is.BOOLEAN,
})
/** A whole dashboard. */
export const DASHBOARD = is.namedObject('Dashboard', {
  ...ITEM_MEMBERS,
  filters: is.JSON_OBJECT,
  variables: is.JSON_OBJECT,
  breakdown_colors: is.list(is.ANY),
  data_color_theme_id: is.NOTHING,
  persisted_filters: is.nullable(is.JSON_OBJECT),
  persisted_variables: is.nullable(is.JSON_OBJECT),
  tiles: is.list(TILE),
})
const TILE_FIELDS = is.named(
  'DashboardTileFields',
  is.openObject(
    {},
    {
      id: is.about(is.WHOLE, 'Of the tile that changes; absent: a new one.'),
      insight: is.about(is.ANY, 'Number of an insight, or an object with its id: for a new tile.'),
      text: is.nullable(is.openObject({ body: is.text(TILE_TEXT_CHARACTERS_MAX) })),
      layouts: is.JSON_OBJECT,
      color: is.nullable(is.text(TILE_COLOR_CHARACTERS_MAX)),
      deleted: is.about(is.BOOLEAN, 'True: the tile goes for good.'),
    },
  ),
)
const FIELDS = is.named(
  'DashboardFields',
  is.openObject(
    {},
    {
      name: NAME,
      description: DESCRIPTION,
      pinned: is.BOOLEAN,
      tags: TAGS,
      filters: is.JSON_OBJECT,
      variables: is.JSON_OBJECT,
      tiles: is.about(is.list(TILE_FIELDS, TILES_MAX), 'Those that change; others stay.'),
      deleted: DELETED,
      use_template: is.about(is.ANY, 'Is not supported: 400.'),
      use_dashboard: is.about(is.ANY, 'Is not supported: 400.'),
    },
  ),
)

type TileBody = ReturnType<typeof tileBody>
type Writing = Call<SavedServices, is.Schema, typeof FIELDS>

const route = routesOf<SavedServices>(
  DASHBOARDS,
  inProject('dashboard:read'),
  inProject('dashboard:write'),
)

/** Dashboards. */
export const DASHBOARD_RESOURCE: Resource<SavedServices> = {
  name: 'Dashboards',
  sentence: 'Insights and texts side by side.',
  segments: { id: is.about(is.WHOLE, 'Number of the dashboard.') },
  routes: [
    route('GET', '', 'listDashboards', 'Lists dashboards, pinned ones first, then by name.', {
      query: is.options({
        search: is.about(is.TEXT, 'Part of the name or a tag.'),
        ...LIST_MEMBERS,
      }),
      answers: { 200: done(is.pageOf(DASHBOARD_ITEM)) },
      handle(call) {
        const { projectId } = call
        const filter = given({ search: call.query().search })
        return listPage(
          call,
          (page) => ask(call, 'listDashboards', { projectId, filter, page }),
          (dashboard) => dashboardItem(showingTo(call), dashboard),
        )
      },
    }),
    route('POST', '', 'createDashboard', 'Makes a dashboard.', {
      body: FIELDS,
      answers: { 201: done(DASHBOARD) },
      async handle(call) {
        requireAsking(call, call.body().filters, {})
        const request = requestOf(call)
        return plainDashboard(call, await change(call, 'createDashboard', request))
      },
    }),
    route('GET', ':id/', 'getDashboard', 'Shows a dashboard with the results of its insights.', {
      answers: { 200: done(DASHBOARD) },
      async handle(call) {
        const view = await dashboardInPath(call)
        existing(view.dashboard.isDeleted ? null : view, 'dashboard')
        return dashboardWithResults(showingTo(call), view)
      },
    }),
    route('PATCH', ':id/', 'patchDashboard', 'Changes a dashboard and its tiles.', {
      body: FIELDS,
      answers: { 200: done(DASHBOARD) },
      async handle(call) {
        const { id, fields } = (await dashboardInPath(call)).dashboard
        requireAsking(call, call.body().filters, fields.filters)
        const request = { ...requestOf(call), id }
        return plainDashboard(call, await change(call, 'changeDashboard', request))
      },
    }),
    refusedRoute(
      { method: 'DELETE', path: `${DASHBOARDS}:id/`, allow: 'GET, PATCH' },
      'send PATCH with {"deleted": true}',
    ),
  ],
}

/** A dashboard with the results of its insights, one after the other, as far as there is time and room. */
export async function dashboardWithResults(showing: Showing, view: DashboardView) {
  const { clock } = showing
  const untilMs = clock.monotonic() + DASHBOARD_RESULTS_MS_MAX
  let units = 0
  const tiles: TileBody[] = []
  for (const tile of view.tiles) {
    const insight = tile.insight?.insight
    const isOver = clock.monotonic() > untilMs || units > DASHBOARD_RESULTS_UNITS_MAX
    const isLeft = insight === undefined || isOver
    const result = isLeft ? null : await resultOf(showing, insight, view.dashboard.fields.filters)
    if (result !== null) units += JSON.stringify(result).length
    const body = tile.insight && insightBody(showing, tile.insight, result)
    tiles.push(tileBody(showing, tile, body))
  }
  return dashboardBody(showing, view.dashboard, tiles)
}

/** The dashboard in the path, deleted or not. Throws 404 `not_found`. */
async function dashboardInPath(call: SavedCall): Promise<DashboardView> {
  return existing(await ask(call, 'getDashboard', placeInPath(call)), 'dashboard')
}

function requestOf(call: Writing) {
  const { deleted: isDeleted, tiles = [], use_template, use_dashboard, ...fields } = call.body()
  for (const [attr, value] of Object.entries({ use_template, use_dashboard })) {
    if (value) throw invalidInput(attr, 'is not supported: make the dashboard and its insights')
  }
  checkSize('filters', fields.filters, DASHBOARD_FILTERS_UNITS_MAX)
  checkSize('variables', fields.variables, DASHBOARD_FILTERS_UNITS_MAX)
  const { projectId, user } = call
  return { projectId, userId: user.id, fields, isDeleted, tiles: tiles.map(readTile) }
}

/** What a tile of a body says; clients also send back what they were shown. */
function readTile({ id, insight, text, layouts, color, deleted }: is.TypeOf<typeof TILE_FIELDS>) {
  checkSize('layouts', layouts, TILE_LAYOUTS_UNITS_MAX)
  const insightId = isObject(insight) ? insight['id'] : insight
  return given({
    id,
    ...(typeof insightId === 'number' && !text ? { insightId } : {}),
    body: text?.body,
    ...{ layouts, color },
    isRemoved: deleted === true ? deleted : undefined,
  }) satisfies TileChange
}

function dashboardItem(showing: Showing, dashboard: Dashboard) {
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

function plainDashboard(call: SavedCall, { dashboard, tiles }: DashboardView) {
  const showing = showingTo(call)
  const shown = tiles.map((tile) =>
    tileBody(showing, tile, tile.insight && insightBody(showing, tile.insight)),
  )
  return dashboardBody(showing, dashboard, shown)
}

function dashboardBody(showing: Showing, dashboard: Dashboard, tiles: readonly TileBody[]) {
  const { filters, variables } = dashboard.fields
  return {
    ...dashboardItem(showing, dashboard),
    filters,
    variables,
    breakdown_colors: [],
    data_color_theme_id: null,
    persisted_filters: unlessEmpty(filters),
    persisted_variables: unlessEmpty(variables),
    tiles,
  }
}

function unlessEmpty(members: object): object | null {
  return Object.keys(members).length === 0 ? null : members
}

function tileBody(
  showing: Showing,
  { id, layouts, color, text }: TileView,
  insight: ReturnType<typeof insightBody> | null,
) {
  return {
    id,
    layouts,
    color,
    insight,
    text: text && textBody(showing, id, text),
    order: null,
    last_refresh: insight?.last_refresh ?? null,
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
