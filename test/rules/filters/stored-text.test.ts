/**
 * Tests filters that look at the stored bytes of long texts. For any text and filter, the verdict on the bytes equals
 * the verdict on the value, or there is none.
 *
 * @lane quick
 */
import t from 'tap'
import type { PropertyFilter } from '../../../src/rules/filters/filter-group.ts'
import { propertyTest } from '../../../src/rules/filters/property-filter.ts'
import { storedTest } from '../../../src/rules/filters/stored-text.ts'
import { Dice } from '../../fixtures/dice.ts'

const OPERATORS = [
  'icontains',
  'not_icontains',
  'exact',
  'is_not',
  'is_set',
  'is_not_set',
  'regex',
  'not_regex',
] as const
/** Characters that JSON escapes, characters with unusual case mappings, and the characters that escapes consist of. */
const PIECES = [
  'a',
  'A',
  'n',
  'N',
  'u',
  'U',
  'i',
  'I',
  'k',
  'K',
  'b',
  't',
  '0',
  '1',
  'f',
  '00',
  '1f',
  ' ',
  '\n',
  '\t',
  '\b',
  '"',
  '\\',
  '\\n',
  '\\u00',
  '\u0000',
  '\u001f',
  '/',
  '{',
  '[',
  ',',
  ':',
  '\u0130',
  '\u212a',
  '\u212b',
  'ß',
  'ẞ',
  'Σ',
  'ς',
  'é',
  'É',
  'ſ',
  '\u0307',
  '漢',
  '😀',
  '\ud83d',
  '\ude00',
]

function piecesOf(dice: Dice, count: number): string {
  return dice.list(count, () => dice.pick(PIECES)).join('')
}

function anyValue(dice: Dice): unknown {
  const text = piecesOf(dice, dice.below(30))
  if (dice.chance(0.8)) return text
  return dice.pick([
    [text, { n: text }],
    { [text]: text },
    [1, 2.5, -0, 1e21],
    null,
    12,
    true,
    text,
  ])
}

/** A part of the value, in another case. */
function needleOf(dice: Dice, value: unknown): unknown {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  if (dice.chance(0.3)) return piecesOf(dice, 1 + dice.below(3))
  if (dice.chance(0.1)) return value
  const start = dice.below(text.length + 1)
  const part = text.slice(start, start + dice.below(6))
  return dice.pick([
    part,
    part.toUpperCase(),
    part.toLowerCase(),
    JSON.stringify(part).slice(1, -1),
  ])
}

/** Returns the verdict on the stored bytes of a value that lies among others. */
function verdictOf(filter: PropertyFilter, value: unknown): boolean | null {
  const [before, own] = [JSON.stringify(['nnnn\\', 'n']), JSON.stringify(value)]
  const head = Buffer.from(`${before},`)
  const bytes = Buffer.from(own)
  const json = Buffer.concat([head, bytes, Buffer.from(',"\\\\nnnn"]')])
  const test = storedTest(filter)
  return test === null ? null : test(json, head.length, head.length + bytes.length)
}

t.test('the verdict on bytes is the verdict on the value, or none', (t) => {
  const dice = new Dice(20_261_129)
  const wrong: unknown[] = []
  const decided = new Map<string, number>()
  for (let round = 0; round < 60_000; round++) {
    const value = anyValue(dice)
    const operator = dice.pick(OPERATORS)
    const isList = dice.chance(0.2)
    const needles = isList ? [needleOf(dice, value), needleOf(dice, value)] : needleOf(dice, value)
    const filter: PropertyFilter = {
      key: 'text',
      operator,
      value: needles as string,
      negation: dice.chance(0.1),
    }
    const expected = propertyTest(filter)?.(value)
    const found = verdictOf(filter, value)
    if (found === null) continue
    const kind = `${operator} ${found}`
    decided.set(kind, (decided.get(kind) ?? 0) + 1)
    if (found !== expected) wrong.push({ filter, value, found, expected })
  }
  t.strictSame(wrong.slice(0, 5), [])
  for (const operator of ['icontains', 'not_icontains', 'exact', 'is_not']) {
    for (const verdict of [true, false]) {
      t.ok((decided.get(`${operator} ${verdict}`) ?? 0) > 500, `${operator} ${verdict} was decided`)
    }
  }
  t.end()
})

t.test('common texts and search terms are always decided from the bytes', (t) => {
  const text = 'The quick brown Fox\njumps "over" – the lazy dog. '.repeat(20)
  const cases = [
    ['FOX', true],
    ['ox\nJumps', true],
    ['"OVER"', true],
    ['next', false],
    ['njumps', false],
    ['zebra', false],
    ['i', true],
    ['kiwi', false],
    ['', true],
  ] as const
  for (const [value, expected] of cases) {
    t.equal(verdictOf({ key: 'text', operator: 'icontains', value }, text), expected, value)
    t.equal(verdictOf({ key: 'text', operator: 'not_icontains', value }, text), !expected, value)
  }
  t.equal(verdictOf({ key: 'text', operator: 'exact', value: text }, text), true)
  t.equal(verdictOf({ key: 'text', operator: 'exact', value: text.toUpperCase() }, text), false)
  for (const [value, text, expected] of [
    ['grüße', 'plain', false],
    ['grüße', 'viele GRÜßE', true],
    ['grüße', 'viele GRÜSSE', false],
    ['МОСКВА', 'из Москвы', false],
    ['МОСКВ', 'из Москвы', true],
    ['漢字', '漢和字典', false],
    ['字典', '漢和字典', true],
    ['😀', 'smile 😁😀', true],
    ['😀', 'smile 😁', false],
  ] as const) {
    t.equal(verdictOf({ key: 'text', operator: 'icontains', value }, text), expected, text)
  }
  t.end()
})

t.test('a pattern reads the first characters of a text, whatever their escapes', (t) => {
  const wrong: unknown[] = []
  for (const piece of ['a', '\n', '\u0001', 'é', '漢', '😀', '"', '\\', '\ud83d']) {
    for (let count = 1990; count < 2010; count++) {
      for (const filled of [piece.repeat(count), `x${piece.repeat(count)}`]) {
        const text = `${filled}end${piece.repeat(5000)}`
        for (const value of [text, [text]]) {
          const filter: PropertyFilter = { key: 'text', operator: 'regex', value: 'end' }
          const expected = propertyTest(filter)?.(value)
          const found = verdictOf(filter, value)
          if (found !== expected) wrong.push({ piece, count, found, expected })
        }
      }
    }
  }
  t.strictSame(wrong.slice(0, 5), [])
  t.end()
})

t.test('a value that its bytes cannot decide is tested itself', (t) => {
  const left = [
    ['ice', 'dotted \u0130'],
    ['kelvin', '300 \u212aelvi'],
    ['maß', 'ein MA\u1e9e'],
    ['οδος', 'ΟΔΟΣ'],
  ] as const
  for (const [value, text] of left) {
    t.equal(verdictOf({ key: 'text', operator: 'icontains', value }, text), null, text)
  }
  t.equal(storedTest({ key: 'text', operator: 'gt', value: 1 }), null)
  t.end()
})
