/**
 * Counts the persons who were exposed to each value of a flag, and how many of them had an event afterward. The count
 * is an ordinary funnel query: from `$feature_flag_called` to the event, with a breakdown by `$feature_flag_response`.
 * A person counts for the value of the person's first exposure in the period. If the flag has a value for each group,
 * groups are counted instead, because the persons of a group are not independent of each other.
 */
import { isObject, objectsOf } from '../../base/json.ts'
import { timeText } from '../../base/time.ts'
import type { ExposedPersons } from '../../rules/flags/schedule/ramp-guard.ts'
import type { QueryAnswers } from '../threads/call-table.ts'
import { GUARD_VALUES_MAX } from './limits.ts'

/** The flag, the event and the period whose exposed persons are counted. */
export interface ExposureQuestion {
  readonly projectId: number
  readonly timezone: string
  readonly flagKey: string
  /** The index of the group type, if the flag has a value for each group. Null for persons. */
  readonly groupTypeIndex: number | null
  /** The name of the event that is counted if a person sends it after the exposure. */
  readonly event: string
  readonly fromMs: number
  readonly nowMs: number
}

/**
 * An event is counted if it happens at most this number of days after the exposure. Every step of a ramp is shorter, so
 * this covers the whole step.
 */
const WINDOW_DAYS = 365

/**
 * Counts the exposed persons for each value of the flag. `onCancel` receives a function that cancels the count. Rejects
 * with `ServiceError`.
 */
export async function countExposed(
  queries: Pick<QueryAnswers, 'answer'>,
  { projectId, timezone, flagKey, groupTypeIndex, event, fromMs, nowMs }: ExposureQuestion,
  onCancel: (cancel: () => void) => void,
): Promise<readonly ExposedPersons[]> {
  // If the clock was set back after the step was made, the period is empty.
  if (nowMs <= fromMs) return []
  const query = {
    kind: 'FunnelsQuery',
    series: [
      {
        kind: 'EventsNode',
        event: '$feature_flag_called',
        properties: [{ type: 'event', key: '$feature_flag', operator: 'exact', value: [flagKey] }],
      },
      { kind: 'EventsNode', event },
    ],
    dateRange: { date_from: timeText(fromMs), date_to: timeText(nowMs), explicitDate: true },
    breakdownFilter: {
      breakdown_type: 'event',
      breakdown: '$feature_flag_response',
      breakdown_limit: GUARD_VALUES_MAX,
    },
    funnelsFilter: {
      funnelWindowInterval: WINDOW_DAYS,
      funnelWindowIntervalUnit: 'day',
      breakdownAttributionType: 'first_touch',
    },
    ...(groupTypeIndex === null ? {} : { aggregation_group_type_index: groupTypeIndex }),
  }
  const task = {
    projectId,
    timezone,
    nowMs,
    query,
    format: 'json',
    testAccountFilters: [],
    pathCleaningFilters: [],
    channelTypeRules: [],
  } as const
  const text = await queries.answer(task, onCancel)
  const answer: unknown = JSON.parse(new TextDecoder().decode(text))
  const values = isObject(answer) && Array.isArray(answer['results']) ? answer['results'] : []
  return values.map((steps: unknown) => {
    const [first, second] = objectsOf(steps)
    const { breakdown_value: value, count } = first ?? {}
    const shown: unknown = Array.isArray(value) ? value[0] : value
    return { value: String(shown), persons: Number(count), converted: Number(second?.['count']) }
  })
}
