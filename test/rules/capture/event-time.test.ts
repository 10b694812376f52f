/**
 * Tests the forms of time that clients write, and how the time of an event is computed.
 *
 * @lane quick
 */
import fc from 'fast-check'
import t from 'tap'
import type { JsonObject } from '../../../src/base/json.ts'
import {
  eventTime,
  parseSentAt,
  requestSentAt,
  sharedIsoText,
} from '../../../src/rules/capture/event-time.ts'
import {
  MOMENT_MS_MAX,
  MOMENT_MS_MIN,
  parseTimestamp,
  parseTimeText,
  usualMomentAt,
} from '../../../src/rules/capture/timestamp.ts'
import type { EventContext } from '../../../src/rules/capture/types.ts'
import { Differences } from '../../fixtures/differences.ts'
import { runsOf } from '../../fixtures/random-depth.ts'

const MIDNIGHT = Date.UTC(2021, 9, 29)
const NOW = Date.UTC(2024, 0, 15, 12)
const HOUR = 3_600_000

t.test('every accepted form of one time', async (t) => {
  const forms = [
    '2021-10-29',
    '2021-10-29 00:00',
    '2021-10-29T00:00:00',
    '2021-10-29 00:00:00.000000',
    '2021-10-29T00:00:00.000Z',
    '2021-10-29t00:00:00z',
    '2021-10-29 00:00:00+00:00',
    '2021-10-29T00:00:00.000-00:00',
    '2021-10-29T02:00:00+02',
    '2021-10-28T22:30:00-0130',
    '2021-10-29T05:30:00.000000000+05:30',
    '2021-W43-5',
    '2021-302',
    '2021-302T00:00:00Z',
    'Fri, 29 Oct 2021 00:00:00 +0000',
    '29 Oct 2021 00:00 GMT',
    '28 oct 21 20:00:00 EDT',
    'Fri, 29 Oct 2021 00:00:00 +0000 (UTC)',
    '1635465600',
    '1635465600000',
    '1635465600000999',
    '1635465600000999999',
    1635465600,
    1635465600000,
    1635465600000999,
    1635465600000000000,
  ]
  const differences = new Differences()
  for (const form of forms) differences.equal(parseTimestamp(form), MIDNIGHT, String(form))
  t.strictSame(differences.list(), [], 'every form is the same moment')
})

