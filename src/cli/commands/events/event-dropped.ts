/**
 * `tenrec event dropped`: events that were accepted and are not stored, read from the data directory with or
 * without a running daemon.
 */
import { SYSTEM_CLOCK } from '../../../base/clock.ts'
import { UsageError } from '../../../base/errors.ts'
import { DROPPED_DAYS_MAX, PAGE_EVENTS_DEFAULT, PAGE_EVENTS_MAX } from '../../../base/limits.ts'
import { LOSS_REASONS } from '../../../rules/capture/drop-reasons.ts'
import type { DroppedEventCursor, DroppedEventView } from '../../../rules/events/dropped-events.ts'
import { openEvents } from '../../../store/open-store.ts'
import type { EventReader } from '../../../store/warehouse/read/event-reader.ts'
import { idOption, timeOption } from '../../lib/arguments.ts'
import { type Command, type CommandInput, JSON_OPTION } from '../../lib/command.ts'
import { printable, printRows } from '../../lib/output.ts'
import { PROJECT_OPTION } from './event.ts'

/** The moment after which dropped events are still shown, milliseconds. */
export function keptAfterMs(): number {
  return SYSTEM_CLOCK.now() - DROPPED_DAYS_MAX * 86_400_000
}

/** `tenrec event dropped`. */
export const EVENT_DROPPED: Command = {
  name: 'event dropped',
  sentence: `List accepted events that are not stored, newest first, of the last ${DROPPED_DAYS_MAX} days.`,
  operands: [],
  options: [
    PROJECT_OPTION,
    { name: 'reason', placeholder: 'REASON', sentence: `Only for it: ${LOSS_REASONS.join(', ')}.` },
    { name: 'after', placeholder: 'TIME', sentence: 'Only later arrivals: 2026-01-31T12:00Z.' },
    { name: 'before', placeholder: 'TIME', sentence: 'Only earlier arrivals.' },
    {
      name: 'limit',
      placeholder: 'N',
      sentence: `At most so many; without it ${PAGE_EVENTS_DEFAULT}.`,
    },
    { name: 'counts', placeholder: null, sentence: 'How many for each reason and hour, instead.' },
    JSON_OPTION,
  ],
  settings: ['dataDir'],
  async run(input) {
    const projectId = idOption(input, 'project', 1)
    const isJson = input.options.has('json')
    if (input.options.has('counts')) {
      for (const name of ['reason', 'after', 'before', 'limit']) {
        if (input.options.has(name))
          throw new UsageError(`--counts and --${name} exclude each other`)
      }
      return openEvents(input.settings().dataDir, (reader) => {
        const counts = reader.countDropped(projectId, keptAfterMs())
        printRows(
          input.io,
          counts.map((count) => ({ ...count })),
          isJson,
        )
        return 0
      })
    }
    const query = readQuery(input, projectId)
    const limit = idOption(input, 'limit', PAGE_EVENTS_DEFAULT)
    return openEvents(input.settings().dataDir, (reader) => {
      for (const events of pages(reader, query, limit)) {
        if (isJson)
          printRows(
            input.io,
            events.map((event) => ({ ...event })),
            true,
          )
        else for (const event of events) input.io.out(line(event))
      }
      return 0
    })
  },
}

interface Filters {
  readonly projectId: number
  readonly afterMs: number
  readonly beforeMs?: number
  readonly reason?: string
}

function readQuery(input: CommandInput, projectId: number): Filters {
  const reason = input.options.get('reason')
  if (reason !== undefined && !LOSS_REASONS.some((known) => known === reason)) {
    throw new UsageError(`--reason must be one of ${LOSS_REASONS.join(', ')}`)
  }
  const beforeMs = timeOption(input, 'before')
  return {
    projectId,
    afterMs: Math.max(timeOption(input, 'after') ?? 0, keptAfterMs()),
    ...(beforeMs === undefined ? {} : { beforeMs }),
    ...(reason === undefined ? {} : { reason }),
  }
}

function* pages(
  reader: EventReader,
  filters: Filters,
  limit: number,
): Generator<readonly DroppedEventView[]> {
  let cursor: DroppedEventCursor | null = null
  for (let rest = limit; rest > 0; ) {
    const wanted = Math.min(rest, PAGE_EVENTS_MAX)
    const behind: { readonly cursor?: DroppedEventCursor } = cursor === null ? {} : { cursor }
    const page = reader.listDropped({ ...filters, limit: wanted, ...behind })
    yield page.results
    cursor = page.nextCursor
    if (cursor === null) return
    rest -= page.results.length
  }
}

function line({ timestamp, uuid, reason, event, distinct_id: id }: DroppedEventView): string {
  return `${printable(`${timestamp}  ${uuid}  ${reason}  ${event ?? '-'}  ${id ?? '-'}`)}\n`
}
