/** The limits of rules/queries, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/**
 * The largest number of series in one query. More are answered 400 `invalid_query`.
 * @user Queries
 */
export const QUERY_SERIES_MAX = 26
/**
 * The largest number of filters in one filter tree of a query. More are answered 400 `invalid_query`.
 * @user Queries
 */
export const QUERY_FILTERS_MAX = 100
/**
 * The largest number of texts and patterns in the lists of one filter tree, for filters that search within a text
 * (`icontains`, `regex` and their opposites). More are answered 400 `invalid_query`.
 * @user Queries
 */
export const QUERY_PATTERNS_MAX = 1000
/**
 * The largest number of filter groups that may be nested in a query. A deeper tree is answered 400 `invalid_query`.
 * @user Queries
 */
export const QUERY_FILTER_DEPTH_MAX = 10
/**
 * The largest number of breakdowns in one query. More are answered 400 `invalid_query`.
 * @user Queries
 */
export const QUERY_BREAKDOWNS_MAX = 3
/** The number of values that a breakdown shows if the query has no `breakdown_limit`. */
export const QUERY_BREAKDOWN_VALUES = 25
/**
 * The highest `breakdown_limit` of a query. A higher one is answered 400 `invalid_query`.
 * @user Queries
 */
export const QUERY_BREAKDOWN_VALUES_MAX = 1000
/**
 * The largest number of cohorts in one breakdown. More are answered 400 `invalid_query`.
 * @user Queries
 */
export const QUERY_COHORTS_MAX = 25
/**
 * The largest number of bins in a breakdown by a number. More are answered 400 `invalid_query`.
 * @user Queries
 */
export const QUERY_BINS_MAX = 100
/**
 * The largest number of points in one series of a chart, such as the days since 1970 or the minutes of 17 days. A
 * screen has far fewer columns. More points are answered 400 `query_too_large`.
 * @user Queries
 */
export const CHART_SERIES_POINTS_MAX = 25_000
/**
 * The largest number of points in all series of a chart, with one series for each value of a breakdown, such as the
 * hours of a year for 25 values. More are answered 400 `query_too_large`.
 * @user Queries
 */
export const CHART_POINTS_MAX = 250_000
/**
 * The largest number of bytes in the answer to one query. A larger answer becomes 400 `query_too_large`.
 * @user Queries
 */
export const QUERY_ANSWER_BYTES_MAX = 64 * 1024 * 1024
/**
 * The largest number of bytes in the result of an insight, alone, on a dashboard or on a shared page. For a larger
 * result, the error `query_too_large` is shown instead.
 * @user Insights, dashboards and annotations
 */
export const INSIGHT_RESULT_BYTES_MAX = 16 * 1024 * 1024
/**
 * The largest number of characters in the URL of a request for the persons behind a number. A longer URL is left out of
 * the answer.
 */
export const PERSONS_URL_UNITS_MAX = 32 * 1024
/**
 * The largest number of rows on one page of a table of web analytics. A larger `limit` is treated as this one.
 * @user Queries
 */
export const WEB_ROWS_MAX = 50_000
/**
 * The largest number of events in a timeline of sessions. The newest ones are shown.
 * @user Queries
 */
export const TIMELINE_EVENTS_MAX = 1000
/** The number of rows on one page of a query that has no `limit`. */
export const QUERY_PAGE_ROWS = 100
/**
 * The highest `limit` of a query for events or actors. A higher one is answered 400 `invalid_query`.
 * @user Queries
 */
export const QUERY_PAGE_ROWS_MAX = 50_000
/**
 * The largest number of columns in one query (`select`). More are answered 400 `invalid_query`.
 * @user Queries
 */
export const QUERY_COLUMNS_MAX = 100
/**
 * The largest number of `coalesce` calls that may be nested in a column. A deeper column is answered 400
 * `invalid_query`.
 * @user Queries
 */
export const QUERY_COLUMN_DEPTH_MAX = 5
/**
 * The largest number of events that are read one by one because a list is ordered by a value that a scan cannot read.
 * More are answered 400 `query_too_large`.
 * @user Queries
 */
