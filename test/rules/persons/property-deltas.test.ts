/**
 * Tests property deltas: applied to an object or to a table, they give the same result, whatever they set and unset.
 *
 * @lane quick
 */
import fc from 'fast-check'
import t from 'tap'
import { SLOT_NAMES } from '../../../src/rules/persons/automatic-properties.ts'
import {
  applyDelta,
  applyDeltaToObject,
  deltaOf,
} from '../../../src/rules/persons/property-deltas.ts'
import { PropertyTable } from '../../../src/rules/persons/property-table.ts'
import { Differences } from '../../fixtures/differences.ts'
import { roundsOf, runsOf } from '../../fixtures/random-depth.ts'

const names = fc.constantFrom(
  '$os',
  '$initial_os',
  '$browser',
  '$initial_browser',
  'plan',
  '7',
  'b',
)
const value = fc.oneof(
  fc.constantFrom(null, false, 0, '', 'x', 'y', 1.5),
  fc.constantFrom({ a: [1] }, { $set: 1 }, []),
)
const members = fc.dictionary(names, value, { maxKeys: 4 })
const events = fc.record(
  {
    $os: value,
    $os_name: value,
    $browser: value,
    $is_server: fc.boolean(),
    $set: members,
    $set_once: members,
    $unset: fc.array(names, { maxLength: 3 }),
  },
  { requiredKeys: [] },
)

t.test('an object and a table become equal', async (t) => {
  let changed = 0
  const differences = new Differences()
  const history = fc.array(events, { minLength: 1, maxLength: 8 })
  fc.assert(
    fc.property(members, history, (first, all) => {
      const table = PropertyTable.from(first)
      const object = JSON.parse(table.toJson()) as Record<string, unknown>
      for (const event of all) {
        const delta = deltaOf(event, undefined)
        if (delta === null) continue
        if (applyDelta(table, delta)) changed++
        applyDeltaToObject(object, delta)
        differences.same(sorted(object), sorted(table.toObject()), delta)
      }
    }),
    runsOf(500),
  )
  t.strictSame(differences.list(), [], 'the same after every delta')
  t.ok(changed > roundsOf(500), `${changed} changes`)
})

t.test('every slot has the name of its property', async (t) => {
  const object: Record<string, unknown> = {}
  const slots = SLOT_NAMES.flatMap((_, slot) => (slot % 2 === 0 ? [slot, slot] : []))
  applyDeltaToObject(object, JSON.stringify(slots))
  const wanted = SLOT_NAMES.map((name, slot): [string, number] => [name, slot - (slot % 2)])
  t.strictSame(sorted(object), sorted(Object.fromEntries(wanted)))
})

function sorted(members: Record<string, unknown>): unknown {
  return Object.entries(members).sort(([a], [b]) => (a < b ? -1 : 1))
}
