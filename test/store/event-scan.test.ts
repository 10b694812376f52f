/** Scans of the store, compared with a scanner in memory that tries everything on every event. */
import t, { type Test } from 'tap'
import { ServiceError } from '../../src/base/errors.ts'
import {
  type CreatedPersons,
  type EventScanner,
  type EventScanRequest,
  listedPersons,
  type SeriesMatch,
} from '../../src/rules/analytics/event-columns.ts'
import type { FilterGroup, PropertyFilter } from '../../src/rules/filters/filter-group.ts'
import type { PersonView } from '../../src/rules/persons/person-queries.ts'
import { EventReader } from '../../src/store/warehouse/read/event-reader.ts'
import { RowPool, timeOrder } from '../../src/store/warehouse/scan/event-scan-rows.ts'
import { MemoryScanner } from '../fixtures/analytics/memory-scanner.ts'
import { PersonLog, type SentEvent } from '../fixtures/persons/person-log.ts'
import { randomNumbers } from '../fixtures/stored-events.ts'

const START_MS = Date.UTC(2024, 0, 10)
const HOUR_MS = 3_600_000
const NO_LIMITS = { deadlineMs: Number.POSITIVE_INFINITY, isCancelled: () => false }
const NAMES = ['$pageview', 'signup', 'buy', 'rare']

const all = (...values: readonly (FilterGroup | PropertyFilter)[]): FilterGroup => ({
  type: 'AND',
  values,
})
const any = (...values: readonly (FilterGroup | PropertyFilter)[]): FilterGroup => ({
  type: 'OR',
  values,
})
const series = (
  names: readonly string[] | null,
  filter: FilterGroup | null = null,
): SeriesMatch => {
  return { names, filter, steps: [] }
}

const PRO: PropertyFilter = { key: 'plan', value: 'pro', type: 'person' }
const CHEAP: PropertyFilter = { key: 'amount', value: 5, operator: 'lt', type: 'event' }
const WEB: PropertyFilter = { key: 'lib', value: ['web', ''], type: 'event' }
const CLICKED: PropertyFilter = { key: 'tag_name', value: 'a', type: 'element' }
const LARGE: PropertyFilter = { key: 'size', value: 'large', type: 'group', group_type_index: 0 }
const MINE: PropertyFilter = {
  key: 'distinct_id',
  value: 'u1',
  operator: 'icontains',
  type: 'event',
}

const BASE: EventScanRequest = {
  projectId: 1,
  fromMs: START_MS,
  toMs: START_MS + 200 * HOUR_MS,
  filter: null,
  series: [series(null)],
  values: [],
  persons: null,
  nowMs: START_MS,
}

