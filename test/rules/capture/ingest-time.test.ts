/**
 * Moments as clients write them, and when an event happened.
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
} from '../../../src/rules/capture/time.ts'
import {
  MOMENT_MS_MAX,
  MOMENT_MS_MIN,
  parseTimestamp,
  usualMomentAt,
} from '../../../src/rules/capture/timestamp.ts'
import type { EventContext } from '../../../src/rules/capture/types.ts'
import { Differences } from '../../fixtures/differences.ts'

const MIDNIGHT = Date.UTC(2021, 9, 29)
const NOW = Date.UTC(2024, 0, 15, 12)
const HOUR = 3_600_000

t.test('every accepted form of one moment', async (t) => {
  const forms = [
    ...['2021-10-29', '2021-10-29 00:00', '2021-10-29T00:00:00', '2021-10-29 00:00:00.000000'],
    ...['2021-10-29T00:00:00.000Z', '2021-10-29t00:00:00z', '2021-10-29 00:00:00+00:00'],
    ...['2021-10-29T00:00:00.000-00:00', '2021-10-29T02:00:00+02', '2021-10-28T22:30:00-0130'],
    ...['2021-10-29T05:30:00.000000000+05:30', '2021-W43-5', '2021-302', '2021-302T00:00:00Z'],
    ...['Fri, 29 Oct 2021 00:00:00 +0000', '29 Oct 2021 00:00 GMT', '28 oct 21 20:00:00 EDT'],
    ...['Fri, 29 Oct 2021 00:00:00 +0000 (UTC)', '1635465600', '1635465600000'],
    ...['1635465600000999', '1635465600000999999'],
    ...[1635465600, 1635465600000, 1635465600000999, 1635465600000000000],
  ]
  const differences = new Differences()
  for (const form of forms) differences.equal(parseTimestamp(form), MIDNIGHT, String(form))
  t.strictSame(differences.list(), [], 'every form is the same moment')
})

t.test('digits beyond milliseconds are cut', async (t) => {
  t.equal(parseTimestamp('2021-10-29T00:00:00.1'), MIDNIGHT + 100)
  t.equal(parseTimestamp('2021-10-29T00:00:00.123999Z'), MIDNIGHT + 123)
  t.equal(parseTimestamp('1969-12-31T23:59:59.9999Z'), -1)
})

t.test('what is no moment is refused', async (t) => {
  const values: unknown[] = [
    ...['', ' ', 'notISO', '2024-02-30', '2023-02-29', '1900-02-29', '2021-13-01', '2021-00-10'],
    ...['2021-10-00', '2021-366', '2021-000', '2021-W53-1', '2021-W00-1', '2021-W43-8', '2021-W43'],
    ...['2021-10-29T24:00:00Z', '2021-10-29T00:60:00Z', '2021-10-29T00:00:60Z', '2021-10-29T'],
    ...['2021-10-29T00', '2021-10-29T00:00:00.Z', '2021-10-29T00:00:00.1234567890Z'],
    ...['2021-10-29T00:00:00+24', '2021-10-29T00:00:00+1', '2021-10-29T00:00:00+01:60'],
    ...['2021-10-29T00:00:00ZZ', '2021-10-29x00:00', '20211029', '2021/10/29', '+2021-10-29'],
    ...['Thu, 29 Oct 2021 00:00:00 +0000', '30 Feb 2021 00:00 GMT', '29 Oct 2021 00:00 XYZ'],
    ...['163546560000x', '-1635465600', '12345', '99999999999999999999'],
    ...[0, 1, -1635465600, 1635465600.5, Number.POSITIVE_INFINITY, true, null, undefined, {}, []],
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

t.test('every ISO text of JavaScript is read as JavaScript reads it', async () => {
  fc.assert(
    fc.property(fc.integer({ min: MOMENT_MS_MIN, max: MOMENT_MS_MAX }), (ms) => {
      const text = new Date(ms).toISOString()
      const isUsualFormRead = parseTimestamp(text) === ms
      const isGeneralRead = parseTimestamp(text.replace('T', ' ').replace('Z', '+00:00')) === ms
      return isUsualFormRead && isGeneralRead
    }),
    { numRuns: 2000 },
  )
})

t.test('HTTP dates are RFC 2822 dates', async () => {
  const seconds = fc.integer({ min: -30_000_000_000, max: 250_000_000_000 })
  fc.assert(
    fc.property(seconds, (second) => {
      return parseTimestamp(new Date(second * 1000).toUTCString()) === second * 1000
    }),
  )
})

t.test('any text is a moment within four-digit years, or none', async () => {
  const unit = fc.constantFrom(...'0123456789-:.TZW+ ,GMTOctFri')
  fc.assert(
    fc.property(fc.string({ unit, maxLength: 32 }), (text) => {
      const ms = parseTimestamp(text)
      return ms === null || (Number.isInteger(ms) && ms >= MOMENT_MS_MIN && ms <= MOMENT_MS_MAX)
    }),
    { numRuns: 3000 },
  )
})

t.test(
  'sent_at: digits are milliseconds or seconds, clocks that were never set are ignored',
  async (t) => {
    t.equal(parseSentAt('1705323600000'), 1705323600000)
    t.equal(parseSentAt('1705323600'), 1705323600000)
    t.equal(parseSentAt(1705323600000), 1705323600000)
    t.equal(parseSentAt('2024-01-15T13:00:00Z'), NOW + HOUR)
    t.equal(parseSentAt('2001-01-01T00:00:00Z'), Date.UTC(2001, 0, 1))
    for (const value of [
      '2000-12-31T23:59:59Z',
      '1970-01-01',
      'invalid',
      '17',
      '',
      {},
      true,
      1e16,
    ]) {
      t.equal(parseSentAt(value), null, JSON.stringify(value))
    }
  },
)

t.test('sent_at of a request: the first place that gives one decides', async (t) => {
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
  }
  const properties = (event['properties'] ?? {}) as JsonObject
  const { timestampMs, warnings } = eventTime(event, properties, context)
  return {
    iso: new Date(timestampMs).toISOString().slice(0, 19),
    warnings: warnings.map((warning) => warning.type),
  }
}

t.test('the algorithm, row by row', async (t) => {
  const iso = (event: JsonObject, sentAt: string | null = null): string => timeOf(event, sentAt).iso
  const now = '2024-01-15T12:00:00'
  t.equal(iso({}), now)
  t.equal(iso({ timestamp: '2024-01-15T12:59:30Z' }, '2024-01-15T13:00:00Z'), '2024-01-15T11:59:30')
  t.equal(iso({ timestamp: '2023-01-01', offset: 6000 }), '2024-01-15T11:59:54')
  t.equal(iso({ offset: 6000.9 }, '2024-01-15T13:00:00Z'), '2024-01-15T11:59:54')
  t.equal(iso({ offset: '6000' }), now, 'an offset that is no number is ignored')
  t.equal(iso({ timestamp: '1850-01-01' }), '1850-01-01T00:00:00', 'no lower limit')
  const ignoring = { timestamp: '2024-01-15T11:50:00Z', properties: { $ignore_sent_at: true } }
  t.equal(iso(ignoring, '2024-01-15T13:00:00Z'), '2024-01-15T11:50:00')
  const own = { timestamp: '2024-01-15T12:50:00Z', sent_at: '2024-01-15T13:00:00Z' }
  t.equal(iso(own), '2024-01-15T11:50:00')
  t.equal(
    iso(own, '2024-01-15T14:00:00Z'),
    '2024-01-15T10:50:00',
    'that of the request is stronger',
  )
})

t.test('invalid and future moments fall back to the arrival with a warning', async (t) => {
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

t.test('the shared ISO text is that of its time', async (t) => {
  for (const ms of [NOW, NOW, NOW + 1, NOW]) t.equal(sharedIsoText(ms), new Date(ms).toISOString())
})

t.test('the usual form is read from bytes as from a text', async (t) => {
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
      // Other forms of that length are left to the reader of texts.
      if (!Number.isNaN(ms)) differences.equal(ms, parseTimestamp(text), text)
      else {
        const isUsual = text === new Date(parseTimestamp(text) ?? 0).toISOString()
        differences.equal(isUsual, false, `${text} is of the usual form`)
      }
    }),
    { numRuns: 3000 },
  )
  t.strictSame(differences.list(), [], 'exactly the usual form is read, as the same moment')
})
