/**
 * The names that the console shows for events, properties and values.
 *
 * @lane quick
 */
import t from 'tap'
import {
  counted,
  eventLabel,
  isTechnical,
  propertyLabel,
  valueLabel,
} from '../../src/console/base/labels.ts'

t.test('events of SDKs have names, and events of users keep theirs', (t) => {
  t.equal(eventLabel('$pageview'), 'Pageview')
  t.equal(eventLabel('$autocapture'), 'Click')
  for (const own of ['signed up', '$own', '', 'constructor', '__proto__', 'toString'])
    t.equal(eventLabel(own), own)
  t.end()
})

t.test('properties of SDKs have names, also the first value of each', (t) => {
  t.equal(propertyLabel('$geoip_country_code'), 'Country')
  t.equal(propertyLabel('$current_url'), 'Page URL')
  t.equal(propertyLabel('$channel_type'), 'Channel')
  t.equal(propertyLabel('$initial_browser'), 'First browser')
  t.equal(propertyLabel('$initial_utm_source'), 'First UTM source')
  t.equal(propertyLabel('$initial_gclid'), 'First Google click ID')
  for (const own of ['plan', '$initial_', '$initial_plan', 'constructor', '$initial_constructor'])
    t.equal(propertyLabel(own), own)
  t.ok(isTechnical('$initial_browser') && isTechnical('utm_source') && isTechnical('gclid'))
  t.notOk(isTechnical('plan') || isTechnical('email'))
  t.end()
})

t.test('countries and languages are shown by their names', (t) => {
  t.equal(valueLabel('$geoip_country_code', 'DE'), '🇩🇪 Germany')
  t.equal(valueLabel('$initial_geoip_country_code', 'BR'), '🇧🇷 Brazil')
  t.equal(valueLabel('$browser_language', 'en-US'), 'English (United States)')
  for (const [key, value] of [
    ['$geoip_country_code', 'de'],
    ['$geoip_country_code', 'D3'],
    ['$geoip_country_code', 'XQ'],
    ['$geoip_country_code', 49],
    ['$browser_language', 'not a language!'],
    ['$browser', 'DE'],
  ] as const)
    t.equal(valueLabel(key, value), null, `${key} ${value}`)
  t.end()
})

t.test('numbers agree with their nouns', (t) => {
  t.equal(counted(1, 'person'), '1 person')
  t.equal(counted(0, 'person'), '0 persons')
  t.equal(counted(12_345, 'company', 'companies'), '12,345 companies')
  t.end()
})
