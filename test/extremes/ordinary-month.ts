/** A month of ordinary events in order of time, and ten queries that a user runs on them. */
import type { Dice } from '../fixtures/dice.ts'

const DAY_MS = 86_400_000
const DAYS = 30
const PATHS = 300
/** Events of a person, on average. */
const EVENTS_OF_A_PERSON = 10
const EVENTS = ['$pageview', '$pageview', '$pageview', 'plain', 'signed up', 'paid']

/** The number of events before these, and the number in the end. */
export interface Progress {
  readonly done: number
  readonly total: number
}

/**
 * Creates the JSON texts of events. With `progress`, their times cover the last 30 days, and there is one person for
 * every ten of all events. Without it, they are called `plain`, have the current time, and belong to 1,000 persons.
 */
export function plainEvents(dice: Dice, count: number, progress?: Progress): readonly string[] {
  const now = Date.now()
  return Array.from({ length: count }, (_, index) => {
    if (progress === undefined) {
      const properties = { $current_url: `https://shop.example/${dice.below(PATHS)}`, n: index }
      return JSON.stringify({
        event: 'plain',
        distinct_id: `p${dice.below(1000)}`,
        properties,
      })
    }
    const { done, total } = progress
    const part = (done + index) / total
    const timeMs = now - DAYS * DAY_MS + part * DAYS * DAY_MS
    const person = dice.below(Math.max(1, total / EVENTS_OF_A_PERSON))
    const day = Math.floor(timeMs / DAY_MS)
    const path = `/${dice.below(PATHS)}`
    const set =
      (done + index) % 20 === 0
        ? { plan: dice.pick(['free', 'pro', 'team']), visits: dice.below(100) }
        : undefined
    return JSON.stringify({
      event: dice.pick(EVENTS),
      distinct_id: `p${person}`,
      timestamp: new Date(timeMs).toISOString(),
      properties: {
        $current_url: `https://shop.example${path}`,
        $pathname: path,
        $host: 'shop.example',
        $browser: dice.pick(['Chrome', 'Firefox', 'Safari']),
        $session_id: sessionId(day * DAY_MS, person),
        price: dice.below(1000) / 10,
        // Omitted from the JSON if it is not set.
        $set: set,
      },
    })
  })
}

/** Returns a UUID of version 7: one session for each person and day. */
function sessionId(dayMs: number, person: number): string {
  const time = dayMs.toString(16).padStart(12, '0')
  const tail = person.toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${tail}`
}

/** Returns ten queries about the last 30 days, by name. */
export function questionsOfMonth(): ReadonlyMap<string, object> {
  const dateRange = { date_from: '-30d' }
  const views = [{ kind: 'EventsNode', event: '$pageview' }]
  const steps = ['$pageview', 'signed up', 'paid'].map((event) => ({ kind: 'EventsNode', event }))
  const daily = [{ kind: 'EventsNode', event: '$pageview', math: 'dau' }]
  const byPath = { breakdown: '$pathname', breakdown_type: 'event' }
  const byPlan = { breakdown: 'plan', breakdown_type: 'person' }
  const entity = { id: '$pageview', type: 'events' }
  const retentionFilter = {
    period: 'Day',
    totalIntervals: 11,
    targetEntity: entity,
    returningEntity: entity,
  }
  const pathsFilter = { includeEventTypes: ['$pageview'] }
  const web = { dateRange, properties: [] }
  return new Map<string, object>([
    ['trends', { kind: 'TrendsQuery', series: views, dateRange }],
    ['dau', { kind: 'TrendsQuery', series: daily, dateRange }],
    ['by path', { kind: 'TrendsQuery', series: views, dateRange, breakdownFilter: byPath }],
    ['by plan', { kind: 'TrendsQuery', series: daily, dateRange, breakdownFilter: byPlan }],
    ['funnel', { kind: 'FunnelsQuery', series: steps, dateRange }],
    ['retention', { kind: 'RetentionQuery', dateRange, retentionFilter }],
    ['paths', { kind: 'PathsQuery', dateRange, pathsFilter }],
    ['lifecycle', { kind: 'LifecycleQuery', series: views, dateRange }],
    ['web overview', { kind: 'WebOverviewQuery', ...web }],
    ['web pages', { kind: 'WebStatsTableQuery', breakdownBy: 'Page', ...web }],
  ])
}
