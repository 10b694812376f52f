/**
 * What all analytic questions have in common: what they know about the project, the range of time, the
 * filters that hold for every event, what they scan, and how they answer. Source:
 * docs/compatibility/analytics.md, "Analytic person routes".
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

/** A question at work: its parameters, what is known besides, and the port to stored events. */
export interface Inquiry<Parameters extends AnalyticParameters = AnalyticParameters> {
  readonly parameters: Parameters
  readonly context: AnalyticContext
  readonly scanner: EventScanner
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
  /** Of retention: for each actor 1 or 0 for the cohort's period (always 1) and each one behind it. */
  readonly appearances?: readonly (readonly number[])[]
  /** Of retention: how many of all pages appear in each period. */
  readonly totals?: readonly number[]
}

/** Nobody, and no further page. */
export const NO_ACTORS: ActorPage = { actors: [], isFull: false, total: 0 }

/** The range of a request before any rule. Throws 400 `invalid_input` with `interval` as `attr`. */
export function rangeRequest({ parameters, context, scanner }: Inquiry): RangeRequest {
  const { dateFrom, dateTo, isExplicit } = parameters
  const { timezone, nowMs, projectId } = context
  const firstEventMs =
    dateFrom === 'all' ? allFromMs((sinceMs) => scanner.firstEventMs(projectId, sinceMs)) : null
  const interval = parseInterval(parameters.interval)
  return { dateFrom, dateTo, interval, timezone, nowMs, firstEventMs, isExplicit }
}

/** The range of a request. Throws as `rangeRequest`. */
export function analyticRange(inquiry: Inquiry, rules: RangeRules): DateRange {
  return dateRange(rangeRequest(inquiry), rules)
}

/**
 * What holds for every event that takes part: `properties`, the test accounts of the project, and
 * `search`; null for no restriction. Throws 400 `invalid_input` with `properties` as `attr`.
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
 * Scans for the events of a range: those of all persons, without values and in any order, unless the wish
 * says otherwise. Throws as `EventScanner.scan`.
 */
export function scanEvents(
  { context: { projectId, nowMs }, scanner }: Inquiry,
  { fromMs, toMs }: DateRange,
  wish: Pick<EventScanRequest, 'filter' | 'series'> & Partial<EventScanRequest>,
): EventColumns {
  const rest = { values: [], persons: null, order: 'any' } as const
  return scanner.scan({ projectId, fromMs, toMs, nowMs, ...rest, ...wish })
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
