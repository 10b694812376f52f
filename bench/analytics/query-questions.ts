/**
 * The questions of the bench `queries`. Each is a query that counts, and a statement for ClickHouse and one for DuckDB
 * that return the same numbers. The statements are the fastest of several tested forms.
 */
import { SEARCHED_CHANNEL, WORKLOAD_DAYS, WORKLOAD_START_MS } from './analytics-workload.ts'

/** A question that all sides answer. */
export interface NumberQuestion {
  readonly name: string
  /**
   * Returns the body of a request. `variant` (0 to 80) changes the text of the query but not its meaning, so that the
   * cached result of another variant does not help.
   */
  readonly body: (variant: number) => object
  readonly clickHouse: string
  readonly duckDb: string
  /** Returns the numbers of an answer, in the form of the lines that the statements return. */
  readonly lines: (results: readonly AnsweredItem[]) => readonly string[]
  /** Selects the lines of a statement that the answer of the daemon also shows. If it is absent, it shows all lines. */
  readonly shown?: (lines: readonly string[]) => readonly string[]
  /** How many times as fast as ClickHouse the daemon must be when the question is asked for the first time. */
  readonly speedMin: number
}

/** The members of an answer that are read. Each kind of query has some of them. */
export interface AnsweredItem {
  readonly days?: readonly string[]
  readonly data?: readonly number[]
  readonly breakdown_value?: string
  readonly count?: number
  readonly values?: readonly { readonly count: number }[]
  readonly source?: string
  readonly target?: string
  readonly value?: number
  readonly average_conversion_time?: number
}

const DAY_MS = 86_400_000
const WEEK_MS = 7 * DAY_MS
const VIEW = '$pageview'
const CLICK = '$autocapture'
const FUNNEL = [VIEW, 'product viewed', 'checkout started'] as const
const FUNNEL_DAYS = 14
const RETENTION_WEEKS = 11
/** The days, counted from 0, with which retention and lifecycle start. They are Sundays. */
const RETENTION_DAY = 18
const LIFECYCLE_DAY = 4
const LIFECYCLE_WEEKS = 12
const SESSION_GAP_SECONDS = 1800
const STEPS_MAX = 5
const EDGES_MAX = 50
/** The number of columns that a variant may add to a retention table. They come after the last column that has data. */
const COLUMNS_MAX = 100 - RETENTION_WEEKS

/** Returns all questions, in the order of the table of results. */
export function numberQuestions(): readonly NumberQuestion[] {
  return [
    trends('trends, events, 7 days', 'total', 7),
    trends('trends, events, 90 days', 'total', 90),
    trends('trends, persons, 7 days', 'dau', 7),
    trends('trends, persons, 90 days', 'dau', 90),
    trends('trends, events, 90 days, one filter', 'total', 90, true),
    trends('trends, persons, 90 days, one filter', 'dau', 90, true),
    breakdown(30),
    funnel(30),
    retention(),
    stickiness(30),
    lifecycle(),
    paths(7),
  ]
}

function trends(
  name: string,
  math: 'total' | 'dau',
  days: number,
  isFiltered = false,
): NumberQuestion {
  const filter = { key: 'channel', value: SEARCHED_CHANNEL, operator: 'exact', type: 'event' }
  const number = math === 'total' ? 'count()' : 'uniqExact(person_id)'
  const also = isFiltered ? ` AND channel = '${SEARCHED_CHANNEL}'` : ''
  return {
    name,
    body: (variant) => ({
      kind: 'TrendsQuery',
      series: [{ kind: 'EventsNode', event: VIEW, math }],
      ...lastDays(days, variant),
      ...(isFiltered ? { properties: [filter] } : {}),
    }),
    clickHouse:
      `SELECT toDate(timestamp) AS day, ${number} FROM events WHERE event = '${VIEW}' AND ` +
      `${within(WORKLOAD_DAYS - days, WORKLOAD_DAYS)}${also} GROUP BY day`,
    duckDb:
      `SELECT day, count(*) FROM (SELECT ${math === 'total' ? '' : 'DISTINCT person_id, '}` +
      `timestamp::DATE AS day FROM events WHERE event = '${VIEW}' AND ` +
      `${duckWithin(WORKLOAD_DAYS - days, WORKLOAD_DAYS)}${also}) GROUP BY day`,
    lines: (results) => results.flatMap(dayLines),
    speedMin: isFiltered ? 2 : 3,
  }
}

