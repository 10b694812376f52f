/**
 * Tests how rows of Umami's tables become events: each column, each event type, and the data that is left out.
 *
 * @lane quick
 */
import t from 'tap'
import { isSessionId } from '../../../src/rules/analytics/session-id.ts'
import { umamiEvent, umamiEventData } from '../../../src/rules/capture/umami-row.ts'

const ROW = {
  website_id: '1e4b8a35-0a5c-4a3e-9c11-4a54f4a3c001',
  session_id: '5b0d24a0-3f3f-5b3f-8a0e-2f2f9d1a7c11',
  visit_id: '9c0f6f52-57a1-5a0e-9c80-0d6f6a5a2b33',
  event_id: 'c2d1f0de-6f0a-4a6e-8f3f-6d7f1c1e0a01',
  hostname: 'example.com',
  browser: 'edge-chromium',
  os: 'Windows 10',
  device: 'laptop',
  screen: '1440x900',
  language: 'de-DE',
  country: 'DE',
  region: 'DE-BE',
  city: 'Berlin',
  url_path: '/pricing',
  url_query: 'utm_source=letter&gclid=abc',
  referrer_path: '/search',
  referrer_query: 'q=a',
  referrer_domain: 'duckduckgo.com',
  page_title: 'Prices, all of them',
  event_type: '1',
  created_at: '2026-03-01 10:00:00',
}

function eventOf(changes: Readonly<Record<string, string>>, data = {}) {
  return umamiEvent(new Map(Object.entries({ ...ROW, ...changes })), data)
}

function propertiesOf(changes: Readonly<Record<string, string>>, data = {}) {
  const event = eventOf(changes, data)
  if (typeof event === 'string') throw new Error(event)
  return event['properties'] as Readonly<Record<string, unknown>>
}

t.test('a page view has the properties that posthog-js would have sent', async (t) => {
  const { properties, ...event } = eventOf({}) as Record<string, unknown>
  const { $session_id: session, ...rest } = properties as Record<string, unknown>
  t.strictSame(event, {
    uuid: ROW.event_id,
    event: '$pageview',
    distinct_id: ROW.session_id,
    timestamp: '2026-03-01T10:00:00.000Z',
  })
  t.ok(isSessionId(session))
  t.strictSame(rest, {
    $lib: 'umami',
    $geoip_disable: true,
    $pathname: '/pricing',
    $host: 'example.com',
    $current_url: 'https://example.com/pricing?utm_source=letter&gclid=abc',
    $referrer: 'https://duckduckgo.com/search?q=a',
    $referring_domain: 'duckduckgo.com',
    utm_source: 'letter',
    gclid: 'abc',
    title: 'Prices, all of them',
    $browser_language: 'de-DE',
    $geoip_country_code: 'DE',
    $geoip_city_name: 'Berlin',
    $browser: 'Microsoft Edge',
    $device_type: 'Desktop',
    $os: 'Windows',
    $os_version: '10',
    $geoip_subdivision_1_code: 'BE',
    $screen_width: 1440,
    $screen_height: 900,
  })
})

t.test('all rows of a visit share one session, and another visit has another', async (t) => {
  const first = propertiesOf({})['$session_id']
  const later = {
    event_id: 'c2d1f0de-6f0a-4a6e-8f3f-6d7f1c1e0a02',
    created_at: '2026-03-02 10:00:00',
  }
  t.equal(propertiesOf(later)['$session_id'], first)
  const other = propertiesOf({ visit_id: ROW.session_id })['$session_id']
  t.not(other, first)
  t.ok(isSessionId(other))
  t.equal(propertiesOf({ visit_id: '' })['$session_id'], other, 'older tables have no visits')
})

t.test('an identified visitor has that name, others have their visitor id', async (t) => {
  t.equal((eventOf({ distinct_id: 'user-7' }) as Record<string, unknown>)['distinct_id'], 'user-7')
  t.equal((eventOf({ distinct_id: '' }) as Record<string, unknown>)['distinct_id'], ROW.session_id)
})