t.test('forms that databases, languages and spreadsheets print', async (t) => {
  const forms = [
    // Zones after a blank, by name, or twice.
    '2021-10-29 00:00:00 UTC',
    '2021-10-29 00:00:00 GMT',
    '2021-10-29 UTC',
    '2021-10-29 00:00Z',
    '2021-10-29 02:00:00 +0200',
    '2021-10-29 02:00:00 +02:00',
    '2021-10-29 02:00:00 CEST',
    '2021-10-29 02:00:00 UTC+02:00',
    '2021-10-29T02:00:00 GMT+2',
    '2021-10-29 02:00:00 (CEST)',
    '2021-10-29 00:00:00.000000000 +0000 UTC',
    '2021-10-29 02:00:00.5 +0200 CEST m=+0.012',
    '2021-10-29T02:00:00+02:00[Europe/Berlin]',
    '2021-10-29T00:00:00.1234567890123Z',
    'Fri Oct 29 2021 02:00:00 GMT+0200 (Central European Summer Time)',
    'Fri Oct 29 2021 02:00:00 GMT+0200 (Mitteleuropäische Sommerzeit)',
    'Fri Oct 29 2021 02:00:00 GMT+0200 (heure d’été d’Europe centrale)',
    'Fri Oct 29 2021 08:00:00 GMT+0800 (中国标准时间)',
    'Fri Oct 29 2021 03:00:00 GMT+0300 (GMT+03:00)',
    '2021-10-28T22:30:00\u221201:30',
    // Other separators and orders, and parts of one digit.
    '2021/10/29',
    '2021/10/29 00:00:00',
    '2021.10.29 0:00',
    '10/29/2021',
    '10/29/21 0:00:00',
    '10/29/2021, 12:00:00 AM',
    '10/29/2021 12:00 a.m.',
    '2021-10-29 0:00',
    '2021-10-29 +00:00',
    '20211029T000000Z',
    '20211029T0000',
    '2021-10-29 00:00:00,123',
    ' 2021-10-29T00:00:00Z\n',
    // Names of months and weekdays.
    '29 Oct 2021',
    '29 October 2021 00:00:00',
    'October 29, 2021',
    'Oct. 29, 2021, 12:00 am',
    'Friday, 29-Oct-21 00:00:00 GMT',
    '29/Oct/2021:02:00:00 +0200',
    'Fri Oct 29 00:00:00 2021',
    'Fri Oct 29 00:00:00 UTC 2021',
    'Fri Oct 29 02:00:00 +0200 2021',
    '29th of October 2021',
    'Oct 29, 2021 at 12:00 AM',
    'Oct 29, 21',
    'oct. 29, 21 12:00 am',
    'Oct 29, 21, 0:00',
    'Oct 29, 21 at 12:00 AM',
    '2021-10-29 00:00:00 UTC (Coordinated Universal Time)',
    '2021-10-28 18:00:00 CST (Central Standard Time)',
    '2021-10-28 20:00:00 EDT (US Eastern Daylight Time)',
    '2021-10-28 16:00:00 pst (pacific time)',
    '2021-10-28 18:00:00 MDT [America/Denver]',
    '2021-10-28 18:00:00 CST [America/Indiana/Knox]',
    '2021-10-28 16:00:00 PST [US/Pacific]',
    '2021-10-29T00:00:00Z[UTC]',
    '2021-10-29 00:00:00 GMT [Europe/London]',
    '2021-10-29 02:00:00 CEST [Europe/Berlin]',
    '2021-10-29 02:00:00 CEST (Central European Summer Time)',
    '2021-10-29 00:00:00 UTC (GMT)',
    '2021-10-29 00:00:00 UTC (server)',
    '2021年10月29日',
    '2021年10月29日00时00分00秒',
    '2021年10月29日 0時0分',
    '2021年10月29日 00:00:00',
    '2021-Oct-29',
    '1635465600.5',
    '1635465600000.257',
    1635465600.257,
    1635465600000.9,
  ]
  const differences = new Differences()
  for (const form of forms) {
    const ms = parseTimestamp(form)
    differences.equal(ms === null ? null : ms - (ms % 1000), MIDNIGHT, String(form))
  }
  t.strictSame(differences.list(), [], 'every form is the same second')
  t.equal(parseTimestamp('2021-10-28T23:59:60Z'), MIDNIGHT, 'a leap second is accepted')
  t.equal(parseTimestamp('2021-10-28 23:59:60.5+00:00'), MIDNIGHT + 500)
  t.equal(parseTimestamp('2021-10-29 00:00:00.2575 +0000'), MIDNIGHT + 257)
  t.equal(parseTimestamp(1635465600.257), MIDNIGHT + 257)
  for (const form of [
    '2021-10-28T24:00:00Z',
    '2021-10-28 24:00',
    '2021-10-28T24:00:00.000+00:00',
  ]) {
    t.equal(parseTimestamp(form), MIDNIGHT, `${form} is the end of the day`)
  }
  for (const form of [' 1635465600', '1635465600000 ', '\t1635465600000000', '1635465600000.9']) {
    t.equal(parseTimestamp(form), MIDNIGHT, form)
  }
  t.equal(parseTimestamp('5/1/2024 1:30 PM'), Date.UTC(2024, 4, 1, 13, 30))
  t.equal(parseTimestamp('2024-2-9'), Date.UTC(2024, 1, 9))
  t.equal(parseTimestamp('Wed May  1 12:30:05 2024'), Date.UTC(2024, 4, 1, 12, 30, 5))
})

t.test('a text without a zone is in the time zone that the caller names', async (t) => {
  const hourEast = (wallMs: number): number => wallMs - HOUR
  for (const form of ['2021-10-29', '2021-10-29T00:00', '10/29/2021', '29 Oct 2021 00:00:00']) {
    t.equal(parseTimeText(form, hourEast), MIDNIGHT - HOUR, form)
  }
  for (const form of ['2021-10-29T00:00:00Z', '2021-10-29 00:00:00 UTC', '29 Oct 2021 00:00 GMT']) {
    t.equal(parseTimeText(form, hourEast), MIDNIGHT, form)
  }
  t.equal(parseTimeText('1635465600', hourEast), null, 'plain digits are not a time text')
  t.equal(parseTimeText('2021-02-30', hourEast), null)
})

