/** The limits of rules/saved, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/**
 * The largest number of insights of a project. For a further one, the insight that was deleted first is removed
 * permanently. If none is deleted, the answer is 400 `invalid_input`.
 * @user Insights, dashboards and annotations
 */
export const INSIGHTS_MAX = 10_000
/**
 * The largest number of dashboards of a project. For a further one, the dashboard that was deleted first is removed
 * permanently. If none is deleted, the answer is 400 `invalid_input`.
 * @user Insights, dashboards and annotations
 */
export const DASHBOARDS_MAX = 2000
/**
 * The largest number of annotations of a project, and of the organization. For a further one, the annotation that was
 * deleted first is removed permanently. If none is deleted, the answer is 400 `invalid_input`.
 * @user Insights, dashboards and annotations
 */
export const ANNOTATIONS_MAX = 5000
/**
 * The largest number of tiles on a dashboard. A further one is answered 400 `invalid_input`.
 * @user Insights, dashboards and annotations
 */
export const TILES_MAX = 200
/**
 * The largest number of dashboards to which one request can add an insight. More are answered 400 `invalid_input`.
 * @user Insights, dashboards and annotations
 */
export const INSIGHT_DASHBOARDS_MAX = 100
/**
 * The largest number of characters in the name of an insight or a dashboard. A longer name is answered 400
 * `max_length`.
 * @user Insights, dashboards and annotations
 */
export const SAVED_NAME_CHARACTERS_MAX = 400
/**
 * The largest number of characters in the description of an insight or a dashboard. A longer description is answered
 * 400 `max_length`.
 * @user Insights, dashboards and annotations
 */
export const SAVED_DESCRIPTION_CHARACTERS_MAX = 2000
/**
 * The largest number of tags of an insight or a dashboard. More are answered 400 `invalid_input`.
 * @user Insights, dashboards and annotations
 */
export const SAVED_TAGS_MAX = 50
/**
 * The largest number of characters in a tag of an insight or a dashboard. A longer tag is answered 400 `invalid_input`.
 * @user Insights, dashboards and annotations
 */
export const SAVED_TAG_CHARACTERS_MAX = 255
/**
 * The largest number of UTF-16 units of JSON in the query of an insight. A larger query is answered 400
 * `invalid_input`.
 * @user Insights, dashboards and annotations
 */
export const INSIGHT_QUERY_UNITS_MAX = 64 * 1024
/**
 * The largest number of UTF-16 units of JSON in the filters of a dashboard, and in its variables. More are answered 400
 * `invalid_input`.
 * @user Insights, dashboards and annotations
 */
export const DASHBOARD_FILTERS_UNITS_MAX = 16 * 1024
/**
 * The largest number of UTF-16 units of JSON in the layouts of a tile. More are answered 400 `invalid_input`.
 * @user Insights, dashboards and annotations
 */
export const TILE_LAYOUTS_UNITS_MAX = 2048
/**
 * The largest number of characters in the text of a tile. A longer text is answered 400 `invalid_input`.
 * @user Insights, dashboards and annotations
 */
export const TILE_TEXT_CHARACTERS_MAX = 4000
/**
 * The largest number of characters in the color of a tile. A longer color is answered 400 `invalid_input`.
 * @user Insights, dashboards and annotations
 */
export const TILE_COLOR_CHARACTERS_MAX = 400
/**
 * The largest number of characters in an annotation. A longer one is answered 400 `max_length`.
 * @user Insights, dashboards and annotations
 */
export const ANNOTATION_CHARACTERS_MAX = 8192
/**
 * The approximate number of UTF-16 units of JSON on one page of insights, dashboards or annotations. A page always has
 * at least one row, and `next` leads to the rest.
 * @user Insights, dashboards and annotations
 */
export const PAGE_SAVED_UNITS_MAX = 256 * 1024
/**
 * The largest number of passwords of a shared link. A further one is answered 400 `invalid_input`.
 * @user Insights, dashboards and annotations
 */
export const SHARE_PASSWORDS_MAX = 5
/**
 * The largest number of characters in the note of a password of a shared link. A longer note is answered 400
 * `max_length`.
 * @user Insights, dashboards and annotations
 */
export const SHARE_NOTE_CHARACTERS_MAX = 100
/**
 * The time for which a reader who gave the password of a shared link can open the link again without the password.
 * @user Insights, dashboards and annotations
 */
export const SHARE_PROOF_MS_MAX = 12 * 3_600_000
/**
 * The largest number of rows in a table on a shared page. Further rows are left out, and the page says so.
 * @user Insights, dashboards and annotations
 */
export const SHARED_ROWS_MAX = 200
/**
 * The largest number of columns in a table on a shared page. Further columns are left out, and the page says so.
 * @user Insights, dashboards and annotations
 */
export const SHARED_COLUMNS_MAX = 60
/** The largest number of characters in a cell of a table on a shared page. The rest is cut off. */
export const SHARED_CELL_CHARACTERS_MAX = 200
