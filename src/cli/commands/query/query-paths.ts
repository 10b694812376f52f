/**
 * `tenrec query paths`: how often people go from one page, screen or event to the next one, and who these people are.
 * The routes identify a page by its full URL, and a position in a session by a number. For `--persons`, you can also
 * give the path of a page, at any position in a session. Source of the rules: docs/compatibility/analytics.md, "Paths",
 * and docs/compatibility/queries.md, "PathsQuery".
 */
import { UsageError } from '../../../base/errors.ts'
import { given, type JsonObject } from '../../../base/json.ts'
import type { CommandInput, Commands } from '../../lib/command.ts'
import { limitOf, printRows, QueryClient, questionOptions } from '../../lib/query-client.ts'
import { datesOf, PERIOD_OPTIONS, queryRange } from './query-periods.ts'

const ORIGIN = '^[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*'
/** Rules that replace URLs by their paths: `https://x.example/docs/?a#b` becomes `/docs`. An empty path becomes `/`. */
const PATHS_ONLY = [
  { regex: `${ORIGIN}/*([?#].*)?$`, alias: '/' },
  { regex: `${ORIGIN}(/[^?#]*[^?#/])/*([?#].*)?$`, alias: '\\1' },
]

/** `tenrec query paths`. */
export const COMMANDS: Commands = [
  {
    name: 'query paths',
    sentence:
      'Count how often people go from one page, screen or event to the next, or list these persons. An ITEM is the full address of a page, or the name of a screen or an event. With --persons, it can also be the path of a page, such as /pricing, for any host and query.',
    options: {
      ...PERIOD_OPTIONS,
      '--start ITEM':
        'Only paths from this item on, starting with its first occurrence in a session.',
      '--end ITEM':
        'Only paths that end with this item. With --persons: the item that these persons go to next.',
      '--last ITEM': 'List persons who reach this item and whose session then ends.',
      '--position N':
        'List persons who have --start or --last as item number N of a session, and --end as the item after it.',
      '--types TYPES':
        'Kinds of events, separated by commas: $pageview, $screen, custom_event. Default: all.',
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
        includeEventTypes: types,
        edgeLimit: limitOf(input),
        startPoint: input.text('start'),
        endPoint: input.text('end'),
      }
      const query = { kind: 'PathsQuery', dateRange: range, pathsFilter }
      printRows(input, (await client.results(query)).map(wayRow), 'times')
      return 0
    },
  },
]

/** Returns the row for an edge. In `2_/docs`, the number says that the item is the second one of a path. */
function wayRow({ source, target, value, average_conversion_time: averageMs }: JsonObject) {
  const [from, to] = [source, target].map((item) => /^(\d+)_(.*)$/s.exec(String(item)) ?? [])
  const seconds = Math.round(Number(averageMs) / 1000)
  return { step: Number(from?.[1]), from: from?.[2], to: to?.[2], times: Number(value), seconds }
}

/**
 * Returns the parameters for `--persons`. An item with its position, such as `2_/docs`, is called a key. Without
 * `--position`, the paths begin at the item of `--start` or `--last`, which therefore has position 1. If `--end` is
 * given without `--start` and `--position`, its item may have any position, so it is sent as `end_point` and not as a
 * key.
 */
function wayOf(input: CommandInput): JsonObject {
  const items = ['start', 'end', 'last'].map((name) => input.text(name))
  if (items[2] !== undefined && (items[0] ?? items[1]) !== undefined) {
    throw new UsageError('--last cannot be combined with --start or --end.')
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

/** Returns an item with its URL replaced by the path, as `PATHS_ONLY` does. */
function pathOf(item: string | undefined): string | undefined {
  if (item === undefined) return undefined
  const path = URL.canParse(item) ? item.replace(new RegExp(ORIGIN), '') : item
  if (path !== '' && !path.startsWith('/')) return item
  return path.replace(/[?#].*$/s, '').replace(/(?<!^)\/+$/, '') || '/'
}
