/**
 * The tables of levels: what is stored and told by number, and named on the command line.
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

t.test('numbers are those of the wire, ascending', async (t) => {
  t.strictSame(levelNumbers(USER_LEVELS), [1, 8, 15])
  t.strictSame(levelNumbers(FLAG_ACCESS_LEVELS), [21, 37])
})

t.test('names and numbers lead to each other', async (t) => {
  for (const kind of [USER_LEVELS, FLAG_ACCESS_LEVELS]) {
    for (const { name, number } of kind) {
      t.equal(levelNamed(kind, name), number)
      t.equal(levelName(kind, number), name)
    }
    t.equal(levelNamed(kind, 'constructor'), undefined)
    t.equal(levelName(kind, 5), '5')
  }
})

t.test('administrators are those from 8 on, owners those from 15 on', async (t) => {
  t.strictSame(levelNumbers(USER_LEVELS).map(isAdministrator), [false, true, true])
  t.strictSame(levelNumbers(USER_LEVELS).map(isOwner), [false, false, true])
})
