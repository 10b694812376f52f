/**
 * The times of annotations in the console: the period of a chart in which an annotation is drawn, and the time that the
 * user chose in the time zone of the project, also on days on which the clocks change.
 *
 * @lane quick
 */
import t from 'tap'
import { RANGES } from '../../src/console/base/days.ts'
import { momentAt, wallAt } from '../../src/console/base/moment.ts'
import { periodAt } from '../../src/console/base/note-times.ts'
import { datesOf } from '../../src/console/base/query-address.ts'
import { SHARED_RANGES } from '../../src/rules/saved/shared-access.ts'

t.test('an annotation belongs to the period that contains it', async (t) => {
  const days = ['2026-11-28', '2026-11-29', '2026-11-30']
  const hours = ['2026-11-30 22:00:00', '2026-11-30T23:00:00']
  const weeks = ['2026-11-15', '2026-11-22']
  const months = ['2026-10-01', '2026-11-01']
  for (const [starts, step, wall, at] of [
    [days, 'day', '2026-11-27 23:59:59', -1],
    [days, 'day', '2026-11-28 00:00:00', 0],
    [days, 'day', '2026-11-29 23:59:59', 1],
    [days, 'day', '2026-11-30 23:59:59', 2],
    [days, 'day', '2026-12-01 00:00:00', -1],
    [hours, 'hour', '2026-11-30 22:59:59', 0],
    [hours, 'hour', '2026-11-30 23:00:00', 1],
    [hours, 'hour', '2026-12-01 00:00:00', -1],
    [weeks, 'week', '2026-11-21 12:00:00', 0],
    [weeks, 'week', '2026-11-28 23:59:59', 1],
    [weeks, 'week', '2026-11-29 00:00:00', -1],
    [months, 'month', '2026-11-30 12:00:00', 1],
    [months, 'month', '2026-12-01 00:00:00', -1],
    [[], 'day', '2026-12-01 00:00:00', -1],
    [days, 'unknown', '2026-11-30 12:00:00', -1],
  ] as const) {
    t.equal(periodAt(starts, step, wall), at, `${wall} by ${step}`)
  }
})

t.test('a time by the clocks of a zone and its moment convert into each other', async (t) => {
  for (const zone of [
    'UTC',
    'Europe/Berlin',
    'America/New_York',
    'Asia/Kathmandu',
    'Pacific/Apia',
  ]) {
    for (let hour = 0; hour < 24 * 400; hour += 7) {
      const moment = new Date(Date.UTC(2026, 0, 1, hour, 30)).toISOString()
      const wall = wallAt(moment, zone)
      // In the hour that the clocks show twice, either moment is right.
      if (wallAt(momentAt(wall, zone), zone) !== wall) t.fail(`${wall} in ${zone}`)
    }
  }
  t.equal(momentAt('2026-11-30 12:00:00', 'Europe/Berlin'), '2026-11-30T11:00:00.000Z')
  t.equal(momentAt('2026-07-01 00:00:00', 'America/New_York'), '2026-07-01T04:00:00.000Z')
})

t.test('shared pages offer the ranges of the console', async (t) => {
  const offered = Object.fromEntries(RANGES.map(({ value }) => [value, datesOf(value)]))
  t.strictSame(SHARED_RANGES, offered)
})
