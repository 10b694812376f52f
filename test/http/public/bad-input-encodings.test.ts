/**
 * Compressed, encoded and mislabeled bodies that no correct client sends, and valid bodies with flipped bytes, against
 * the built daemon. Each gets a clear 4xx within bounded time and memory, and nothing is stored. A valid client on the
 * same daemon is not affected.
 *
 * @lane all
 */
import assert from 'node:assert/strict'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import fc from 'fast-check'
import lzString from 'lz-string'
import t from 'tap'
import { PROJECT_KEY } from '../../fixtures/daemon.ts'
import { closeConnections, send } from '../../fixtures/exact-client.ts'
import {
  acceptBody,
  assertRefusal,
  badEvent,
  GoodClient,
  post,
  refuseAll,
  startTarget,
} from '../../fixtures/faults/hostile-client.ts'
import { lz64Run } from '../../fixtures/faults/lz64-bomb.ts'
import { runsOf } from '../../fixtures/random-depth.ts'

const MEBIBYTE = 1024 ** 2
const SEED = 20_261_121
const FORM = { 'Content-Type': 'application/x-www-form-urlencoded' }
const TEXT = { 'Content-Type': 'text/plain' }

t.teardown(closeConnections)
t.setTimeout(300_000)

function bytes(...values: readonly number[]): Buffer {
  return Buffer.from(values)
}

t.test('bad encodings', async (t) => {
  const target = await startTarget(t)
  const good = new GoodClient(target)
  t.teardown(() => good.stop())
  const { url } = target

  await t.test('malformed compressed bodies are refused', async (t) => {
    const whole = gzipSync(badEvent('{}'))
    const wrongSum = Buffer.from(whole)
    wrongSum[wrongSum.length - 8] = (wrongSum.at(-8) ?? 0) ^ 1
    const zeros = gzipSync(Buffer.alloc(10 * MEBIBYTE, 'x'))
    const members = (count: number): Buffer =>
      Buffer.concat(Array.from({ length: count }, () => zeros))
    const flagged = { ...TEXT, 'Content-Encoding': 'gzip' }
    const lz64 = (text: string) => `data=${encodeURIComponent(text)}&compression=lz64`
    const code = 'invalid_payload'
    const tooLarge = 'request_too_large'
    await refuseAll(t, target, [
      ...[2, 3, 10, 17, whole.length - 9, whole.length - 8, whole.length - 1].map((length) => {
        return {
          name: `gzip cut at ${length}`,
          body: whole.subarray(0, length),
          code,
          headers: TEXT,
        }
      }),
      { name: 'gzip with a wrong sum', body: wrongSum, code },
      { name: 'gzip in gzip', body: gzipSync(whole), code },
      { name: 'gzip of nothing', body: gzipSync(''), code: 'no_data' },
      { name: 'said to be gzip', body: badEvent('{}'), code, headers: flagged },
      {
        name: 'said to be gzip in the query',
        body: badEvent('{}'),
        code,
        query: '?compression=gzip',
      },
      { name: 'a member and garbage', body: Buffer.concat([whole, bytes(0x1f, 0x8b, 8, 0)]), code },
      { name: 'a bomb of 30 MB', body: members(3), code: tooLarge },
      { name: 'a bomb of 100 MB', body: members(10), code: tooLarge },
      { name: 'a bomb of 1 GB', body: members(100), code: tooLarge },
      {
        name: 'an event of 25 MB',
        body: gzipSync(badEvent(`{"a":"${'x'.repeat(25 * MEBIBYTE)}"}`)),
        code: tooLarge,
      },
      {
        name: 'an lz64 bomb of 64 MB',
        body: lz64(lz64Run('a', 11_600)),
        code: tooLarge,
        headers: FORM,
      },
      {
        name: 'an lz64 bomb of 800 MB',
        body: lz64(lz64Run('a', 40_000)),
        code: tooLarge,
        headers: FORM,
      },
      { name: 'lz64 that is none', body: lz64('****'), code, headers: FORM },
      {
        name: 'lz64 cut',
        body: lz64(lzString.compressToBase64(badEvent('{}')).slice(0, 40)),
        code,
        headers: FORM,
      },
      { name: 'base64 that is none', body: 'data=****', code, headers: FORM },
      {
        name: 'Brotli',
        body: brotliCompressSync(badEvent('{}')),
        code,
        headers: { ...TEXT, 'Content-Encoding': 'br' },
      },
      {
        name: 'deflate',
        body: deflateSync(badEvent('{}')),
        code,
        headers: { ...TEXT, 'Content-Encoding': 'deflate' },
      },
    ])
    const bombs = Array.from({ length: 20 }, () => post(`${url}/e/`, members(10), TEXT))
    for (const answer of await Promise.all(bombs)) {
      // Beyond the budget of bytes in flight, a decompression bomb is refused like any other body.
      assert.ok([413, 503].includes(answer.status), String(answer.status))
    }
    t.equal(lz64Run('a', 20), lzString.compressToBase64('a'.repeat(210)), 'the bombs really expand')
    const kinds = [
      'deflate',
      'br',
      'zstd',
      'gzip2',
      'gzip, gzip',
      '__proto__',
      'x'.repeat(2000),
      'identity',
    ]
    for (const [index, kind] of kinds.entries()) {
      const headers = { ...TEXT, 'Content-Encoding': kind }
      await acceptBody(target, kind, '/e/', badEvent(`{"index":${index}}`, 'unencoded'), headers)
    }
    t.equal(
      (await target.stored('unencoded')).length,
      kinds.length,
      'JSON under an unknown encoding',
    )
  })

  await t.test('wrong content types and forms are refused', async (t) => {
    const body = badEvent('{}', 'typed')
    const types = [
      '',
      'text/plain',
      'application/json',
      'APPLICATION/JSON; charset=utf-16',
      'x',
      '/',
    ]
    types.push(
      'application/json\t; a',
      'application/x-www-form-urlencoded',
      'constructor',
      ';;;',
      '*/*',
    )
    for (const type of types) {
      await acceptBody(target, type, '/e/', body, type === '' ? {} : { 'Content-Type': type })
    }
    await acceptBody(target, 'a form as text', '/e/', `data=${encodeURIComponent(body)}`, TEXT)
    t.equal((await target.stored('typed')).length, types.length + 1)
    const fields = Array.from({ length: 100_000 }, (_, index) => `f${index}=1`).join('&')
    const multipart = '--x\r\nContent-Disposition: form-data; name="data"\r\n\r\n{}\r\n--x--'
    const code = 'no_data'
    await refuseAll(t, target, [
      { name: 'no data', body: 'foo=bar', code, headers: FORM },
      { name: 'empty data', body: 'data=&compression=gzip', code, headers: FORM },
      { name: '100,000 fields', body: fields, code, headers: FORM },
      {
        name: 'fields of a prototype',
        body: '__proto__=1&constructor=2&toString=3',
        code,
        headers: FORM,
      },
      { name: 'bad escapes', body: 'data=%zz%', code: 'invalid_payload', headers: FORM },
      {
        name: 'multipart',
        body: multipart,
        code: 'invalid_payload',
        headers: { 'Content-Type': 'multipart/form-data; boundary=x' },
      },
    ])
  })

  await t.test('the valid client was not affected', async (t) => good.check(t))
})

