/**
 * Tests that a merge moves the smaller set of distinct_ids, whichever person survives. Persons, the order of their
 * distinct_ids, and all of their data equal those of a slow model, and n merges cost n log n in any direction.
 *
 * @lane all
 */
import t from 'tap'
import type { PersonCommand } from '../../src/rules/persons/commands.ts'
import { personUuid } from '../../src/rules/persons/person-uuid.ts'
import { loadOverrides } from '../../src/store/identity/flag-overrides.ts'
import { WHOLE_PERSON_BYTES_MAX } from '../../src/store/identity/limits.ts'
import { loadPersonCounters } from '../../src/store/identity/person-records.ts'
import { unseal } from '../../src/store/lmdb/codec.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { EVENTS_TABLES } from '../../src/store/lmdb/keys.ts'
import { RecordsCheck } from '../../src/store/maintenance/verify/records-check.ts'
import { Dice } from '../fixtures/dice.ts'
import { Differences } from '../fixtures/differences.ts'
import { PersonLog, personDigest, type SentEvent } from '../fixtures/persons/person-log.ts'
import { type ModelPerson, PersonModel, sortedText } from '../fixtures/persons/person-model.ts'

const NOW_MS = Date.UTC(2024, 0, 15, 12)
const PROJECT = 1
const LARGE_UNITS = WHOLE_PERSON_BYTES_MAX + 10_000

t.setTimeout(300_000)

function sent(name: string, distinctId: string, properties: object = {}, minute = 0): SentEvent {
  const timestamp = new Date(NOW_MS + minute * 60_000).toISOString()
  return { event: name, distinct_id: distinctId, timestamp, properties }
}

function merged(into: string, from: string): SentEvent {
  return sent('$merge_dangerously', into, { alias: from })
}

/** Returns the stored data of a living person of the model. */
function factsOf(log: PersonLog, { number: id }: ModelPerson): unknown {
  const persons = log.reader.persons()
  const view = persons.person(PROJECT, id)
  if (view === null) return null
  const { uuid, created_at: createdAt, properties, is_identified: isIdentified } = view
  const { distinct_ids: ids } = view
  const isFoundByUuid = persons.person(PROJECT, uuid)?.id === id
  const events = log.reader.listEvents({ projectId: PROJECT, personId: uuid, limit: 1000 }).results
  return [
    view.id,
    uuid,
    ids,
    Date.parse(createdAt),
    sortedText(properties),
    isIdentified,
    isFoundByUuid,
    [...new Set(events.map((event) => event.distinct_id))].sort(),
  ]
}

function wantedOf({
  number,
  uuid,
  ids,
  createdAtMs,
  properties,
  isIdentified,
}: ModelPerson): unknown {
  const text = sortedText(Object.fromEntries(properties))
  return [number, uuid, [...ids], createdAtMs, text, isIdentified, true, [...ids].sort()]
}

/** Returns the contradictions between the records of a store. */
async function faultsOf(dataDir: string): Promise<readonly string[]> {
  const environment = new Environment({ dataDir, name: 'events', tables: EVENTS_TABLES })
  const faults: string[] = []
  const check = new RecordsCheck((where, what) => faults.push(`${where}: ${what}`))
  for (const table of EVENTS_TABLES) {
    if (table === 'person_changes') continue
    for (const { key, value } of environment.table(table).getRange({})) {
      check.take(table, key, unseal(table, key, value))
    }
  }
  check.finish()
  await environment.close()
  return faults
}

/** Returns the number of distinct_ids that changed their owner. */
async function ownerChanges(dataDir: string): Promise<number> {
  const environment = new Environment({ dataDir, name: 'events', tables: EVENTS_TABLES })
  const { owners } = loadPersonCounters(environment.tables.person_projects, PROJECT)
  await environment.close()
  return owners.count
}

