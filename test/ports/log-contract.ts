/** The contract of every log (src/ports/log.ts). */
import type { Test } from 'tap'
import type { LogAppender, LogReader } from '../../src/ports/log.ts'
import { LogBlockWriter, ParsedEvents, readBlock } from '../../src/rules/capture/log-block.ts'

/** Creates the two ends of a new log. They close with the test. */
export type LogMaker = (t: Test) => {
  readonly appender: LogAppender
  readonly reader: LogReader
  /** Opens another reading end of the same log. */
  readonly openReader: () => LogReader
}

function block(text: string, padBytes = 0): Buffer {
  const writer = new LogBlockWriter(Buffer.allocUnsafe(256))
  const header = { projectId: 1, flags: 0, arrivedAtMs: 1, sentAtMs: Number.NaN, address: '' }
  const event = JSON.stringify({ event: text, pad: 'x'.repeat(padBytes) })
  writer.add(header, new ParsedEvents([event], [null]))
  return writer.finish()
}

function nameIn(reader: LogReader, sequence: number): string | undefined {
  const stored = reader.block(sequence)
  if (stored === undefined) return undefined
  const [record] = readBlock(stored)
  return /"event":"([^"]+)"/.exec(record?.bytes.toString('latin1') ?? '')?.[1]
}

/** Runs all tests of the contract. */
export function logContract(t: Test, name: string, make: LogMaker): void {
  t.test(`${name}: blocks are read in the order in which they were appended`, async (t) => {
    const { appender, reader } = make(t)
    reader.refresh()
    t.equal(reader.extent(), null, 'the log is empty')
    t.equal(reader.block(1), undefined)
    t.equal(await appender.append([block('a'), block('b')], 0), 2)
    t.equal(await appender.append([], 0), 2, 'an empty append takes no number')
    t.equal(await appender.append([block('c', 100_000)], 0), 3)
    reader.refresh()
    t.strictSame(reader.extent(), { first: 1, last: 3 })
    t.strictSame(
      [1, 2, 3, 4].map((sequence) => nameIn(reader, sequence)),
      ['a', 'b', 'c', undefined],
    )
    t.equal(nameIn(reader, 1), 'a', 'blocks are read again, and backwards')
  })

  t.test(`${name}: blocks in shared memory are stored, and their memory is reused`, async (t) => {
    const { appender, reader } = make(t)
    const memory = Buffer.from(new SharedArrayBuffer(300_000))
    for (const [index, text] of ['a', 'b', 'c'].entries()) {
      const bytes = block(text, index * 100_000)
      memory.set(bytes)
      t.equal(await appender.append([memory.subarray(0, bytes.length)], 0), index + 1)
      memory.fill(index)
    }
    reader.refresh()
    t.strictSame(
      [1, 2, 3].map((sequence) => nameIn(reader, sequence)),
      ['a', 'b', 'c'],
    )
  })

  t.test(`${name}: new blocks are visible after a refresh, to every reader`, async (t) => {
    const { appender, reader, openReader } = make(t)
    const other = openReader()
    await appender.append([block('a')], 0)
    reader.refresh()
    t.strictSame(reader.extent(), { first: 1, last: 1 })
    await appender.append([block('b')], 0)
    for (const one of [reader, other]) {
      one.refresh()
      t.strictSame(one.extent(), { first: 1, last: 2 })
      t.equal(nameIn(one, 2), 'b')
    }
  })

  t.test(`${name}: trimmed blocks are gone, and their numbers are not reused`, async (t) => {
    const { appender, reader } = make(t)
    await appender.append([block('a'), block('b'), block('c')], 0)
    await appender.append([], 2)
    reader.refresh()
    t.strictSame(reader.extent(), { first: 3, last: 3 })
    t.strictSame(
      [1, 2, 3].map((sequence) => nameIn(reader, sequence)),
      [undefined, undefined, 'c'],
    )
    await appender.append([], 3)
    reader.refresh()
    t.equal(reader.extent()?.first ?? 4, 4, 'all blocks are gone')
    t.equal(await appender.append([block('d')], 3), 4)
    reader.refresh()
    t.equal(nameIn(reader, 4), 'd')
    t.equal(
      await appender.append([block('e')], 100),
      5,
      'blocks that do not exist yet are not trimmed',
    )
    reader.refresh()
    t.equal(nameIn(reader, 5), 'e')
  })

  t.test(`${name}: blocks of any size, together and in memory that threads share`, async (t) => {
    const { appender, reader } = make(t)
    const sizes = [0, 1, 4000, 4096, 70_000, 3_000_000]
    const shared = sizes.map((padBytes, index) => {
      const plain = block(`s${index}`, padBytes)
      const copy = Buffer.from(new SharedArrayBuffer(plain.length))
      plain.copy(copy)
      return copy
    })
    t.equal(await appender.append(shared, 0), sizes.length)
    const many = Array.from({ length: 300 }, (_, index) => block(`m${index}`))
    t.equal(await appender.append(many, 0), sizes.length + many.length)
    reader.refresh()
    for (const [index] of sizes.entries()) t.equal(nameIn(reader, index + 1), `s${index}`)
    for (const [index] of many.entries()) {
      if (nameIn(reader, sizes.length + index + 1) !== `m${index}`) t.fail(`block ${index} of many`)
    }
  })
}