const REQUESTS: readonly (readonly [string, Partial<EventScanRequest>])[] = [
  ['everything', {}],
  ['a range', { fromMs: START_MS + 20 * HOUR_MS, toMs: START_MS + 50 * HOUR_MS }],
  ['one moment', { fromMs: START_MS + 20 * HOUR_MS, toMs: START_MS + 20 * HOUR_MS }],
  ['names', { series: [series(['buy']), series(['buy', 'rare']), series(['none'])] }],
  ['an unknown name', { series: [series(['none'])] }],
  ['event properties', { filter: all(CHEAP, WEB) }],
  ['a property that few have', { filter: all({ key: 'odd', operator: 'is_set', type: 'event' }) }],
  ['a missing property', { filter: all({ key: 'x', operator: 'is_not_set', type: 'event' }) }],
  ['persons', { filter: all(PRO) }],
  ['groups', { filter: all(LARGE) }],
  ['no groups', { filter: all({ ...LARGE, operator: 'is_not' }) }],
  ['elements', { filter: all(CLICKED) }],
  ['no elements', { filter: all({ ...CLICKED, operator: 'is_not' }) }],
  ['distinct ids', { filter: all(MINE) }],
  [
    'a tree',
    { filter: any(all(PRO, CHEAP), all(MINE, any(LARGE, CLICKED)), all(WEB, PRO, LARGE)) },
  ],
  ['filters of series', { series: [series(['buy'], any(PRO, CHEAP)), series(null, all(LARGE))] }],
  ['both', { filter: any(PRO, CLICKED), series: [series(['buy', 'signup'], all(CHEAP))] }],
  ['some persons', { persons: listedPersons([1, 3, 4_000_000]) }],
  ['persons alone', { hasProfile: true }],
  ['some persons alone', { hasProfile: true, persons: listedPersons([1, 3, 4_000_000]) }],
  ['who has no property', { filter: all({ ...PRO, operator: 'is_not' }) }],
  [
    'an action',
    {
      series: [
        {
          names: null,
          filter: all(WEB),
          steps: [
            { name: 'buy', url: null, urlMatching: 'contains', filter: null },
            { name: null, url: '/docs', urlMatching: 'contains', filter: null },
            { name: '$pageview', url: '^https://x.io/$', urlMatching: 'regex', filter: all(PRO) },
          ],
        },
        {
          names: null,
          filter: null,
          steps: [
            { name: 'signup', url: 'https://x.io/', urlMatching: 'exact', filter: all(CHEAP) },
          ],
        },
      ],
    },
  ],
  [
    'values',
    {
      series: [series(['buy', '$pageview'])],
      values: [
        { kind: 'event_name' },
        { kind: 'distinct_id' },
        { kind: 'event_property', key: '$current_url' },
        { kind: 'event_property', key: 'list' },
        { kind: 'person_property', key: 'plan' },
        { kind: 'group_key', typeIndex: 0 },
        { kind: 'group_property', typeIndex: 0, key: 'size' },
      ],
    },
  ],
]

/** The same of everybody and nobody. */
const KEPT = REQUESTS.flatMap(([name, changes]) => {
  const isOfSome = changes.persons !== undefined || changes.hasProfile === true
  return isOfSome
    ? []
    : [[`${name}, of nobody, too`, { ...changes, keepsOwnerless: true }] as const]
})

/** When persons were created, by P. */
const byPerson = ({ persons, timesMs }: CreatedPersons): readonly string[] =>
  Array.from(persons, (person, index) => `${person} ${timesMs[index] ?? 0}`).sort()

/** Events in no order of time, with merges, groups and clicks, and some of visitors who are no persons. */
function randomEvents(count: number, seed: number): readonly SentEvent[] {
  const random = randomNumbers(seed)
  const pick = <T>(list: readonly T[]): T =>
    list[Math.floor(random() * list.length)] ?? (list[0] as T)
  return Array.from({ length: count }, (_, index): SentEvent => {
    const isVisitor = random() < 0.2
    const who = isVisitor ? `v${Math.floor(random() * 6)}` : `u${Math.floor(random() * 15)}`
    const timestamp = new Date(START_MS + Math.floor(random() * 150) * HOUR_MS).toISOString()
    if (!isVisitor && random() < 0.03) {
      const other = random() < 0.9 ? `u${Math.floor(random() * 15)}` : `v${seed % 6}`
      const properties = { $anon_distinct_id: other }
      return { event: '$identify', distinct_id: who, timestamp, properties }
    }
    return {
      event: pick(NAMES),
      distinct_id: who,
      timestamp,
      properties: {
        ...(isVisitor ? { $process_person_profile: false } : {}),
        $current_url: pick(['https://x.io/', 'https://x.io/docs', 'https://x.io/docs/a']),
        amount: Math.floor(random() * 10),
        ...(random() < 0.5 ? { lib: pick(['web', 'node']) } : {}),
        ...(random() < 0.01 ? { odd: index } : {}),
        ...(random() < 0.2 ? { list: [pick([1, 2]), { deep: true }] } : {}),
        ...(random() < 0.2 ? { $set: { plan: pick(['free', 'pro']) } } : {}),
        ...(random() < 0.3 ? { $groups: { company: pick(['acme', 'init']) } } : {}),
        ...(random() < 0.2 ? { $elements: [{ tag_name: pick(['a', 'div']), nth_child: 1 }] } : {}),
      },
    }
  })
}