function breakdown(days: number): NumberQuestion {
  return {
    name: 'trends, events by browser, 30 days',
    body: (variant) => ({
      kind: 'TrendsQuery',
      series: [{ kind: 'EventsNode', event: VIEW, math: 'total' }],
      breakdownFilter: { breakdown: '$browser', breakdown_type: 'event' },
      ...lastDays(days, variant),
    }),
    clickHouse:
      `SELECT browser, toDate(timestamp) AS day, count() FROM events WHERE event = '${VIEW}' AND ` +
      `${within(WORKLOAD_DAYS - days, WORKLOAD_DAYS)} GROUP BY browser, day`,
    duckDb:
      `SELECT browser, timestamp::DATE AS day, count(*) FROM events WHERE event = '${VIEW}' AND ` +
      `${duckWithin(WORKLOAD_DAYS - days, WORKLOAD_DAYS)} GROUP BY browser, day`,
    lines: (results) =>
      results.flatMap((item) => dayLines(item).map((line) => `${item.breakdown_value}\t${line}`)),
    speedMin: 2,
  }
}

function dayLines({ days = [], data = [] }: AnsweredItem): readonly string[] {
  return days.flatMap((day, index) => ((data[index] ?? 0) > 0 ? [`${day}\t${data[index]}`] : []))
}

function funnel(days: number): NumberQuestion {
  const names = FUNNEL.map((name) => `'${name}'`)
  const steps = names.map((name) => `event = ${name}`).join(', ')
  const counts = FUNNEL.map((_, step) => `countIf(reached > ${step})`).join(', ')
  return {
    name: 'ordered funnel, 3 steps, 30 days',
    body: (variant) => ({
      kind: 'FunnelsQuery',
      series: FUNNEL.map((event) => ({ kind: 'EventsNode', event })),
      funnelsFilter: {
        funnelWindowInterval: FUNNEL_DAYS,
        funnelWindowIntervalUnit: 'day',
      },
      ...lastDays(days, variant),
    }),
    clickHouse:
      `SELECT ${counts} FROM (SELECT windowFunnel(${(FUNNEL_DAYS * DAY_MS) / 1000})(timestamp, ` +
      `${steps}) AS reached FROM events WHERE event IN (${names.join(', ')}) AND ` +
      `${within(WORKLOAD_DAYS - days, WORKLOAD_DAYS)} GROUP BY person_id)`,
    duckDb: duckFunnel(names, days),
    lines: (results) => [results.map(({ count }) => count).join('\t')],
    speedMin: 2,
  }
}