t.test('flipped bytes affect only their own request', async (t) => {
  const target = await startTarget(t)
  const good = new GoodClient(target)
  t.teardown(() => good.stop())
  const json = Buffer.from(
    `{"api_key":"${PROJECT_KEY}","batch":[{"event":"f","distinct_id":"u","uuid":"${crypto.randomUUID()}",` +
      '"properties":{"a":[1,2.5e3,"größe",{"b":null}],"$set":{"c":true}},"timestamp":"2025-01-01T00:00:00Z"}]}',
  )
  const lz64 = encodeURIComponent(lzString.compressToBase64(json.toString()))
  const requests: readonly (readonly [Buffer, Readonly<Record<string, string>>, string])[] = [
    [json, { 'Content-Type': 'application/json' }, '/batch/'],
    [gzipSync(json), TEXT, '/e/'],
    [
      Buffer.from(`data=${encodeURIComponent(json.toString('base64'))}`),
      FORM,
      '/e/?compression=base64',
    ],
    [Buffer.from(`data=${lz64}&compression=lz64`), FORM, '/track/'],
  ]
  const flips = fc.array(fc.tuple(fc.nat(), fc.nat({ max: 255 })), { minLength: 1, maxLength: 8 })
  const kind = fc.integer({ min: 0, max: requests.length - 1 })
  const statuses = new Map<number, number>()
  await fc.assert(
    fc.asyncProperty(kind, flips, fc.boolean(), async (index, changes, isCut) => {
      const [original, headers, path] = requests[index] ?? [json, TEXT, '/e/']
      const body = Buffer.from(original)
      for (const [position, value] of changes) body[position % body.length] = value
      const sent = isCut ? body.subarray(0, (changes[0]?.[0] ?? 0) % body.length) : body
      const answer = await send(`${target.url}${path}`, { method: 'POST', headers, body: sent })
      if (answer.status !== 200) assertRefusal(answer, 'flipped')
      statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1)
    }),
    { ...runsOf(2000, SEED), endOnFailure: true },
  )
  t.comment([...statuses].map(([status, count]) => `${count} x ${status}`).join(', '))
  t.ok((statuses.get(400) ?? 0) > 100)
  await good.check(t)
})
