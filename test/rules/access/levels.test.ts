/**
 * Tests the tables of access levels: numbers in storage and on the wire, names on the command line.
 *
 * @lane quick
 */
import t from 'tap'
import {
  FLAG_ACCESS_LEVELS,
  isAdministrator,
  isOwner,
  levelName,
  levelNamed,
  levelNumbers,
  USER_LEVELS,
} from '../../../src/rules/access/levels.ts'

t.test('numbers are those of the wire, in ascending order', async (t) => {
  t.strictSame(levelNumbers(USER_LEVELS), [0, 1, 8, 15])
  t.strictSame(levelNumbers(FLAG_ACCESS_LEVELS), [21, 37])
})

t.test('names map to numbers and back', async (t) => {
  for (const kind of [USER_LEVELS, FLAG_ACCESS_LEVELS]) {
    for (const { name, number } of kind) {
      t.equal(levelNamed(kind, name), number)
      t.equal(levelName(kind, number), name)
    }
    t.equal(levelNamed(kind, 'constructor'), undefined)
    t.equal(levelName(kind, 5), '5')
  }
})

t.test('administrators begin at level 8, owners at level 15', async (t) => {
  t.strictSame(levelNumbers(USER_LEVELS).map(isAdministrator), [false, false, true, true])
  t.strictSame(levelNumbers(USER_LEVELS).map(isOwner), [false, false, false, true])
})
