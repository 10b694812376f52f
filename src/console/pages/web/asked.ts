/** The parts of a query that everything on the page "Web" shares, and the figures of the page. */
import { exact, type PropertyFilter, percent, seconds } from '../../kit.ts'

/** The parameters that all queries of the page share. */
export interface Asked extends Partial<Goal> {
  readonly dateRange: object
  readonly properties: readonly PropertyFilter[]
}

/** The goal as queries accept it. */
export interface Goal {
  readonly conversionGoal: { readonly actionId: number }
}

type Format = (value: number | null | undefined) => string

/** A figure of the page: a tile, and a line of the chart. */
export interface Figure {
  /** The value in the URL. */
  readonly id: string
  readonly label: string
  /** The key of the item of `WebOverviewQuery`. */
  readonly key: string
  readonly format: Format
  readonly isLessBetter?: true
  /** True for figures that exist only with a goal. */
  readonly isOfGoal?: true
  /** Returns the value of a period, in the unit of the tile, from the metrics of `WebTrendsQuery`. */
  readonly valueOf: (metrics: Metrics) => number | null
}

/** The metrics of a period as `WebTrendsQuery` names them. */
export interface Metrics {
  readonly UniqueUsers: number
  readonly PageViews: number
  readonly Sessions: number
  readonly SessionDuration: number
  readonly Bounces: number
  /** The events that meet the goal. */
  readonly TotalConversions: number
  /** The persons who met it. */
  readonly UniqueConversions: number
}

/** The names of the metrics without a goal, as a query requests them. */
export const METRICS: readonly (keyof Metrics)[] = [
  'UniqueUsers',
  'PageViews',
  'Sessions',
  'SessionDuration',
  'Bounces',
]

/** The names of the metrics that are requested with a goal. */
export const GOAL_METRICS: readonly (keyof Metrics)[] = [
  'UniqueUsers',
  'TotalConversions',
  'UniqueConversions',
]

function each(sum: number, count: number): number | null {
  return count === 0 ? null : sum / count
}

const percentage: Format = (value) => percent(value == null ? null : value / 100)

/** The figures in the order of the tiles. */
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
