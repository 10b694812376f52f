/**
 * The kind `EventsQuery`: a list of events with selected columns and order, or the number of events grouped by the
 * other columns. Source: docs/compatibility/queries.md, "EventsQuery".
 */
import { ServiceError } from '../../../base/errors.ts'
import {
  type EventColumns,
  listedPersons,
  type SeriesMatch,
  type ValueRequest,
} from '../../analytics/event-columns.ts'
import { allOf, type FilterGroup } from '../../filters/filter-group.ts'
import {
  EVENT_ROWS_COMPARED_MAX,
  QUERY_COLUMNS_MAX,
  QUERY_PAGE_ROWS,
  QUERY_PAGE_ROWS_MAX,
} from '../limits.ts'
import { invalidQuery, type QueryFields } from '../query-fields.ts'
import { readFilters, readGlobalFilter } from '../query-filters.ts'
import { type QueryContext, type QueryKind, type QueryShard, scanShard } from '../query-kind.ts'
import { readDate } from '../query-range.ts'
import { actionSeries } from '../query-series.ts'
import {
  COLUMN_TEXTS,
  columnOf,
  columnType,
  type EventColumn,
  eventColumn,
  isValue,
  scannedValues,
} from './event-columns.ts'
import { compareDirected, compareValues } from './row-order.ts'

const FUTURE_MS = 5000

interface OrderColumn {
  readonly column: EventColumn
  readonly isDescending: boolean
}

/** An events query after it was read and checked. */
export interface EventsPlan {
  readonly texts: readonly string[]
  readonly columns: readonly EventColumn[]
  readonly order: readonly OrderColumn[]
  readonly isCounted: boolean
  readonly series: SeriesMatch
  readonly filter: FilterGroup | null
  /** The uuid or number of the person whose events are listed. Null means everybody. */
  readonly person: string | number | null
  /** The range in milliseconds, both inclusive. */
  readonly fromMs: number
  readonly toMs: number
  readonly limit: number
  readonly offset: number
}

/**
 * A row before its columns are read. In a query with `count()`, a row stands for `count` events, and `keys` are the
 * values of its other columns.
 */
interface FoundRow {
  readonly sequence: number
  readonly timeMs: number
  readonly keys: readonly unknown[]
  readonly count: number
}

/** The kind for lists of events. */
export const EVENTS_QUERY: QueryKind<EventsPlan, readonly FoundRow[]> = {
  dividedBy: 'nothing',
  plan: planEvents,
  rangeOf: (plan) => plan,
  partial: findRows,
  merge: (_, [first = []]) => first,
  page: pageOf,
}

function planEvents(query: QueryFields, context: QueryContext): EventsPlan {
  query.refuse('where', 'source', 'actionSteps')
  const select = query.value('select') === undefined ? ['*'] : query.texts('select')
  if (select.length === 0 || select.length > QUERY_COLUMNS_MAX) {
    throw query.fault('select', `must have 1 to ${QUERY_COLUMNS_MAX} columns`)
  }
  const columns = select.map((text, index) => columnAt(query, 'select', index, text))
  const isCounted = columns.some(({ kind }) => kind === 'count')
  const { fromMs, toMs } = rangeOf(query, context)
  return {
    texts: select,
    columns,
    isCounted,
    fromMs,
    toMs,
    order: orderOf(query, columns, isCounted),
    series: matchOf(query, context),
    filter: allOf([
      readGlobalFilter(query, context),
      readFilters(query, 'fixedProperties', context),
    ]),
    person: personOf(query),
    limit: query.whole('limit', 1, QUERY_PAGE_ROWS_MAX) ?? QUERY_PAGE_ROWS,
    offset: query.whole('offset', 0) ?? 0,
  }
}

function columnAt(query: QueryFields, name: string, index: number, text: string): EventColumn {
  const column = eventColumn(text)
  if (column !== null) return column
  throw invalidQuery(`${query.pathOf(name)}.${index}`, `must be one of ${COLUMN_TEXTS}`)
}

