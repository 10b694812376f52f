/**
 * `tenrec event ...`: stored events, read from the data directory whether or not a daemon runs. An accepted event is
 * listed after it is processed.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { OperatorError, UsageError } from '../../../base/errors.ts'
import { parseUuid } from '../../../base/ids.ts'
import { given } from '../../../base/json.ts'
import { PAGE_EVENTS_MAX } from '../../../base/limits.ts'
import type { EventCursor, EventListQuery, EventView } from '../../../rules/events/event-queries.ts'
import type { EventReader } from '../../../store/events/read/event-reader.ts'
import { openEvents } from '../../../store/open-store.ts'
import {
  type CommandInput,
  type Commands,
  JSON_OPTION,
  type OptionTexts,
  PROJECT_OPTION,
} from '../../lib/command.ts'
import { print, printable, printableJson } from '../../lib/output.ts'

const POLL_MS = 1000
const LIST_EVENTS_DEFAULT = 100
const TAIL_EVENTS_DEFAULT = 10
/** The number of events in each page that `tail` reads when it polls. */
const POLL_EVENTS = 100

/** Options that filter events by name and distinct ID. */
export const FILTER_OPTIONS: OptionTexts = {
  '--event NAME': 'Only events with this name.',
  '--distinct-id ID': 'Only events with this distinct ID.',
}

/** Options that filter events by time. */
export const TIME_OPTIONS: OptionTexts = {
  '--after TIME': 'Only events after this time, such as 2026-01-31T12:00Z.',
  '--before TIME': 'Only events before this time.',
}

/** `tenrec event ...`. */
export const COMMANDS: Commands = [
  {
    name: 'event list',
    sentence: 'List stored events, newest first.',
    options: {
      ...PROJECT_OPTION,
      ...FILTER_OPTIONS,
      ...TIME_OPTIONS,
      '--limit N': `Maximum number of events to list. Default: ${LIST_EVENTS_DEFAULT}.`,
      '--all': 'List all events, without a limit.',
      ...JSON_OPTION,
    },
    run(input) {
      if (input.has('all') && input.has('limit')) {
        throw new UsageError('--all and --limit cannot be combined.')
      }
      const times = given({ afterMs: input.time('after'), beforeMs: input.time('before') })
      const query = { ...readFilters(input), ...times }
      const limit = input.has('all')
        ? Number.POSITIVE_INFINITY
        : input.id('limit', LIST_EVENTS_DEFAULT)
      return openEvents(input.dataDir, (reader) =>
        printPages(input, eventPages(reader, query, limit), line),
      )
    },
  },
  {
    name: 'event show',
    sentence: 'Print one stored event.',
    operands: ['UUID'],
    options: { ...PROJECT_OPTION, ...JSON_OPTION },
    run({ io, operand, projectId, isJson, dataDir }) {
      if (parseUuid(operand) === null) {
        throw new UsageError(`${JSON.stringify(operand)} is not a UUID.`)
      }
      return openEvents(dataDir, (reader) => {
        const event = reader.getEvent(projectId, operand)
        if (event === null) {
          throw new OperatorError(
            `Project ${projectId} has no event ${operand}. Run 'tenrec event why ${operand}' to see what happened to it.`,
          )
        }
        io.out(`${isJson ? JSON.stringify(event) : printableJson(event)}\n`)
        return 0
      })
    },
  },
  {
    name: 'event tail',
    sentence: 'Print new events as they are stored, until the command is interrupted.',
    options: {
      ...PROJECT_OPTION,
      ...FILTER_OPTIONS,
      '--lines N': `Number of stored events to print first. Default: ${TAIL_EVENTS_DEFAULT}.`,
      ...JSON_OPTION,
    },
    run(input) {
      const lineCount = input.id('lines', TAIL_EVENTS_DEFAULT)
      const filters = readFilters(input)
      return openEvents(input.dataDir, (reader) => tail(input, reader, filters, lineCount))
    },
  },
]

type Filters = Omit<EventListQuery, 'limit' | 'cursor'>

function readFilters(input: CommandInput): Filters {
  const { projectId } = input
  const wanted = { event: input.text('event'), distinctId: input.text('distinct-id') }
  return { projectId, ...given(wanted) }
}

async function tail(
  { io, isJson }: CommandInput,
  reader: EventReader,
  filters: Filters,
  lineCount: number,
): Promise<number> {
  const stop = new AbortController()
  const forget = io.onStopSignal(() => stop.abort())
  const stored = reader.listEvents({ ...filters, limit: PAGE_EVENTS_MAX }).results
  // Events that were stored before the command started are not new, even if their timestamps are in the future.
  let lastId = stored.reduce((highest, { id }) => Math.max(highest, id), 0)
  const show = (events: readonly EventView[]) => {
    for (const event of [...events].sort((left, right) => left.id - right.id)) {
      io.out(isJson ? `${JSON.stringify(event)}\n` : line(event))
      lastId = Math.max(lastId, event.id)
    }
  }
  show(stored.slice(0, lineCount))
  while (!stop.signal.aborted) {
    await sleep(POLL_MS, undefined, { signal: stop.signal }).catch(() => undefined)
    show(arrivals(reader, filters, lastId))
  }
  forget()
  return 0
}

/**
 * Returns the events after `lastId`. The list is ordered by timestamp and not by arrival, so pages are read until one
 * contains an event that is not new.
 */
function arrivals(reader: EventReader, filters: Filters, lastId: number): readonly EventView[] {
  const found: EventView[] = []
  for (const events of eventPages(reader, filters, Number.POSITIVE_INFINITY, POLL_EVENTS)) {
    const fresh = events.filter(({ id }) => id > lastId)
    found.push(...fresh)
    if (fresh.length < events.length) break
  }
  return found
}

function eventPages(
  reader: EventReader,
  filters: Filters,
  limit: number,
  pageRowsMax = PAGE_EVENTS_MAX,
): Generator<readonly EventView[]> {
  return pages<EventView, EventCursor>(
    (page) => reader.listEvents({ ...filters, ...page }),
    limit,
    pageRowsMax,
  )
}

/** The page of a list to read. */
interface PageWanted<Cursor> {
  readonly limit: number
  /** Where the page starts: the position after the previous page. Default: the first page. */
  readonly cursor?: Cursor
}

/** Yields the pages of a list until `limit` rows are read. */
export function* pages<Row, Cursor>(
  read: (page: PageWanted<Cursor>) => {
    readonly results: readonly Row[]
    readonly nextCursor: Cursor | null
  },
  limit: number,
  pageRowsMax = PAGE_EVENTS_MAX,
): Generator<readonly Row[]> {
  let behind: { readonly cursor?: Cursor } = {}
  for (let rest = limit; rest > 0; ) {
    const { results, nextCursor } = read({ limit: Math.min(rest, pageRowsMax), ...behind })
    yield results
    if (nextCursor === null) return
    behind = { cursor: nextCursor }
    rest -= results.length
  }
}

/** Prints the rows of pages while they are read, as a table or as JSON lines. Returns the exit code 0. */
export function printPages<Row extends object>(
  { io, isJson }: CommandInput,
  read: Iterable<readonly Row[]>,
  lineOf: (row: Row) => string,
): number {
  for (const rows of read) {
    if (isJson) print(io, rows, true)
    else for (const row of rows) io.out(lineOf(row))
  }
  return 0
}

function line({ timestamp, uuid, event, distinct_id: distinctId }: EventView): string {
  return `${printable(`${timestamp}  ${uuid}  ${event}  ${distinctId}`)}\n`
}
