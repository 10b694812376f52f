/**
 * Builds the URLs that list the actors behind the numbers of a retention table. Source: docs/compatibility/queries.md,
 * "Who is behind a number".
 */
import { allOf } from '../../filters/filter-group.ts'
import {
  breakdownFilter,
  entityParameter,
  momentText,
  type PersonsUrl,
  type PersonsUrls,
} from '../persons-urls.ts'
import { OTHER_LABEL } from '../query-breakdown.ts'
import { type RetentionPlan, rowPeriods } from './retention-plan.ts'

const HOUR_MS = 3_600_000

/**
 * Returns a function that builds the URL for a cell of the table of one breakdown value (null without a breakdown). The
 * URL shows the periods from the row's period to the column's period. For `hasNullText`, see `breakdownFilter`. The
 * function throws the same errors as `UrlMaker`.
 */
export function retentionUrls(
  urls: PersonsUrls,
  plan: RetentionPlan,
  label: string | null,
  hasNullText: boolean,
): (row: number, column: number) => PersonsUrl {
  const { entities, breakdown, type, groupTypeIndex, isCumulative, test, rules, periodName } = plan
  const [target, returning] = entities
  const split =
    breakdown === null
      ? null
      : {
          properties: breakdown.property === null ? [] : [breakdown.property],
          cohorts: breakdown.cohorts,
        }
  const value = breakdownFilter(split, [label === '' ? null : label], hasNullText)
  const isKnown = entities.every(({ exists }) => exists) && label !== OTHER_LABEL
  const isPlain = groupTypeIndex === null && type !== 'retention_first_ever_occurrence'
  if (value === undefined || !isKnown || !isPlain) return () => null
  const urlOf = urls.of({
    route: 'retention',
    filter: allOf([plan.filter, value]),
    series: entities,
    parameters: {
      target_entity: entityParameter(target),
      returning_entity: entityParameter(returning),
      retention_type: type,
      period: periodName,
    },
  })
  const periods = rowPeriods(plan)
  return (row, column) => {
    const last = row + column
    if (column > 0 && (isCumulative || test.value > 1 || last >= plan.rows)) return null
    const lastMs = periods.startMs(last)
    // The persons route assumes that all hours have the same length. So there is no URL if an hour from the row's
    // period to the column's period is shorter or longer, for example because the clocks change.
    const spanMs = periods.startMs(last + 1) - periods.startMs(row)
    const isByClock =
      spanMs === (column + 1) * HOUR_MS && periods.startMs(last + 1) - lastMs === HOUR_MS
    if (rules.interval === 'hour' && !isByClock) return null
    return urlOf({
      date_to: momentText(lastMs),
      total_intervals: column + 1,
      appears_in: column,
    })
  }
}
