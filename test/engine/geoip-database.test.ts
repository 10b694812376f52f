/**
 * Tests the GeoIP database of the operator: lookups, a changed file, and damage.
 *
 * @lane quick
 */
import { renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { GeoIpDatabase, geoIpFault } from '../../src/engine/processor/geoip-database.ts'
import { GEOIP_FILE_BYTES_MAX, GEOIP_LOOKUP_MS_MAX } from '../../src/engine/processor/limits.ts'
import { Differences } from '../fixtures/differences.ts'
import { encode, mapHead, mmdbOf, pointerTo } from '../fixtures/enrichment/mmdb-writer.ts'
import { randomNumbers } from '../fixtures/stored-events.ts'

t.setTimeout(300_000)

const SWEDEN = { country: { iso_code: 'SE', names: { en: 'Sweden' } } }
const JAPAN = { country: { iso_code: 'JP' }, location: { latitude: 35.5, longitude: -1.25 } }
const NETWORKS = { '203.0.113.0/24': SWEDEN, '198.51.100.7/32': JAPAN, '2001:db8::/32': JAPAN }

/** The log lines of a database. */
function lines() {
  const all: string[] = []
  const note = (fields: object, message?: string): void => {
    all.push(`${message} ${JSON.stringify(fields)}`)
  }
  return { all, log: { info: note, warn: note } }
}

/** Opens a database for which no time passes, so that none of its lookups takes too long. */
function openAt(path: string) {
  const { all, log } = lines()
  const database = new GeoIpDatabase(path, log, { monotonic: () => 0 })
  database.refresh()
  const codeOf = (address: string) => database.placeOf(address)?.event['$geoip_country_code']
  return { database, all, codeOf }
}

t.test('addresses are found in trees of all widths', async (t) => {
  const path = join(t.testdir(), 'city.mmdb')
  for (const recordBits of [24, 28, 32] as const) {
    writeFileSync(path, mmdbOf(NETWORKS, { recordBits }))
    t.equal(geoIpFault(path), null)
    const { codeOf, database } = openAt(path)
    t.equal(codeOf('203.0.113.0'), 'SE')
    t.equal(codeOf('203.0.113.255'), 'SE')
    t.equal(codeOf('203.0.114.0'), undefined)
    t.equal(codeOf('198.51.100.7'), 'JP')
    t.equal(codeOf('198.51.100.6'), undefined)
    t.equal(codeOf('2001:db8::1'), 'JP')
    t.equal(codeOf('2001:db9::1'), undefined)
    t.equal(codeOf('::ffff:203.0.113.9'), 'SE', 'IPv4 in the form of IPv6 is found')
    t.match(database.placeOf('2001:db8::1')?.event, {
      $geoip_latitude: 35.5,
      $geoip_longitude: -1.25,
    })
    t.strictSame(database.takeCounts(), { isLoaded: true, failures: 0 })
  }
})

t.test('an invalid address has no location, nor has IPv6 in an IPv4 database', async (t) => {
  const path = join(t.testdir(), 'city.mmdb')
  const everything = { '0.0.0.0/1': SWEDEN, '128.0.0.0/1': JAPAN }
  writeFileSync(path, mmdbOf(everything, { ipVersion: 4 }))
  const { codeOf, database } = openAt(path)
  t.equal(codeOf('1.2.3.4'), 'SE')
  t.equal(codeOf('200.2.3.4'), 'JP')
  for (const other of [
    '2001:db8::1',
    '::1',
    '',
    'localhost',
    '1.2.3',
    '1.2.3.4.5',
    '1.2.3.4/8',
    '\0',
  ]) {
    t.equal(codeOf(other), undefined, other)
  }
  t.equal(database.takeCounts().failures, 0)
})

t.test('a changed file is read again, and a damaged one leaves the old data in use', async (t) => {
  const dir = t.testdir()
  const path = join(dir, 'city.mmdb')
  const { all, log } = lines()
  let now = 0
  const database = new GeoIpDatabase(path, log, { monotonic: () => now })
  const codeOf = () => database.placeOf('203.0.113.1')?.event['$geoip_country_code']
  /** Acts as if the time between two checks had passed. */
  const look = (): void => {
    now += 10_000
    database.refresh()
  }
  look()
  t.equal(codeOf(), undefined)
  t.strictSame(database.takeCounts(), { isLoaded: false, failures: 0 })
  t.equal(all.length, 1)
  t.match(all[0], /cannot be read.*no such file.*"in_use":"none"/i)
  look()
  t.equal(all.length, 1, 'the damage is logged once')
  writeFileSync(path, mmdbOf(NETWORKS))
  t.equal(codeOf(), undefined, 'the change is not seen before the check')
  look()
  t.equal(codeOf(), 'SE')
  const next = join(dir, 'next')
  writeFileSync(next, mmdbOf({ '203.0.113.0/24': JAPAN }))
  renameSync(next, path)
  look()
  t.equal(codeOf(), 'JP', 'the cache is cleared')
  writeFileSync(path, mmdbOf(NETWORKS).subarray(0, 100))
  look()
  t.equal(codeOf(), 'JP')
  t.match(all.at(-1), /cannot be read.*is truncated.*"in_use":"the previous one"/)
  rmSync(path)
  look()
  t.equal(codeOf(), 'JP')
  t.strictSame(database.takeCounts(), { isLoaded: true, failures: 0 })
  const count = all.length
  writeFileSync(path, mmdbOf(NETWORKS))
  look()
  t.equal(codeOf(), 'SE')
  t.equal(all.length, count + 1)
})

t.test('the file is checked only every few seconds', async (t) => {
  const path = join(t.testdir(), 'city.mmdb')
  const { all, log } = lines()
  const database = new GeoIpDatabase(path, log)
  database.refresh()
  writeFileSync(path, mmdbOf(NETWORKS))
  database.refresh()
  t.equal(all.length, 1)
})

t.test('files that are not a database are refused with the reason', async (t) => {
  const dir = t.testdir()
  const path = join(dir, 'city.mmdb')
  const whole = mmdbOf(NETWORKS)
  const faultOf = (bytes: Buffer): string | null => {
    writeFileSync(path, bytes)
    return geoIpFault(path)
  }
  t.match(geoIpFault(join(dir, 'none')), /no such file/)
  t.match(geoIpFault(dir), /it is not a file/)
  t.match(geoIpFault('/dev/zero'), /it is not a file/, 'a database that never ends is refused')
  t.match(faultOf(Buffer.alloc(0)), /not a MaxMind DB/)
  t.match(faultOf(Buffer.alloc(1024 * 1024)), /not a MaxMind DB/)
  t.match(faultOf(Buffer.from('<html>not found</html>')), /not a MaxMind DB/)
  const huge = join(dir, 'huge')
  writeFileSync(huge, '')
  truncateSync(huge, GEOIP_FILE_BYTES_MAX + 1)
  t.match(geoIpFault(huge), /larger than/)
  // Data cut from the last text, which describes the database, does no harm.
  const differences = new Differences()
  for (let end = 0; end < whole.length - 'a test'.length; end++) {
    differences.equal(
      typeof faultOf(whole.subarray(0, end)),
      'string',
      `the database cut at ${end} is refused`,
    )
  }
  t.strictSame(differences.list(), [], 'a file is refused wherever it is cut')
  const zeroed = Buffer.from(whole)
  zeroed.fill(0, whole.indexOf('MaxMind.com') + 'MaxMind.com'.length)
  t.type(faultOf(zeroed), 'string', 'a description of zeros')
  t.match(faultOf(mmdbOf({ '1.0.0.0/8': SWEDEN }, { major: 3 })), /format/)
})

t.test('a database that takes too long is disabled until the file changes', async (t) => {
  const path = join(t.testdir(), 'city.mmdb')
  writeFileSync(path, mmdbOf(NETWORKS))
  const { all, log } = lines()
  let now = 0
  let stepMs = GEOIP_LOOKUP_MS_MAX
  const clock = {
    monotonic: () => {
      now += stepMs
      return now
    },
  }
  const database = new GeoIpDatabase(path, log, clock)
  const codeOf = (address: string) => database.placeOf(address)?.event['$geoip_country_code']
  database.refresh()
  t.equal(codeOf('203.0.113.1'), 'SE')
  stepMs++
  t.equal(codeOf('203.0.113.2'), 'SE', 'the result of the slow lookup counts')
  t.equal(codeOf('203.0.113.3'), undefined)
  t.equal(codeOf('203.0.113.1'), undefined)
  t.equal(database.takeCounts().isLoaded, false)
  t.match(all.at(-1), /take too long/)
  now += 10_000
  database.refresh()
  t.equal(codeOf('203.0.113.1'), undefined, 'the file is the same')
  stepMs = 1
  writeFileSync(path, mmdbOf({ '203.0.113.0/24': JAPAN }))
  now += 10_000
  database.refresh()
  t.equal(codeOf('203.0.113.1'), 'JP')
})

t.test('damaged or endless records are failures, not crashes', async (t) => {
  const path = join(t.testdir(), 'city.mmdb')
  const circle = pointerTo(0)
  // Each map refers to the next one twice, so a reader without a limit follows 2 ** 40 references.
  const levels = Array.from({ length: 40 }, (_, depth) => {
    const next = pointerTo((depth + 1) * 15)
    return Buffer.concat([mapHead(2), encode('a'), next, encode('b'), next])
  })
  const doubling = Buffer.concat([...levels, encode('end')])
  const records: readonly (readonly [what: string, record: Buffer, reason: RegExp])[] = [
    ['circle', circle, /too many references/],
    ['doubling', doubling, /too many references/],
    ['zeros', Buffer.alloc(64), /Invalid Extended Type/],
    ['a map that is cut', mapHead(1_000_000), /Invalid size/],
    ['a reference behind the end', pointerTo(2 ** 31), /Unknown type/],
  ]
  for (const [what, record, reason] of records) {
    writeFileSync(path, mmdbOf({ '203.0.113.0/24': record }))
    const { database, all, codeOf } = openAt(path)
    for (let host = 1; host <= 20; host++) t.equal(codeOf(`203.0.113.${host}`), undefined, what)
    t.strictSame(database.takeCounts(), { isLoaded: true, failures: 20 })
    const said = all.filter((line) => line.includes('A record of the GeoIP'))
    t.equal(said.length, 1, 'the failure is logged once')
    t.match(said[0], reason, what)
  }
})

t.test('flipped bits anywhere neither throw nor hang', async (t) => {
  const path = join(t.testdir(), 'city.mmdb')
  const whole = mmdbOf(NETWORKS)
  const random = randomNumbers(7)
  const thrown: string[] = []
  for (let round = 0; round < 400; round++) {
    const bytes = Buffer.from(whole)
    for (let flip = 0; flip < 1 + round / 50; flip++) {
      const place = Math.floor(random() * bytes.length)
      bytes[place] = (bytes[place] ?? 0) ^ (1 << Math.floor(random() * 8))
    }
    writeFileSync(path, bytes)
    const { codeOf } = openAt(path)
    for (const address of ['203.0.113.1', '198.51.100.7', '2001:db8::1', '8.8.8.8']) {
      try {
        codeOf(address)
      } catch (error) {
        thrown.push(`round ${round}, ${address}: ${String(error)}`)
      }
    }
  }
  t.strictSame(thrown, [])
})
