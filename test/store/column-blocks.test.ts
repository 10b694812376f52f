/**
 * Compares columns that the kernel fills with columns that are filled value by value, in any kind of memory.
 *
 * @lane quick
 */
import t, { type Test } from 'tap'
import type { JsonObject } from '../../src/base/json.ts'
import { EventRecognizer } from '../../src/rules/capture/kernel/recognize.ts'
import type { ColumnBlock, EventContext } from '../../src/rules/capture/types.ts'
import { SegmentBuilder } from '../../src/store/events/format/segment-builder.ts'
import { SegmentEncoder } from '../../src/store/events/format/segment-encoder.ts'

const NOW_MS = Date.UTC(2024, 0, 15, 12)
const CONTEXT: EventContext = {
  arrivedAtMs: NOW_MS,
  sentAtMs: null,
  isSentAtInvalid: false,
  ip: '',
  isHistorical: false,
  isIpAnonymized: false,
  propertiesBytesMax: 100_000,
  aiPropertiesBytesMax: 100_000,
}
const UUID = new Uint8Array(16).fill(1)

/** Properties that are constant, have few values, start as the id, or are sometimes missing or of another type. */
function propertiesOf(index: number): JsonObject {
  return {
    same: 'x',
    few: index % 7,
    texts: `value ${index % 300}`,
    id: index < 500 || index % 5 > 0 ? `user ${index % 20}` : 'another',
    unlike: `t${index}`,
    number: index / 4,
    ...(index % 3 === 0 && { sometimes: index % 2 === 0 }),
    ...(index % 900 === 5 && { seldom: { a: [index % 4] } }),
  }
}

/** Two builders that receive the same events, one as cells and one as objects. */
class Sides {
  readonly recognizer = new EventRecognizer(() => 7n)
  readonly #byCells = new SegmentBuilder((id) => `user ${id - 1}`)
  readonly #byValue = new SegmentBuilder((id) => `user ${id - 1}`)
  readonly #encoder = new SegmentEncoder()

  add(index: number): void {
    const properties = propertiesOf(index)
    const distinctId = `user ${index % 20}`
    const json = { event: 'e', distinct_id: distinctId, properties }
    const bytes = Buffer.from(JSON.stringify(json))
    const event = this.recognizer.recognize(bytes, 0, bytes.length, CONTEXT)
    if (event === null) throw new Error('an event was not recognized')
    const ways = [this.#byCells, this.#byValue]
    const rows = ways.map((way) => {
      const row = way.beginRow((index % 20) + 1, NOW_MS, NOW_MS, 0, UUID, 0)
      way.setName(row, way.names.idOf('e'))
      return row
    })
    this.#byCells.putCells(rows[0] ?? 0, event, this.recognizer.cells)
    const given = { name: 'e', distinctId, timestampMs: NOW_MS, elementsChain: '', properties }
    this.#byValue.putEvent(rows[1] ?? 0, { ...given, isPersonless: false })
  }

  abandon(): void {
    for (const way of [this.#byCells, this.#byValue]) way.abandonRow()
  }

  release(): void {
    this.#byCells.release()
  }

  check(t: Test): void {
    const [cells, values] = [this.#byCells, this.#byValue].map((builder) => {
      const { header, groups } = this.#encoder.encode(1, 1, builder, 0)
      builder.reset()
      return [header, ...groups].map(({ value }) => value.toString('base64'))
    })
    t.same(cells, values)
  }

  takeAllBlocks(): number {
    const taken: ColumnBlock[] = []
    for (;;) {
      const block = this.recognizer.cells.takeBlock()
      if (block === null) return taken.length
      taken.push(block)
    }
  }
}

t.test('segments are equal one after another', async (t) => {
  const sides = new Sides()
  for (const rows of [50, 3000, 200, 2000]) {
    for (let index = 0; index < rows; index++) sides.add(index)
    sides.check(t)
  }
})

t.test('a row is removed again', async (t) => {
  const sides = new Sides()
  for (let index = 0; index < 1000; index++) {
    sides.add(index)
    if (index % 50 !== 7) continue
    sides.abandon()
    sides.add(index)
  }
  sides.check(t)
  sides.add(1)
  sides.abandon()
  for (let index = 0; index < 300; index++) sides.add(index)
  sides.check(t)
})

t.test('released memory is reused', async (t) => {
  const sides = new Sides()
  for (let index = 0; index < 1000; index++) sides.add(index)
  sides.check(t)
  sides.release()
  for (let index = 0; index < 1000; index++) sides.add(index + 3)
  sides.check(t)
  sides.release()
  t.equal(sides.takeAllBlocks(), new Sides().takeAllBlocks())
})

t.test('no memory is left', async (t) => {
  const sides = new Sides()
  sides.takeAllBlocks()
  for (let index = 0; index < 1000; index++) sides.add(index)
  sides.check(t)
})

t.test('there are more rows than fit into a block', async (t) => {
  const sides = new Sides()
  for (let index = 0; index < sides.recognizer.cells.blockRows + 500; index++) sides.add(index)
  sides.check(t)
  for (let index = 0; index < 500; index++) sides.add(index)
  sides.check(t)
})
