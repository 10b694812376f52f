/** Memory that threads keep together. */
import t from 'tap'
import { budgetOf, budgetShares, onlyShare } from '../../src/base/shared-budget.ts'

const KIB = 1024

t.test('each has its share, and what the others leave', async (t) => {
  const shares = budgetShares(90 * KIB, 2)
  const [first, second] = shares
  if (first === undefined || second === undefined) throw new Error('two shares')
  t.equal(budgetOf(first, 0), 90 * KIB, 'nobody keeps anything')
  t.equal(budgetOf(first, 80 * KIB), 90 * KIB)
  t.equal(budgetOf(second, 0), 45 * KIB, 'less than its share is left')
  t.equal(budgetOf(second, 20 * KIB), 45 * KIB)
  t.equal(budgetOf(first, 80 * KIB), 70 * KIB, 'so that the first has to give some up')
  t.equal(budgetOf(second, 45 * KIB), 45 * KIB)
  t.equal(budgetOf(first, 70 * KIB), 45 * KIB)
  t.equal(budgetOf(first, 10 * KIB), 45 * KIB)
  t.equal(budgetOf(second, 45 * KIB), 80 * KIB)
})

t.test('one alone has all', async (t) => {
  t.equal(budgetOf(onlyShare(7 * KIB), 100 * KIB), 7 * KIB)
  const [only] = budgetShares(8 * KIB, 1)
  t.equal(only && budgetOf(only, 0), 8 * KIB)
})