function orderOf(
  query: QueryFields,
  columns: readonly EventColumn[],
  isCounted: boolean,
): readonly OrderColumn[] {
  const given = query.texts('orderBy')
  if (given.length > QUERY_COLUMNS_MAX) {
    throw query.fault('orderBy', `may have at most ${QUERY_COLUMNS_MAX} columns`)
  }
  const order = given.map((text, index) => {
    const [, name = '', way = 'ASC'] = /^(.*?)(?:\s+(ASC|DESC))?$/is.exec(text.trim()) ?? []
    const column = columnAt(query, 'orderBy', index, name)
    return { column, isDescending: way.toUpperCase() === 'DESC' }
  })
  if (order.length > 0) {
    const isKnown = ({ column }: OrderColumn): boolean =>
      columns.some((one) => JSON.stringify(one) === JSON.stringify(column))
    const needless = order.findIndex((one) => one.column.kind !== 'count' && !isKnown(one))
    if (isCounted && needless >= 0) {
      throw invalidQuery(
        `orderBy.${needless}`,
        'must be one of the selected columns if events are counted',
      )
    }
    return order
  }
  if (isCounted) return [{ column: { kind: 'count', name: '', columns: [] }, isDescending: true }]
  const isNewest = columns.some(({ kind, name }) => kind === 'all' || name === 'timestamp')
  const [first] = columns
  if (isNewest || first === undefined) return [{ column: TIMESTAMP, isDescending: true }]
  return [{ column: first, isDescending: false }]
}

const TIMESTAMP: EventColumn = { kind: 'field', name: 'timestamp', columns: [] }

/** Returns the range between `after` and `before`. Both moments are excluded, and neither is rounded. */
function rangeOf(query: QueryFields, { timezone, nowMs }: QueryContext) {
  const moment = (name: string, text: string): number => {
    const date = readDate(text, timezone, nowMs)
    if (date === null)
      throw query.fault(name, 'must be a date such as 2026-01-31T12:00:00Z, or -24h')
    return date.exactMs
  }
  const after = query.text('after') || '-24h'
  const before = query.text('before')
  return {
    fromMs: after === 'all' ? Number.NEGATIVE_INFINITY : moment('after', after) + 1,
    toMs: (before ? moment('before', before) : nowMs + FUTURE_MS) - 1,
  }
}

function matchOf(query: QueryFields, context: QueryContext): SeriesMatch {
  const event = query.text('event')
  const names = [...(event === null ? [] : [event]), ...query.texts('events')]
  const match: SeriesMatch = { names: names.length === 0 ? null : names, filter: null, steps: [] }
  if (query.value('actionId') === undefined) return match
  const { match: action, exists } = actionSeries(query, 'actionId', null, context)
  if (!exists) throw query.fault('actionId', 'must be the number of an existing action')
  if (match.names === null) return action
  const { names: wanted } = match
  return {
    ...action,
    steps: action.steps.flatMap((step) =>
      wanted
        .filter((name) => step.name === null || step.name === name)
        .map((name) => ({ ...step, name })),
    ),
    names: [],
  }
}

function personOf(query: QueryFields): string | number | null {
  const value = query.value('personId')
  if (value === undefined || value === '') return null
  if (typeof value === 'string') return /^\d{1,10}$/.test(value) ? Number(value) : value
  return query.whole('personId', 1)
}

function findRows(plan: EventsPlan, shard: QueryShard): readonly FoundRow[] {
  const { person, series, filter, fromMs, toMs } = plan
  const number = person === null ? null : shard.rows.personNumber(person)
  if (person !== null && number === null) return []
  const keys = plan.isCounted
    ? plan.columns.filter(({ kind }) => kind !== 'count')
    : plan.order.map(({ column }) => column).filter((column) => !isTimestamp(column))
  const requests = keys.map(scannedValues)
  const scan = scanShard(shard, {
    fromMs,
    toMs,
    filter,
    series: [series],
    order: 'unsorted',
    keepsOwnerless: true,
    ...(number === null ? {} : { persons: listedPersons([number]) }),
    values: requests.flatMap((request) => request ?? []),
  })
  const keysOf = keysReader(keys, requests, scan, shard)
  return plan.isCounted ? countedRows(plan, scan, keysOf) : firstRows(plan, scan, keysOf, shard)
}

function isTimestamp({ kind, name }: EventColumn): boolean {
  return kind === 'field' && name === 'timestamp'
}

/**
 * Returns a function that returns the values by which a row is ordered or grouped. If the scan can read all of these
 * values, they come from the scan. Otherwise every event is read. Throws 400 `query_too_large` if too many events would
 * have to be read.
 */
