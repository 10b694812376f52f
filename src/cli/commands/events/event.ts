/**
 * `tenrec event ...`: stored events, read from the data directory with or without a running daemon. An
 * accepted event is listed once it is processed.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { UsageError } from '../../../base/errors.ts'
import { parseUuid } from '../../../base/ids.ts'
import { PAGE_EVENTS_MAX } from '../../../base/limits.ts'
import type { EventListQuery, EventView } from '../../../rules/events/event-queries.ts'
import { openEvents } from '../../../store/open-store.ts'
import type { EventReader } from '../../../store/warehouse/read/event-reader.ts'
import { idOption, timeOption } from '../../lib/arguments.ts'
import {
  type Command,
  type CommandInput,
  JSON_OPTION,
  type OptionDefinition,
} from '../../lib/command.ts'
import { printable, printRows } from '../../lib/output.ts'

const POLL_MS = 1000
const LIST_EVENTS_DEFAULT = 100
const TAIL_EVENTS_DEFAULT = 10
/** Events that each poll of `tail` looks at, at first. */
const POLL_EVENTS = 100

/** The option of commands about one project. */
export const PROJECT_OPTION: OptionDefinition = {
  name: 'project',
  placeholder: 'ID',
  sentence: 'The project; without it project 1.',
}

const FILTER_OPTIONS: readonly OptionDefinition[] = [
  { name: 'event', placeholder: 'NAME', sentence: 'Only events of this name.' },
  { name: 'distinct-id', placeholder: 'ID', sentence: 'Only events of this distinct_id.' },
]

/** `tenrec event list`. */
export const EVENT_LIST: Command = {
  name: 'event list',
  sentence: 'List stored events, newest first.',
  operands: [],
  options: [
    PROJECT_OPTION,
    ...FILTER_OPTIONS,
    { name: 'after', placeholder: 'TIME', sentence: 'Only later events: 2026-01-31T12:00Z.' },
    { name: 'before', placeholder: 'TIME', sentence: 'Only earlier events.' },
    {
      name: 'limit',
      placeholder: 'N',
      sentence: `At most so many; without it ${LIST_EVENTS_DEFAULT}.`,
    },
    { name: 'all', placeholder: null, sentence: 'All events, without a limit.' },
    JSON_OPTION,
  ],
  settings: ['dataDir'],
  async run(input) {
    if (input.options.has('all') && input.options.has('limit')) {
      throw new UsageError('--all and --limit exclude each other')
    }
    const afterMs = timeOption(input, 'after')
    const beforeMs = timeOption(input, 'before')
    const query = {
      ...readFilters(input),
      ...(afterMs === undefined ? {} : { afterMs }),
      ...(beforeMs === undefined ? {} : { beforeMs }),
    }
    const limit = input.options.has('all')
      ? Number.POSITIVE_INFINITY
      : idOption(input, 'limit', LIST_EVENTS_DEFAULT)
    return openEvents(input.settings().dataDir, (reader) => {
      for (const events of pages(reader, query, limit)) {
        if (input.options.has('json')) printRows(input.io, events.map(asRow), true)
        else for (const event of events) input.io.out(line(event))
      }
      return 0
    })
  },
}

/** `tenrec event show`. */
export const EVENT_SHOW: Command = {
  name: 'event show',
  sentence: 'Print one stored event.',
  operands: ['UUID'],
  options: [PROJECT_OPTION, JSON_OPTION],
  settings: ['dataDir'],
  async run(input) {
    const [uuid = ''] = input.operands
    if (parseUuid(uuid) === null) throw new UsageError(`${JSON.stringify(uuid)} is not a UUID`)
    const projectId = idOption(input, 'project', 1)
    return openEvents(input.settings().dataDir, (reader) => {
      const event = reader.getEvent(projectId, uuid)
      if (event === null) {
        input.io.err(`tenrec: project ${projectId} has no event ${uuid}\n`)
        return 1
      }
      const isJson = input.options.has('json')
      input.io.out(`${isJson ? JSON.stringify(event) : printableJson(event)}\n`)
      return 0
    })
  },
}

/** `tenrec event tail`. */
export const EVENT_TAIL: Command = {
  name: 'event tail',
  sentence: 'Print events as they arrive, until it is interrupted.',
  operands: [],
  options: [
    PROJECT_OPTION,
    ...FILTER_OPTIONS,
    {
      name: 'lines',
      placeholder: 'N',
      sentence: `Begin with so many stored events; without it ${TAIL_EVENTS_DEFAULT}.`,
    },
    JSON_OPTION,
  ],
  settings: ['dataDir'],
  async run(input) {
    const filters = readFilters(input)
    const lineCount = idOption(input, 'lines', TAIL_EVENTS_DEFAULT)
    return openEvents(input.settings().dataDir, async (reader) => {
      const stop = new AbortController()
      const forget = input.io.onStopSignal(() => stop.abort())
      let lastId = 0
      const print = (events: readonly EventView[]) => {
        for (const event of [...events].sort((left, right) => left.id - right.id)) {
          input.io.out(input.options.has('json') ? `${JSON.stringify(event)}\n` : line(event))
          lastId = Math.max(lastId, event.id)
        }
      }
      const stored = reader.listEvents({ ...filters, limit: PAGE_EVENTS_MAX }).results
      // Skipped ones count as seen, whatever their timestamps are.
      lastId = stored.reduce((highest, { id }) => Math.max(highest, id), 0)
      print(stored.slice(0, lineCount))
      while (!stop.signal.aborted) {
        await sleep(POLL_MS, undefined, { signal: stop.signal }).catch(() => undefined)
        print(arrivals(reader, filters, lastId))
      }
      forget()
      return 0
    })
  },
}

type Filters = Omit<EventListQuery, 'limit' | 'cursor'>

function readFilters(input: CommandInput): Filters {
  const event = input.options.get('event')
  const distinctId = input.options.get('distinct-id')
  return {
    projectId: idOption(input, 'project', 1),
    ...(event === undefined ? {} : { event }),
    ...(distinctId === undefined ? {} : { distinctId }),
  }
}

function* pages(
  reader: EventReader,
  filters: Filters,
  limit: number,
  pageEventsMax = PAGE_EVENTS_MAX,
): Generator<readonly EventView[]> {
  let rest = limit
  let page = reader.listEvents({ ...filters, limit: Math.min(rest, pageEventsMax) })
  yield page.results
  while (page.nextCursor !== null) {
    rest -= page.results.length
    if (rest <= 0) return
    const cursor = page.nextCursor
    page = reader.listEvents({ ...filters, limit: Math.min(rest, pageEventsMax), cursor })
    yield page.results
  }
}

/** Events behind `lastId`. Lists are in the order of timestamps, so pages are read until one is old. */
function arrivals(reader: EventReader, filters: Filters, lastId: number): readonly EventView[] {
  const found: EventView[] = []
  for (const events of pages(reader, filters, Number.POSITIVE_INFINITY, POLL_EVENTS)) {
    const fresh = events.filter(({ id }) => id > lastId)
    found.push(...fresh)
    if (fresh.length < events.length) break
  }
  return found
}

function asRow(event: EventView): Readonly<Record<string, unknown>> {
  return { ...event }
}

function line(event: EventView): string {
  const { timestamp, uuid, event: name, distinct_id: distinctId } = event
  return `${printable(`${timestamp}  ${uuid}  ${name}  ${distinctId}`)}\n`
}

/** Indented JSON that no terminal obeys. */
export function printableJson(event: unknown): string {
  return JSON.stringify(event, null, 2).split('\n').map(printable).join('\n')
}