t.test('digits beyond milliseconds are cut', async (t) => {
  const differences = new Differences()
  for (let ms = 0; ms < 1000; ms++) {
    const nanoseconds = Number(`${MIDNIGHT + ms}000000`)
    differences.equal(parseTimestamp(nanoseconds), MIDNIGHT + ms, `${ms} ms as nanoseconds`)
    const seconds = Number(`1635465600.${String(ms).padStart(3, '0')}`)
    differences.equal(parseTimestamp(seconds), MIDNIGHT + ms, `${ms} ms as seconds`)
  }
  t.strictSame(differences.list(), [], 'a number that is beyond 2^53 keeps its millisecond')
  // 512 nanoseconds before the millisecond, as near to it as a number that is rounded to another one can be.
  t.equal(parseTimestamp(Number('1635465600123999600')), MIDNIGHT + 123)
  t.equal(parseTimestamp('1635465600123999600'), MIDNIGHT + 123)
  t.equal(parseTimestamp('2021-10-29T00:00:00.1'), MIDNIGHT + 100)
  t.equal(parseTimestamp('2021-10-29T00:00:00.123999Z'), MIDNIGHT + 123)
  t.equal(parseTimestamp('1969-12-31T23:59:59.9999Z'), -1)
})

t.test('an invalid time is refused', async (t) => {
  const values: unknown[] = [
    '',
    ' ',
    'notISO',
    '2024-02-30',
    '2023-02-29',
    '1900-02-29',
    '2021-13-01',
    '2021-00-10',
    '2021-10-00',
    '2021-366',
    '2021-000',
    '2021-W53-1',
    '2021-W00-1',
    '2021-W43-8',
    '2021-W43',
    '2021-10-29T24:00:01Z',
    '2021-10-29T24:01Z',
    '2021-10-29T24:00:00.001Z',
    '2021-10-29T25:00Z',
    '2021-10-29T00:60:00Z',
    '2021-10-29T00:00:61Z',
    '2021-10-29T',
    '2021-10-29T00',
    '2021-10-29T00:00:00.Z',
    '2021-10-29 00:00:00.x',
    '2021-10-29-00:00:00',
    '29/10/2021',
    '29.10.2021',
    '10-29-2021',
    '2/30/2021',
    '2021/13/01',
    '2021-10/29',
    '10/2021',
    '29 Okt 2021',
    'October 2021',
    '32 Oct 2021',
    '31 Sept 2021',
    '29 Oct 2021 13:00 PM',
    '29Oct2021',
    '2021-10-29 00:00:00 IST',
    '2021-10-29 00:00:00 Mars',
    '2021-10-29 00:00:00 +2',
    'UTC',
    '2021-10-29 00:00:00 UTC UTC UTC',
    // Without an offset, a remark may name another zone than the name before it.
    '2021-10-29 00:00:00 CST (UTC+8)',
    '2021-10-29 00:00:00 CST (中国标准时间)',
    '2021-10-29 00:00:00 CST (China Standard Time)',
    '2021-10-29 00:00:00 CST [Asia/Shanghai]',
    '2021-10-29 00:00:00 CST [America/Havana]',
    '2021-10-29 00:00:00 EST [America/Los_Angeles]',
    '2021-10-29 00:00:00 EST [America/Indiana/Knox]',
    '2021-10-29 00:00:00 PDT [US/Eastern]',
    '2021-10-29 00:00:00 MST [America/Nowhere]',
    '2021-10-29 00:00:00 UTC [Asia/Shanghai]',
    '2021-10-29T00:00:00Z[America/New_York]',
    '2021-10-29 00:00:00 CET [Asia/Tokyo]',
    '2021-10-29 00:00:00 UTC (China Standard Time)',
    '2021-10-29 00:00:00 GMT (British Summer Time)',
    '2021-10-29 00:00:00 UTC (EST)',
    '2021-10-29 00:00:00 GMT (BST)',
    'Fri Oct 29 2021 00:00:00 EST (Australian Eastern Standard Time)',
    '2021-10-29 00:00:00 EST (Central Standard Time)',
    '2021-10-29 00:00:00 PST (Pacific Daylight Time)',
    '2021-10-29 00:00:00 GMT (UTC+2)',
    '2021-10-29 00:00:00 UTC (12:30:05)',
    // The last two digits may be an hour.
    'Oct 29, 12 UTC',
    'Oct 29, 21 +00:00',
    'Thursday, 29-Oct-21 00:00:00 GMT',
    '2021-10-29 0:0',
    '2021-10-29 00:00:00 +25:00',
    'Fri Oct 29 00:00:00 UTC 2021 +0100',
    `2021/10/29${' '.repeat(120)}`,
    '2021-10-29T00:00:00+24',
    '2021-10-29T00:00:00+1',
    '2021-10-29T00:00:00+01:60',
    '2021-10-29T00:00:00ZZ',
    '2021-10-29x00:00',
    '20211029',
    '+2021-10-29',
    'Thu, 29 Oct 2021 00:00:00 +0000',
    '30 Feb 2021 00:00 GMT',
    '29 Oct 2021 00:00 XYZ',
    '163546560000x',
    '-1635465600',
    '12345',
    '99999999999999999999',
    0,
    1,
    -1635465600,
    163546560.5,
    Number.POSITIVE_INFINITY,
    true,
    null,
    undefined,
    {},
    [],
  ]
  const differences = new Differences()
  for (const value of values) {
    differences.equal(parseTimestamp(value), null, JSON.stringify(value) ?? 'none')
  }
  t.strictSame(differences.list(), [], 'every value is refused')
})

