/**
 * Compares values of plain columns written from flat memory with the same values written from a list.
 *
 * @lane quick
 */
import fc from 'fast-check'
import t from 'tap'
import { ByteWriter } from '../../src/store/events/format/byte-writer.ts'
import { PlainValues } from '../../src/store/events/format/plain-values.ts'
import { planValues, writeValues } from '../../src/store/events/format/segment-values.ts'
import { Differences } from '../fixtures/differences.ts'
import { runsOf } from '../fixtures/random-depth.ts'

const hex = (digits: number): fc.Arbitrary<string> =>
  fc.string({ unit: fc.constantFrom(...'0123456789abcdef'), minLength: digits, maxLength: digits })
const JSON_VALUE = fc.oneof(
  fc.string({ unit: 'grapheme' }),
  fc.boolean(),
  fc.constant(null),
  fc.double({ noNaN: true }),
  fc.constant({ a: [1] }),
)
/** Mostly of one kind, as in real columns. */
const VALUES = fc
  .constantFrom<fc.Arbitrary<unknown>>(
    hex(16),
    hex(12),
    hex(7),
    fc.uuid(),
    fc.string({ unit: 'grapheme-ascii' }),
    fc.integer(),
    fc.double({ noNaN: true }),
    fc.oneof(hex(36), fc.uuid()),
    fc.uuid().map((uuid) => uuid.replace('-', 'A')),
  )
  .chain((usual) =>
    fc.array(fc.oneof({ arbitrary: usual, weight: 40 }, { arbitrary: JSON_VALUE, weight: 1 }), {
      maxLength: 60,
    }),
  )

function writtenAs(plain: PlainValues): readonly unknown[] {
  const writer = new ByteWriter()
  const { encoding, width } = plain.plan()
  plain.write(writer, plain.plan())
  return [encoding, width, writer.view().toString('hex')]
}

function writtenList(values: readonly unknown[]): readonly unknown[] {
  const writer = new ByteWriter()
  const plan = planValues(values)
  writeValues(writer, values, plan)
  return [plan.encoding, plan.width, writer.view().toString('hex')]
}

/** As the kernel passes a value: as bytes where possible. */
function give(plain: PlainValues, value: unknown): void {
  const json = Buffer.from(` ${JSON.stringify(value)}`)
  const isPlainText =
    typeof value === 'string' && json.length === value.length + 3 && !json.includes('\\')
  if (plain.takesNumbers && typeof value === 'number') plain.pushNumber(value)
  else if (plain.takesBytes && isPlainText) plain.pushBytes(json, 1, json.length)
  else plain.push(value)
}

t.test('the bytes equal those of a list, also after values are removed', (t) => {
  const plain = new PlainValues()
  const differences = new Differences()
  fc.assert(
    fc.property(VALUES, VALUES, fc.array(fc.boolean()), (first, later, takes) => {
      plain.begin(first)
      const list = [...first]
      for (const [index, value] of later.entries()) {
        give(plain, value)
        list.push(value)
        if (takes[index] !== true) continue
        plain.pop()
        list.pop()
      }
      const name = (): string => JSON.stringify(list)
      differences.equal(plain.count, list.length, name)
      differences.same(writtenAs(plain), writtenList(list), name)
      differences.equal(JSON.stringify(plain.list), JSON.stringify(list), name)
    }),
    runsOf(2000),
  )
  t.strictSame(differences.list(), [], 'the same number of values, bytes and list')
  plain.begin(['a'])
  plain.pop()
  t.strictSame(writtenAs(plain), writtenList([]))
  t.end()
})