function retention(): NumberQuestion {
  const [from, to] = [RETENTION_DAY, RETENTION_DAY + 7 * RETENTION_WEEKS]
  const week = `bitShiftLeft(toUInt32(1), toUInt8(${weekSince(from)}))`
  const masks = [VIEW, CLICK].map((name) => `groupBitOr(event = '${name}' ? ${week} : 0)`)
  const weeks = Array.from({ length: RETENTION_WEEKS }, (_, index) => index)
  const cells = weeks.flatMap((row) =>
    weeks.map((column) => {
      if (row + column >= RETENTION_WEEKS) return '0'
      const came = `bitTest(viewed, ${row})`
      const again = column === 0 ? '' : ` AND bitTest(clicked, ${row + column})`
      return `countIf(${came}${again})`
    }),
  )
  return {
    name: 'retention, 11 weeks',
    body: (variant) => ({
      kind: 'RetentionQuery',
      retentionFilter: {
        targetEntity: { id: VIEW, type: 'events' },
        returningEntity: { id: CLICK, type: 'events' },
        period: 'Week',
        totalIntervals: RETENTION_WEEKS + (variant % COLUMNS_MAX),
      },
      dateRange: { date_from: dateOf(from), date_to: dateOf(to - 1) },
    }),
    clickHouse:
      `SELECT ${cells.join(', ')} FROM (SELECT ${masks[0]} AS viewed, ${masks[1]} AS clicked ` +
      `FROM events WHERE event IN ('${VIEW}', '${CLICK}') AND ${within(from, to)} ` +
      'GROUP BY person_id)',
    duckDb: duckRetention(from, to),
    lines: (results) => [
      results
        .flatMap(({ values = [] }) => values.slice(0, RETENTION_WEEKS).map(({ count }) => count))
        .join('\t'),
    ],
    speedMin: 2,
  }
}

function stickiness(days: number): NumberQuestion {
  const day = `toUInt8(toDate(timestamp) - toDate('${dateOf(WORKLOAD_DAYS - days)}'))`
  return {
    name: 'stickiness, 30 days',
    body: (variant) => ({
      kind: 'StickinessQuery',
      series: [{ kind: 'EventsNode', event: VIEW, math: 'total' }],
      ...lastDays(days, variant),
    }),
    clickHouse:
      'SELECT length(bitmaskToArray(days)) AS number, count() FROM (SELECT ' +
      `groupBitOr(bitShiftLeft(toUInt32(1), ${day})) AS days FROM events WHERE event = '${VIEW}' ` +
      `AND ${within(WORKLOAD_DAYS - days, WORKLOAD_DAYS)} GROUP BY person_id) GROUP BY number`,
    duckDb:
      'SELECT bit_count(days) AS number, count(*) FROM (SELECT ' +
      `bit_or(1::BIGINT << (timestamp::DATE - DATE '${dateOf(WORKLOAD_DAYS - days)}')) AS days ` +
      `FROM events WHERE event = '${VIEW}' AND ` +
      `${duckWithin(WORKLOAD_DAYS - days, WORKLOAD_DAYS)} GROUP BY person_id) GROUP BY number`,
    lines: ([item]) =>
      (item?.data ?? []).flatMap((count, index) => (count > 0 ? [`${index + 1}\t${count}`] : [])),
    speedMin: 2,
  }
}

function lifecycle(): NumberQuestion {
  const [from, to] = [LIFECYCLE_DAY, LIFECYCLE_DAY + 7 * LIFECYCLE_WEEKS]
  // Week 0 is the week before the first week of the lifecycle.
  const bitOf = (moment: string): string =>
    `bitShiftLeft(toUInt32(1), toUInt8(${weekSince(from - 7, moment)}))`
  const isLater = `person_created_at >= ${dateTime(from - 7)}`
  const masks = [
    'bitAnd(came, born)',
    'bitAnd(came, before)',
    'bitAnd(came, bitAnd(bitNot(before), bitNot(born)))',
    'bitAnd(before, bitNot(came))',
  ]
  const counts = masks.map((mask, status) => {
    const weeks = Array.from({ length: LIFECYCLE_WEEKS }, (_, week) => {
      return `${status === 3 ? '-' : ''}toInt64(countIf(bitTest(${mask}, ${week + 1})))`
    })
    return weeks.join(', ')
  })
  return {
    name: 'lifecycle, 12 weeks',
    body: (variant) => ({
      kind: 'LifecycleQuery',
      series: [{ kind: 'EventsNode', event: VIEW }],
      interval: 'week',
      ...range(from, to, variant),
    }),
    clickHouse:
      `SELECT ${counts.join(', ')} FROM (SELECT groupBitOr(${bitOf('timestamp')}) AS came, ` +
      'bitShiftLeft(came, 1) AS before, ' +
      `any(${isLater} ? ${bitOf('person_created_at')} : 0) AS born FROM events ` +
      `WHERE event = '${VIEW}' AND ${within(from - 7, to)} GROUP BY person_id)`,
    duckDb: duckLifecycle(from, to),
    lines: (results) => [results.flatMap(({ data = [] }) => data).join('\t')],
    speedMin: 2,
  }
}