t.test('leap years and 53rd weeks', async (t) => {
  t.equal(parseTimestamp('2000-02-29'), Date.UTC(2000, 1, 29))
  t.equal(parseTimestamp('2024-366'), Date.UTC(2024, 11, 31))
  t.equal(parseTimestamp('2020-W53-7'), Date.UTC(2021, 0, 3))
  t.equal(parseTimestamp('2019-W01-1'), Date.UTC(2018, 11, 31))
  t.equal(parseTimestamp('0000-01-01'), MOMENT_MS_MIN)
  t.equal(parseTimestamp('9999-12-31T23:59:59.999Z'), MOMENT_MS_MAX)
})

t.test('every ISO text that JavaScript prints is read as JavaScript reads it', async () => {
  fc.assert(
    fc.property(fc.integer({ min: MOMENT_MS_MIN, max: MOMENT_MS_MAX }), (ms) => {
      const text = new Date(ms).toISOString()
      const isUsualFormRead = parseTimestamp(text) === ms
      const isGeneralRead = parseTimestamp(text.replace('T', ' ').replace('Z', '+00:00')) === ms
      return isUsualFormRead && isGeneralRead
    }),
    runsOf(2000),
  )
})

t.test('HTTP dates are RFC 2822 dates', async () => {
  const seconds = fc.integer({ min: -30_000_000_000, max: 250_000_000_000 })
  fc.assert(
    fc.property(seconds, (second) => {
      return parseTimestamp(new Date(second * 1000).toUTCString()) === second * 1000
    }),
    runsOf(100),
  )
})

t.test('any text is a time within four-digit years, or refused', async () => {
  const unit = fc.constantFrom(...'0123456789-:.TZW+ ,GMTOctFri')
  fc.assert(
    fc.property(fc.string({ unit, maxLength: 32 }), (text) => {
      const ms = parseTimestamp(text)
      return ms === null || (Number.isInteger(ms) && ms >= MOMENT_MS_MIN && ms <= MOMENT_MS_MAX)
    }),
    runsOf(3000),
  )
})

t.test('sent_at: digits are milliseconds or seconds, unset clocks are ignored', async (t) => {
  t.equal(parseSentAt('1705323600000'), 1705323600000)
  t.equal(parseSentAt('1705323600'), 1705323600000)
  t.equal(parseSentAt(1705323600000), 1705323600000)
  t.equal(parseSentAt('2024-01-15T13:00:00Z'), NOW + HOUR)
  t.equal(parseSentAt('2001-01-01T00:00:00Z'), Date.UTC(2001, 0, 1))
  for (const value of ['2000-12-31T23:59:59Z', '1970-01-01', 'invalid', '17', '', {}, true, 1e16]) {
    t.equal(parseSentAt(value), null, JSON.stringify(value))
  }
})

t.test('sent_at of a request: the first place that has one decides', async (t) => {
  const valid = { sentAtMs: 1705323600000, isSentAtInvalid: false }
  t.same(requestSentAt('1705323600', '1', '2', '3'), valid)
  t.same(requestSentAt(null, '1705323600', '2', '3'), valid)
  t.same(requestSentAt('', '', '1705323600', '3'), valid)
  t.same(requestSentAt(undefined, undefined, undefined, '1705323600'), valid)
  t.same(requestSentAt('bad', '1705323600', undefined, undefined), {
    sentAtMs: null,
    isSentAtInvalid: true,
  })
  t.same(requestSentAt(undefined, undefined, '', undefined), {
    sentAtMs: null,
    isSentAtInvalid: false,
  })
})

