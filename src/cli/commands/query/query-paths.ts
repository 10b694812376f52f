/**
 * `tenrec query paths`: how often, and by whom, is gone from one page, screen or event to another. To the
 * routes a page is its whole address, and a place in a session a number; who asks for persons may mean the
 * path of the page, wherever in the session it comes. Source of the rules:
 * docs/compatibility/analytics.md, "Paths", and docs/compatibility/queries.md, "PathsQuery".
 */
import { UsageError } from '../../../base/errors.ts'
import { given, type JsonObject } from '../../../base/json.ts'
import type { CommandInput, Commands } from '../../lib/command.ts'
import { limitOf, printRows, QueryClient, questionOptions } from '../../lib/query-client.ts'
import { datesOf, PERIOD_OPTIONS, queryRange } from './query-periods.ts'

const ORIGIN = '^[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*'
/** Makes of addresses their paths: `https://x.example/docs/?a#b` becomes `/docs`, what has no path `/`. */
const PATHS_ONLY = [
  { regex: `${ORIGIN}/*([?#].*)?$`, alias: '/' },
  { regex: `${ORIGIN}(/[^?#]*[^?#/])/*([?#].*)?$`, alias: '\\1' },
]

/** `tenrec query paths`. */
export const COMMANDS: Commands = [
  {
    name: 'query paths',
    sentence:
      'Count the ways from one page, screen or event to the next, or list who goes them. An ITEM is the whole address of a page, the name of a screen, or of an event; with --persons also the path of a page (/pricing, whatever its host and query).',
    options: {
      ...PERIOD_OPTIONS,
      '--start ITEM': 'Where they come from, the first time in a session; they go on from there.',
      '--end ITEM': 'Where they go next; without --persons where they end.',
      '--last ITEM': 'Persons whose session ends there, the first time that they come there.',
      '--position N':
        'Persons with --start or --last as the Nth item of the session; --end is the one behind.',
      '--types TYPES':
        'Kinds of events, with commas: $pageview, $screen, custom_event; without it all.',
      ...questionOptions(),
    },
    async run(input) {
      const types = input.text('types')?.split(',')
      const range = datesOf(queryRange(input))
      const client = new QueryClient(input)
      if (['persons', 'last', 'position'].some((name) => input.has(name))) {
        const asked = { ...range, ...given({ include_event_types: types }), ...wayOf(input) }
        return client.printPersons('path', asked)
      }
      const pathsFilter = {
        ...{ includeEventTypes: types, edgeLimit: limitOf(input) },
        ...{ startPoint: input.text('start'), endPoint: input.text('end') },
      }
      const query = { kind: 'PathsQuery', dateRange: range, pathsFilter }
      printRows(input, (await client.results(query)).map(wayRow), 'times')
      return 0
    },
  },
]

/** `2_/docs` is the second item of a path. */
function wayRow({ source, target, value, average_conversion_time: averageMs }: JsonObject) {
  const [from, to] = [source, target].map((item) => /^(\d+)_(.*)$/s.exec(String(item)) ?? [])
  const seconds = Math.round(Number(averageMs) / 1000)
  return { step: Number(from?.[1]), from: from?.[2], to: to?.[2], times: Number(value), seconds }
}

/** The way as the route takes it: with a position by keys alone, else cut to where it begins or ends. */
function wayOf(input: CommandInput): JsonObject {
  const items = ['start', 'end', 'last'].map((name) => input.text(name))
  if (items[2] !== undefined && (items[0] ?? items[1]) !== undefined) {
    throw new UsageError('--last excludes --start and --end')
  }
  const hasPath = items.some((item) => item?.startsWith('/'))
  const [start, end, last] = items.map((item) => (hasPath ? pathOf(item) : item))
  const position = input.id('position', 1)
  const hasPosition = input.has('position')
  const isAnywhere = !hasPosition && start === undefined
  const key = (item: string | undefined, place: number): string | undefined =>
    item === undefined ? undefined : `${place}_${item}`
  return given({
    local_path_cleaning_filters: hasPath ? PATHS_ONLY : undefined,
    start_point: hasPosition ? undefined : (start ?? last),
    path_start_key: key(start, position),
    end_point: isAnywhere ? end : undefined,
    path_end_key: isAnywhere ? undefined : key(end, position + 1),
    path_dropoff_key: key(last, position),
  })
}

/** An item as `PATHS_ONLY` leaves it. */
function pathOf(item: string | undefined): string | undefined {
  if (item === undefined) return undefined
  const path = URL.canParse(item) ? item.replace(new RegExp(ORIGIN), '') : item
  if (path !== '' && !path.startsWith('/')) return item
  return path.replace(/[?#].*$/s, '').replace(/(?<!^)\/+$/, '') || '/'
}
