/**
 * Question: do the queries that are not timed against ClickHouse (sites, lists of events and of persons, the timeline
 * of one person) return the same answers, number for number and person for person?
 * Workload: that of `queries`, with 10 million events unless `--events` sets fewer.
 * Baseline: Debian's clickhouse-server with the same events. Every difference is an error.
 */
import { availableParallelism } from 'node:os'
import { type ClickHouse, startClickHouse } from '../baselines/clickhouse.ts'
import type { Bench, BenchContext } from '../harness.ts'
import { clickHouseTable } from './analytics-clickhouse.ts'
import { fillAll } from './analytics-fill.ts'
import {
  PAGE_ORIGIN,
  SEARCHED_CHANNEL,
  WORKLOAD_DAYS,
  WORKLOAD_START_MS,
} from './analytics-workload.ts'
import { Asker } from './query-asker.ts'

export const QUERY_ANSWERS: Bench = {
  name: 'query-answers',
  group: 'analytics',
  question: 'Do queries about sites, events and persons agree with a column database?',
  workload:
    'events of 200,000 persons over 90 days, 10 million unless --events says less; compared, not timed',
  needsDaemon: true,
  run: measure,
}

const DAY_MS = 86_400_000
const DAYS = 30
const PAGE_ROWS = 1000
const VIEW = '$pageview'
const RARE = 'survey shown'

interface Compared {
  readonly name: string
  /** Returns the lines of Tenrec's answer, in any order. */
  readonly ours: (asker: Asker) => Promise<readonly string[]>
  readonly statement: string
}

async function measure(context: BenchContext): Promise<void> {
  const server = await startClickHouse(context.newFolder(), availableParallelism())
  context.cleanUpWith(() => server.stop())
  const table = await clickHouseTable(server)
  const filled = await fillAll(context, context.events(40_000, 10_000_000), [table])
  const daemon = await context.startDaemon({ dataDir: filled.dataDir })
  const asker = new Asker(daemon)
  let lines = 0
  const all = [...siteQueries(), eventList(), personList(), await timeline(server)]
  for (const one of all) lines += await compare(one, asker, server)
  asker.close()
  await daemon.stop()
  context.report({
    figure: `lines of ${all.length} answers about sites, events and persons that equal ClickHouse's`,
    value: lines,
    unit: 'lines',
    note: all.map(({ name }) => name).join(', '),
  })
}

/** Returns the number of lines. Throws unless the lines of both sides are equal. */
async function compare(one: Compared, asker: Asker, server: ClickHouse): Promise<number> {
  const text = await server.query(`${one.statement} FORMAT TabSeparated`)
  const theirs = (text === '' ? [] : text.trimEnd().split('\n')).sort()
  const ours = [...(await one.ours(asker))].sort()
  const differing = theirs.findIndex((line, index) => line !== ours[index])
  if (differing < 0 && ours.length === theirs.length && ours.length > 0) return ours.length
  const example = `${ours[differing]} and ${theirs[differing]}`
  throw new Error(`${one.name}: ${ours.length} and ${theirs.length} lines differ: ${example}`)
}

/**
 * Returns a subquery for the sessions in ClickHouse that have a view in the range. The column `candidates` is the
 * number of these views.
 */
function sessions(): string {
  const urlOf = (pick: string) =>
    `replaceOne(${pick}(toString(current_url), timestamp, event = '${VIEW}'), '${PAGE_ORIGIN}', '')`
  return (
    'SELECT session_id, min(timestamp) AS began, toInt64(max(timestamp)) - toInt64(min(timestamp)) AS lasted, ' +
    `countIf(event = '${VIEW}') AS views, countIf(event = '$autocapture') AS clicks, ` +
    `countIf(event = '${VIEW}' AND ${withinDays()}) AS candidates, any(person_id) AS person, ` +
    `${urlOf('argMinIf')} AS entry, ${urlOf('argMaxIf')} AS leave, ` +
    'views >= 2 OR clicks >= 1 OR lasted >= 10 ? 0 : 1 AS bounced ' +
    'FROM events GROUP BY session_id HAVING candidates > 0'
  )
}