/**
 * Finds the most frequent steps from one page to another within sessions, and the time that each step took in total.
 */
function paths(days: number): NumberQuestion {
  const visits =
    'SELECT groupArray(toUInt32(timestamp)) AS seen, ' +
    `groupArray(toString(current_url)) AS pages FROM events WHERE event = '${VIEW}' AND ` +
    `${within(WORKLOAD_DAYS - days, WORKLOAD_DAYS)} GROUP BY person_id`
  const ordered =
    'SELECT arraySort(seen) AS times, ' +
    `arraySort((page, time) -> time, pages, seen) AS urls FROM (${visits})`
  const started =
    "SELECT times, urls, arrayPushFront(arrayPopBack(urls), '') AS previous, " +
    `arrayMap((time, before) -> time - before >= ${SESSION_GAP_SECONDS}, times, ` +
    `arrayPushFront(arrayPopBack(times), 0)) AS starts FROM (${ordered})`
  const kept = (list: string): string =>
    `arrayFilter((one, start, url, before) -> start OR url != before, ${list}, starts, urls, previous)`
  // If a person views the same page several times in a row, the time of the last view counts.
  const moments =
    'arrayFilter((one, start, url, next) -> start OR url != next, times, ' +
    "arrayPushBack(arrayPopFront(starts), 1), urls, arrayPushBack(arrayPopFront(urls), ''))"
  const collapsed =
    `SELECT ${kept('urls')} AS items, ${moments} AS moments, ` +
    `arrayEnumerateUniq(arrayCumSum(${kept('starts')})) AS steps FROM (${started})`
  const pairs =
    "SELECT items, arrayPushBack(arrayPopFront(items), '') AS targets, steps, " +
    'arrayPushBack(arrayPopFront(steps), toUInt32(1)) AS followers, ' +
    'arrayMap((next, moment) -> toInt64(next) - moment, ' +
    `arrayPushBack(arrayPopFront(moments), toUInt32(0)), moments) AS took FROM (${collapsed})`
  return {
    name: 'paths, 7 days',
    body: (variant) => ({
      kind: 'PathsQuery',
      pathsFilter: { includeEventTypes: [VIEW], stepLimit: STEPS_MAX, edgeLimit: EDGES_MAX },
      ...lastDays(days, variant),
    }),
    clickHouse:
      "SELECT concat(toString(step), '_', item) AS source, " +
      "concat(toString(step + 1), '_', target) AS goal, count() AS number, sum(second) " +
      `FROM (${pairs}) ARRAY JOIN items AS item, targets AS target, steps AS step, ` +
      'followers AS follower, took AS second ' +
      `WHERE follower = step + 1 AND step < ${STEPS_MAX} GROUP BY source, goal ` +
      `ORDER BY number DESC, source, goal LIMIT ${EDGES_MAX}`,
    duckDb: duckPaths(days),
    lines: (results) =>
      results.map(({ source, target, value = 0, average_conversion_time = 0 }) => {
        const seconds = Math.round((average_conversion_time * value) / 1000)
        return `${source}\t${target}\t${value}\t${seconds}`
      }),
    shown: connected,
    speedMin: 5,
  }
}

/**
 * Returns the statement for a funnel. Each event gets the time of the latest earlier start of a funnel, as window
 * functions find it. A person reaches a step if this start lies within the window.
 */
