/**
 * What all analytic queries have in common: what they know about the project, the range of time, the
 * filters that hold for every event, and how they answer. Source: docs/compatibility/analytics.md, "Analytic person
 * routes".
 */

import { allOf, type FilterGroup } from '../filters/filter-group.ts'
import { readEventFilters, readStoredFilters } from '../filters/filter-tree.ts'
import {
  type DateRange,
  dateRange,
  type Interval,
  parseInterval,
  type RangeRequest,
  type RangeRules,
} from './date-range.ts'
import type { EventScanner } from './event-columns.ts'
import type { AnalyticParameters } from './question-shapes.ts'
import type { ActionLookup } from './series.ts'

/** What a query has to know besides its parameters. */
export interface AnalyticContext {
  readonly projectId: number
  /** Name of the IANA time zone database. */
  readonly timezone: string
  readonly nowMs: number
  /** As the project stores them: a list of filters. */
  readonly testAccountFilters: readonly unknown[]
  readonly actions: ActionLookup
}

/** One person of an answer: P, and the number that the chart shows for it, where there is one. */
export interface PersonActor {
  readonly kind: 'person'
  readonly person: number
  readonly value: number | null
}

/** One group of an answer. */
export interface GroupActor {
  readonly kind: 'group'
  readonly typeIndex: number
  readonly key: string
  readonly value: number | null
}

/** A page of an answer, in order. */
export interface ActorPage {
  readonly actors: readonly (PersonActor | GroupActor)[]
  /** It has as many rows as were asked for, so that another page may follow. */
  readonly isFull: boolean
  /** Actors of all pages. */
  readonly total: number
}

/** Nobody, and no further page. */
export const NO_ACTORS: ActorPage = { actors: [], isFull: false, total: 0 }

/** The interval of a request. Throws 400 `invalid_input` with `interval` as `attr`. */
export function intervalOf(parameters: AnalyticParameters): Interval {
  return parseInterval(parameters.interval)
}

/** The range of a request before any rule. Throws as `intervalOf`. */
export function rangeRequest(
  parameters: AnalyticParameters,
  context: AnalyticContext,
  scanner: EventScanner,
): RangeRequest {
  const { dateFrom, dateTo } = parameters
  return {
    dateFrom,
    dateTo,
    interval: intervalOf(parameters),
    timezone: context.timezone,
    nowMs: context.nowMs,
    firstEventMs: dateFrom === 'all' ? scanner.firstEventMs(context.projectId) : null,
  }
}

/** The range of a request. Throws as `intervalOf`. */
export function analyticRange(
  parameters: AnalyticParameters,
  context: AnalyticContext,
  scanner: EventScanner,
  rules: RangeRules,
): DateRange {
  return dateRange(rangeRequest(parameters, context, scanner), rules)
}

/**
 * What holds for every event that takes part: `properties`, the test accounts of the project, and
 * `search`; null for no restriction. Throws 400 `invalid_input` with `properties` as `attr`.
 */
export function globalFilter(
  { properties, isWithoutTestAccounts, search }: AnalyticParameters,
  { testAccountFilters }: AnalyticContext,
): FilterGroup | null {
  return allOf([
    readEventFilters(properties, 'properties'),
    isWithoutTestAccounts ? readStoredFilters(testAccountFilters, 'test_account_filters') : null,
    search === null ? null : searchFilter(search),
  ])
}

/** Restricts the events: those of persons whose e-mail or name fit, and those sent under such an id. */
function searchFilter(text: string): FilterGroup {
  const operator = 'icontains'
  return {
    type: 'OR',
    values: [
      { key: 'email', type: 'person', operator, value: text },
      { key: 'name', type: 'person', operator, value: text },
      { key: 'distinct_id', type: 'event', operator, value: text },
    ],
  }
}
