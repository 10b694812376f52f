/**
 * Runs random histories of a project: the rules against a slow model, with persons serialized to text between events at
 * random moments, and the invariants that hold after every event.
 *
 * @lane quick
 */
import { strict as assert } from 'node:assert'
import fc from 'fast-check'
import t from 'tap'
import { isSameJson } from '../../../src/base/json.ts'
import { MemoryPersons } from '../../fixtures/persons/memory-persons.ts'
import {
  apply,
  bytesMax,
  checkHistories,
  event,
  groupTexts,
  history,
  objectFrom,
  personTexts,
  runHistory,
} from '../../fixtures/persons/person-histories.ts'
import { sortedText } from '../../fixtures/persons/person-model.ts'
import { runsOf } from '../../fixtures/random-depth.ts'

t.test('random histories end in the state of the slow model', async () => {
  checkHistories(runsOf(400))
})

t.test('the same events lead to the same state, whatever was evicted between them', async () => {
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
    runsOf(100),
  )
})

t.test('no event loses a distinct_id, and no distinct_id belongs to two persons', async () => {
  fc.assert(
    fc.property(fc.array(event, { maxLength: 30 }), (events) => {
      const repository = new MemoryPersons()
      const known = new Set<string>()
      for (const one of events) {
        const { person } = apply(repository, one, 0)
        if (!one.isPersonless) known.add(one.distinctId)
        if (!one.isPersonless) assert.equal(repository.personOf(one.distinctId), person)
        for (const id of repository.ids()) known.add(id)
        const linked = repository.persons().flatMap(({ distinctIds }) => distinctIds)
        assert.deepEqual([...linked].sort(), [...known].sort())
        assert.ok(repository.persons().every(({ distinctIds }) => distinctIds.length > 0))
      }
    }),
    runsOf(100),
  )
})

t.test('two JSON values are equal exactly when their sorted texts are equal', async () => {
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
    runsOf(500),
  )
})

/** Returns a copy with the keys of every object in reverse order. */
function reversed(given: unknown): unknown {
  if (Array.isArray(given)) return given.map(reversed)
  if (typeof given !== 'object' || given === null) return given
  const entries = Object.entries(given).map(([key, inner]) => [key, reversed(inner)] as const)
  return objectFrom(entries.reverse())
}
