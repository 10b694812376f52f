/**
 * Tests the properties that settings add to events during processing, from the log to the reader.
 *
 * @lane quick
 */
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import t, { type Test } from 'tap'
import type { JsonObject } from '../../src/base/json.ts'
import { EventEnrichment, openEnrichment } from '../../src/engine/processor/event-enrichment.ts'
import type { EnrichmentSettings } from '../../src/engine/threads/tasks.ts'
import { RECORD_HISTORICAL, RECORD_IP_ANONYMIZED } from '../../src/rules/capture/log-block.ts'
import { mmdbOf } from '../fixtures/enrichment/mmdb-writer.ts'
import { closeConnections, send } from '../fixtures/exact-client.ts'
import { startDecisions } from '../fixtures/flags/decision-daemon.ts'
import {
  PersonLog,
  personDigest,
  type SentEvent,
  threadSettings,
} from '../fixtures/persons/person-log.ts'

t.teardown(closeConnections)

/** A folder next to the data directories. */
const FOLDER = t.testdir()
const AT_MS = Date.UTC(2024, 0, 15, 12)
const BOT = 'Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)'
const CHROME =
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Safari/537.36'
const CHROME_TELLS = {
  $browser: 'Chrome',
  $browser_version: 124,
  $os: 'Windows',
  $device_type: 'Desktop',
}
const NOTHING: EnrichmentSettings = {
  isBotTagged: false,
  isUserAgentParsed: false,
  geoIpDatabase: null,
}
/** The address that PersonLog sends from is in Sweden. */
const DATABASE = mmdbOf({
  '203.0.113.0/24': {
    city: { names: { en: 'Linköping' } },
    country: { iso_code: 'SE', names: { en: 'Sweden' } },
  },
  '198.51.100.0/24': { country: { iso_code: 'JP', names: { en: 'Japan' } } },
})
const SWEDISH = {
  $geoip_city_name: 'Linköping',
  $geoip_country_name: 'Sweden',
  $geoip_country_code: 'SE',
}
const SILENT = { info: () => undefined, warn: () => undefined }

function openLog(t: Test, settings: Partial<EnrichmentSettings>): PersonLog {
  const enrichment = new EventEnrichment({ ...NOTHING, ...settings }, SILENT)
  return new PersonLog(t, t.testdir(), { enrichment })
}

/** A log with events that get their places from a small database. */
function openGeoLog(t: Test): PersonLog {
  const dataDir = t.testdir()
  const path = join(dataDir, 'city.mmdb')
  writeFileSync(path, DATABASE)
  const enrichment = new EventEnrichment({ ...NOTHING, geoIpDatabase: path }, SILENT)
  return new PersonLog(t, dataDir, { enrichment })
}

function stored(log: PersonLog, properties: JsonObject, more: SentEvent = {}, flags = 0) {
  log.send(1, [{ event: 'seen', distinct_id: 'ann', properties, ...more }], AT_MS, flags)
  log.process()
  const events = log.reader.listEvents({ projectId: 1, limit: 100 }).results
  const newest = events.toSorted((a, b) => b.id - a.id)[0]
  if (newest === undefined) throw new Error('nothing is stored')
  return newest
}

/** Returns the members of an object with a name prefix. */
function membersOf(value: unknown, prefix: string): JsonObject {
  const entries = Object.entries((value ?? {}) as JsonObject)
  return Object.fromEntries(entries.filter(([name]) => name.startsWith(prefix)))
}

t.test('bots are marked and stored, other events are unchanged', async (t) => {
  const log = openLog(t, { isBotTagged: true })
  const markOf = (properties: JsonObject) => stored(log, properties).properties['$is_bot']
  t.equal(markOf({ $raw_user_agent: BOT }), true)
  t.equal(markOf({ $user_agent: 'curl/8.5.0' }), true)
  t.equal(markOf({ $raw_user_agent: CHROME }), undefined)
  t.equal(markOf({ $raw_user_agent: CHROME, $user_agent: BOT }), undefined, 'the first name counts')
  t.equal(markOf({}), undefined, 'without a user agent there is no mark')
  t.equal(markOf({ $raw_user_agent: '' }), undefined)
  t.equal(
    markOf({ $raw_user_agent: BOT, $is_bot: false }),
    false,
    'the value from the client stays',
  )
  t.equal(markOf({ $raw_user_agent: BOT, $is_bot: null }), null)
  const { properties } = stored(log, { $user_agent: CHROME })
  t.notOk('$browser' in properties, 'no other part is on')
})

