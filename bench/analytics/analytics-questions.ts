/**
 * The questions of the bench `analytics`, each as the path of a route and as the ClickHouse statement that returns the
 * same persons. The statements are the fastest of several tested forms.
 */
import { PROJECT_ID } from './analytics-store.ts'
import {
  PAGE_ORIGIN,
  SEARCHED_CHANNEL,
  WORKLOAD_DAYS,
  WORKLOAD_START_MS,
} from './analytics-workload.ts'

/** A request, and the statement that has the same answer. */
export interface QuestionPart {
  /** The path and query of the route, without `limit` and `offset`. */
  readonly path: string
  /** The value that each row has in addition to the person: the second column of the statement. */
  readonly value: 'none' | 'count' | 'appearances'
  /** A SELECT of `person_id` and, unless `value` is `none`, the value. It has no order and no limit. */
  readonly select: string
  /** The expression for ORDER BY. */
  readonly order: string
}

/** A question. If it has several parts, they are asked one after the other and their times are added. */
export interface AnalyticQuestion {
  readonly name: string
  readonly parts: readonly QuestionPart[]
  /** How many times as fast as ClickHouse the daemon must be. */
  readonly speedMin: number
}

const DAY_MS = 86_400_000
const VIEW = '$pageview'
const CLICK = '$autocapture'
const FUNNEL = [VIEW, 'product viewed', 'checkout started'] as const
const FUNNEL_DAYS = 14
const SESSION_GAP_SECONDS = 1800
const RETENTION_WEEKS = 11
/**
 * The day with which the retention starts, counted from 0. It is a Sunday, 11 weeks before the end of the week that
 * follows the last day.
 */
const RETENTION_START_DAY = 18
const RETENTION_END_DAY = RETENTION_START_DAY + 7 * RETENTION_WEEKS
/** The day of the lifecycle, counted from 0. It is a Monday. */
const LIFECYCLE_DAY = 75
const FIRST_PAGE = `${PAGE_ORIGIN}/pricing`
const SECOND_PAGE = `${PAGE_ORIGIN}/docs`

/** Returns all questions, in the order of the table of results. */
export function analyticQuestions(): readonly AnalyticQuestion[] {
  return [
    { name: 'trends, persons of one event, 7 days', parts: [trends(7, false)], speedMin: 3 },
    { name: 'trends, persons of one event, 90 days', parts: [trends(90, false)], speedMin: 3 },
    { name: 'trends, 7 days, one property filter', parts: [trends(7, true)], speedMin: 1.5 },
    { name: 'trends, 90 days, one property filter', parts: [trends(90, true)], speedMin: 1.5 },
    { name: 'ordered funnel, 3 steps, 30 days', parts: [funnel(30)], speedMin: 2 },
    { name: 'retention, 11 weeks', parts: [retention()], speedMin: 1.5 },
    { name: 'stickiness, 3 of 30 days', parts: [stickiness(30, 3)], speedMin: 1.5 },
    { name: 'lifecycle, four states one by one', parts: lifecycle(), speedMin: 1.5 },
    { name: 'paths, 7 days', parts: [paths(7)], speedMin: 1 },
  ]
}

/** Returns the path of a request. Lists and objects become JSON, as in the links of charts. */
function route(name: string, parameters: Readonly<Record<string, unknown>>): string {
  const texts = Object.entries(parameters).map(([key, value]) => {
    const text = typeof value === 'object' ? JSON.stringify(value) : String(value)
    return `${key}=${encodeURIComponent(text)}`
  })
  return `/api/projects/${PROJECT_ID}/persons/${name}/?${texts.join('&')}`
}

function trends(days: number, isFiltered: boolean): QuestionPart {
  const filter = { key: 'channel', value: SEARCHED_CHANNEL, operator: 'exact', type: 'event' }
  const target = { entity_id: VIEW, entity_type: 'events', ...lastDays(days) }
  const also = isFiltered ? ` AND channel = '${SEARCHED_CHANNEL}'` : ''
  return {
    path: route('trends', isFiltered ? { ...target, properties: [filter] } : target),
    value: 'count',
    select:
      `SELECT person_id, count() AS value FROM events WHERE event = '${VIEW}' AND ` +
      `${within(WORKLOAD_DAYS - days, WORKLOAD_DAYS)}${also} GROUP BY person_id`,
    order: 'value DESC, person_id',
  }
}

function funnel(days: number): QuestionPart {
  const events = FUNNEL.map((id, order) => ({ id, type: 'events', order }))
  const names = FUNNEL.map((name) => `'${name}'`)
  const steps = names.map((name) => `event = ${name}`).join(', ')
  const seconds = (FUNNEL_DAYS * DAY_MS) / 1000
  return {
    path: route('funnel', {
      events,
      funnel_step: FUNNEL.length,
      funnel_window_interval: FUNNEL_DAYS,
      funnel_window_interval_unit: 'day',
      ...lastDays(days),
    }),
    value: 'none',
    select:
      `SELECT person_id FROM events WHERE event IN (${names.join(', ')}) AND ` +
      `${within(WORKLOAD_DAYS - days, WORKLOAD_DAYS)} GROUP BY person_id ` +
      `HAVING windowFunnel(${seconds})(timestamp, ${steps}) >= ${FUNNEL.length}`,
    order: 'person_id',
  }
}