/** Which events of a distinct_id are of a person who was deleted: those up to a place. */
type Deleted = ReadonlyMap<string, number>

/** The same events as the lists of the API show them. */
function memoryOf(reader: EventReader, deleted: Deleted): MemoryScanner {
  const { results: events } = reader.listEvents({ projectId: 1, limit: 1_000_000 })
  const query = { projectId: 1, limit: 1000, offset: 0, nowMs: START_MS * 2 }
  const { results: persons } = reader.persons().list(query)
  const { results: groups } = reader.persons().groups(1, 0, null, 1000, null)
  return new MemoryScanner({
    events: events
      .toSorted((a, b) => a.id - b.id)
      .map((event) => ({
        timeMs: Date.parse(event.timestamp),
        name: event.event,
        distinctId: event.distinct_id,
        properties: event.properties,
        elementsChain: event.elements_chain,
        isOfNobody: event.id <= (deleted.get(event.distinct_id) ?? 0),
      })),
    persons: persons.map((person) => ({
      number: person.id,
      uuid: person.uuid,
      createdMs: Date.parse(person.created_at),
      properties: person.properties,
      distinctIds: person.distinct_ids,
    })),
    groups: new Map(groups.map((group) => [`0 ${group.group_key}`, group.group_properties])),
  })
}

type Scans = Pick<EventScanner, 'scan' | 'personUuid'>

function rowsOf(scanner: Scans, request: EventScanRequest) {
  const { count, timesMs, persons, seriesMasks, values } = scanner.scan(request)
  return Array.from({ length: count }, (_, row) => [
    timesMs[row],
    row < persons.length ? scanner.personUuid(1, persons[row] ?? 0) : undefined,
    seriesMasks[row],
    ...values.map((column) => column.values[column.ids[row] ?? 0]),
  ])
}

function compare(t: Test, reader: EventReader, deleted: Deleted = new Map()): void {
  const memory = memoryOf(reader, deleted)
  const scanner = reader.scanner(NO_LIMITS)
  let found = 0
  for (const [name, changes] of [...REQUESTS, ...KEPT]) {
    const request = { ...BASE, ...changes }
    const expected = rowsOf(memory, request)
    found += expected.length
    t.strictSame(rowsOf(scanner, request), expected, name)
    const sort = (rows: unknown[][]) => rows.map((row) => JSON.stringify(row)).sort()
    for (const order of ['any', 'unsorted'] as const) {
      const unordered = rowsOf(scanner, { ...request, order })
      t.strictSame(sort(unordered), sort(expected), `${name}, ${order}`)
    }
    for (const looksAt of ['all', 'persons', 'times', 'count'] as const) {
      const pieces: unknown[][] = []
      const asked = { ...request, order: 'any', looksAt: () => looksAt } as const
      scanner.scanPieces(asked, (piece, within) => {
        t.ok(within.fromMs >= request.fromMs && within.toMs <= request.toMs)
        t.ok([...piece.timesMs].every((time) => time >= within.fromMs && time <= within.toMs))
        const scan = () => piece
        const personUuid = (id: number, person: number) => scanner.personUuid(id, person)
        const rows = rowsOf({ scan, personUuid }, asked)
        const eachOf = (row: unknown[], at: number) =>
          Array.from({ length: piece.weights?.[at] ?? 1 }, () => row)
        pieces.push(...rows.flatMap(eachOf))
      })
      const shown = expected.map(([timeMs, person, mask, ...values]) => [
        looksAt === 'all' || looksAt === 'times' ? timeMs : undefined,
        looksAt === 'all' || looksAt === 'persons' ? person : undefined,
        ...[looksAt === 'all' ? mask : undefined, ...values],
      ])
      t.strictSame(sort(pieces), sort(shown), `${name}, ${looksAt} of pieces`)
    }
    for (const by of ['segments', 'persons'] as const) {
      const parts = [0, 1, 2].map((index) =>
        rowsOf(scanner, { ...request, order: 'any', part: { by, index, count: 3 } }),
      )
      t.strictSame(sort(parts.flat()), sort(expected), `${name}, in parts by ${by}`)
    }
    const { count, persons } = scanner.scan({ ...request, order: 'any', isPersonsOnly: true })
    const owners = Array.from(persons.subarray(0, count), (one) =>
      scanner.personUuid(1, one),
    ).sort()
    t.strictSame(owners, expected.map(([, person]) => person).sort(), `${name}, persons only`)
  }
  t.ok(found > 1000, 'the requests find something')
  t.equal(scanner.firstEventMs(1), memory.firstEventMs())
  for (const hours of [0, 3, 20, 300]) {
    const range = [1, START_MS + hours * HOUR_MS, START_MS + (hours + 40) * HOUR_MS] as const
    t.strictSame(
      byPerson(scanner.createdWithin(...range)),
      byPerson(memory.createdWithin(...range)),
    )
  }
  const { lastPerson } = scanner.extent(1)
  const everybody = [...new Set(scanner.scan(BASE).persons)]
  const visitors = everybody.filter((person) => person >= scanner.firstPersonless(1))
  t.ok(visitors.length > 3 && everybody.every((person) => person <= lastPerson))
  for (const person of everybody) {
    if (visitors.includes(person)) continue
    t.equal(scanner.personUuid(1, person), memory.personUuid(1, person))
    t.equal(scanner.uuidPrefix(1, person), memory.uuidPrefix(1, person))
  }
  const [visitor = 0] = visitors
  const theirs = rowsOf(scanner, { ...BASE, persons: listedPersons([visitor]) })
  const uuid = scanner.personUuid(1, visitor)
  t.strictSame(
    theirs,
    rowsOf(memory, BASE).filter((row) => row[1] === uuid),
  )
}

