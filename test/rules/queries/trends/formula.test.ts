/**
 * Tests formulas over series.
 *
 * @lane quick
 */
import t from 'tap'
import { parseFormula } from '../../../../src/rules/queries/trends/formula.ts'

const VALUES = [7, 2, 0]

const RESULTS: readonly (readonly [string, number])[] = [
  ['A', 7],
  ['a + b', 9],
  ['A-B-B', 3],
  ['A+2*B', 11],
  ['(A + B) * 100', 900],
  ['A/B', 3.5],
  ['A/C', 0],
  ['A/C + B', 2],
  ['A % C', 0],
  ['-A % 4', 1],
  ['A % -4', -1],
  ['2 ** 3 ** 2', 512],
  ['-B ** 2', -4],
  ['B ** -1', 0.5],
  ['C ** -1', 0],
  ['(0 - A) ** 0.5', 0],
  ['10 ** 400', 0],
  ['--B', 2],
  ['1.5e1 + .5 + 2.', 17.5],
  [' ( ( B ) ) ', 2],
]

t.test('a formula follows the rules of arithmetic', async (t) => {
  for (const [text, expected] of RESULTS) {
    t.equal(parseFormula(text, VALUES.length)?.(VALUES), expected, text)
  }
})

t.test('an invalid formula is refused', async (t) => {
  const texts = [
    '',
    ' ',
    'D',
    'AB',
    'A B',
    '2A',
    'A+',
    '+A',
    '(A',
    'A)',
    '()',
    'A//B',
    'A^2',
    'A + 1e400',
    'sum(A)',
    'A,B',
    'é',
  ]
  for (const text of texts) t.equal(parseFormula(text, VALUES.length), null, text)
  const deep = `${'('.repeat(249)}A${')'.repeat(249)}`
  t.equal(parseFormula(deep, 1)?.([3]), 3)
})
