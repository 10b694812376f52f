/** The contract of every warehouse (src/ports/warehouse.ts). */
import type { Test } from 'tap'
import { parseUuid } from '../../src/base/ids.ts'
import { RowsWriter } from '../../src/base/rows-writer.ts'
import type { Warehouse } from '../../src/ports/warehouse.ts'
import {
  type EventColumns,
  type EventScanRequest,
  listedPersons,
} from '../../src/rules/analytics/event-columns.ts'
import { newJob } from '../../src/rules/events/erasure-job.ts'
import type { EventListQuery, EventView } from '../../src/rules/events/event-queries.ts'
import { applyEvent } from '../../src/rules/persons/apply-event.ts'
import type { ProcessingWriter } from '../../src/store/events/write/processing-writer.ts'

/** Creates an empty store with the warehouse under test, and opens its reading end. Both close with the test. */
export type WarehouseMaker = (t: Test) => {
  readonly store: ProcessingWriter
  readonly open: () => Warehouse
}

const START_MS = Date.UTC(2024, 0, 10)
const NO_LIMITS = { deadlineMs: Number.POSITIVE_INFINITY, isCanceled: () => false }

interface Sent {
  readonly name: string
  readonly who: string
  readonly projectId?: number
  readonly second?: number
  readonly plan?: string
  readonly isServerUuid?: boolean
}

function uuidOf(number: number): string {
  return `00000000-0000-7000-8000-${String(number).padStart(12, '0')}`
}

/** Adds an event as processing does. Returns false if it is a duplicate. */
function add(store: ProcessingWriter, number: number, sent: Sent): boolean {
  const { name, who, projectId = 1, second = number, plan, isServerUuid = false } = sent
  const event = {
    name,
    distinctId: who,
    timestampMs: START_MS + second * 1000,
    elementsChain: '',
    properties: plan === undefined ? {} : { plan },
    isPersonless: false,
  }
  const uuidBytes = parseUuid(uuidOf(number)) ?? new Uint8Array(16)
  const identity = { projectId, event, uuidBytes, uuidOffset: 0, hasClientUuid: !isServerUuid }
  const admission = store.admit(identity)
  if (admission === null) return false
  const persons = store.persons(projectId, event, admission)
  const context = { projectId, arrivedAtMs: START_MS, propertiesBytesMax: 65_536 }
  const { personMode } = applyEvent(event, 100, persons, context)
  store.append(identity, admission, START_MS, personMode, false, 100)
  return true
}

function list(warehouse: Warehouse, query: Partial<EventListQuery> = {}) {
  const writer = new RowsWriter('json')
  const page = warehouse.eventRows({ projectId: 1, limit: 100, ...query }, writer, () => {})
  const rows = JSON.parse(new TextDecoder().decode(page.rows)) as readonly EventView[]
  return { rows, cursor: page.nextCursor }
}

function namesOf(rows: readonly EventView[]): readonly string[] {
  return rows.map(({ event }) => event)
}

function scan(warehouse: Warehouse, request: Partial<EventScanRequest> = {}): EventColumns {
  return warehouse.scanner(NO_LIMITS).scan({
    projectId: 1,
    fromMs: 0,
    toMs: 8e15,
    filter: null,
    values: [],
    persons: null,
    series: [{ names: null, filter: null, steps: [] }],
    nowMs: START_MS,
    ...request,
  })
}