t.test(
  'a scan finds what trying every event finds, through all that changes a store',
  async (t) => {
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
        await t.test('segments of some commits', async (t) => compare(t, log.reader))
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
    // One of them comes again, but not as a person.
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
    await t.test('a deletion, and new events of the same ids', async (t) => {
      compare(t, log.reader, gone)
    })
    const [other] = log.reader
      .persons()
      .list({ ...BASE, limit: 1, offset: 0, nowMs: START_MS * 2 }).results
    deletePerson(other, true)
    log.process()
    log.process()
    await t.test('a deletion with its events', async (t) => compare(t, log.reader, gone))
    await t.test('a small cache after it all', async (t) => compare(t, narrow, gone))
  },
)

t.test('what merges have replaced is not kept in memory', async (t) => {
  const log = new PersonLog(t, t.testdir())
  let most = 0
  for (let commit = 0; commit < 40; commit++) {
    log.send(1, randomEvents(20, commit))
    log.process()
    log.reader.scanner(NO_LIMITS).scan(BASE)
    const [stored] = log.reader.statistics().projects
    const kept = log.reader.scans?.cachedSegments ?? 0
    t.equal(kept, stored?.segments, `after commit ${commit}`)
    most = Math.max(most, kept)
  }
  t.ok(most > 1 && most < 40, 'there were several segments, and merges')
})

t.test(
  'the memory of a result is kept for the next query as far as the limit allows',
  async (t) => {
    const kept = new RowPool(400_000)
    const small = kept.lend(0)
    const large = kept.lend(1)
    large.reserve(20_000)
    t.ok(small.bytes < 400_000 && large.bytes > 400_000)
    kept.takeBack()
    t.equal(kept.lend(0), small)
    t.not(kept.lend(0), large)
  },
)

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

t.test('a scan ends at its limits', async (t) => {
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
  t.equal(codeOf({ isCancelled: () => true }), 'query_timeout')
})

t.test('a project without events has none to scan', async (t) => {
  const log = new PersonLog(t, t.testdir())
  log.process()
  const scanner = log.reader.scanner(NO_LIMITS)
  t.equal(scanner.scan(BASE).count, 0)
  t.equal(scanner.firstEventMs(1), null)
  t.equal(scanner.personUuid(1, 5), '')
})

t.test('rows are brought into the order of time, equal times as they came', async (t) => {
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