function timeOf(
  event: JsonObject,
  sentAt: string | null = null,
  isSentAtInvalid = false,
): { iso: string; warnings: string[] } {
  const context: EventContext = {
    arrivedAtMs: NOW,
    sentAtMs: sentAt === null ? null : parseSentAt(sentAt),
    isSentAtInvalid,
    ip: '',
    isIpAnonymized: false,
    isHistorical: false,
    propertiesBytesMax: 0,
    aiPropertiesBytesMax: 0,
  }
  const properties = (event['properties'] ?? {}) as JsonObject
  const { timestampMs, warnings } = eventTime(event, properties, context)
  return {
    iso: new Date(timestampMs).toISOString().slice(0, 19),
    warnings: warnings.map((warning) => warning.type),
  }
}

t.test('the algorithm computes every row of the table', async (t) => {
  const iso = (event: JsonObject, sentAt: string | null = null): string => timeOf(event, sentAt).iso
  const now = '2024-01-15T12:00:00'
  t.equal(iso({}), now)
  t.equal(iso({ timestamp: '2024-01-15T12:59:30Z' }, '2024-01-15T13:00:00Z'), '2024-01-15T11:59:30')
  t.equal(iso({ timestamp: '2023-01-01', offset: 6000 }), '2024-01-15T11:59:54')
  t.equal(iso({ offset: 6000.9 }, '2024-01-15T13:00:00Z'), '2024-01-15T11:59:54')
  t.equal(iso({ offset: '6000' }), now, 'an offset that is not a number is ignored')
  t.equal(iso({ timestamp: '1850-01-01' }), '1850-01-01T00:00:00', 'there is no lower limit')
  const ignoring = { timestamp: '2024-01-15T11:50:00Z', properties: { $ignore_sent_at: true } }
  t.equal(iso(ignoring, '2024-01-15T13:00:00Z'), '2024-01-15T11:50:00')
  const own = { timestamp: '2024-01-15T12:50:00Z', sent_at: '2024-01-15T13:00:00Z' }
  t.equal(iso(own), '2024-01-15T11:50:00')
  t.equal(iso(own, '2024-01-15T14:00:00Z'), '2024-01-15T10:50:00', 'the value of the request wins')
})

t.test('invalid and future times fall back to the arrival time with a warning', async (t) => {
  const now = '2024-01-15T12:00:00'
  const invalid = { iso: now, warnings: ['ignored_invalid_timestamp'] }
  const future = { iso: now, warnings: ['event_timestamp_in_future'] }
  t.same(timeOf({ timestamp: 'notISO' }), invalid)
  t.same(timeOf({ timestamp: {} }), invalid)
  t.same(timeOf({ timestamp: '' }), { iso: now, warnings: [] })
  t.same(timeOf({ sent_at: 'x' }), invalid)
  t.same(timeOf({}, null, true), invalid)
  t.same(timeOf({ timestamp: NOW + 23 * HOUR }), { iso: '2024-01-16T11:00:00', warnings: [] })
  t.same(timeOf({ timestamp: NOW + 23 * HOUR + 1 }), future)
  t.same(timeOf({ timestamp: NOW }, '2024-01-14T12:00:00Z'), future, 'a client clock a day behind')
  t.same(timeOf({ offset: -(23 * HOUR + 1) }), future)
  t.same(timeOf({ offset: 1e300 }), invalid)
})

t.test('the shared ISO text equals its time', async (t) => {
  for (const ms of [NOW, NOW, NOW + 1, NOW]) t.equal(sharedIsoText(ms), new Date(ms).toISOString())
})

t.test('the common form is read from bytes as from a text', async (t) => {
  const usual = fc
    .date({ min: new Date(MOMENT_MS_MIN), max: new Date(MOMENT_MS_MAX), noInvalidDate: true })
    .map((date) => date.toISOString())
  const near = fc
    .tuple(usual, fc.nat(23), fc.constantFrom(...'0123456789-:.TZ /'))
    .map(([text, at, unit]) => text.slice(0, at) + unit + text.slice(at + 1))
  const differences = new Differences()
  fc.assert(
    fc.property(fc.oneof(usual, near), (text) => {
      const ms = usualMomentAt(Buffer.from(`"${text}"`), 1)
      // Other forms of that length are left to the text parser.
      if (!Number.isNaN(ms)) differences.equal(ms, parseTimestamp(text), text)
      else {
        const isUsual = text === new Date(parseTimestamp(text) ?? 0).toISOString()
        differences.equal(isUsual, false, `${text} has the common form`)
      }
    }),
    runsOf(3000),
  )
  t.strictSame(differences.list(), [], 'exactly the usual form is read, as the same moment')
})
