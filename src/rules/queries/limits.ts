/** The limits of rules/queries: each with its unit, and what happens beyond it. docs/LIMITS.md lists them all. */

/** Series of one query. More: 400 `invalid_query`. */
export const QUERY_SERIES_MAX = 26
/** Filters of one tree. More: 400 `invalid_query`. */
export const QUERY_FILTERS_MAX = 100
/** Texts and patterns in lists of filters that look for parts, all of one tree together. More: 400 `invalid_query`. */
export const QUERY_PATTERNS_MAX = 1000
/** Groups of filters within each other. Deeper: 400 `invalid_query`. */
export const QUERY_FILTER_DEPTH_MAX = 10
/** Breakdowns of one query. More: 400 `invalid_query`. */
export const QUERY_BREAKDOWNS_MAX = 3
/** Values of a breakdown when the query does not say how many. */
export const QUERY_BREAKDOWN_VALUES = 25
/** Values that a breakdown may ask for. More: 400 `invalid_query`. */
export const QUERY_BREAKDOWN_VALUES_MAX = 1000
/** Cohorts of one breakdown. More: 400 `invalid_query`. */
export const QUERY_COHORTS_MAX = 25
/** Bins of a breakdown by number. More: 400 `invalid_query`. */
export const QUERY_BINS_MAX = 100
/**
 * Points of one series of a chart, such as the days since 1970 or the minutes of 17 days: many more than a screen has
 * columns. More: 400 `query_too_large`.
 */
export const CHART_SERIES_POINTS_MAX = 25_000
/** Points of all series of a chart, one for each value of a breakdown, such as the hours of a year for 25 values. More: 400 `query_too_large`. */
export const CHART_POINTS_MAX = 250_000
/** Bytes of one answer. More: 400 `query_too_large`. */
export const QUERY_ANSWER_BYTES_MAX = 64 * 1024 * 1024
/** Bytes of the result of an insight, alone, on a dashboard or on a shared page. More: the sentence of a 400 stands in its place. */
export const INSIGHT_RESULT_BYTES_MAX = 16 * 1024 * 1024
/** Characters of the address of those behind a number. A longer one is not given. */
export const PERSONS_URL_UNITS_MAX = 32 * 1024
/** Rows of one page of a table of web analytics. A query for more gets so many. */
export const WEB_ROWS_MAX = 50_000
/** Events of a timeline of sessions, the newest. */
export const TIMELINE_EVENTS_MAX = 1000
/** Rows of one page when the query does not say how many. */
export const QUERY_PAGE_ROWS = 100
/** Rows that a page may ask for. More: 400 `invalid_query`. */
export const QUERY_PAGE_ROWS_MAX = 50_000
/** Columns of one list. More: 400 `invalid_query`. */
export const QUERY_COLUMNS_MAX = 100
/** `coalesce` within each other. Deeper: 400 `invalid_query`. */
export const QUERY_COLUMN_DEPTH_MAX = 5
/** Events that are read one by one to be put in order. More: 400 `query_too_large`. */
export const EVENT_ROWS_COMPARED_MAX = 50_000
/** Columns of retention when the query does not say how many. */
export const RETENTION_COLUMNS = 8
/** Columns of retention that may be asked for. More: 400 `invalid_query`. */
export const RETENTION_COLUMNS_MAX = 100
/** Rows of a table of retention, such as the hours of 22 years. More: 400 `invalid_query`. */
export const RETENTION_ROWS_MAX = 200_000
/** Numbers of a table of retention: all values of a breakdown together. More: 400. */
export const QUERY_CELLS_MAX = 4_000_000
/** Actors that are read and sorted for one answer. More: by an index where there is one, else 400 `query_too_large`. */
export const ACTORS_SORTED_MAX = 100_000
/** Values of a breakdown on a map of the world, whatever the query says. */
export const QUERY_MAP_VALUES = 250
/** Numbers that smoothing averages. More: 400 `invalid_query`. */
export const QUERY_SMOOTHING_MAX = 100
/** Formulas of one query. More: 400 `invalid_query`. */
export const QUERY_FORMULAS_MAX = 26
/** Characters of a formula. More: 400 `invalid_query`. */
export const QUERY_FORMULA_UNITS_MAX = 500
/** Different edges of one query of paths. More: 400 `query_too_large`. */
export const PATH_EDGES_MAX = 2_000_000
/** Bins of times that a funnel may ask for. A larger number is taken for this one. */
export const FUNNEL_BINS_MAX = 90
/** Bins of times of a funnel that asks for none: the cube root of the number of actors, but no more. */
export const FUNNEL_OWN_BINS_MAX = 60
/**
 * Memory for the bits of distinct_ids by periods that one part of a query keeps. More: parts are divided by persons
 * and not remembered.
 */
export const PERSON_BITS_BYTES_MAX = 24 * 1024 * 1024
/** Memory for where each person is in a funnel. More: its events are gathered person by person, slower. */
export const FUNNEL_STREAM_BYTES_MAX = 128 * 1024 * 1024
/** What of it a thread keeps for the next funnel. More: it is taken anew each time. */
export const FUNNEL_SPARE_BYTES_MAX = 16 * 1024 * 1024
/** Numbers by bucket and value of a breakdown that are counted side by side. More: value by value, slower. */
export const TREND_CELLS_MAX = 1_000_000
/** Values of a property of sessions that are offered. */
export const SESSION_VALUES_MAX = 20
/** UTF-16 units of what is remembered of how a query is shaped, see `shapeOf`. Further ones: cut off. */
export const QUERY_SHAPE_UNITS_MAX = 300
