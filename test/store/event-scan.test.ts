/**
 * Compares scans of the store with a scanner in memory that applies everything to every event.
 *
 * @lane quick
 */
import t from 'tap'
import { ServiceError } from '../../src/base/errors.ts'
import type { FilterGroup, PropertyFilter } from '../../src/rules/filters/filter-group.ts'
import { propertyTest } from '../../src/rules/filters/property-filter.ts'
import type { PersonView } from '../../src/rules/persons/person-queries.ts'
import { EventReader } from '../../src/store/events/read/event-reader.ts'
import { RowPool, timeOrder } from '../../src/store/events/scan/event-scan-rows.ts'
import {
  all,
  BASE,
  compare,
  NO_LIMITS,
  PRO,
  randomEvents,
  START_MS,
} from '../fixtures/analytics/scan-comparison.ts'
import { Differences } from '../fixtures/differences.ts'
import { PersonLog } from '../fixtures/persons/person-log.ts'
import { randomNumbers } from '../fixtures/stored-events.ts'

t.test('a scan equals a check of every event, through every kind of change', async (t) => {
  const log = new PersonLog(t, t.testdir())
  const narrow = new EventReader({ dataDir: log.dataDir, scanCache: 30_000 })
  t.teardown(() => narrow.close())
  const events = randomEvents(1200, 7)
  log.send(1, [
    {
      event: '$groupidentify',
      distinct_id: 'u1',
      timestamp: new Date(START_MS).toISOString(),
      properties: { $group_type: 'company', $group_key: 'acme', $group_set: { size: 'large' } },
    },
  ])
  for (let start = 0; start < events.length; start += 60) {
    log.send(1, events.slice(start, start + 60))
    // Each run is a commit, and a segment until it is merged with others.
    log.process()
    if (start === 300)
      await t.test('segments of several commits', async (t) => compare(t, log.reader))
  }
  await t.test('merged segments', async (t) => compare(t, log.reader))
  await t.test('a small cache', async (t) => {
    compare(t, narrow)
    t.ok(narrow.scans !== null && narrow.scans.cachedBytes <= 30_000)
  })
  const persons = log.reader
    .persons()
    .list({ projectId: 1, limit: 9, offset: 0, nowMs: START_MS * 2 })
  const [split, ...others] = persons.results.toSorted(
    (a, b) => b.distinct_ids.length - a.distinct_ids.length,
  )
  t.ok((split?.distinct_ids.length ?? 0) > 1)
  log.run(1, { kind: 'split_person', person: split?.id ?? 0, mainDistinctId: null })
  await t.test('a split', async (t) => compare(t, log.reader))
  const gone = new Map<string, number>()
  const deletePerson = (person: PersonView | undefined, deletesEvents: boolean): void => {
    const last = Math.max(...log.reader.scanner(NO_LIMITS).scan(BASE).sequences)
    for (const id of person?.distinct_ids ?? []) gone.set(id, last)
    log.run(1, { kind: 'delete_person', person: person?.id ?? 0, deletesEvents })
  }
  deletePerson(others[0], false)
  // One distinct_id returns, but without a person.
  const [again = ''] = gone.keys()
  const properties = { $process_person_profile: false }
  const timestamp = new Date(START_MS).toISOString()
  log.send(1, [{ event: 'buy', distinct_id: again, timestamp, properties }])
  log.process()
  const scanner = log.reader.scanner(NO_LIMITS)
  const { sequences, persons: owners } = scanner.scan(BASE)
  const newest = owners[sequences.indexOf(Math.max(...sequences))] ?? 0
  t.ok(newest >= scanner.firstPersonless(1))
  log.send(1, randomEvents(200, 8))
  log.process()
  await t.test('a deletion, and new events of the same distinct_ids', async (t) => {
    compare(t, log.reader, gone)
  })
  const [other] = log.reader
    .persons()
    .list({ ...BASE, limit: 1, offset: 0, nowMs: START_MS * 2 }).results
  deletePerson(other, true)
  log.process()
  log.process()
  await t.test('a deletion together with its events', async (t) => compare(t, log.reader, gone))
  await t.test('a small cache after all changes', async (t) => compare(t, narrow, gone))
})

t.test('replaced segments of a merge are not kept in memory', async (t) => {
  const log = new PersonLog(t, t.testdir())
  let most = 0
  const differences = new Differences()
  for (let commit = 0; commit < 40; commit++) {
    log.send(1, randomEvents(20, commit))
    log.process()
    log.reader.scanner(NO_LIMITS).scan(BASE)
    const [stored] = log.reader.statistics().projects
    const kept = log.reader.scans?.cachedSegments ?? 0
    differences.equal(kept, stored?.segments, `after commit ${commit}`)
    most = Math.max(most, kept)
  }
  t.strictSame(differences.list(), [], 'exactly the stored segments are cached')
  t.ok(most > 1 && most < 40, 'there were several segments, and merges')
})

t.test('the memory of a result is reused by the next query up to the limit', async (t) => {
  const kept = new RowPool(400_000)
  const small = kept.lend(0)
  const large = kept.lend(1)
  large.reserve(20_000)
  t.ok(small.bytes < 400_000 && large.bytes > 400_000)
  kept.takeBack()
  t.equal(kept.lend(0), small)
  t.not(kept.lend(0), large)
})