t.test(
  'random merges of persons of all sizes, in all directions, match a slow model',
  async (t) => {
    for (const seed of [1, 2, 3]) {
      const dice = new Dice(seed)
      const dir = t.testdir({ [seed]: { once: {}, often: {} } })
      const often = new PersonLog(t, `${dir}/${seed}/often`, { commitEvents: 3 })
      const once = new PersonLog(t, `${dir}/${seed}/once`, { commitEvents: 1e9 })
      const model = new PersonModel(524_288, NOW_MS)
      let count = 0
      const send = (events: readonly SentEvent[]): void => {
        // Both logs are given the same uuids.
        const named = events.map((event) => ({ ...event, uuid: uuidOf(seed, ++count) }))
        for (const log of [often, once]) log.send(PROJECT, named)
        for (const event of events) {
          model.apply({
            name: String(event['event']),
            distinctId: String(event['distinct_id']),
            timestampMs: Date.parse(String(event['timestamp'])),
            properties: event['properties'] as Record<string, unknown>,
            isPersonless: false,
          })
        }
      }
      // Sizes below and above the eight distinct_ids that fit into the record of a person.
      for (let person = 0; person < 24; person++) {
        const size = dice.pick([1, 1, 2, 7, 8, 9, 20])
        const name = (index: number): string => `p${person}-${index}`
        // Processing does not read all properties of a large person.
        const long = dice.chance(0.4)
          ? { [`text${dice.below(6)}`]: dice.pick(['x', 'é']).repeat(LARGE_UNITS) }
          : {}
        const email = `p${person}@x.example`
        const set = { [`own${person}`]: person, shared: person, email, ...long }
        const first = sent('seen', name(0), { $set: set }, dice.between(-50, 50))
        const others = dice.list(size - 1, (index) => sent('seen', name(index + 1)))
        const links = dice.list(size - 1, (index) => merged(name(0), name(index + 1)))
        send([first, ...others, ...links])
        if (dice.chance(0.5)) often.process()
      }
      const gone: ModelPerson[] = []
      const differences = new Differences()
      const compare = (when: string): void => {
        for (const person of model.persons) {
          differences.same(factsOf(often, person), wantedOf(person), `${when}: ${person.number}`)
        }
        for (const { number, uuid } of gone) {
          const found = [number, uuid].map((name) => often.reader.persons().person(PROJECT, name))
          differences.same(found, [null, null], `${when}: ${number} is gone`)
        }
        differences.equal(
          often.reader.persons().find({ projectId: PROJECT, limit: 1, offset: 0, nowMs: NOW_MS })
            .count,
          model.persons.length,
          `${when}: the number of persons is right`,
        )
      }
      while (model.persons.length > 2) {
        const into = dice.pick(model.persons)
        const from = dice.pick(model.persons.filter((person) => person !== into))
        gone.push(from)
        const event = merged(dice.pick(into.ids), dice.pick(from.ids))
        send(
          dice.chance(0.2)
            ? [event, sent('seen', dice.pick(from.ids), { $set: { late: 1 } })]
            : [event],
        )
        // A new distinct_id in between. It comes after all others.
        if (dice.chance(0.3))
          send([merged(dice.pick(into.ids), `new-${count}`), sent('seen', `new-${count}`)])
        if (dice.chance(0.4)) often.process()
        if (dice.chance(0.1)) await often.reopen()
        if (dice.chance(0.2)) {
          often.process()
          compare(`seed ${seed}, ${model.persons.length} left`)
        }
      }
      often.process()
      once.process()
      compare(`seed ${seed}, at the end`)
      t.strictSame(differences.list(), [], `seed ${seed}`)
      t.equal(
        await personDigest(often.dataDir),
        await personDigest(once.dataDir),
        'the result does not depend on where commits end',
      )
      t.strictSame(await faultsOf(often.dataDir), [])
    }
  },
)

function uuidOf(seed: number, count: number): string {
  return `0190a000-0000-7000-8000-${String(seed * 1_000_000 + count).padStart(12, '0')}`
}

/** A person with distinct_ids `name-0` and so on. */
function personOf(name: string, size: number): SentEvent[] {
  return [
    sent('seen', `${name}-0`, { $set: { own: name } }),
    ...Array.from({ length: size - 1 }, (_, index) => merged(`${name}-0`, `${name}-${index + 1}`)),
  ]
}

t.test(
  'a large person that is merged repeatedly costs only the other person each time',
  async (t) => {
    const log = new PersonLog(t, t.testdir(), { commitEvents: 50 })
    const size = 3000
    const moves = 100
    log.send(PROJECT, personOf('large', size))
    for (let move = 0; move < moves; move++) log.send(PROJECT, [sent('seen', `next-${move}`)])
    log.process()
    const before = await ownerChanges(log.dataDir)
    for (let move = 0; move < moves; move++) {
      const from = move === 0 ? 'large-5' : `next-${move - 1}`
      log.send(PROJECT, [merged(`next-${move}`, from)])
    }
    log.process()
    t.equal((await ownerChanges(log.dataDir)) - before, moves, 'only the smaller sets have moved')
    const uuid = personUuid(PROJECT, `next-${moves - 1}`)
    const view = log.reader.persons().person(PROJECT, uuid)
    t.equal(view?.distinct_ids_count, size + moves)
    t.same(view?.properties, { own: 'large' })
    const inOrder = log.reader
      .persons()
      .person(PROJECT, uuid, moves - 1)
      ?.distinct_ids.slice(0, 4)
    t.strictSame(inOrder, ['next-0', 'large-0', 'large-1', 'large-2'], 'target first, as ever')
    t.equal(log.reader.persons().person(PROJECT, personUuid(PROJECT, 'large-0')), null)
    t.strictSame(await faultsOf(log.dataDir), [])
  },
)

