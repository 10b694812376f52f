/**
 * Tests the history that a status shows: rates per minute, response times, the day when the disk will be full.
 *
 * @lane quick
 */
import t from 'tap'
import { Histogram } from '../../src/base/metrics.ts'
import { FORECAST_MS_MAX, RATE_MINUTES_MAX } from '../../src/engine/front/limits.ts'
import { fullAtMs, quantileMs, RateHistory } from '../../src/engine/front/rate-history.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS

t.test('points are the counts of each minute, and the newest point continues', async (t) => {
  const slow = new Histogram([0.001, 0.01])
  const other = new Histogram([0.001, 0.01])
  const totals = { accepted: 5, processed: 5, decisions: 1 }
  const history = new RateHistory([slow, other], () => ({ ...totals }))
  t.strictSame(history.points(0), [])
  slow.observe(5)
  history.note(0, 1000)
  totals.accepted = 25
  for (let count = 0; count < 2; count++) {
    slow.observe(0.0005)
    other.observe(0.005)
  }
  history.note(MINUTE_MS, 900)
  totals.decisions = 4
  t.strictSame(history.points(MINUTE_MS + 1), [
    {
      at: '1970-01-01T00:00:00.000Z',
      accepted: 20,
      processed: 0,
      decisions: 0,
      p50_ms: 1,
      p99_ms: 9.82,
    },
    {
      at: '1970-01-01T00:01:00.000Z',
      accepted: 0,
      processed: 0,
      decisions: 3,
      p50_ms: null,
      p99_ms: null,
    },
  ])
  for (let minute = 2; minute < RATE_MINUTES_MAX + 2; minute++) history.note(minute * MINUTE_MS, 0)
  const points = history.points(RATE_MINUTES_MAX * 2 * MINUTE_MS)
  t.equal(points.length, RATE_MINUTES_MAX)
  t.equal(points[0]?.at, '1970-01-01T00:02:00.000Z')
  const again = history.points(RATE_MINUTES_MAX * 2 * MINUTE_MS)
  t.ok(
    points.slice(0, -1).every((point, place) => point === again[place]),
    'finished points are computed once',
  )
})

t.test('a quantile lies within its bucket, or at the highest bound', async (t) => {
  t.equal(quantileMs([1, 2], [0, 0, 0], 0.5), null)
  t.equal(quantileMs([1, 2], [0, 4, 0], 0.5), 1500)
  t.equal(quantileMs([1, 2], [1, 0, 9], 0.99), 2000)
})

t.test('the disk is full where the line through its samples meets the reserve', async (t) => {
  const samples = (bytesPerHour: number, noise = 0) =>
    Array.from({ length: 25 }, (_, hour) => ({
      atMs: hour * HOUR_MS,
      freeBytes: 1_000_000 - hour * bytesPerHour + (hour % 2) * noise,
    }))
  t.equal(fullAtMs(samples(10_000), 500_000, HOUR_MS), 50 * HOUR_MS)
  const noisy = fullAtMs(samples(10_000, 5000), 500_000, HOUR_MS) ?? 0
  t.ok(Math.abs(noisy - 50 * HOUR_MS) < 2 * HOUR_MS)
  t.equal(fullAtMs(samples(10_000), 900_000, HOUR_MS), 24 * HOUR_MS, 'the disk is full')
  t.equal(fullAtMs(samples(0), 500_000, HOUR_MS), null)
  t.equal(fullAtMs(samples(-10_000), 500_000, HOUR_MS), null)
  t.equal(
    fullAtMs(samples(0.001), 500_000, HOUR_MS),
    null,
    `the forecast is later than ${FORECAST_MS_MAX} ms`,
  )
  t.equal(
    fullAtMs(samples(10_000), 500_000, 25 * HOUR_MS),
    null,
    'the history is too short for a forecast',
  )
  t.equal(fullAtMs([], 0, 0), null)
  t.equal(fullAtMs(samples(1).slice(0, 1), 0, 0), null)
})