t.test('a column wins over the parameter of the same name, and NULL is ignored', async (t) => {
  t.equal(propertiesOf({ utm_source: 'column' })['utm_source'], 'column')
  const empty = propertiesOf({ city: '\\N', referrer_domain: '', hostname: '', screen: 'x' })
  for (const name of ['$geoip_city_name', '$host', '$current_url', '$screen_width']) {
    t.notOk(name in empty, name)
  }
  t.equal(empty['$referrer'], '$direct')
  t.equal(empty['$referring_domain'], '$direct')
})

t.test('events carry their data, which does not replace their own properties', async (t) => {
  const custom = { event_type: '2', event_name: 'signed up' }
  const properties = propertiesOf(custom, { plan: 'free', $lib: 'mine' })
  t.equal((eventOf(custom) as Record<string, unknown>)['event'], 'signed up')
  t.equal(properties['plan'], 'free')
  t.equal(properties['$lib'], 'umami')
  t.match(propertiesOf({ event_type: '5', lcp: '1200.5', cls: '0.01', ttfb: '80' }), {
    $web_vitals_LCP_value: 1200.5,
    $web_vitals_CLS_value: 0.01,
  })
})

t.test('event data may be texts, numbers, booleans and times', async (t) => {
  const cases = [
    [{ data_type: '1', string_value: '12' }, '12'],
    [{ data_type: '2', string_value: '12', number_value: '12.0000' }, 12],
    [{ data_type: '3', string_value: 'true' }, true],
    [{ data_type: '3', string_value: 'false' }, false],
    [{ data_type: '4', date_value: '2026-03-01 10:00:00' }, '2026-03-01 10:00:00'],
    [{ data_type: '5', string_value: '["a",1,true]' }, ['a', 1, true]],
    [{ data_type: '5', string_value: '["a' }, '["a'],
  ] as const
  for (const [columns, expected] of cases) {
    const row = new Map(Object.entries({ event_id: 'e', data_key: 'k', ...columns }))
    t.strictSame(umamiEventData(row), ['e', 'k', expected])
  }
  const selfHosted = new Map([
    ['website_event_id', 'e'],
    ['data_key', 'k'],
  ])
  t.equal(umamiEventData(selfHosted)[0], 'e')
  const reasonOf = (columns: Readonly<Record<string, string>>) =>
    umamiEventData(new Map(Object.entries({ event_id: 'e', data_key: 'k', ...columns })))
  t.equal(reasonOf({ event_id: '' }), 'it has no event_id')
  t.equal(reasonOf({ data_key: 'NULL' }), 'it has no data_key')
  t.equal(reasonOf({ data_type: '2', number_value: '1,5' }), 'number_value is not a number')
})

t.test('times are read with and without an offset', async (t) => {
  const cases = [
    ['2026-03-01T10:00:00.123Z', '2026-03-01T10:00:00.123Z'],
    ['2026-03-01 10:00:00.123+00', '2026-03-01T10:00:00.123Z'],
    ['1772359200', '2026-03-01T10:00:00.000Z'],
    ['2026-03-01 10:00:00 UTC', '2026-03-01T10:00:00.000Z'],
    ['2026-03-01 10:00:00-0330', '2026-03-01T13:30:00.000Z'],
  ] as const
  for (const [given, expected] of cases) {
    t.match(eventOf({ created_at: given }), { timestamp: expected })
  }
})

t.test('a row that is not an event is refused with a reason', async (t) => {
  t.match(eventOf({ event_id: '7' }), /event_id is not a UUID/)
  t.match(eventOf({ session_id: '' }), /no session_id/)
  t.match(eventOf({ created_at: 'yesterday' }), /created_at is not a time/)
  t.match(eventOf({ event_type: '3' }), /event_type 3 is not supported/)
  t.match(eventOf({ event_type: '2', event_name: '' }), /event_type 2 is not supported/)
})
