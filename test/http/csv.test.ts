/**
 * Tables in CSV: values that spreadsheets and parsers read back, and values that must never run as a formula.
 *
 * @lane quick
 */
import fc from 'fast-check'
import t from 'tap'
import { csvCell, csvRecords, flatRow, toCsv, unguardedCell } from '../../src/base/csv.ts'
import { parseCsv } from '../fixtures/persons/persons-port.ts'
import { runsOf } from '../fixtures/random-depth.ts'

t.test('nested values become columns, sorted by name', async (t) => {
  const rows = [
    {
      id: 1,
      tags: ['x', 'y'],
      properties: { plan: 'pro', deep: { n: null } },
      empty: [],
      none: {},
    },
    { id: 2, properties: { isPaying: true, isNew: false, plan: '' } },
  ]
  t.strictSame(parseCsv(toCsv(rows)), [
    [
      'id',
      ...['deep.n', 'isNew', 'isPaying', 'plan'].map((name) => `properties.${name}`),
      'tags.0',
      'tags.1',
    ],
    ['1', '', '', '', 'pro', 'x', 'y'],
    ['2', '', 'False', 'True', '', '', ''],
  ])
  t.strictSame(parseCsv(toCsv([{ 'a.b': 1, a: { b: 2 } }, { a: { b: 3 } }])), [
    ['a.b', 'a.b (2)'],
    ['1', '2'],
    ['3', ''],
  ])
  t.equal(toCsv([]), '')
  t.equal(toCsv([{}, { list: [] }]), '')
  t.equal(toCsv([{ a: 1 }]), 'a\r\n1\r\n')
})

t.test('many values of the same name cost no more than many values', async (t) => {
  // Each way to divide the path a.a.a… into keys gives the same name.
  const divided = (parts: number): unknown => {
    const keys = Array.from({ length: parts }, (_, index) =>
      Array(index + 1)
        .fill('a')
        .join('.'),
    )
    return Object.fromEntries(
      keys.map((key, index) => [key, index + 1 === parts ? 1 : divided(parts - index - 1)]),
    )
  }
  const { has } = Map.prototype
  let searches = 0
  Map.prototype.has = function (key) {
    searches++
    return has.call(this, key)
  }
  const flat = flatRow({ properties: divided(11), 'other (2)': 1, other: { '': 1 } })
  Map.prototype.has = has
  t.equal(flat.size, 1024 + 2)
  t.ok(flat.has(`properties${'.a'.repeat(11)} (1024)`))
  t.ok(searches <= 2 * 1026, `${searches} names were looked up`)
  const taken = { 'a.b': 1, 'a.b (2)': 2, a: { b: 3 }, '': { 'a.b': 4 } }
  t.strictSame([...flatRow(taken).keys()], ['a.b', 'a.b (2)', 'a.b (3)', 'a.b (4)'])
})

t.test('every text is read back unchanged by a parser', async (t) => {
  const texts = [
    '',
    'a,b',
    'say "hi"',
    '""',
    '"',
    'two\r\nlines',
    'cr\rlf\n',
    ' spaces ',
    'ü€😀',
    ',',
    "it's",
    "'quoted'",
    '\u0001',
    'x'.repeat(100_000),
    '1e5',
    'null',
    'a\tb',
    '\\',
    ';',
  ]
  const csv = toCsv(texts.map((text) => ({ text, 'odd "name",\r\n': text })))
  const [header, ...lines] = parseCsv(csv)
  t.strictSame(header, ['odd "name",\r\n', 'text'])
  t.strictSame(
    lines,
    texts.map((text) => [text, text]),
  )
})

t.test('a text that looks like a formula gets an apostrophe, and a number does not', async (t) => {
  const guarded = [
    '=1+1',
    '+cmd',
    '-cmd',
    '@SUM(A1)',
    '\tx',
    '\rx',
    '=',
    '-',
    '--1',
    '+49 30',
    '-1-1',
    '=1',
  ]
  for (const text of guarded) {
    t.strictSame(parseCsv(toCsv([{ [text]: text }])), [[`'${text}`], [`'${text}`]])
  }
  for (const text of ['-1', '+4930', '-1.5e-7', '-.5', '1', 'a=1', "'=1", ' -5', '  +4930', ' ']) {
    t.equal(csvCell(text), text)
  }
  t.equal(toCsv([{ n: -5, x: -1e300 }]), 'n,x\r\n-5,-1e+300\r\n')
})

