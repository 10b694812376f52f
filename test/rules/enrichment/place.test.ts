/**
 * Tests how records of GeoIP databases become properties of events and persons.
 *
 * @lane quick
 */
import t from 'tap'
import { PLACE_TEXT_UNITS_MAX } from '../../../src/rules/enrichment/limits.ts'
import { placeOf } from '../../../src/rules/enrichment/place.ts'

const CITY = {
  city: { names: { en: 'Linköping', de: 'Linköping' }, geoname_id: 2694762 },
  continent: { code: 'EU', names: { en: 'Europe' } },
  country: { iso_code: 'SE', names: { en: 'Sweden', fr: 'Suède' } },
  location: {
    accuracy_radius: 76,
    latitude: 58.4167,
    longitude: 15.6167,
    time_zone: 'Europe/Stockholm',
  },
  postal: { code: '582 22' },
  subdivisions: [{ iso_code: 'E', names: { en: 'Östergötland County' } }],
}

t.test('an event gets the fields of the database record, with English names', async (t) => {
  t.strictSame(placeOf(CITY)?.event, {
    $geoip_city_name: 'Linköping',
    $geoip_country_name: 'Sweden',
    $geoip_country_code: 'SE',
    $geoip_continent_name: 'Europe',
    $geoip_continent_code: 'EU',
    $geoip_postal_code: '582 22',
    $geoip_latitude: 58.4167,
    $geoip_longitude: 15.6167,
    $geoip_accuracy_radius: 76,
    $geoip_time_zone: 'Europe/Stockholm',
    $geoip_subdivision_1_code: 'E',
    $geoip_subdivision_1_name: 'Östergötland County',
  })
})

t.test('a person loses the properties that the new place does not have', async (t) => {
  const place = placeOf({ country: { iso_code: 'SE' } })
  t.strictSame(place?.event, { $geoip_country_code: 'SE' })
  t.strictSame(place?.set, {
    $geoip_city_name: null,
    $geoip_city_confidence: null,
    $geoip_subdivision_2_name: null,
    $geoip_subdivision_2_code: null,
    $geoip_subdivision_1_name: null,
    $geoip_subdivision_1_code: null,
    $geoip_country_name: null,
    $geoip_country_code: 'SE',
    $geoip_continent_name: null,
    $geoip_continent_code: null,
    $geoip_postal_code: null,
    $geoip_latitude: null,
    $geoip_longitude: null,
    $geoip_accuracy_radius: null,
    $geoip_time_zone: null,
  })
  const initial = Object.entries(place?.set ?? {}).map(([name, value]) => [
    name.replace('$', '$initial_'),
    value,
  ])
  t.strictSame(place?.setOnce, Object.fromEntries(initial))
})

t.test('subdivisions are counted from the largest, four at most', async (t) => {
  const subdivisions = ['A', 'B', 'C', 'D', 'E'].map((code) => ({ iso_code: code }))
  const event = placeOf({ subdivisions })?.event ?? {}
  t.strictSame(
    Object.keys(event),
    [1, 2, 3, 4].map((n) => `$geoip_subdivision_${n}_code`),
  )
})

t.test('a record that describes no place adds nothing', async (t) => {
  const records = [
    null,
    undefined,
    7,
    'x',
    [],
    {},
    { city: 7 },
    { city: { names: ['en'] } },
    { country: { iso_code: '' } },
    { location: { latitude: Number.NaN } },
    { country: { iso_code: 'x'.repeat(PLACE_TEXT_UNITS_MAX + 1) }, subdivisions: 'x' },
    { autonomous_system_number: 1 },
    Object.create({ country: { iso_code: 'SE' } }),
  ]
  for (const record of records) t.equal(placeOf(record), null)
})

t.test('the reported growth of an event is the number of added bytes', async (t) => {
  const place = placeOf(CITY)
  const parts = [place?.event, place?.set, place?.setOnce].map((part) => JSON.stringify(part))
  const bytes = Buffer.byteLength(parts.join(''))
  t.ok(place !== null && place.bytes >= bytes && place.bytes < bytes + 10)
})