t.test('user agents of servers are read, those of browsers are not', async (t) => {
  const log = openLog(t, { isUserAgentParsed: true })
  const event = stored(log, { $user_agent: CHROME, plan: 'pro' })
  t.match(event.properties, { ...CHROME_TELLS, $user_agent: CHROME, plan: 'pro' })
  t.match(event.person?.properties, { $browser: 'Chrome', $initial_os: 'Windows' })
  const told = stored(log, { $raw_user_agent: CHROME, $device_type: 'Fridge' }).properties
  t.notOk('$browser' in told, 'described by its client')
  t.equal(told['$device_type'], 'Fridge')
  const bot = stored(log, { $raw_user_agent: 'curl/8.5.0' }).properties
  t.strictSame(membersOf(bot, '$is_bot'), {}, 'no other part is on')
  t.strictSame(membersOf(bot, '$browser'), {})
})

t.test('events and persons get the location of the address', async (t) => {
  const log = openGeoLog(t)
  const { properties, person } = stored(log, { $set: { plan: 'pro' } })
  t.strictSame(membersOf(properties, '$geoip_'), SWEDISH)
  t.match(properties['$set'], { plan: 'pro', ...SWEDISH, $geoip_postal_code: null })
  t.match(properties['$set_once'], { $initial_geoip_city_name: 'Linköping' })
  t.match(person?.properties, { plan: 'pro', ...SWEDISH, $geoip_latitude: null })
  const moved = stored(log, { $ip: '198.51.100.9', $geoip_country_code: 'XX', $geoip_own: 1 })
  t.strictSame(membersOf(moved.properties, '$geoip_'), {
    $geoip_own: 1,
    $geoip_country_name: 'Japan',
    $geoip_country_code: 'JP',
  })
  t.match(moved.person?.properties, {
    $geoip_country_code: 'JP',
    $geoip_city_name: null,
    $initial_geoip_country_code: 'SE',
    $initial_geoip_city_name: 'Linköping',
  })
})

t.test('there is no location if the event disables it or the address is unknown', async (t) => {
  const log = openGeoLog(t)
  const placeOf = (properties: JsonObject) =>
    membersOf(stored(log, properties).properties, '$geoip_c')
  t.strictSame(placeOf({ $geoip_disable: true }), {})
  t.strictSame(placeOf({ $geoip_disable: 'yes' }), {})
  t.strictSame(placeOf({ $geoip_disable: false }), SWEDISH)
  t.strictSame(placeOf({ $ip: '192.0.2.1' }), {})
  t.strictSame(placeOf({ $ip: 'nowhere' }), {})
  t.strictSame(placeOf({ $ip: ['203.0.113.7'] }), {})
  t.strictSame(placeOf({ $ip: '' }), SWEDISH, 'the address of the sender')
  const { properties } = stored(log, { $ip: '192.0.2.1' })
  t.notOk('$set' in properties, 'nothing is changed')
})

t.test('the address is looked up before it is removed', async (t) => {
  const log = openGeoLog(t)
  const anonymous = stored(log, {}, {}, RECORD_IP_ANONYMIZED).properties
  t.match(anonymous, SWEDISH)
  t.notOk('$ip' in anonymous)
  const own = stored(log, { $ip: '198.51.100.9' }, {}, RECORD_IP_ANONYMIZED).properties
  t.match(own, { $geoip_country_code: 'JP' })
  t.notOk('$ip' in own)
  const visitor = stored(
    log,
    { $cookieless_mode: true, $raw_user_agent: CHROME, $host: 'a.example', distinct_id: 1 },
    { distinct_id: '$posthog_cookieless' },
  ).properties
  t.match(visitor, SWEDISH)
  for (const name of ['$ip', '$raw_user_agent', '$set']) t.notOk(name in visitor, name)
})

