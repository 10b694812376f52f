/** The limits of rules/saved: each with its unit, and what happens beyond it. docs/LIMITS.md lists them all. */

/** Insights of a project. A further one: the one that was deleted first goes for good, else 400 `invalid_input`. */
export const INSIGHTS_MAX = 10_000
/** Dashboards of a project. A further one: as for insights. */
export const DASHBOARDS_MAX = 2000
/** Annotations of a project, and of the organization. A further one: as for insights. */
export const ANNOTATIONS_MAX = 5000
/** Tiles of a dashboard. A further one: 400 `invalid_input`. */
export const TILES_MAX = 200
/** Dashboards that one request may put an insight on. More: 400 `invalid_input`. */
export const INSIGHT_DASHBOARDS_MAX = 100
/** Characters of the name of an insight or a dashboard. Longer: 400 `max_length`. */
export const SAVED_NAME_CHARACTERS_MAX = 400
/** Characters of its description. Longer: 400 `max_length`. */
export const SAVED_DESCRIPTION_CHARACTERS_MAX = 2000
/** Tags of an insight or a dashboard. More: 400 `invalid_input`. */
export const SAVED_TAGS_MAX = 50
/** Characters of one of these tags. Longer: 400 `invalid_input`. */
export const SAVED_TAG_CHARACTERS_MAX = 255
/** UTF-16 units of the JSON of the query of an insight. More: 400 `invalid_input`. */
export const INSIGHT_QUERY_UNITS_MAX = 64 * 1024
/** The same of the filters, and of the variables, of a dashboard. More: 400 `invalid_input`. */
export const DASHBOARD_FILTERS_UNITS_MAX = 16 * 1024
/** The same of the layouts of a tile. More: 400 `invalid_input`. */
export const TILE_LAYOUTS_UNITS_MAX = 2048
/** Characters of the text of a tile. Longer: 400 `invalid_input`. */
export const TILE_TEXT_CHARACTERS_MAX = 4000
/** Characters of the colour of a tile. Longer: 400 `invalid_input`. */
export const TILE_COLOR_CHARACTERS_MAX = 400
/** Characters of an annotation. Longer: 400 `max_length`. */
export const ANNOTATION_CHARACTERS_MAX = 8192
/** UTF-16 units of the things on a page of a list, as JSON, about: it ends there, with `next`, but not before its first row. */
export const PAGE_SAVED_UNITS_MAX = 256 * 1024
/** Rows of a table on a shared page. Further ones: left out, and the page says so. */
export const SHARED_ROWS_MAX = 200
/** Columns of such a table, such as the days and 25 values of a breakdown, twice. Further ones: left out, and the page says so. */
export const SHARED_COLUMNS_MAX = 60
/** Characters of one of its cells. Longer: cut. */
export const SHARED_CELL_CHARACTERS_MAX = 200
