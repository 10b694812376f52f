/**
 * Finds the persons of a path: persons with a session whose items follow each other as requested. Source:
 * docs/compatibility/analytics.md, "Paths".
 */
import { ServiceError } from '../../../base/errors.ts'
import { pageOfPersons } from '../actor-page.ts'
import { orderRows, rowsByActor } from '../actor-rows.ts'
import {
  type ActorPage,
  analyticRange,
  globalFilter,
  type Inquiry,
  scanEvents,
} from '../analytic-query.ts'
import {
  type EventColumns,
  type EventScanner,
  listedPersons,
  type SeriesMatch,
} from '../event-columns.ts'
import { PATH_STEP_LIMIT_MAX } from '../limits.ts'
import { funnelSpans, type PathSpan } from './path-funnel.ts'
import {
  compileCleaning,
  ITEM_VALUES,
  type ItemRules,
  ItemTable,
  NO_ITEM,
  PAGEVIEW,
  SCREEN,
} from './path-items.ts'
import { PathFinder } from './path-sessions.ts'
import type { PathParameters } from './path-shapes.ts'

const CUSTOM_EVENTS = 'custom_event'
/** The loop over persons checks the time limit of the query once for this number of persons. */
const CHECK_EVERY = 1024
const STEP_LIMIT_DEFAULT = 5

/**
 * Returns the page of the persons with a session that follows the requested path, in the order of their uuids. Throws
 * 400 for an invalid request, `invalid_input` without `attr` if a request names both all custom events and single ones,
 * and the same errors as `EventScanner.scan`.
 */
export function pathActors(inquiry: Inquiry<PathParameters>): ActorPage {
  const { parameters, scanner } = inquiry
  const choice = eventChoice(parameters)
  const stepLimit = stepLimitOf(parameters)
  const table = new ItemTable(choice.rules)
  const range = analyticRange(inquiry, { isWidened: false, isRounded: true })
  const filter = globalFilter(inquiry)
  const spans = funnelSpans(inquiry)
  const columns = scanEvents(inquiry, range, {
    filter,
    series: [choice.series],
    values: ITEM_VALUES,
    persons: spans === null ? null : listedPersons(spans.keys()),
    order: 'unsorted',
  })
  const items = table.itemsOf(columns)
  if (spans !== null) removeOutside(items, columns, spans)
  const finder = new PathFinder({ ...parameters, stepLimit }, table)
  return pageOfPersons(personsWithPath(finder, items, columns, scanner), inquiry)
}

function personsWithPath(
  finder: PathFinder,
  items: Int32Array,
  columns: EventColumns,
  limits: Pick<EventScanner, 'checkLimits'>,
): Uint32Array {
  const { persons, timesMs } = columns
  const actors = rowsByActor(persons, columns.count)
  orderRows(actors, columns, limits)
  const { keys, starts, rows } = actors
  const events = { rows, items, timesMs }
  const found = new Uint32Array(keys.length)
  let next = 0
  for (let index = 0; index < keys.length; index++) {
    if (index % CHECK_EVERY === 0) limits.checkLimits()
    const start = starts[index] ?? 0
    const end = starts[index + 1] ?? 0
    if (finder.hasPath(events, start, end)) found[next++] = keys[index] ?? 0
  }
  return found.subarray(0, next)
}

/** The events to scan, and the rules that turn them into items. */
interface EventChoice {
  readonly series: SeriesMatch
  readonly rules: ItemRules
}

function eventChoice(parameters: PathParameters): EventChoice {
  const { includeEventTypes, includeCustomEvents, excludeEvents, groupings } = parameters
  const types = [PAGEVIEW, SCREEN].filter((type) => includeEventTypes.includes(type))
  const hasCustomEvents = includeEventTypes.includes(CUSTOM_EVENTS)
  if (hasCustomEvents && includeCustomEvents.length > 0) {
    const detail = `\`include_custom_events\` cannot be combined with the type \`${CUSTOM_EVENTS}\`. Send only one of them.`
    throw new ServiceError('invalid_input', detail)
  }
  const names = new Set([...types, ...includeCustomEvents])
  const isEverything = names.size === 0 && !hasCustomEvents
  const isOpen = isEverything || hasCustomEvents
  const hasOwnItems = (type: string): boolean =>
    isEverything ? !excludeEvents.includes(type) : types.includes(type)
  return {
    series: { names: isOpen ? null : [...names], filter: null, steps: [] },
    rules: {
      isTaken: (name) =>
        isEverything || names.has(name) || (hasCustomEvents && !name.startsWith('$')),
      hasPageAddresses: hasOwnItems(PAGEVIEW),
      hasScreenNames: hasOwnItems(SCREEN),
      cleaning: compileCleaning(parameters.cleaningRules),
      groupings,
      excluded: new Set(excludeEvents),
    },
  }
}

function stepLimitOf({ stepLimit }: PathParameters): number {
  if (stepLimit === null) return STEP_LIMIT_DEFAULT
  if (stepLimit >= 1 && stepLimit <= PATH_STEP_LIMIT_MAX) return stepLimit
  const detail = `\`step_limit\` must be a number from 1 to ${PATH_STEP_LIMIT_MAX}.`
  throw new ServiceError('invalid_input', detail, { attr: 'step_limit' })
}

/** Removes the items of events that are outside of the time range of their person's path. */
function removeOutside(
  items: Int32Array,
  { count, persons, timesMs }: EventColumns,
  spans: ReadonlyMap<number, PathSpan>,
): void {
  for (let row = 0; row < count; row++) {
    const span = spans.get(persons[row] ?? 0)
    const timeMs = timesMs[row] ?? 0
    if (span === undefined || timeMs < span.fromMs || timeMs > span.toMs) items[row] = NO_ITEM
  }
}
