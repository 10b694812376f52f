/**
 * Random histories of a project: the rules against a slow model, with persons kept as text between
 * events at random moments, and what must hold after every event whatever it was.
 */
import { strict as assert } from 'node:assert'
import fc from 'fast-check'
import t from 'tap'
import type { JsonObject } from '../src/ingest/types.ts'
import { applyEvent } from '../src/persons/apply-event.ts'
import { isSameJson } from '../src/persons/same-json.ts'
import { MemoryPersons } from './fixtures/memory-persons.ts'
import { type ModelEvent, PersonModel, sortedText } from './fixtures/person-model.ts'

const NOW_MS = Date.UTC(2024, 0, 15, 12)
const MINUTE_MS = 60_000

/** An event, or the deletion of the person whose number is the remainder by the persons so far. */
type Move =
  | { readonly event: ModelEvent; readonly isForgetful: boolean }
  | { readonly gone: number }

const distinctId = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'Guest', 'null', '"0"', 'constructor')
const name = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom('$pageview', 'bought', '$set', '$exception') },
  {
    weight: 4,
    arbitrary: fc.constantFrom('$identify', '$create_alias', '$merge_dangerously'),
  },
  { weight: 1, arbitrary: fc.constant('$groupidentify') },
)
const propertyName = fc.constantFrom(
  ...['x', 'y', '7', '', '__proto__', 'constructor', 'hasOwnProperty', 'é"\n', '$browser', '$os'],
  ...['$initial_browser', '$initial_os', 'utm_source', '$os_version', '$initial_utm_source'],
)
const value = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(null, 0, false, '', 1, '1', true, 1e21, 'é\u0001"') },
  { weight: 2, arbitrary: fc.jsonValue({ maxDepth: 3 }) },
  { weight: 1, arbitrary: fc.nat(3000).map((length) => 'x'.repeat(length)) },
  { weight: 1, arbitrary: fc.constantFrom({ a: 1, b: [2] }, { b: [2], a: 1 }, { a: 1, b: [3] }) },
)
/** A JSON object as a parser makes it, `__proto__` being a name like any other. */
const members = fc
  .array(fc.tuple(propertyName, value), { maxLength: 5 })
  .map((entries) => objectFrom(entries))
const automatic = fc
  .array(
    fc.tuple(
      fc.constantFrom('$browser', '$os', '$os_name', '$os_version', '$is_server', 'utm_source'),
      value,
    ),
    { maxLength: 4 },
  )
  .map((entries) => objectFrom(entries))
const groups = fc.dictionary(
  fc.constantFrom('company', 'team', 'c', 'd', 'e', 'f', ''),
  fc.constantFrom<unknown>('k', 'l', '', 5, true, null, {}),
  { maxKeys: 3 },
)

const event: fc.Arbitrary<ModelEvent> = fc
  .record({
    name,
    distinctId,
    minutes: fc.integer({ min: -5, max: 5 }),
    isPersonless: fc.nat(9).map((number) => number === 0),
    automatic,
    other: fc.oneof(
      { weight: 9, arbitrary: distinctId },
      { weight: 1, arbitrary: fc.constantFrom<unknown>(null, '', 7, {}, undefined) },
    ),
    set: fc.option(members, { nil: undefined }),
    setOnce: fc.option(members, { nil: undefined }),
    unset: fc.option(fc.uniqueArray(propertyName, { maxLength: 4 }), { nil: undefined }),
    groups: fc.option(groups, { nil: undefined }),
    groupType: fc.constantFrom<unknown>('company', 'team', 'g', '', 3),
    groupKey: fc.constantFrom<unknown>('k', 5, '', null),
    groupSet: fc.option(members, { nil: undefined }),
  })
  .map((record) => ({
    name: record.name,
    distinctId: record.distinctId,
    timestampMs: NOW_MS + record.minutes * MINUTE_MS,
    isPersonless: record.isPersonless,
    properties: present({
      ...record.automatic,
      $anon_distinct_id: record.other,
      alias: record.other,
      $groups: record.groups,
      $group_type: record.groupType,
      $group_key: record.groupKey,
      $group_set: record.groupSet,
      ...(record.isPersonless || record.name === '$groupidentify'
        ? {}
        : { $set: record.set, $set_once: record.setOnce, $unset: record.unset }),
    }),
  }))
const move: fc.Arbitrary<Move> = fc.oneof(
  { weight: 20, arbitrary: fc.record({ event, isForgetful: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ gone: fc.nat() }) },
)
const history = fc.array(move, { maxLength: 25 })
const bytesMax = fc.constantFrom(0, 60, 400, 5000, 60_000, 524_288)

t.test('random histories end as the slow model says', async () => {
  fc.assert(
    fc.property(history, bytesMax, (moves, limit) => {
      const world = new MemoryPersons()
      const model = new PersonModel(limit, NOW_MS)
      const seen = runHistory(world, moves, limit)
      for (const step of moves) {
        if ('event' in step) model.apply(step.event)
        else model.delete(model.persons[step.gone % model.persons.length]?.number ?? 0)
      }
      world.settle()
      assert.deepEqual(seen.warnings, model.warnings)
      assert.deepEqual(seen.modes, model.modes)
      assert.deepEqual(world.types, model.types)
      assert.deepEqual(personTexts(world), model.persons.map(modelText))
      assert.deepEqual(groupTexts(world), model.groups.map(modelText).sort())
    }),
    { numRuns: 400 },
  )
})