t.test('long texts are searched in their stored form', async (t) => {
  const log = new PersonLog(t, t.testdir())
  const texts = Array.from({ length: 90 }, (_, index) => {
    const words = `Step ${index}: "Next\\nStep" \n called Tool_${index % 7} – grüße `
    const text = words.repeat(40)
    // Some events have a list, some a short text, and some no value.
    if (index % 10 === 3) return [{ role: 'user', content: text }, index]
    if (index % 10 === 4) return null
    if (index % 10 === 5) return undefined
    return index % 10 === 6
      ? `Tool_${index % 7}`
      : `${text} \u212a`.slice(0, index % 2 ? -1 : undefined)
  })
  for (let start = 0; start < 90; start += 30) {
    log.send(
      1,
      texts.slice(start, start + 30).map((text, index) => ({
        event: index % 2 ? 'trace' : 'other',
        distinct_id: `u${index % 5}`,
        timestamp: new Date(START_MS + index).toISOString(),
        properties: { index: start + index, ...(text === undefined ? {} : { text }) },
      })),
    )
    log.process()
  }
  const operators = [
    'icontains',
    'not_icontains',
    'exact',
    'is_not',
    'regex',
    'is_set',
    'is_not_set',
  ]
  const needles = [
    'tool_3',
    'step 41',
    '"next\\nSTEP"',
    'nstep',
    'k',
    'GRÜSSE',
    'grüße',
    'role',
    'null',
    texts[7],
    texts[13],
  ]
  const scanner = log.reader.scanner(NO_LIMITS)
  const differences = new Differences()
  for (const operator of operators) {
    for (const value of needles) {
      const filter: PropertyFilter = { key: 'text', operator, value: value as string }
      const test = propertyTest(filter)
      const expected = texts.filter((text) => test?.(text) === true).length
      const found = scanner.scan({ ...BASE, filter: all(filter) }).count
      differences.equal(found, expected, `${operator} ${String(value).slice(0, 20)}`)
      const both = scanner.scan({
        ...BASE,
        filter: all(filter, { key: 'index', operator: 'lt', value: 45 }),
      })
      const few = texts.slice(0, 45).filter((text) => test?.(text) === true).length
      differences.equal(
        both.count,
        few,
        `some rows only, ${operator} ${String(value).slice(0, 20)}`,
      )
    }
  }
  t.strictSame(differences.list(), [])
})

t.test('members of cohorts are found', async (t) => {
  const log = new PersonLog(t, t.testdir())
  log.send(1, randomEvents(300, 3))
  log.process()
  const cohort = { name: 'c', description: '', personUuids: [] }
  const tree = all(PRO)
  const fixed = { ...cohort, isStatic: true, filters: null, distinctIds: ['u1', 'u2'] }
  log.run(1, { kind: 'create_cohort', cohort: fixed })
  const dynamic = { ...cohort, isStatic: false, filters: tree, distinctIds: [] }
  log.run(1, { kind: 'create_cohort', cohort: dynamic })
  const scanner = log.reader.scanner(NO_LIMITS)
  const count = (filter: FilterGroup): number => scanner.scan({ ...BASE, filter }).count
  const member = (value: number): PropertyFilter => ({ key: 'id', value, type: 'cohort' })
  t.equal(count(all(member(2))), count(tree))
  t.ok(count(all(member(1))) > 0)
  t.equal(count(all(member(1), member(2))), count(all(member(1), PRO)))
  t.equal(count(all(member(3))), 0, 'an unknown cohort has no members')
})

t.test('a scan stops at its limits', async (t) => {
  const log = new PersonLog(t, t.testdir())
  log.send(1, randomEvents(100, 3))
  log.process()
  const { count } = log.reader.scanner(NO_LIMITS).scan(BASE)
  const codeOf = (limits: object): string => {
    try {
      log.reader.scanner({ ...NO_LIMITS, ...limits }).scan(BASE)
      return 'none'
    } catch (error) {
      return error instanceof ServiceError ? error.code : String(error)
    }
  }
  t.equal(codeOf({ rowsMax: count }), 'none')
  t.equal(codeOf({ rowsMax: count - 1 }), 'query_too_large')
  t.equal(codeOf({ deadlineMs: performance.now() - 1 }), 'query_timeout')
  t.equal(codeOf({ isCanceled: () => true }), 'query_timeout')
})

t.test('a project without events returns no rows', async (t) => {
  const log = new PersonLog(t, t.testdir())
  log.process()
  const scanner = log.reader.scanner(NO_LIMITS)
  t.equal(scanner.scan(BASE).count, 0)
  t.equal(scanner.firstEventMs(1), null)
  t.equal(scanner.personUuid(1, 5), '')
})

t.test('rows are sorted by time, and equal times by arrival', async (t) => {
  const random = randomNumbers(5)
  const lists = {
    ordered: Array.from({ length: 50 }, (_, index) => index),
    nearly: Array.from({ length: 3000 }, (_, index) => index + Math.floor(random() * 5)),
    random: Array.from({ length: 3000 }, () => Math.floor(random() * 1e9)),
    close: Array.from({ length: 3000 }, () => 1e12 + Math.floor(random() * 100) / 8),
    early: Array.from({ length: 3000 }, () => Math.floor(random() * 1e13) - 5e12),
  }
  for (const [name, times] of Object.entries(lists)) {
    const expected = times
      .map((_, index) => index)
      .sort((a, b) => (times[a] ?? 0) - (times[b] ?? 0))
    const order = timeOrder(Float64Array.from(times), times.length)
    t.strictSame(order === null ? null : [...order], name === 'ordered' ? null : expected, name)
  }
})

t.test('a reader that is released holds no memory of queries, and reads again', (t) => {
  const log = new PersonLog(t, t.testdir())
  log.send(1, randomEvents(100, 9))
  log.process()
  const { reader } = log
  const count = (): number => reader.scanner(NO_LIMITS).scan(BASE).count
  const before = count()
  t.ok(before > 0)
  t.ok((reader.caches.row_memory?.bytes ?? 0) > 0, 'the rows of the result')
  reader.release()
  t.equal(reader.caches.row_memory?.bytes, 0)
  t.equal(count(), before)
  t.end()
})
