/**
 * The parts that all analytic questions share: the context of the project, the time range, the filters for all events,
 * the scan, and the page of the answer. Source: docs/compatibility/analytics.md, "Analytic person routes".
 */

import { allOf, type FilterGroup } from '../filters/filter-group.ts'
import { readEventFilters, readStoredFilters } from '../filters/filter-tree.ts'
import {
  allFromMs,
  type DateRange,
  dateRange,
  type RangeRequest,
  type RangeRules,
} from './date-range.ts'
import type { EventColumns, EventScanner, EventScanRequest } from './event-columns.ts'
import { parseInterval } from './periods.ts'
import type { AnalyticParameters } from './question-shapes.ts'
import type { ActionLookup } from './series.ts'

/** The values that an answer depends on in addition to the parameters of the request. */
export interface AnalyticContext {
  readonly projectId: number
  /** The time zone, as a name of the IANA time zone database. */
  readonly timezone: string
  readonly nowMs: number
  /** The list of filters, as the project stores it. */
  readonly testAccountFilters: readonly unknown[]
  readonly actions: ActionLookup
}

/**
 * A question that is being answered: its parameters, its context, and the interface through which it reads stored
 * events.
 */
export interface Inquiry<Parameters extends AnalyticParameters = AnalyticParameters> {
  readonly parameters: Parameters
  readonly context: AnalyticContext
  readonly scanner: EventScanner
}

/** One person of an answer: the person number, and the number that the chart shows for the person, if there is one. */
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

/** A page of an answer. The actors are in the order in which they are shown. */
export interface ActorPage {
  readonly actors: readonly (PersonActor | GroupActor)[]
  /** True if the page has as many rows as were requested, so that another page may follow. */
  readonly isFull: boolean
  /** The number of actors on all pages. */
  readonly total: number
  /**
   * For retention: one list for each actor. Entry i is 1 if the actor appears in period i. Period 0 is the period of
   * the cohort, so entry 0 is always 1.
   */
  readonly appearances?: readonly (readonly number[])[]
  /** For retention: the number of actors on all pages that appear in each period. */
  readonly totals?: readonly number[]
}

/** An empty page without a following page. */
export const NO_ACTORS: ActorPage = { actors: [], isFull: false, total: 0 }

/**
 * Returns the date range as the request states it, before `RangeRules` move its ends. Throws 400 `invalid_input` with
 * `interval` as `attr` for an unknown interval.
 */
export function rangeRequest({ parameters, context, scanner }: Inquiry): RangeRequest {
  const { dateFrom, dateTo, isExplicit } = parameters
  const { timezone, nowMs, projectId } = context
  const firstEventMs =
    dateFrom === 'all' ? allFromMs((sinceMs) => scanner.firstEventMs(projectId, sinceMs)) : null
  const interval = parseInterval(parameters.interval)
  return { dateFrom, dateTo, interval, timezone, nowMs, firstEventMs, isExplicit }
}

/** Returns the date range of a request, with its ends moved by `rules`. Throws the same errors as `rangeRequest`. */
export function analyticRange(inquiry: Inquiry, rules: RangeRules): DateRange {
  return dateRange(rangeRequest(inquiry), rules)
}

/**
 * Returns the filter for all events of the question: `properties`, the filters that exclude test accounts, and
 * `search`. Returns null if there is no restriction. Throws 400 `invalid_input` with `properties` as `attr` if
 * `properties` cannot be read.
 */
export function globalFilter({ parameters, context }: Omit<Inquiry, 'scanner'>) {
  const { properties, isWithoutTestAccounts, search } = parameters
  const testAccounts = isWithoutTestAccounts ? context.testAccountFilters : null
  return allOf([
    readEventFilters(properties, 'properties'),
    readStoredFilters(testAccounts, 'test_account_filters'),
    search === null ? null : searchFilter(search),
  ])
}

/**
 * Scans the events of a range. Unless `wish` specifies otherwise, the scan covers all persons, reads no values and may
 * return the events in any order. Throws the same errors as `EventScanner.scan`.
 */
export function scanEvents(
  { context: { projectId, nowMs }, scanner }: Inquiry,
  { fromMs, toMs }: DateRange,
  wish: Pick<EventScanRequest, 'filter' | 'series'> & Partial<EventScanRequest>,
): EventColumns {
  const rest = { values: [], persons: null, order: 'any' } as const
  return scanner.scan({ projectId, fromMs, toMs, nowMs, ...rest, ...wish })
}

/**
 * Returns a filter for events whose person has `text` in the e-mail address or the name, or that were sent with a
 * distinct_id that contains `text`.
 */
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