t.test('the same events lead to the same state, whatever was forgotten between them', async () => {
  fc.assert(
    fc.property(history, bytesMax, (moves, limit) => {
      const first = new MemoryPersons()
      const second = new MemoryPersons()
      const remembered = moves.map((step) =>
        'event' in step ? { ...step, isForgetful: false } : step,
      )
      assert.deepEqual(runHistory(first, moves, limit), runHistory(second, remembered, limit))
      assert.deepEqual(personTexts(first), personTexts(second))
      assert.deepEqual(groupTexts(first), groupTexts(second))
    }),
    { numRuns: 100 },
  )
})

t.test('no event loses an id, and no id belongs to two persons', async () => {
  fc.assert(
    fc.property(fc.array(event, { maxLength: 30 }), (events) => {
      const world = new MemoryPersons()
      const known = new Set<string>()
      for (const one of events) {
        const { person } = apply(world, one, 0)
        if (!one.isPersonless) known.add(one.distinctId)
        if (!one.isPersonless) assert.equal(world.personOf(one.distinctId), person)
        for (const id of world.ids()) known.add(id)
        const linked = world.persons().flatMap(({ distinctIds }) => distinctIds)
        assert.deepEqual([...linked].sort(), [...known].sort())
        assert.ok(world.persons().every(({ distinctIds }) => distinctIds.length > 0))
      }
    }),
    { numRuns: 100 },
  )
})

t.test('two JSON values are the same exactly when their sorted texts are', async () => {
  const json = fc
    .jsonValue({ maxDepth: 4 })
    .map((given): unknown => JSON.parse(JSON.stringify(given)))
  const near = fc.tuple(json, json, fc.boolean()).map(([left, right, isCopy]) => {
    return [left, isCopy ? reversed(left) : right] as const
  })
  fc.assert(
    fc.property(near, json, ([left, right], third) => {
      const isSame = sortedText(left) === sortedText(right)
      assert.equal(isSameJson(left, right), isSame)
      assert.equal(isSameJson(right, left), isSame)
      assert.ok(isSameJson(third, reversed(third)))
      if (isSame) assert.equal(isSameJson(left, third), isSameJson(right, third))
    }),
    { numRuns: 500 },
  )
})

function runHistory(
  world: MemoryPersons,
  moves: readonly Move[],
  limit: number,
): { readonly warnings: readonly string[]; readonly modes: readonly string[] } {
  const warnings: string[] = []
  const modes: string[] = []
  for (const step of moves) {
    if ('gone' in step) {
      const persons = world.persons()
      const victim = persons[step.gone % persons.length]
      if (victim !== undefined) world.deletePerson(victim.person.number)
      continue
    }
    const outcome = apply(world, step.event, limit)
    warnings.push(...outcome.warnings.map(({ type }) => type))
    modes.push(outcome.personMode)
    if (step.isForgetful) world.settle()
  }
  return { warnings, modes }
}

function apply(world: MemoryPersons, one: ModelEvent, limit: number) {
  const context = { projectId: 1, arrivedAtMs: NOW_MS, propertiesBytesMax: limit }
  return applyEvent(one, Buffer.byteLength(JSON.stringify(one)), world, context)
}

function personTexts(world: MemoryPersons): readonly string[] {
  return world.persons().map(({ person, distinctIds: ids }) => {
    const { number, uuid, createdAtMs, isIdentified, version } = person
    const properties = person.properties.toObject()
    return sortedText({ number, uuid, ids, createdAtMs, properties, isIdentified, version })
  })
}

function groupTexts(world: MemoryPersons): readonly string[] {
  return world
    .groups()
    .map(({ typeIndex, key, createdAtMs, properties }) =>
      sortedText({ typeIndex, key, createdAtMs, properties: properties.toObject() }),
    )
    .sort()
}

function modelText(entity: { readonly properties: ReadonlyMap<string, unknown> }): string {
  return sortedText({ ...entity, properties: objectFrom([...entity.properties]) })
}

function objectFrom(entries: readonly (readonly [string, unknown])[]): JsonObject {
  const texts = entries.map(([key, given]) => `${JSON.stringify(key)}:${JSON.stringify(given)}`)
  return JSON.parse(`{${texts.join(',')}}`) as JsonObject
}

function present(object: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([, given]) => given !== undefined))
}

/** A copy with the keys of every object the other way round. */
function reversed(given: unknown): unknown {
  if (Array.isArray(given)) return given.map(reversed)
  if (typeof given !== 'object' || given === null) return given
  const entries = Object.entries(given).map(([key, inner]) => [key, reversed(inner)] as const)
  return objectFrom(entries.reverse())
}
