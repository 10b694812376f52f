/**
 * Tests the buckets of ranges in all time zones, around the times at which their clocks change.
 *
 * @lane quick
 */
import t from 'tap'
import { utcOf, wallOf } from '../../../src/base/time-zone.ts'
import {
  type Interval,
  periodStart,
  shiftedPeriodStart,
} from '../../../src/rules/analytics/periods.ts'
import {
  bucketDay,
  bucketDays,
  bucketLabels,
  bucketRules,
  bucketsOf,
  tableDays,
} from '../../../src/rules/queries/query-buckets.ts'
import type { QueryRange } from '../../../src/rules/queries/query-range.ts'
import { Dice } from '../../fixtures/dice.ts'
import { partOf } from '../../fixtures/random-depth.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** Times between which clocks are compared. */
const LOOK_MS = HOUR_MS / 4
const WINDOW_MS = 2 * 365 * DAY_MS
const LAST_WINDOW_MS = Date.UTC(2037, 0, 1) - WINDOW_MS

/** Zones with clocks that moved by a day, by half an hour, or at midnight. */
const STRANGE: readonly (readonly [timezone: string, at: string])[] = [
  ['Pacific/Apia', '2011-12-30T10:00:00Z'],
  ['Pacific/Fakaofo', '2011-12-30T11:00:00Z'],
  ['Pacific/Kwajalein', '1993-08-21T12:00:00Z'],
  ['Pacific/Kiritimati', '1994-12-31T10:00:00Z'],
  ['Pacific/Enderbury', '1994-12-31T11:00:00Z'],
  ['Australia/Lord_Howe', '2023-04-01T15:00:00Z'],
  ['Australia/Lord_Howe', '2023-09-30T15:30:00Z'],
  ['Pacific/Chatham', '1997-10-04T14:00:00Z'],
  ['Pacific/Chatham', '2024-04-06T14:00:00Z'],
  ['America/Sao_Paulo', '2018-11-04T03:00:00Z'],
  ['America/Sao_Paulo', '2019-02-17T02:00:00Z'],
  ['Asia/Beirut', '2023-03-29T22:00:00Z'],
  ['Asia/Beirut', '2023-10-28T21:00:00Z'],
  ['Africa/Cairo', '2023-04-27T22:00:00Z'],
  ['Africa/Cairo', '2023-10-26T21:00:00Z'],
  ['America/Havana', '2023-03-12T05:00:00Z'],
  ['America/Havana', '2023-11-05T05:00:00Z'],
  ['America/Santiago', '2023-04-02T03:00:00Z'],
  ['America/Santiago', '2023-09-03T04:00:00Z'],
  ['America/Nuuk', '2024-10-27T01:00:00Z'],
  ['Asia/Pyongyang', '2018-05-04T15:00:00Z'],
  ['Asia/Kathmandu', '1985-12-31T18:30:00Z'],
]

function offsetMs(timeMs: number, timezone: string): number {
  return utcOf(wallOf(timeMs, timezone)) - timeMs
}

/** Times within two years at which the clocks of a zone change. */
function movesOf(timezone: string, fromMs: number): readonly number[] {
  const moves: number[] = []
  let before = fromMs
  for (let next = fromMs; next < fromMs + WINDOW_MS; next += 30 * DAY_MS) {
    let [low, high] = [before, next]
    before = next
    const offset = offsetMs(low, timezone)
    if (offset === offsetMs(high, timezone)) continue
    while (high - low > 60_000) {
      const middle = Math.floor((low + high) / 120_000) * 60_000
      if (offsetMs(middle, timezone) === offset) low = middle
      else high = middle
    }
    moves.push(high)
  }
  return moves
}