function siteQueries(): readonly Compared[] {
  const started = withinDays('began')
  const bySession = (breakdownBy: string, column: string): Compared => ({
    name: `sessions by ${column}, with bounces`,
    ours: (asker) => tableLines(asker, breakdownBy, true),
    statement:
      `SELECT ${column}, uniqExact(person), sum(candidates), sum(bounced) / count() FROM (${sessions()}) ` +
      `GROUP BY ${column}`,
  })
  const byEvent = (breakdownBy: string, column: string): Compared => ({
    name: `views by ${column}`,
    ours: (asker) => tableLines(asker, breakdownBy, false),
    statement:
      `SELECT ${column}, uniqExact(person_id), count() FROM events WHERE event = '${VIEW}' AND ` +
      `${withinDays()} GROUP BY ${column}`,
  })
  return [
    {
      name: 'overview of a site',
      ours: async (asker) => {
        const { results } = await answer(asker, { kind: 'WebOverviewQuery', ...site() })
        const of = (key: string) =>
          Number((results as readonly Item[]).find((one) => one.key === key)?.value)
        const count = of('sessions')
        const sums = [of('session duration') * count, (of('bounce rate') * count) / 100]
        return [[of('visitors'), of('views'), count, ...sums.map(Math.round)].join('\t')]
      },
      statement:
        `SELECT uniqExact(person), sum(candidates), count(), sum(lasted), sum(bounced) FROM (${sessions()}) ` +
        `WHERE ${started}`,
    },
    bySession('InitialPage', 'entry'),
    bySession('ExitPage', 'leave'),
    byEvent('Browser', 'browser'),
    byEvent('DeviceType', 'device_type'),
  ]
}

interface Item {
  readonly key: string
  readonly value: number
}

type Row = readonly [
  value: string,
  visitors: readonly number[],
  views: readonly number[],
  third: readonly number[],
]

async function tableLines(
  asker: Asker,
  breakdownBy: string,
  hasBounces: boolean,
): Promise<readonly string[]> {
  const query = {
    kind: 'WebStatsTableQuery',
    breakdownBy,
    includeBounceRate: hasBounces,
    limit: 1000,
  }
  const { results } = await answer(asker, { ...query, ...site() })
  return (results as readonly Row[]).map(([value, [visitors], [views], third]) =>
    [value, visitors, views, ...(hasBounces ? third.slice(0, 1) : [])].join('\t'),
  )
}

/**
 * Compares a page of events, ordered by time. It leaves out the events at the last moment of the page, because not all
 * events of this moment may be on the page.
 */
function eventList(): Compared {
  const filter = { key: 'channel', value: SEARCHED_CHANNEL, operator: 'exact', type: 'event' }
  const wanted = `event = '${VIEW}' AND channel = '${SEARCHED_CHANNEL}' AND ${withinDays()}`
  const moments = `SELECT timestamp FROM events WHERE ${wanted} ORDER BY timestamp DESC LIMIT ${PAGE_ROWS}`
  return {
    name: 'a list of events',
    ours: async (asker) => {
      const { results } = await answer(asker, {
        kind: 'EventsQuery',
        select: ['uuid', 'timestamp', 'person_id'],
        event: VIEW,
        properties: [filter],
        orderBy: ['timestamp DESC'],
        limit: PAGE_ROWS,
        after: momentOf(WORKLOAD_DAYS - DAYS),
        before: momentOf(WORKLOAD_DAYS),
      })
      const rows = results as readonly (readonly [string, string, string])[]
      const last = Date.parse(rows.at(-1)?.[1] ?? '')
      const seconds = rows.map(([uuid, time, person]) => [uuid, Date.parse(time), person] as const)
      return seconds.flatMap(([uuid, time, person]) =>
        time > last ? [[uuid, time / 1000, person].join('\t')] : [],
      )
    },
    statement:
      `SELECT uuid, toUInt32(timestamp), person_id FROM events WHERE ${wanted} AND timestamp > ` +
      `(SELECT min(timestamp) FROM (${moments}))`,
  }
}