for (const direction of ['away from the large one', 'into the large one', 'by turns']) {
  t.test(`merging many persons costs n log n, ${direction}`, async (t) => {
    const log = new PersonLog(t, t.testdir())
    const persons = 1024
    log.send(
      PROJECT,
      Array.from({ length: persons }, (_, index) => sent('seen', `p${index}`)),
    )
    const chain: SentEvent[] = []
    for (let index = 1; index < persons; index++) {
      const isAway =
        direction === 'away from the large one' || (direction === 'by turns' && index % 2 === 0)
      chain.push(isAway ? merged(`p${index}`, 'p0') : merged('p0', `p${index}`))
    }
    log.send(PROJECT, chain)
    log.process()
    const moved = (await ownerChanges(log.dataDir)) - persons
    t.ok(moved <= persons * Math.log2(persons), `${moved} distinct_ids moved`)
    t.equal(
      log.reader.persons().list({ projectId: PROJECT, limit: 1, offset: 0, nowMs: NOW_MS }).count,
      1,
    )
  })
}

t.test('a merge of equal halves moves each distinct_id once for each doubling', async (t) => {
  const log = new PersonLog(t, t.testdir())
  const persons = 512
  log.send(
    PROJECT,
    Array.from({ length: persons }, (_, index) => sent('seen', `p${index}`)),
  )
  for (let step = 1; step < persons; step *= 2) {
    for (let at = 0; at < persons; at += 2 * step)
      log.send(PROJECT, [merged(`p${at + step}`, `p${at}`)])
  }
  log.process()
  const moved = (await ownerChanges(log.dataDir)) - persons
  t.equal(moved, (persons / 2) * Math.log2(persons))
})

t.test('the data of a person stays with it when it takes over a larger one', async (t) => {
  const log = new PersonLog(t, t.testdir())
  log.send(PROJECT, [...personOf('large', 30), ...personOf('small', 2)])
  log.process()
  const small = log.reader.persons().person(PROJECT, personUuid(PROJECT, 'small-0'))
  const id = small?.id ?? 0
  log.run(PROJECT, { kind: 'set_properties', person: id, set: { email: 'small@x.example' } })
  const draft = { name: 'list', description: '', personUuids: [], filters: null, isStatic: true }
  log.run(PROJECT, { kind: 'create_cohort', cohort: { ...draft, distinctIds: ['large-3'] } })
  const flags: PersonCommand = {
    kind: 'set_flag_overrides',
    distinctIds: ['large-1'],
    flagKeys: ['f', 'g'],
    identifier: 'of large',
  }
  log.run(PROJECT, flags)
  log.run(PROJECT, {
    ...flags,
    distinctIds: ['small-0'],
    flagKeys: ['f'],
    identifier: 'of small',
  })
  const larger = log.reader.persons().person(PROJECT, personUuid(PROJECT, 'large-0'))
  log.run(PROJECT, { kind: 'merge_persons', into: id, from: larger?.id ?? 0 })
  await log.reopen()
  const persons = log.reader.persons()
  const view = persons.person(PROJECT, id)
  t.match(view, { id, uuid: small?.uuid, properties: { own: 'small', email: 'small@x.example' } })
  t.equal(persons.person(PROJECT, larger?.id ?? 0), null)
  t.strictSame(
    persons.activity(PROJECT, id, 1, 10)?.results.map(({ activity }) => activity),
    ['updated'],
  )
  const query = { projectId: PROJECT, limit: 10, offset: 0, nowMs: NOW_MS }
  const found = (more: object): readonly number[] =>
    persons.list({ ...query, ...more }).results.map((person) => person.id)
  t.strictSame(found({ email: 'small@x.example' }), [id])
  t.strictSame(found({ search: 'SMALL@' }), [id])
  t.strictSame(found({ cohortId: 1 }), [id])
  t.equal(persons.cohort(PROJECT, 1)?.count, 1)
  const environment = new Environment({
    dataDir: log.dataDir,
    name: 'events',
    tables: EVENTS_TABLES,
  })
  const number = persons.record(PROJECT, id)?.number ?? 0
  t.not(number, id, 'it is kept under the number of the larger one')
  t.strictSame([...loadOverrides(environment.tables.flag_overrides, PROJECT, number)].sort(), [
    ['f', 'of small'],
    ['g', 'of large'],
  ])
  await environment.close()
  const timeline = log.reader.propertiesTimeline({
    projectId: PROJECT,
    person: id,
    eventNames: [],
    crucialKeys: ['own'],
    fromMs: 0,
    toMs: 4e12,
  })
  t.equal(timeline?.at(-1)?.properties['own'], 'small')
  log.run(PROJECT, { kind: 'split_person', person: id, mainDistinctId: 'small-0' })
  t.strictSame(log.reader.persons().person(PROJECT, id)?.distinct_ids, ['small-0'])
  t.equal(log.reader.persons().list(query).count, 32)
  t.same(log.run(PROJECT, { kind: 'delete_person', person: id, deletesEvents: false }), {
    kind: 'done',
  })
  t.equal(log.reader.persons().person(PROJECT, id), null)
  log.send(PROJECT, [sent('seen', 'small-0')])
  log.process()
  const [born] = log.reader.persons().list({ ...query, distinctId: 'small-0' }).results
  t.not(born?.uuid, small?.uuid, 'a uuid is never given twice')
  t.strictSame(await faultsOf(log.dataDir), [])
})