/** Returns the errors in the buckets around a time, or an empty list. */
function faultsAround(movedMs: number, timezone: string, interval: Interval): readonly string[] {
  const reachMs = {
    minute: HOUR_MS,
    hour: DAY_MS,
    day: 3 * DAY_MS,
    week: 15 * DAY_MS,
    month: 45 * DAY_MS,
  }
  const range: QueryRange = {
    interval,
    timezone,
    isExplicit: false,
    start: 'absolute',
    isWeekAligned: false,
    fromMs: movedMs - reachMs[interval] - 1_234_567,
    toMs: movedMs + reachMs[interval] + 2_345_678,
  }
  const buckets = bucketsOf(range)
  const rules = bucketRules(range)
  const { count } = buckets
  const faults = new Set<string>()
  const starts = Array.from({ length: count + 1 }, (_, index) => buckets.startMs(index))
  if (starts.some((startMs, index) => startMs <= (starts[index - 1] ?? Number.NEGATIVE_INFINITY))) {
    faults.add('a bucket is empty')
  }
  const isCovered = buckets.indexOf(range.fromMs) === 0 && buckets.indexOf(range.toMs) === count - 1
  if (!isCovered) faults.add('the ends are not in the first and last bucket')
  const days = bucketDays(range, buckets)
  const isClock = interval === 'hour' || interval === 'minute'
  if (!isClock) {
    if (days.some((day, index) => day <= (days[index - 1] ?? '')))
      faults.add('days are in no order')
    if (new Set(bucketLabels(range, buckets)).size < count) faults.add('a label comes twice')
  }
  for (let index = 0; index < count; index++) {
    const [startMs = 0, endMs = 0] = [starts[index], starts[index + 1]]
    if (shiftedPeriodStart(startMs, 1, rules) !== endMs) faults.add('the next is another one')
    if (shiftedPeriodStart(endMs, -1, rules) !== startMs) faults.add('the one before is another')
  }
  for (let timeMs = movedMs - DAY_MS / 2; timeMs < movedMs + DAY_MS / 2; timeMs += LOOK_MS) {
    const index = buckets.indexOf(timeMs)
    if (index < 0) continue
    if (periodStart(timeMs, rules) !== starts[index]) faults.add('a moment has another start')
    if (interval === 'day' && bucketDay(wallOf(timeMs, timezone), 'day') !== days[index]) {
      faults.add('a moment is in the bucket of another day')
    }
  }
  return [...faults].map(
    (fault) => `${timezone} ${new Date(movedMs).toISOString()} ${interval}: ${fault}`,
  )
}

/** Midnight occurred twice, with the end of the previous day between: it counts as the day that had begun. */
function isDayTakenBack(movedMs: number, timezone: string): boolean {
  return (
    wallOf(movedMs, timezone)[2] !== wallOf(movedMs - 1, timezone)[2] && !isAhead(movedMs, timezone)
  )
}

function isAhead(movedMs: number, timezone: string): boolean {
  return offsetMs(movedMs, timezone) > offsetMs(movedMs - 1, timezone)
}

/**
 * Until 1979, clocks in two zones showed times that are not a multiple of a quarter of an hour. They are not tested.
 */
function isOdd(movedMs: number, timezone: string): boolean {
  return offsetMs(movedMs - 1, timezone) % LOOK_MS !== 0
}

t.test('buckets are adjacent and have unique names in all zones', async (t) => {
  const dice = new Dice(7)
  const moves = STRANGE.map(([timezone, at]) => ({ timezone, movedMs: Date.parse(at) }))
  for (const timezone of partOf(Intl.supportedValuesOf('timeZone'), 0)) {
    const own = movesOf(timezone, dice.below(LAST_WINDOW_MS))
    const known = own.filter(
      (movedMs) => !isDayTakenBack(movedMs, timezone) && !isOdd(movedMs, timezone),
    )
    if (known.length > 0) moves.push({ timezone, movedMs: dice.pick(known) })
  }
  const faults = moves.flatMap(({ timezone, movedMs }) =>
    (['minute', 'hour', 'day', 'week', 'month'] as const).flatMap((interval) =>
      faultsAround(movedMs, timezone, interval),
    ),
  )
  t.strictSame(faults, [])
})

t.test('a table never has two days with one name', (t) => {
  const daysOf = (timezone: string, from: string, to: string, interval: Interval) => {
    const range = {
      interval,
      timezone,
      fromMs: Date.parse(from),
      toMs: Date.parse(to),
    } as QueryRange
    return tableDays(bucketDays(range, bucketsOf(range)), timezone)
  }
  t.strictSame(daysOf('Europe/Berlin', '2024-10-26T23:00:00Z', '2024-10-27T02:59:59Z', 'hour'), [
    '2024-10-27 01:00:00',
    '2024-10-27 02:00:00+02:00',
    '2024-10-27 02:00:00+01:00',
    '2024-10-27 03:00:00',
  ])
  t.strictSame(daysOf('America/St_Johns', '2024-11-03T03:30:00Z', '2024-11-03T05:29:59Z', 'hour'), [
    '2024-11-03 01:00:00-02:30',
    '2024-11-03 01:00:00-03:30',
  ])
  const minutes = daysOf(
    'Australia/Lord_Howe',
    '2024-04-06T14:00:00Z',
    '2024-04-06T15:59:59Z',
    'minute',
  )
  t.equal(new Set(minutes).size, minutes.length)
  t.match(minutes, [/ 01:00:00$/])
  t.ok(minutes.includes('2024-04-07 01:30:00+11:00'))
  t.ok(minutes.includes('2024-04-07 01:30:00+10:30'))
  const usual = daysOf('Europe/Berlin', '2024-10-01T00:00:00Z', '2024-10-31T00:00:00Z', 'day')
  t.ok(usual.every((day) => /^2024-10-\d\d$/.test(String(day))))
  t.end()
})
