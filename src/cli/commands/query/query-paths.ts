/**
 * `tenrec query paths`: who goes from one page, screen or event to another, asked of a running daemon. To
 * the routes a page is its whole address, and a place in a session a number; people mean the path of the
 * page, wherever in the session it comes. Source of the rules: docs/compatibility/analytics.md, "Paths".
 */
import { UsageError } from '../../../base/errors.ts'
import { idOption } from '../../lib/arguments.ts'
import type { Command, CommandInput } from '../../lib/command.ts'
import { QUESTION_OPTIONS, QueryClient, type QuestionParameters } from '../../lib/query-client.ts'
import { datesOf, PERIOD_OPTIONS, queryRange } from './query-periods.ts'

const ORIGIN = '^[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*'
/** Makes of addresses their paths: `https://x.example/docs/?a#b` becomes `/docs`, what has no path `/`. */
const PATHS_ONLY = [
  { regex: `${ORIGIN}/*([?#].*)?$`, alias: '/' },
  { regex: `${ORIGIN}(/[^?#]*[^?#/])/*([?#].*)?$`, alias: '\\1' },
]

/** `tenrec query paths`. */
export const QUERY_PATHS: Command = {
  name: 'query paths',
  sentence:
    'List the persons whose sessions go from one page, screen or event to another. An ITEM is the path of a page (/pricing, whatever its host and query), its whole address, the name of a screen, or of an event.',
  operands: [],
  options: [
    ...PERIOD_OPTIONS,
    {
      name: 'start',
      placeholder: 'ITEM',
      sentence: 'Where they come from, the first time in a session; they go on from there.',
    },
    {
      name: 'end',
      placeholder: 'ITEM',
      sentence: 'Where they go next; without --start anywhere in the session.',
    },
    {
      name: 'last',
      placeholder: 'ITEM',
      sentence: 'Instead of both: where their session ends, the first time that they come there.',
    },
    {
      name: 'position',
      placeholder: 'N',
      sentence:
        'Only where --start or --last is the Nth item of the session; --end is the one behind.',
    },
    {
      name: 'types',
      placeholder: 'TYPES',
      sentence: 'Kinds of events, with commas: $pageview, $screen, custom_event; without it all.',
    },
    ...QUESTION_OPTIONS.filter(({ name }) => name !== 'persons'),
  ],
  settings: ['dataDir'],
  async run(input) {
    const types = input.options.get('types')?.split(',')
    const way = wayOf(input)
    return new QueryClient(input).printPersons('path', {
      ...datesOf(queryRange(input)),
      ...(types === undefined ? {} : { include_event_types: types }),
      ...way,
    })
  },
}

/** The way as the route takes it: with a position by keys alone, else cut to where it begins or ends. */
function wayOf(input: CommandInput): QuestionParameters {
  const { options } = input
  const given = ['start', 'end', 'last'].map((name) => options.get(name))
  if (given[2] !== undefined && (given[0] ?? given[1]) !== undefined) {
    throw new UsageError('--last excludes --start and --end')
  }
  const hasPath = given.some((item) => item?.startsWith('/'))
  const [start, end, last] = given.map((item) => (hasPath ? pathOf(item) : item))
  const position = idOption(input, 'position', 1)
  const hasPosition = options.has('position')
  const point = hasPosition ? undefined : (start ?? last)
  const isAnywhere = !hasPosition && start === undefined
  return {
    ...(hasPath ? { local_path_cleaning_filters: PATHS_ONLY } : {}),
    ...(point === undefined ? {} : { start_point: point }),
    ...(start === undefined ? {} : { path_start_key: `${position}_${start}` }),
    ...(end === undefined
      ? {}
      : isAnywhere
        ? { end_point: end }
        : { path_end_key: `${position + 1}_${end}` }),
    ...(last === undefined ? {} : { path_dropoff_key: `${position}_${last}` }),
  }
}

/** An item as `PATHS_ONLY` leaves it. */
function pathOf(item: string | undefined): string | undefined {
  if (item === undefined) return undefined
  const path = URL.canParse(item) ? item.replace(new RegExp(ORIGIN), '') : item
  if (path !== '' && !path.startsWith('/')) return item
  return path.replace(/[?#].*$/s, '').replace(/(?<!^)\/+$/, '') || '/'
}