function keysReader(
  keys: readonly EventColumn[],
  requests: readonly (readonly ValueRequest[] | null)[],
  scan: EventColumns,
  shard: QueryShard,
): (row: number) => readonly unknown[] {
  if (requests.every((request) => request !== null)) {
    const starts = requests.map((_, index) => requests.slice(0, index).flat().length)
    return (row) =>
      keys.map((_, index) => {
        const start = starts[index] ?? 0
        const own = scan.values.slice(start, start + (requests[index]?.length ?? 0))
        return own.map(({ ids, values }) => values[ids[row] ?? 0]).find(isValue) ?? null
      })
  }
  if (scan.count > EVENT_ROWS_COMPARED_MAX) {
    const detail = `For this order, more than ${EVENT_ROWS_COMPARED_MAX} events would have to be read one by one. Order by timestamp or properties, or choose a shorter range.`
    throw new ServiceError('query_too_large', detail)
  }
  const views = shard.rows.events(Array.from(scan.sequences.subarray(0, scan.count)))
  return (row) => {
    const view = views[row]
    return keys.map((key) =>
      view === undefined ? null : columnOf(key, view, shard.context.projectId),
    )
  }
}

/** Returns a row for each combination of values of the columns other than `count()`. */
function countedRows(
  plan: EventsPlan,
  scan: EventColumns,
  keysOf: (row: number) => readonly unknown[],
): readonly FoundRow[] {
  const groups = new Map<string, { keys: readonly unknown[]; count: number }>()
  for (let row = 0; row < scan.count; row++) {
    const keys = keysOf(row)
    const name = JSON.stringify(keys)
    const group = groups.get(name)
    if (group === undefined) groups.set(name, { keys, count: 1 })
    else group.count++
  }
  const shown = plan.columns.filter(({ kind }) => kind !== 'count')
  const places = plan.order.map(({ column }) =>
    shown.findIndex((one) => JSON.stringify(one) === JSON.stringify(column)),
  )
  const rows = [...groups.values()].map((group) => ({ ...group, sequence: 0, timeMs: 0 }))
  return rows.sort((a, b) => {
    for (const [index, { isDescending }] of plan.order.entries()) {
      const place = places[index] ?? -1
      const [left, right] = place < 0 ? [a.count, b.count] : [a.keys[place], b.keys[place]]
      const order = compareDirected(left, right, isDescending)
      if (order !== 0) return order
    }
    return compareValues(JSON.stringify(a.keys), JSON.stringify(b.keys))
  })
}

/**
 * Returns the rows of the page, and one more that shows whether another page follows. Of equal rows, the one that
 * arrived last comes first.
 */
function firstRows(
  { order, limit, offset }: EventsPlan,
  scan: EventColumns,
  keysOf: (row: number) => readonly unknown[],
  shard: QueryShard,
): readonly FoundRow[] {
  const { timesMs, sequences, count } = scan
  const hasKeys = order.some(({ column }) => !isTimestamp(column))
  const known = new Map<number, readonly unknown[]>()
  const keysAt = (row: number): readonly unknown[] => {
    if (!hasKeys) return []
    const keys = known.get(row) ?? keysOf(row)
    known.set(row, keys)
    return keys
  }
  let comparisons = 0
  const compare = (a: number, b: number): number => {
    if (++comparisons % 65_536 === 0) shard.scanner.checkLimits()
    let key = 0
    for (const { column, isDescending } of order) {
      const found = isTimestamp(column)
        ? compareDirected(timesMs[a], timesMs[b], isDescending)
        : compareDirected(keysAt(a)[key], keysAt(b)[key++], isDescending)
      if (found !== 0) return found
    }
    return (sequences[b] ?? 0) - (sequences[a] ?? 0)
  }
  const rows = Uint32Array.from({ length: count }, (_, row) => row).sort(compare)
  return Array.from(rows.subarray(offset, offset + limit + 1), (row) => ({
    sequence: sequences[row] ?? 0,
    timeMs: timesMs[row] ?? 0,
    keys: [],
    count: 1,
  }))
}

function pageOf(plan: EventsPlan, found: readonly FoundRow[], shard: QueryShard) {
  const { limit, offset, columns, texts } = plan
  const { projectId } = shard.context
  const start = plan.isCounted ? offset : 0
  const rows = found.slice(start, start + limit)
  const members = {
    columns: texts,
    types: columns.map(columnType),
    limit,
    offset,
    hasMore: found.length > start + limit,
  }
  if (!plan.isCounted) {
    const views = shard.rows.events(rows.map(({ sequence }) => sequence))
    const results = views.map((view) => columns.map((column) => columnOf(column, view, projectId)))
    return { results, members }
  }
  const results = rows.map(({ keys, count }) => {
    let key = 0
    return columns.map(({ kind }) => (kind === 'count' ? count : keys[key++]))
  })
  return { results, members }
}