function duckFunnel(names: readonly string[], days: number): string {
  const [first, second, third] = names
  const earlier = 'PARTITION BY person_id ORDER BY timestamp ROWS UNBOUNDED PRECEDING'
  const inTime = (start: string): string => `timestamp <= ${start} + INTERVAL ${FUNNEL_DAYS} DAY`
  return (
    'WITH seen AS (SELECT person_id, timestamp, event FROM events WHERE ' +
    `event IN (${names.join(', ')}) AND ${duckWithin(WORKLOAD_DAYS - days, WORKLOAD_DAYS)}), ` +
    `started AS (SELECT *, max(CASE WHEN event = ${first} THEN timestamp END) OVER (${earlier}) ` +
    'AS start FROM seen), ' +
    `continued AS (SELECT *, max(CASE WHEN event = ${second} AND ${inTime('start')} THEN start END) ` +
    `OVER (${earlier}) AS start_of_second FROM started), ` +
    `reached AS (SELECT max(CASE WHEN event = ${third} AND ${inTime('start_of_second')} THEN 3 ` +
    `WHEN event = ${second} AND ${inTime('start')} THEN 2 ` +
    `WHEN event = ${first} THEN 1 ELSE 0 END) AS step FROM continued GROUP BY person_id) ` +
    'SELECT count(*) FILTER (step > 0), count(*) FILTER (step > 1), count(*) FILTER (step > 2) ' +
    'FROM reached'
  )
}

function duckRetention(from: number, to: number): string {
  const masks = [VIEW, CLICK].map(
    (name) => `bit_or(CASE WHEN event = '${name}' THEN ${duckWeekBit(from)} ELSE 0 END)`,
  )
  const weeks = Array.from({ length: RETENTION_WEEKS }, (_, index) => index)
  const cells = weeks.flatMap((row) =>
    weeks.map((column) => {
      if (row + column >= RETENTION_WEEKS) return '0'
      const came = `(viewed & ${2 ** row}) <> 0`
      const again = column === 0 ? '' : ` AND (clicked & ${2 ** (row + column)}) <> 0`
      return `count(*) FILTER (${came}${again})`
    }),
  )
  return (
    `SELECT ${cells.join(', ')} FROM (SELECT ${masks[0]} AS viewed, ${masks[1]} AS clicked FROM ` +
    `events WHERE event IN ('${VIEW}', '${CLICK}') AND ${duckWithin(from, to)} GROUP BY person_id)`
  )
}

function duckLifecycle(from: number, to: number): string {
  const masks = ['came & born', 'came & before', 'came & ~before & ~born', 'before & ~came']
  const counts = masks.flatMap((mask, status) =>
    Array.from({ length: LIFECYCLE_WEEKS }, (_, week) => {
      const count = `count(*) FILTER (((${mask}) & ${2 ** (week + 1)}) <> 0)`
      return status === 3 ? `-${count}` : count
    }),
  )
  const born =
    `CASE WHEN any_value(person_created_at) >= ${duckTime(from - 7)} THEN ` +
    `${duckWeekBit(from - 7, 'any_value(person_created_at)')} ELSE 0 END`
  return (
    `SELECT ${counts.join(', ')} FROM (SELECT came, came << 1 AS before, born FROM (` +
    `SELECT bit_or(${duckWeekBit(from - 7)}) AS came, ${born} AS born FROM events ` +
    `WHERE event = '${VIEW}' AND ${duckWithin(from - 7, to)} GROUP BY person_id))`
  )
}

