/**
 * JSON that the main thread makes: long texts are made in chunks, and other work runs in between.
 *
 * @lane quick
 */
import t from 'tap'
import type { TextChunks } from '../../src/base/pages.ts'
import { jsonBody, textChunks } from '../../src/http/server/json-pieces.ts'
import { ANSWER_TEXT_UNITS_MAX } from '../../src/http/server/limits.ts'

const ITEM = { text: 'x'.repeat(1000), nothing: null, missing: undefined }
const MANY = Array.from({ length: 1000 }, (_, id) => ({ id, ...ITEM }))

async function chunksOf(chunks: TextChunks): Promise<readonly Uint8Array[]> {
  const all: Uint8Array[] = []
  for (let one = await chunks.next(); one !== null; one = await chunks.next()) all.push(one)
  return all
}

t.test('a short value is one text and equals JSON.stringify', async (t) => {
  const values = [
    null,
    1,
    'text',
    [],
    {},
    [undefined, () => 0],
    { a: undefined },
    [[]],
    Array.from({ length: 100 }, (_, index) => (index % 3 === 0 ? undefined : { index })),
    Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`"${index}`, [index]])),
    { a: undefined, b: Array.from({ length: 60 }, () => undefined), c: undefined, d: [] },
    { list: MANY.slice(0, 100), at: new Date(0) },
  ]
  for (const value of values) t.equal(jsonBody(value), JSON.stringify(value))
})

t.test('a long value is made in chunks, and other work runs before each', async (t) => {
  for (const value of [MANY, { count: 1, results: MANY, next: null }]) {
    const body = jsonBody(value)
    if (typeof body === 'string') throw new Error('one text')
    let turns = 0
    let isOver = false
    const count = (): void => {
      turns++
      if (!isOver) setImmediate(count)
    }
    setImmediate(count)
    const chunks = await chunksOf(body)
    isOver = true
    t.equal(Buffer.concat(chunks).toString(), JSON.stringify(value))
    t.ok(chunks.length >= 4)
    t.ok(turns >= chunks.length - 1)
    const largest = Math.max(...chunks.map(({ length }) => length))
    t.ok(largest <= ANSWER_TEXT_UNITS_MAX + 2000, `${largest} bytes`)
  }
})

t.test('no more chunks are made once the reader is gone', async (t) => {
  const body = jsonBody(MANY)
  if (typeof body === 'string') throw new Error('one text')
  t.ok(await body.next())
  body.cancel()
  t.equal(await body.next(), null)
})

t.test('texts are encoded completely, in chunks of bounded size', async (t) => {
  const texts = MANY.map(({ text }) => text)
  const chunks: Buffer[] = []
  for await (const chunk of textChunks(texts)) chunks.push(chunk)
  t.equal(Buffer.concat(chunks).toString(), texts.join(''))
  t.ok(chunks.every(({ length }) => length <= ANSWER_TEXT_UNITS_MAX + 1000))
})
