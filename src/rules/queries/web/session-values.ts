/**
 * Finds the most frequent values of a session property. Clients suggest these values to a user who enters a filter.
 * Source: docs/compatibility/definitions.md, "Offered values".
 */

import { ALWAYS } from '../../analytics/date-range.ts'
import { SESSION_VALUES_MAX } from '../limits.ts'
import type { QueryShard } from '../query-kind.ts'
import { SessionProperties } from './session-property-columns.ts'
import { sessionsWithin } from './sessions.ts'
import { compareValues } from './stats-rows.ts'

/** A suggested value. */
export interface SessionValue {
  readonly name: string
}

/**
 * Returns those values of a session property that contain a text, ignoring case, most frequent first. Equally frequent
 * values are ordered alphabetically. The number of values is limited. Throws the same errors as `EventScanner.scan`.
 */
export function sessionValues(
  shard: QueryShard,
  key: string,
  contains: string,
): readonly SessionValue[] {
  const table = sessionsWithin(shard, ALWAYS)
  const { ids, values } = new SessionProperties(shard, table).column(key)
  const counts = new Uint32Array(values.length)
  for (const id of ids) counts[id] = (counts[id] ?? 0) + 1
  return values
    .map((value, id) => ({
      name: value === undefined ? '' : String(value),
      count: counts[id] ?? 0,
    }))
    .filter(({ name }) => name !== '' && name.toLowerCase().includes(contains.toLowerCase()))
    .sort((a, b) => b.count - a.count || compareValues(a.name, b.name))
    .slice(0, SESSION_VALUES_MAX)
    .map(({ name }) => ({ name }))
}