/** Runs all tests of the contract. */
export function warehouseContract(t: Test, name: string, make: WarehouseMaker): void {
  t.test(`${name}: events are visible with the commit and not before`, async (t) => {
    const { store, open } = make(t)
    const warehouse = open()
    t.equal(store.warehouse.lastSequence(1), 0)
    add(store, 1, { name: 'a', who: 'ann' })
    add(store, 2, { name: 'b', who: 'bob' })
    add(store, 3, { name: 'x', who: 'ann', projectId: 2 })
    t.equal(store.warehouse.lastSequence(1), 2, 'gathered events are numbered')
    t.equal(store.warehouse.lastSequence(2), 1, 'numbers count by project')
    t.strictSame(list(warehouse).rows, [])
    t.equal(store.commit(1).rows, 3)
    t.match(list(warehouse).rows, [
      { id: 2, event: 'b', distinct_id: 'bob', uuid: uuidOf(2) },
      { id: 1, event: 'a', distinct_id: 'ann', person: { distinct_ids: ['ann'] } },
    ])
    t.strictSame(namesOf(list(open(), { projectId: 2 }).rows), ['x'], 'for every reader')
    t.strictSame(list(warehouse, { projectId: 3 }).rows, [])
    add(store, 4, { name: 'c', who: 'ann' })
    store.commit(2)
    t.equal(store.warehouse.lastSequence(1), 3)
    t.strictSame(namesOf(list(warehouse).rows), ['c', 'b', 'a'])
  })

  t.test(`${name}: a stored or gathered event is a duplicate`, async (t) => {
    const { store } = make(t)
    t.ok(add(store, 1, { name: 'a', who: 'ann' }))
    t.notOk(add(store, 1, { name: 'a', who: 'ann' }), 'gathered')
    t.ok(add(store, 1, { name: 'b', who: 'ann' }), 'another name is not a duplicate')
    t.ok(add(store, 1, { name: 'a', who: 'bob' }), 'another sender is not a duplicate')
    t.ok(add(store, 1, { name: 'a', who: 'ann', projectId: 2 }), 'another project has no duplicate')
    store.commit(1)
    t.notOk(add(store, 1, { name: 'a', who: 'ann', second: 9 }), 'stored')
    t.ok(
      add(store, 1, { name: 'a', who: 'ann', isServerUuid: true }),
      'a server uuid is not a duplicate',
    )
    store.commit(2)
    t.equal(store.warehouse.lastSequence(1), 4)
  })

  t.test(`${name}: lists are pages, newest first, and single events are found`, async (t) => {
    const { store, open } = make(t)
    const seconds = [5, 1, 9, 5, 3]
    for (const [index, second] of seconds.entries()) {
      const who = index % 2 === 0 ? 'ann' : 'bob'
      add(store, index + 1, { name: `n${index % 2}`, who, second })
    }
    store.commit(1)
    const warehouse = open()
    t.strictSame(
      list(warehouse).rows.map(({ id }) => id),
      [3, 4, 1, 5, 2],
    )
    const first = list(warehouse, { limit: 2 })
    t.strictSame(first.cursor, { timestampMs: START_MS + 5000, id: 4 })
    const rest = list(warehouse, { limit: 3, ...(first.cursor && { cursor: first.cursor }) })
    t.strictSame(
      rest.rows.map(({ id }) => id),
      [1, 5, 2],
    )
    t.equal(rest.cursor, null)
    t.strictSame(
      list(warehouse, { event: 'n1' }).rows.map(({ id }) => id),
      [4, 2],
    )
    t.strictSame(
      list(warehouse, { distinctId: 'ann', afterMs: START_MS + 3000 }).rows.map(({ id }) => id),
      [3, 1],
    )
    t.strictSame(list(warehouse, { distinctId: 'nobody' }).rows, [])
    t.match(warehouse.getEvent(1, uuidOf(5).toUpperCase()), { id: 5, event: 'n0' })
    t.equal(warehouse.getEvent(1, uuidOf(6)), null)
    t.equal(warehouse.getEvent(2, uuidOf(5)), null)
    t.equal(warehouse.getEvent(1, 'no uuid'), null)
  })

  t.test(`${name}: scans return columns with the current owners of the events`, async (t) => {
    const { store, open } = make(t)
    add(store, 1, { name: 'buy', who: 'ann', second: 30, plan: 'pro' })
    add(store, 2, { name: 'look', who: 'bob', second: 10 })
    add(store, 3, { name: 'buy', who: 'bob', second: 20, plan: 'free' })
    add(store, 4, { name: 'buy', who: 'eve', projectId: 2 })
    store.commit(1)
    const warehouse = open()
    const buys = { names: ['buy'], filter: null, steps: [] }
    const looks = { names: ['look'], filter: null, steps: [] }
    const found = scan(warehouse, {
      series: [buys, looks],
      values: [{ kind: 'event_property', key: 'plan' }],
    })
    t.equal(found.count, 3)
    t.strictSame(
      [...found.timesMs],
      [10, 20, 30].map((second) => START_MS + second * 1000),
    )
    t.strictSame([...found.persons], [2, 2, 1])
    t.strictSame([...found.seriesMasks], [2, 1, 1])
    const [plans] = found.values
    t.strictSame(
      Array.from(plans?.ids ?? [], (id) => plans?.values[id]),
      [undefined, 'free', 'pro'],
    )
    const range = { fromMs: START_MS + 20_000, toMs: START_MS + 30_000 }
    t.equal(scan(warehouse, range).count, 2, 'both ends belong to the range')
    t.equal(scan(warehouse, { series: [buys], persons: listedPersons([1]) }).count, 1)
    t.equal(scan(warehouse, { projectId: 3 }).count, 0)
    const pro = { key: 'plan', type: 'event', operator: 'exact', value: 'pro' }
    t.equal(scan(warehouse, { filter: { type: 'AND', values: [pro] } }).count, 1)
    const any = scan(warehouse, { order: 'any' })
    t.strictSame([...any.persons].sort(), [1, 2, 2])
    const scanner = warehouse.scanner(NO_LIMITS)
    t.equal(scanner.firstEventMs(1), START_MS + 10_000)
    t.equal(scanner.firstEventMs(3), null)
    t.match(warehouse.getEvent(1, uuidOf(1)), { person_id: scanner.personUuid(1, 1) })
    const { persons } = scanner.createdWithin(1, START_MS + 30_000, START_MS + 31_000)
    t.strictSame([...persons], [1])
    const ended = warehouse.scanner({ ...NO_LIMITS, isCanceled: () => true })
    t.throws(() => ended.checkLimits(), { code: 'query_timeout' })
    const late = warehouse.scanner({ ...NO_LIMITS, deadlineMs: 0 })
    t.throws(() => late.checkLimits(), { code: 'query_timeout' })
  })

  t.test(`${name}: an erased event is gone, keeps its number, and may be sent again`, async (t) => {
    const { store, open } = make(t)
    for (let number = 1; number <= 3; number++) add(store, number, { name: 'a', who: 'ann' })
    add(store, 4, { name: 'b', who: 'ann' })
    store.commit(1)
    const order = {
      ...({ ids: null, oldestThrough: 1, through: 4, origin: 'request', requestedBy: '' } as const),
      rules: [{ event: 'a', afterMs: START_MS + 3000, beforeMs: null }],
      criteria: { event: 'a', afterMs: null, beforeMs: null, distinctId: null, personId: null },
      requestedAt: new Date(START_MS).toISOString(),
      arrivedThroughMs: null,
    }
    store.persons(1).addJob(newJob(order))
    store.commit(2)
    while (store.warehouse.maintain(1000));
    const warehouse = open()
    const left = list(warehouse).rows.map(({ id, event }) => [id, event])
    t.strictSame(left, [
      [4, 'b'],
      [2, 'a'],
    ])
    t.equal(scan(warehouse).count, 2)
    t.equal(warehouse.getEvent(1, uuidOf(3)), null)
    t.notOk(add(store, 2, { name: 'a', who: 'ann' }), 'what stayed is a duplicate')
    t.ok(add(store, 3, { name: 'a', who: 'ann' }))
    store.commit(3)
    t.equal(warehouse.getEvent(1, uuidOf(3))?.id, 5)
  })
}