export const EVENT_ROWS_COMPARED_MAX = 50_000
/**
 * The largest number of metrics of an experiment in one query. More are answered 400 `invalid_query`, and can be asked
 * for one by one.
 * @user Queries
 */
export const EXPERIMENT_METRICS_MAX = 40
/**
 * The largest number of days in a window of a metric of an experiment. A longer window is answered 400 `invalid_query`.
 * @user Queries
 */
export const EXPERIMENT_WINDOW_DAYS_MAX = 36_525
/**
 * The largest number of days before an exposure that CUPED uses. A longer period is answered 400 `invalid_query`.
 * @user Queries
 */
export const EXPERIMENT_LOOKBACK_DAYS_MAX = 30
/** The number of columns in a retention table if the query has no `totalIntervals`. */
export const RETENTION_COLUMNS = 8
/**
 * The highest `totalIntervals` of a retention query. A higher one is answered 400 `invalid_query`.
 * @user Queries
 */
export const RETENTION_COLUMNS_MAX = 100
/**
 * The largest number of rows in a retention table, such as the hours of 22 years. More are answered 400
 * `invalid_query`.
 * @user Queries
 */
export const RETENTION_ROWS_MAX = 200_000
/**
 * The largest number of counts in a retention table, for all values of a breakdown together. More are answered 400.
 * @user Queries
 */
export const QUERY_CELLS_MAX = 4_000_000
/**
 * The largest number of actors that are read and sorted for one answer. If there are more and no index yields them in
 * the requested order, the answer is 400 `query_too_large`.
 * @user Queries
 */
export const ACTORS_SORTED_MAX = 100_000
/** The number of values of a breakdown on a world map, whatever `breakdown_limit` the query has. */
export const QUERY_MAP_VALUES = 250
/**
 * The largest number of values that smoothing averages (`smoothingIntervals`). A larger number is answered 400
 * `invalid_query`.
 * @user Queries
 */
export const QUERY_SMOOTHING_MAX = 100
/**
 * The largest number of formulas in one query. More are answered 400 `invalid_query`.
 * @user Queries
 */
export const QUERY_FORMULAS_MAX = 26
/**
 * The largest number of UTF-16 units in a formula. A longer formula is answered 400 `invalid_query`.
 * @user Queries
 */
export const QUERY_FORMULA_UNITS_MAX = 500
/**
 * The largest number of different edges in one paths query. More are answered 400 `query_too_large`.
 * @user Queries
 */
export const PATH_EDGES_MAX = 2_000_000
/**
 * The largest number of bins for conversion times that a funnel can ask for. A larger number is treated as this one.
 */
export const FUNNEL_BINS_MAX = 90
/**
 * The largest number of bins for conversion times of a funnel whose query asks for no number. The number is the cube
 * root of the number of actors, up to this limit.
 */
export const FUNNEL_OWN_BINS_MAX = 60
/**
 * The largest number of bytes that one part of a query uses to record which distinct IDs were active in which periods.
 * A query that would need more is divided by persons, and its parts are not cached.
 */
export const PERSON_BITS_BYTES_MAX = 24 * 1024 * 1024
/**
 * The largest number of bytes for the states of all persons in a funnel. If a funnel would need more, the events are
 * collected person by person, which is slower.
 */
export const FUNNEL_STREAM_BYTES_MAX = 128 * 1024 * 1024
/**
 * The largest number of bytes of a funnel's states that a thread keeps for its next funnel. A larger state is allocated
 * anew for each funnel.
 */
export const FUNNEL_SPARE_BYTES_MAX = 16 * 1024 * 1024
/**
 * The largest number of counts that a trend holds at a time, one for each bucket and breakdown value. If there would be
 * more, the values are counted one after the other, which is slower.
 */
export const TREND_CELLS_MAX = 1_000_000
/** The largest number of values of a session property that are suggested. Less frequent values are left out. */
export const SESSION_VALUES_MAX = 20
/**
 * The largest number of UTF-16 units in the text that describes the shape of a query (`shapeOf`). The rest is cut off.
 */
export const QUERY_SHAPE_UNITS_MAX = 300