/** Characters that some program skips before a formula: blanks of all scripts, and invisible and control characters. */
const SKIPPED =
  ' \u00a0\u1680\u2003\u2028\u202f\u205f\u3000\ufeff\u200b\u200d\u2060\u00ad\u180e\u2800\u3164\u0000\u0001\u000b\u000c\u0085\u202e\ue000'

t.test('blanks, invisible characters and full-width signs do not hide a formula', async (t) => {
  for (const text of [
    '\n=1',
    '\nx',
    '\r\n=1',
    ' =1',
    '＝1+1',
    '＋cmd',
    '－cmd',
    '＠SUM',
    ' ＝1',
    '－5',
  ]) {
    t.strictSame(parseCsv(toCsv([{ [text]: text }])), [[`'${text}`], [`'${text}`]])
  }
  const skipped = fc.string({ unit: fc.constantFrom(...SKIPPED, '\t', '\n', '\r'), maxLength: 8 })
  const sign = fc.constantFrom(...'=+-@＝＋－＠')
  const holds = fc.property(skipped, sign, fc.string(), (blanks, start, rest) => {
    const text = blanks + start + rest
    const [cell] = parseCsv(`${csvCell(text)}\r\n`)[0] ?? []
    const isNumber = /^ *[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text)
    return cell === (isNumber ? text : `'${text}`)
  })
  t.doesNotThrow(() => fc.assert(holds, runsOf(100)))
})

t.test(
  'a text that does not start with a sign is unchanged, whatever blanks precede it',
  async (t) => {
    const skipped = fc.string({ unit: fc.constantFrom(...SKIPPED), maxLength: 8 })
    const rest = fc.stringMatching(/^[a-z0-9'"]/)
    const holds = fc.property(skipped, rest, (blanks, text) => {
      return parseCsv(`${csvCell(blanks + text)}\r\n`)[0]?.[0] === blanks + text
    })
    t.doesNotThrow(() => fc.assert(holds, runsOf(100)))
  },
)

t.test('only own properties become columns', async (t) => {
  const row = JSON.parse('{"__proto__":{"a":1},"constructor":"c"}') as object
  t.strictSame(parseCsv(toCsv([row])), [
    ['__proto__.a', 'constructor'],
    ['1', 'c'],
  ])
})

t.test('a table with too many cells is refused', async (t) => {
  const rows = Array.from({ length: 3000 }, (_, index) => ({ [`a${index}`]: 1 }))
  t.throws(() => toCsv(rows), { code: 'invalid_input', attr: 'format' })
})

t.test('the first cells of a table are read', async (t) => {
  const cases: readonly (readonly [string, readonly string[]])[] = [
    ['', []],
    ['a', ['a']],
    ['\ufeffa\nb\r\nc\rd', ['a', 'b', 'c', 'd']],
    ['a,1\n\n,x\nb,"2\n3,""4"\nc\n', ['a', 'b', 'c']],
    ['"a,""b\r\nc",1\nd', ['a,"b\r\nc', 'd']],
    [' a \n', [' a ']],
    ['"a" ,b\n', ['a']],
  ]
  const firstCsvCells = (text: string): readonly string[] =>
    Array.from(csvRecords(text, ',', 'csv'), ([cell = '']) => cell).filter(Boolean)
  for (const [text, expected] of cases) t.strictSame(firstCsvCells(text), expected, text)
  for (const text of ['"a', 'a\n"', 'a,"b\nc', '"ann\nbob\n"cara"\n']) {
    t.throws(() => firstCsvCells(text), { code: 'invalid_input', attr: 'csv' }, text)
  }
})

t.test(
  'a table with any separator is read, and the protecting apostrophes are removed',
  async (t) => {
    t.strictSame(
      [...csvRecords('a;"b;""c";\r\n;x\n', ';', 'csv')],
      [
        ['a', 'b;"c', ''],
        ['', 'x'],
      ],
    )
    t.strictSame([...csvRecords('a\tb', '\t', 'csv')], [['a', 'b']])
    for (const text of ['=y', '-x', '+49 170 1', '@z', '\tx']) {
      t.equal(unguardedCell(csvCell(text)), text)
    }
    for (const cell of ["'a", "it's", "'-5", '=y', '']) t.equal(unguardedCell(cell), null, cell)
  },
)