function duckPaths(days: number): string {
  const ofPerson = 'PARTITION BY person_id ORDER BY timestamp'
  const ofSession = 'PARTITION BY person_id, session ORDER BY run'
  return (
    'WITH seen AS (SELECT person_id, timestamp, current_url, lag(timestamp) OVER person AS before, ' +
    'lag(current_url) OVER person AS url_before FROM events ' +
    `WHERE event = '${VIEW}' AND ${duckWithin(WORKLOAD_DAYS - days, WORKLOAD_DAYS)} ` +
    `WINDOW person AS (${ofPerson})), ` +
    `begun AS (SELECT *, (before IS NULL OR timestamp >= before + INTERVAL ${SESSION_GAP_SECONDS} ` +
    'SECOND) AS is_start FROM seen), ' +
    'numbered AS (SELECT *, sum(is_start::INTEGER) OVER person AS session, ' +
    'sum((is_start OR current_url <> url_before)::INTEGER) OVER person AS run FROM begun ' +
    `WINDOW person AS (${ofPerson} ROWS UNBOUNDED PRECEDING)), ` +
    'runs AS (SELECT person_id, session, run, any_value(current_url) AS item, ' +
    'max(timestamp) AS moment FROM numbered GROUP BY person_id, session, run), ' +
    'steps AS (SELECT item, moment, row_number() OVER way AS step, lead(item) OVER way AS target, ' +
    `lead(moment) OVER way AS next FROM runs WINDOW way AS (${ofSession})) ` +
    "SELECT concat(step, '_', item) AS source, concat(step + 1, '_', target) AS goal, " +
    "count(*) AS number, sum(date_diff('second', moment, next)) FROM steps " +
    `WHERE target IS NOT NULL AND step < ${STEPS_MAX} GROUP BY source, goal ` +
    `ORDER BY number DESC, source, goal LIMIT ${EDGES_MAX}`
  )
}

/**
 * Returns the expression for a bit that stands for the week of a moment. Weeks are counted from the beginning of `day`.
 */
function duckWeekBit(day: number, moment = 'timestamp'): string {
  const startMs = WORKLOAD_START_MS + day * DAY_MS
  return `(1::BIGINT << ((epoch_ms(${moment}) - ${startMs}) // ${WEEK_MS}))`
}

/** Does the same as `within`, for DuckDB. */
function duckWithin(fromDay: number, toDay: number): string {
  return `timestamp >= ${duckTime(fromDay)} AND timestamp < ${duckTime(toDay)}`
}

function duckTime(day: number): string {
  return `TIMESTAMP '${dateOf(day)} 00:00:00'`
}

/** Returns the edges that can be reached from a first step. */
function connected(lines: readonly string[]): readonly string[] {
  const targets = new Set<string | undefined>()
  // The number of the step comes first in a line. After sorting, each edge comes after the edges that lead to it.
  return [...lines].sort().filter((line) => {
    const [source = '', target] = line.split('\t')
    const isShown = source.startsWith('1_') || targets.has(source)
    if (isShown) targets.add(target)
    return isShown
  })
}

/** Returns a range of days. `variant` moves its end within the last second, in which there are no events. */
function range(fromDay: number, toDay: number, variant: number) {
  const end = new Date(WORKLOAD_START_MS + toDay * DAY_MS - 1 - variant).toISOString()
  return { dateRange: { date_from: dateOf(fromDay), date_to: end, explicitDate: true } }
}

function lastDays(days: number, variant: number) {
  return range(WORKLOAD_DAYS - days, WORKLOAD_DAYS, variant)
}

/** Returns the expression for the number of weeks since the beginning of `day`. */
function weekSince(day: number, moment = 'timestamp'): string {
  const startSeconds = (WORKLOAD_START_MS + day * DAY_MS) / 1000
  return `intDiv(toUInt32(${moment}) - ${startSeconds}, 604800)`
}

/** Returns the condition for events in a range of days, counted from 0. `toDay` is exclusive. */
function within(fromDay: number, toDay: number): string {
  return `timestamp >= ${dateTime(fromDay)} AND timestamp < ${dateTime(toDay)}`
}

function dateTime(day: number): string {
  return `toDateTime('${dateOf(day)} 00:00:00')`
}

function dateOf(day: number): string {
  return new Date(WORKLOAD_START_MS + day * DAY_MS).toISOString().slice(0, 10)
}