/** Compares all persons who have a rare event. */
function personList(): Compared {
  const trends = {
    kind: 'TrendsQuery',
    series: [{ kind: 'EventsNode', event: RARE, math: 'dau' }],
    trendsFilter: { display: 'BoldNumber' },
    dateRange: site().dateRange,
  }
  return {
    name: 'a list of persons',
    ours: async (asker) => {
      const found: string[] = []
      for (let offset = 0; ; offset += PAGE_ROWS) {
        const source = { kind: 'InsightActorsQuery', source: trends }
        const query = { kind: 'ActorsQuery', source, select: ['id'], limit: PAGE_ROWS, offset }
        const { results, hasMore } = await answer(asker, query)
        found.push(...(results as readonly (readonly [string])[]).map(([id]) => id))
        if (hasMore !== true) return found
      }
    },
    statement: `SELECT DISTINCT person_id FROM events WHERE event = '${RARE}' AND ${withinDays()}`,
  }
}

interface TimelineEntry {
  readonly sessionId: string
  readonly events: readonly { readonly id: string; readonly timestamp: string }[]
}

/** Compares all sessions of the person with the most events. */
async function timeline(server: ClickHouse): Promise<Compared> {
  const busiest =
    'SELECT person_id FROM events GROUP BY person_id ORDER BY count() DESC, person_id LIMIT 1'
  const personId = (await server.query(`${busiest} FORMAT TabSeparated`)).trim()
  return {
    name: 'the timeline of a person',
    ours: async (asker) => {
      const kind = 'SessionsTimelineQuery'
      /** The session of each event. Two successive pages both contain the moment of the last event. */
      const sessionOf = new Map<string, string>()
      let before = momentOf(WORKLOAD_DAYS + 1)
      for (let hasMore = true; hasMore; ) {
        // A page does not contain the events at the moment `after` itself.
        const page = await answer(asker, { kind, personId, after: momentOf(-1), before })
        const known = sessionOf.size
        let oldestMs = Number.POSITIVE_INFINITY
        for (const { sessionId, events } of page.results as readonly TimelineEntry[]) {
          for (const { id, timestamp } of events) {
            sessionOf.set(id, sessionId)
            oldestMs = Math.min(oldestMs, Date.parse(timestamp))
          }
        }
        before = new Date(oldestMs + 1).toISOString()
        hasMore = page.hasMore === true && sessionOf.size > known
      }
      const counts = new Map<string, number>()
      for (const session of sessionOf.values()) counts.set(session, (counts.get(session) ?? 0) + 1)
      return [...counts].map(([session, count]) => `${session}\t${count}`)
    },
    statement: `SELECT session_id, count() FROM events WHERE person_id = '${personId}' GROUP BY session_id`,
  }
}

async function answer(
  asker: Asker,
  query: object,
): Promise<{ readonly results: unknown; readonly hasMore?: boolean }> {
  return JSON.parse(await asker.ask(query)) as { results: unknown; hasMore?: boolean }
}

function site() {
  const dateOf = (day: number) => momentOf(day).slice(0, 10)
  const dateRange = { date_from: dateOf(WORKLOAD_DAYS - DAYS), date_to: dateOf(WORKLOAD_DAYS - 1) }
  return { dateRange, properties: [] }
}

function momentOf(day: number): string {
  return new Date(WORKLOAD_START_MS + day * DAY_MS).toISOString()
}

/** Returns the condition for events in the last days of the workload. */
function withinDays(moment = 'timestamp'): string {
  const from = WORKLOAD_START_MS / 1000 + ((WORKLOAD_DAYS - DAYS) * DAY_MS) / 1000
  return `${moment} >= toDateTime(${from}) AND ${moment} < toDateTime(${from + (DAYS * DAY_MS) / 1000})`
}