t.test(
  'without a person only the event gets properties; old events get their own location',
  async (t) => {
    const log = openGeoLog(t)
    const personless = stored(log, { $process_person_profile: false }).properties
    t.match(personless, SWEDISH)
    t.notOk('$set' in personless || '$set_once' in personless)
    const group = { $group_type: 'company', $group_key: 'a', $group_set: { size: 3 } }
    const identified = stored(log, group, { event: '$groupidentify' }).properties
    t.match(identified, SWEDISH)
    t.notOk('$set' in identified || '$set_once' in identified)
    const ownAddress = stored(log, { $ip: '203.0.113.7' }, {}, RECORD_HISTORICAL)
    t.match(ownAddress, { historical_migration: true, properties: SWEDISH })
    const noAddress = stored(log, {}, {}, RECORD_HISTORICAL).properties
    t.strictSame(membersOf(noAddress, '$geoip_c'), {}, 'the sender of old events is somewhere else')
  },
)

t.test(
  'the same log gives the same store, with a stop in between and with cold caches',
  async (t) => {
    const stores = []
    for (const isStopped of [false, true]) {
      const log = openGeoLog(t)
      for (let index = 0; index < 60; index++) {
        const uuid = `00000000-0000-4000-8000-${String(index).padStart(12, '0')}`
        const $ip = index % 3 === 0 ? '198.51.100.9' : `203.0.113.${index}`
        const event = { event: 'seen', distinct_id: `p${index % 7}`, uuid, properties: { $ip } }
        log.send(1, [event], AT_MS + index * 1000)
        if (isStopped && index % 10 === 9) {
          log.process()
          await log.reopen()
        }
      }
      log.process()
      const { results } = log.reader.listEvents({ projectId: 1, limit: 100 })
      // As sent by the client: prototypes do not count.
      const rows: unknown = JSON.parse(JSON.stringify(results))
      stores.push({ rows, count: results.length, persons: await personDigest(log.dataDir) })
    }
    t.equal(stores[0]?.count, 60)
    t.ok(
      isDeepStrictEqual(stores[0]?.rows, stores[1]?.rows),
      'the rows are equal, whatever their segments',
    )
    t.equal(stores[0]?.persons, stores[1]?.persons)
  },
)

t.test('only the beginning of a very long user agent is read', async (t) => {
  const log = openLog(t, { isBotTagged: true, isUserAgentParsed: true })
  const endless = 'x'.repeat(500_000)
  t.equal(stored(log, { $user_agent: `${BOT}${endless}` }).properties['$is_bot'], true)
  t.equal(
    stored(log, { $user_agent: `${CHROME}${endless}${BOT}` }).properties['$is_bot'],
    undefined,
  )
  t.match(stored(log, { $user_agent: `${CHROME}${endless}` }).properties, CHROME_TELLS)
})

t.test('with all settings off there is no enrichment', async (t) => {
  t.equal(openEnrichment(threadSettings(t.testdir())), null)
})

t.test('a daemon with all settings on: settings, metrics, a damaged file', async (t) => {
  const path = join(FOLDER, 'city.mmdb')
  writeFileSync(path, DATABASE)
  const flags = { 'tag-bots': 'true', 'parse-user-agents': 'true', 'geoip-database': path }
  const daemon = await startDecisions(t, 1, flags)
  const properties = { $ip: '203.0.113.7', $user_agent: `${CHROME} (compatible; Googlebot/2.1)` }
  await daemon.capture([{ event: 'seen', distinct_id: 'ann', properties }])
  const { body } = await daemon.api('GET', 'events/?event=seen')
  t.match(body, { results: [{ properties: { ...SWEDISH, ...CHROME_TELLS, $is_bot: true } }] })
  const metrics = async () => (await send(`${daemon.url}/metrics`)).body.toString()
  t.match(await metrics(), /^geoip_database_loaded 1$/m)
  t.match(await metrics(), /^geoip_failures_total 0$/m)
  await daemon.stop()

  rmSync(path)
  const without = await startDecisions(t, 1, flags)
  await without.capture([{ event: 'seen', distinct_id: 'ann', properties }])
  const seen = await without.api('GET', 'events/?event=seen')
  t.match(seen.body, { results: [{ properties: { $is_bot: true, $geoip_city_name: undefined } }] })
  t.match((await send(`${without.url}/metrics`)).body.toString(), /^geoip_database_loaded 0$/m)
})
