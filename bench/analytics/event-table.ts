/** The table of events in a database that Tenrec is compared with. */
import { formatUuid } from '../../src/base/ids.ts'
import type { WorkloadEvent } from './analytics-workload.ts'

/** A table `events` whose columns are the values of a line of `rowOf`. */
export interface EventTable {
  /** Adds lines of `rowOf`. Each line ends with a line break. */
  insert(rows: string): Promise<void>
  /** Sorts and merges all rows that were added so far. Returns the number of rows. */
  settle(): Promise<number>
}

/**
 * Returns one event as a line: its values in the order of the columns, separated by tabs. The workload contains no text
 * that needs escaping.
 */
export function rowOf(event: WorkloadEvent, personUuid: string): string {
  const { properties: of } = event
  return [
    event.name,
    event.timeSeconds,
    personUuid,
    event.personSinceSeconds,
    formatUuid(event.uuidBytes, 0),
    of.$current_url ?? '',
    of.$browser,
    of.$os,
    of.$device_type,
    of.$lib,
    of.$session_id,
    of.$screen_width,
    of.$viewport_height,
    of.country,
    of.channel,
    of.plan,
    of.amount ?? 0,
  ].join('\t')
}
