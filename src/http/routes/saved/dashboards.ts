/** The routes of dashboards. Source: docs/compatibility/saved.md, "Dashboards". */
import { invalidInput } from '../../../base/errors.ts'
import { given, isObject, isSameJson, type JsonObject } from '../../../base/json.ts'
import {
  DASHBOARD_FILTERS_UNITS_MAX,
  TILE_COLOR_CHARACTERS_MAX,
  TILE_LAYOUTS_UNITS_MAX,
  TILE_TEXT_CHARACTERS_MAX,
  TILES_MAX,
} from '../../../rules/saved/limits.ts'
import type { Dashboard, TileChange } from '../../../rules/saved/saved.ts'
import { dashboardItem } from '../../../rules/saved/saved-bodies.ts'
import { type Call, inProject, type Resource } from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { collectionOf } from '../collection.ts'
import { ask, change } from '../organization/organization-services.ts'
import { checkDashboardFilters } from './dashboard-filters.ts'
import { filledJson } from './filled-text.ts'
import {
  AUTHOR,
  checkSize,
  DELETED,
  DESCRIPTION,
  existing,
  INSIGHT,
  NAME,
  NO_RESULT,
  placeInPath,
  requireAsking,
  type SavedServices,
  showingTo,
  TAGS,
} from './saved-services.ts'

const ITEM_MEMBERS = {
  id: is.WHOLE,
  name: is.nullable(is.TEXT),
  description: is.TEXT,
  pinned: is.BOOLEAN,
  created_at: is.TIME,
  created_by: AUTHOR,
  last_accessed_at: is.about(is.NOTHING, 'Always null, because accesses are not recorded.'),
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
  error: NO_RESULT,
})
/** A dashboard with its tiles, in an answer. */
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
      id: is.about(is.WHOLE, 'Number of the tile to change. If it is absent, a tile is added.'),
      insight: is.about(is.ANY, 'For a new tile: number of an insight, or an object with its ID.'),
      text: is.nullable(is.openObject({ body: is.text(TILE_TEXT_CHARACTERS_MAX) })),
      layouts: is.JSON_OBJECT,
      color: is.nullable(is.text(TILE_COLOR_CHARACTERS_MAX)),
      deleted: is.about(is.BOOLEAN, 'If true, the tile is removed permanently.'),
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
      tiles: is.about(
        is.list(TILE_FIELDS, TILES_MAX),
        'The tiles to change or add. Other tiles stay.',
      ),
      deleted: DELETED,
      use_template: is.about(is.ANY, 'Not supported. A value is refused with 400.'),
      use_dashboard: is.about(is.ANY, 'Not supported. A value is refused with 400.'),
    },
  ),
)

type Writing = Call<SavedServices, is.Schema, typeof FIELDS>

const RESULTS = is.options({
  results: is.about(is.TEXT, 'If it is false, the queries are not run and all results are null.'),
})

const collection = collectionOf<SavedServices>(
  '/api/projects/:project_id/dashboards/',
  inProject('dashboard:read'),
  inProject('dashboard:write'),
)

/** The routes of dashboards. */
export const DASHBOARD_RESOURCE: Resource<SavedServices> = {
  name: 'Dashboards',
  sentence: 'Insights and texts side by side.',
  segments: { id: is.about(is.WHOLE, 'Number of the dashboard.') },
  routes: collection({
    name: 'Dashboard',
    noun: 'a dashboard',
    one: ':id/',
    schema: DASHBOARD,
    list: {
      says: 'Lists dashboards, pinned ones first, then by name.',
      item: DASHBOARD_ITEM,
      query: { search: is.about(is.TEXT, 'Part of the name or a tag.') },
      items(call, page) {
        const filter = given({ search: call.query().search })
        return ask(call, 'listDashboards', { projectId: call.projectId, filter, page })
      },
      show: (call, dashboard) => dashboardItem(showingTo(call), dashboard),
    },
    /** Returns the dashboard named in the path, without its tiles. It may be deleted. */
    async find(call) {
      return existing(await ask(call, 'getDashboard', placeInPath(call)), 'dashboard')
    },
    /** Returns the JSON of a dashboard that was created or changed. The queries of its insights are not run. */
    async show(call, { id, projectId }: Dashboard) {
      const place = { projectId, id, withDeleted: true }
      const shown = existing(await ask(call, 'showDashboard', place), 'dashboard')
      return filledJson(shown, { clock: call.services.clock, compute: null })
    },
    get: {
      says: 'Shows a dashboard with the results of its insights.',
      query: RESULTS,
      async read(call) {
        const { results } = call.query() as is.TypeOf<typeof RESULTS>
        const place = { ...placeInPath(call), withDeleted: false }
        const shown = existing(await ask(call, 'showDashboard', place), 'dashboard')
        const { clock, computeInsight } = call.services
        const compute = results === 'false' ? null : computeInsight
        return filledJson(shown, { clock, compute })
      },
    },
    create: {
      body: FIELDS,
      make: (call) => change(call, 'createDashboard', requestOf(call, {})),
    },
    patch: {
      says: 'Updates a dashboard and its tiles.',
      body: FIELDS,
      change: (call, { id, fields }) =>
        change(call, 'changeDashboard', { ...requestOf(call, fields.filters), id }),
    },
    removeInstead: 'A dashboard cannot be deleted this way. Send PATCH with {"deleted": true}.',
  }),
}

/** Throws 400 `invalid_input` if the filters in a body are invalid, unless the stored filters `before` are the same. */
function requireReadable(call: Writing, before: JsonObject): void {
  const { filters } = call.body()
  if (filters === undefined || isSameJson(filters, before)) return
  checkDashboardFilters(filters, call.services.clock.now())
}

/** Returns the request that makes a change in the store. `before` are the stored filters. */
function requestOf(call: Writing, before: JsonObject) {
  requireAsking(call, call.body().filters, before)
  requireReadable(call, before)
  const { deleted: isDeleted, tiles = [], use_template, use_dashboard, ...fields } = call.body()
  for (const [attr, value] of Object.entries({ use_template, use_dashboard })) {
    if (value)
      throw invalidInput(attr, 'is not supported. Create the dashboard and its insights yourself')
  }
  checkSize('filters', fields.filters, DASHBOARD_FILTERS_UNITS_MAX)
  checkSize('variables', fields.variables, DASHBOARD_FILTERS_UNITS_MAX)
  const { projectId, user } = call
  return { projectId, userId: user.id, fields, isDeleted, tiles: tiles.map(readTile) }
}

/** Returns the changes of a tile. A client may also send a whole tile in the form in which it received it. */
function readTile({ id, insight, text, layouts, color, deleted }: is.TypeOf<typeof TILE_FIELDS>) {
  checkSize('layouts', layouts, TILE_LAYOUTS_UNITS_MAX)
  const insightId = isObject(insight) ? insight['id'] : insight
  return given({
    id,
    ...(typeof insightId === 'number' && !text ? { insightId } : {}),
    body: text?.body,
    layouts,
    color,
    isRemoved: deleted === true ? deleted : undefined,
  }) satisfies TileChange
}
