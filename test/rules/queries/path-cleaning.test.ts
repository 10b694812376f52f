/**
 * Tests path cleaning rules, and that they stop when the query is canceled.
 *
 * @lane quick
 */
import t from 'tap'
import { pathCleaner } from '../../../src/rules/queries/web/path-cleaning.ts'

t.test('rules are applied one after another, in order', async (t) => {
  const rules = [
    { regex: 'b+', alias: 'c', order: 2 },
    { regex: 'a', alias: 'b', order: 1 },
    { regex: '(', alias: 'x' },
  ]
  t.equal(pathCleaner(rules, () => undefined)('/aab/a'), '/c/c')
})

t.test('each rule first checks whether the query may continue', async (t) => {
  const growing = Array.from({ length: 40 }, () => ({ regex: '', alias: 'xx' }))
  let left = 3
  const clean = pathCleaner(growing, () => {
    if (left-- === 0) throw new Error('too long')
  })
  t.throws(() => clean('/a'), { message: 'too long' })
})
