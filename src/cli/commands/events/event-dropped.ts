/**
 * `tenrec event dropped`: events that were accepted and then dropped, read from the data directory whether or not a
 * daemon runs.
 */
import { SYSTEM_CLOCK } from '../../../base/clock.ts'
import { UsageError } from '../../../base/errors.ts'
import { given } from '../../../base/json.ts'
import { DROPPED_DAYS_MAX, PAGE_EVENTS_DEFAULT } from '../../../base/limits.ts'
import { LOSS_REASONS } from '../../../rules/capture/drop-reasons.ts'
import type { DroppedEventCursor, DroppedEventView } from '../../../rules/events/dropped-events.ts'
import { openEvents } from '../../../store/open-store.ts'
import { type Commands, JSON_OPTION, PROJECT_OPTION } from '../../lib/command.ts'
import { printable } from '../../lib/output.ts'
import { pages, printPages } from './event.ts'

/** Returns the moment from which on dropped events are listed, in milliseconds since 1970. */
export function keptAfterMs(): number {
  return SYSTEM_CLOCK.now() - DROPPED_DAYS_MAX * 86_400_000
}

/** `tenrec event dropped`. */
export const COMMANDS: Commands = [
  {
    name: 'event dropped',
    sentence: `List accepted events of the last ${DROPPED_DAYS_MAX} days that were dropped, newest first.`,
    options: {
      ...PROJECT_OPTION,
      '--reason REASON': `Only events that were dropped for this reason: ${LOSS_REASONS.join(', ')}.`,
      '--after TIME': 'Only events that arrived after this time, such as 2026-01-31T12:00Z.',
      '--before TIME': 'Only events that arrived before this time.',
      '--limit N': `Maximum number of events to list. Default: ${PAGE_EVENTS_DEFAULT}.`,
      '--counts': 'Print the number of dropped events for each reason and hour instead.',
      ...JSON_OPTION,
    },
    run(input) {
      const { projectId, dataDir } = input
      if (input.has('counts')) {
        const other = ['reason', 'after', 'before', 'limit'].find((name) => input.has(name))
        if (other !== undefined) throw new UsageError(`--counts and --${other} cannot be combined.`)
        return openEvents(dataDir, (reader) => reader.countDropped(projectId, keptAfterMs()))
      }
      const reason = input.text('reason')
      if (reason !== undefined && !LOSS_REASONS.some((known) => known === reason)) {
        throw new UsageError(`--reason must be one of ${LOSS_REASONS.join(', ')}.`)
      }
      const filters = {
        projectId,
        afterMs: Math.max(input.time('after') ?? 0, keptAfterMs()),
        ...given({ beforeMs: input.time('before'), reason }),
      }
      const limit = input.id('limit', PAGE_EVENTS_DEFAULT)
      return openEvents(dataDir, (reader) => {
        const read = pages<DroppedEventView, DroppedEventCursor>(
          (page) => reader.listDropped({ ...filters, ...page }),
          limit,
        )
        return printPages(input, read, line)
      })
    },
  },
]

function line({ timestamp, uuid, reason, event, distinct_id: id }: DroppedEventView): string {
  return `${printable(`${timestamp}  ${uuid}  ${reason}  ${event ?? '-'}  ${id ?? '-'}`)}\n`
}