function retention(): QuestionPart {
  const start = RETENTION_START_DAY
  const cohort = `event = '${VIEW}' AND ${within(start, start + 7)}`
  const returns = `event = '${CLICK}' AND ${within(start + 7, RETENTION_END_DAY)}`
  const startSeconds = (WORKLOAD_START_MS + start * DAY_MS) / 1000
  const week = `toUInt8(intDiv(toUInt32(timestamp) - ${startSeconds}, 604800))`
  return {
    path: route('retention', {
      target_entity: { id: VIEW, type: 'events' },
      returning_entity: { id: CLICK, type: 'events' },
      period: 'Week',
      total_intervals: RETENTION_WEEKS,
      selected_interval: 0,
      date_to: dateOf(WORKLOAD_DAYS - 1),
    }),
    value: 'appearances',
    select:
      `SELECT person_id, groupBitOr(bitShiftLeft(toUInt32(1), ${week})) AS value FROM (` +
      `SELECT person_id, timestamp FROM events WHERE ${cohort} UNION ALL ` +
      `SELECT person_id, timestamp FROM events WHERE ${returns} AND person_id IN ` +
      `(SELECT person_id FROM events WHERE ${cohort})) GROUP BY person_id`,
    order: 'length(bitmaskToArray(value)) DESC, person_id',
  }
}

function stickiness(days: number, wanted: number): QuestionPart {
  const target = { entity_id: VIEW, entity_type: 'events', interval: 'day', ...lastDays(days) }
  const day = `toUInt8(toDate(timestamp) - toDate('${dateOf(WORKLOAD_DAYS - days)}'))`
  return {
    path: route('stickiness', { ...target, stickiness_days: wanted }),
    value: 'none',
    select:
      `SELECT person_id FROM events WHERE event = '${VIEW}' AND ` +
      `${within(WORKLOAD_DAYS - days, WORKLOAD_DAYS)} GROUP BY person_id ` +
      `HAVING length(bitmaskToArray(groupBitOr(bitShiftLeft(toUInt32(1), ${day})))) = ${wanted}`,
    order: 'person_id',
  }
}

function lifecycle(): readonly QuestionPart[] {
  const before = dateTime(LIFECYCLE_DAY - 7)
  const start = dateTime(LIFECYCLE_DAY)
  const end = dateTime(LIFECYCLE_DAY + 7)
  const views = `FROM events WHERE event = '${VIEW}' AND`
  const twoWeeks = `SELECT person_id ${views} ${within(LIFECYCLE_DAY - 7, LIFECYCLE_DAY + 7)}`
  const created = `person_created_at >= ${start} AND person_created_at < ${end}`
  const isEarlier = `timestamp < ${before} AND ${created}`
  const part = (state: string, select: string): QuestionPart => {
    const parameters = {
      events: [{ id: VIEW, type: 'events', order: 0 }],
      interval: 'week',
      target_date: dateOf(LIFECYCLE_DAY),
      lifecycle_type: state,
      ...lastDays(WORKLOAD_DAYS),
    }
    return { path: route('lifecycle', parameters), value: 'none', select, order: 'person_id' }
  }
  return [
    part(
      'new',
      `SELECT person_id ${views} timestamp < ${end} AND ${created} GROUP BY person_id ` +
        `HAVING min(timestamp) >= ${start}`,
    ),
    part(
      'returning',
      `${twoWeeks} GROUP BY person_id HAVING min(timestamp) < ${start} AND max(timestamp) >= ${start}`,
    ),
    part(
      'resurrecting',
      `SELECT DISTINCT person_id ${views} ${within(LIFECYCLE_DAY, LIFECYCLE_DAY + 7)} ` +
        `AND person_id NOT IN (SELECT person_id ${views} ${within(LIFECYCLE_DAY - 7, LIFECYCLE_DAY)}) ` +
        `AND (NOT (${created}) OR person_id IN (SELECT person_id ${views} ${isEarlier}))`,
    ),
    part('dormant', `${twoWeeks} GROUP BY person_id HAVING max(timestamp) < ${start}`),
  ]
}

/** Finds the persons who go directly from one page to another at the start of a session. */
function paths(days: number): QuestionPart {
  const visits =
    'SELECT person_id, groupArray(toUInt32(timestamp)) AS seen, ' +
    `groupArray(toString(current_url)) AS pages FROM events WHERE event = '${VIEW}' AND ` +
    `${within(WORKLOAD_DAYS - days, WORKLOAD_DAYS)} GROUP BY person_id`
  const ordered =
    'SELECT person_id, arraySort(seen) AS times, ' +
    `arraySort((page, time) -> time, pages, seen) AS urls FROM (${visits})`
  const started =
    "SELECT person_id, urls, arrayPushFront(arrayPopBack(urls), '') AS previous, " +
    `arrayMap((time, before) -> time - before >= ${SESSION_GAP_SECONDS}, times, ` +
    `arrayPushFront(arrayPopBack(times), 0)) AS starts FROM (${ordered})`
  const collapsed =
    'SELECT person_id, arrayFilter((url, start, before) -> start OR url != before, ' +
    'urls, starts, previous) AS items, arrayFilter((start, url, before) -> ' +
    `start OR url != before, starts, urls, previous) AS firsts FROM (${started})`
  return {
    path: route('path', {
      include_event_types: [VIEW],
      path_start_key: `1_${FIRST_PAGE}`,
      path_end_key: `2_${SECOND_PAGE}`,
      ...lastDays(days),
    }),
    value: 'none',
    select:
      `SELECT person_id FROM (${collapsed}) WHERE arrayExists((item, first, next, isNext) -> ` +
      `first AND item = '${FIRST_PAGE}' AND NOT isNext AND next = '${SECOND_PAGE}', items, firsts, ` +
      "arrayPushBack(arrayPopFront(items), ''), arrayPushBack(arrayPopFront(firsts), 1))",
    order: 'person_id',
  }
}

function lastDays(days: number) {
  return { date_from: dateOf(WORKLOAD_DAYS - days), date_to: dateOf(WORKLOAD_DAYS - 1) }
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
