/** The members that all queries of the page "Web" have in common, and the figures of the page. */
import { exact, type PropertyFilter, percent, seconds } from '../../kit.ts'

/** The members that all queries of the page have in common. */
export interface Asked extends Partial<Goal> {
  readonly dateRange: object
  readonly properties: readonly PropertyFilter[]
}

/** The goal, in the form that queries accept. */
export interface Goal {
  readonly conversionGoal: { readonly actionId: number }
}

type Format = (value: number | null | undefined) => string

/** A figure of the page. It is shown as a tile and can be shown as the line of the chart. */
export interface Figure {
  /** The value in the URL that stands for the figure. */
  readonly id: string
  readonly label: string
  /** The `key` of the figure in the answer to `WebOverviewQuery`. */
  readonly key: string
  readonly format: Format
  readonly isLessBetter?: true
  /** True if the figure exists only when a goal is chosen. */
  readonly isOfGoal?: true
  /** Computes the figure from the metrics of one period, in the unit that the tile shows. */
  readonly valueOf: (metrics: Metrics) => number | null
}

/** The metrics of one period, with the names that `WebTrendsQuery` uses. */
export interface Metrics {
  readonly UniqueUsers: number
  readonly PageViews: number
  readonly Sessions: number
  readonly SessionDuration: number
  readonly Bounces: number
  /** How many events have met the goal. */
  readonly TotalConversions: number
  /** How many persons have met the goal. */
  readonly UniqueConversions: number
}

/** The metrics that a query without a goal requests. */
export const METRICS: readonly (keyof Metrics)[] = [
  'UniqueUsers',
  'PageViews',
  'Sessions',
  'SessionDuration',
  'Bounces',
]

/** The metrics that a query with a goal requests. */
export const GOAL_METRICS: readonly (keyof Metrics)[] = [
  'UniqueUsers',
  'TotalConversions',
  'UniqueConversions',
]

function each(sum: number, count: number): number | null {
  return count === 0 ? null : sum / count
}

const percentage: Format = (value) => percent(value == null ? null : value / 100)

/** The figures, in the order of the tiles. */
export const FIGURES: readonly [Figure, ...Figure[]] = [
  {
    id: 'visitors',
    label: 'Visitors',
    key: 'visitors',
    format: exact,
    valueOf: ({ UniqueUsers }) => UniqueUsers,
  },
  {
    id: 'views',
    label: 'Views',
    key: 'views',
    format: exact,
    valueOf: ({ PageViews }) => PageViews,
  },
  {
    id: 'sessions',
    label: 'Sessions',
    key: 'sessions',
    format: exact,
    valueOf: ({ Sessions }) => Sessions,
  },
  {
    id: 'duration',
    label: 'Visit duration',
    key: 'session duration',
    format: seconds,
    valueOf: ({ SessionDuration, Sessions }) => each(SessionDuration, Sessions),
  },
  {
    id: 'bounces',
    label: 'Bounce rate',
    key: 'bounce rate',
    format: percentage,
    isLessBetter: true,
    valueOf: ({ Bounces, Sessions }) => each(100 * Bounces, Sessions),
  },
  {
    id: 'conversions',
    label: 'Conversions',
    key: 'total conversions',
    format: exact,
    isOfGoal: true,
    valueOf: ({ TotalConversions }) => TotalConversions,
  },
  {
    id: 'rate',
    label: 'Conversion rate',
    key: 'conversion rate',
    format: percentage,
    isOfGoal: true,
    valueOf: ({ UniqueConversions, UniqueUsers }) => each(100 * UniqueConversions, UniqueUsers),
  },
  {
    id: 'converted',
    label: 'Converted people',
    key: 'unique conversions',
    format: exact,
    isOfGoal: true,
    valueOf: ({ UniqueConversions }) => UniqueConversions,
  },
]
