/**
 * Problems on the wire of an ingestion request, against the built daemon: aborted and slow uploads, pipelines, chunks,
 * floods of headers, ambiguous lengths. An event that was answered with 200 is stored once, any other at most once, and
 * half a request is never stored. A valid client is not affected.
 *
 * @lane quick
 */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { PROJECT_KEY } from '../../fixtures/daemon.ts'
import { closeConnections, postJson, RawConnection, send } from '../../fixtures/exact-client.ts'
import { GoodClient, startTarget, type Target } from '../../fixtures/faults/hostile-client.ts'

const MEBIBYTE = 1024 ** 2
const SETTLE_MS_MAX = 60_000

t.teardown(closeConnections)
t.setTimeout(300_000)

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

function eventBody(event: string, uuid: string = randomUUID()): string {
  return JSON.stringify({ api_key: PROJECT_KEY, event, distinct_id: 'u', uuid })
}

function request(body: string, headers = ''): string {
  const length = Buffer.byteLength(body)
  return `POST /capture/ HTTP/1.1\r\nHost: tenrec\r\n${headers}Content-Length: ${length}\r\n\r\n${body}`
}

function chunkedRequest(chunks: readonly string[], headers = ''): string {
  const parts = chunks.map((chunk) => `${Buffer.byteLength(chunk).toString(16)}\r\n${chunk}\r\n`)
  const head = `POST /capture/ HTTP/1.1\r\nHost: tenrec\r\n${headers}Transfer-Encoding: chunked\r\n\r\n`
  return `${head}${parts.join('')}0\r\n\r\n`
}

async function metric(url: string, name: string): Promise<number> {
  const { body } = await send(`${url}/metrics`)
  const line = body
    .toString()
    .split('\n')
    .find((each) => each.startsWith(`${name} `))
  if (line === undefined) throw new Error(`no metric ${name}`)
  return Number(line.slice(name.length + 1))
}

/** Waits until a metric has a value. Throws if it does not reach the value in time. */
async function untilMetric(url: string, name: string, value: number): Promise<void> {
  const deadline = performance.now() + SETTLE_MS_MAX
  for (;;) {
    const found = await metric(url, name)
    if (found === value) return
    if (performance.now() > deadline) throw new Error(`${name} stays ${found}`)
    await pause(50)
  }
}

/** Writes each text to its own connection. The server must answer with one of the statuses or close the connection. */
async function expectAnswers(
  target: Target,
  texts: Readonly<Record<string, string>>,
  statuses: readonly number[],
): Promise<void> {
  for (const [name, text] of Object.entries(texts)) {
    const connection = await RawConnection.open(target.url)
    connection.write(text)
    const found = await connection.untilAnswers(1, 15_000)
    const isClosed = found.length > 0 || (await connection.closed(0))
    assert.ok(isClosed, `${name}: neither answered nor closed`)
    for (const status of found) assert.ok(statuses.includes(status), `${name}: ${status}`)
    connection.destroy()
  }
  await target.settle()
}

async function storedCount(target: Target, event: string): Promise<number> {
  await target.settle()
  return (await target.stored(event)).length
}

t.test('malformed requests on the wire', async (t) => {
  const target = await startTarget(t)
  const { url } = target
  const good = new GoodClient(target)
  t.teardown(() => good.stop())

  await t.test('an aborted upload leaves nothing behind', async (t) => {
    const body = eventBody('aborted')
    const whole = Buffer.from(request(body))
    for (let length = 1; length < whole.length; length += 7) {
      const connection = await RawConnection.open(url)
      connection.write(whole.subarray(0, length))
      if (length % 2 === 0) await pause(2)
      if (length % 3 === 0) connection.socket.resetAndDestroy()
      else connection.destroy()
    }
    const large = JSON.stringify({
      api_key: PROJECT_KEY,
      pad: 'x'.repeat(4 * MEBIBYTE),
      event: 'aborted',
    })
    const started = await Promise.all(
      Array.from({ length: 20 }, async (_, index) => {
        const connection = await RawConnection.open(url)
        connection.write(request(large).slice(0, 1000 + index * 200_000))
        return connection
      }),
    )
    await pause(200)
    t.ok((await metric(url, 'http_body_bytes_in_flight')) > 0, 'the uploads were in progress')
    for (const connection of started) connection.destroy()
    await untilMetric(url, 'http_body_bytes_in_flight', 0)
    t.equal(await storedCount(target, 'aborted'), 0)
  })

  await t.test(
    'a client that closes its sending side is answered, or its event is stored once',
    async (t) => {
      const uuids = Array.from({ length: 20 }, () => randomUUID())
      for (const uuid of uuids) {
        const connection = await RawConnection.open(url)
        connection.socket.end(request(eventBody('half closed', uuid)))
        await connection.closed(SETTLE_MS_MAX)
        connection.destroy()
        const { status } = await postJson(
          `${url}/capture/`,
          JSON.parse(eventBody('half closed', uuid)),
        )
        t.equal(status, 200, 'it retries, because the outcome is unknown')
      }
      t.equal(await storedCount(target, 'half closed'), uuids.length)
    },
  )

  await t.test('very slow uploads are answered when they are complete', async (t) => {
    const body = eventBody('slow')
    const connections = await Promise.all(Array.from({ length: 50 }, () => RawConnection.open(url)))
    for (const connection of connections)
      connection.write(request('').replace(': 0', `: ${body.length}`))
    const piece = Math.ceil(body.length / 15)
    for (let start = 0; start < body.length; start += piece) {
      for (const connection of connections) connection.write(body.slice(start, start + piece))
      await pause(100)
    }
    for (const connection of connections) {
      t.strictSame(await connection.untilAnswers(1), [200])
      connection.destroy()
    }
    t.equal(await storedCount(target, 'slow'), 1, 'all events have the same uuid')
  })

  for (const length of [2, 30]) {
    await t.test(
      `a pipeline of ${length} is answered in order or cut, and never stored twice`,
      async (t) => {
        const name = `pipeline ${length}`
        const uuids = Array.from({ length }, () => randomUUID())
        const connection = await RawConnection.open(url)
        connection.write(uuids.map((uuid) => request(eventBody(name, uuid))).join(''))
        const statuses = await connection.untilAnswers(length, 5000)
        connection.destroy()
        t.ok(statuses.every((status) => status === 200))
        t.comment(`${statuses.length} of ${length} answered`)
        await target.settle()
        const first = (await target.stored(name)).map(({ uuid }) => uuid)
        t.strictSame(first, uuids.slice(0, first.length), 'in order')
        t.ok(first.length >= statuses.length, 'every answered event is stored')
        for (const uuid of uuids)
          await postJson(`${url}/capture/`, JSON.parse(eventBody(name, uuid)))
        t.equal(await storedCount(target, name), length, 'a retry completes it')
      },
    )
  }

  await t.test('chunked bodies of any chunk size are accepted', async (t) => {
    const body = eventBody('chunked')
    const cuts = [1, 2, 7, body.length]
    for (const [index, size] of cuts.entries()) {
      const chunks: string[] = []
      for (let start = 0; start < body.length; start += size) {
        chunks.push(body.slice(start, start + size))
      }
      const connection = await RawConnection.open(url)
      const text = chunkedRequest(chunks)
      const bodyStart = text.indexOf('\r\n\r\n') + 4
      connection.write(text.slice(0, bodyStart))
      // Byte by byte, in one packet, and in packets that end inside a chunk header.
      const piece = [1, text.length, 13, 50][index] ?? 1
      for (let start = bodyStart; start < text.length; start += piece) {
        connection.write(text.slice(start, start + piece))
        await pause(1)
      }
      t.strictSame(await connection.untilAnswers(1), [200], `chunks of ${size}`)
      connection.destroy()
    }
    t.equal(await storedCount(target, 'chunked'), 1)
  })

  await t.test('malformed chunks are refused or the connection is closed', async (t) => {
    const body = eventBody('bad chunks')
    const head = 'POST /capture/ HTTP/1.1\r\nHost: tenrec\r\nTransfer-Encoding: chunked\r\n\r\n'
    const size = body.length.toString(16)
    await expectAnswers(
      target,
      {
        'a size that is no number': `${head}xyz\r\n${body}\r\n0\r\n\r\n`,
        'a negative size': `${head}-${size}\r\n${body}\r\n0\r\n\r\n`,
        'a size beyond 64 bits': `${head}fffffffffffffffff\r\n${body}\r\n0\r\n\r\n`,
        'a chunk that is longer': `${head}${size}\r\n${body}more\r\n0\r\n\r\n`,
        'no end of line': `${head}${size}${body}0\r\n\r\n`,
      },
      [400, 413, 505],
    )
    t.equal(await storedCount(target, 'bad chunks'), 0)
  })

  await t.test('a chunked body above the limit is refused', async (t) => {
    const chunk = `100000\r\n${'x'.repeat(MEBIBYTE)}\r\n`
    for (const [name, rest] of [
      ['who stops reads the answer', '1\r\nx\r\n'],
      ['who goes on is cut off', chunk.repeat(20)],
    ] as const) {
      const connection = await RawConnection.open(url)
      connection.write('POST /e/ HTTP/1.1\r\nHost: tenrec\r\nTransfer-Encoding: chunked\r\n\r\n')
      for (let count = 0; count < 20; count++) connection.write(chunk)
      connection.write(rest)
      const statuses = await connection.untilAnswers(1)
      if (rest.length > 100)
        t.ok(
          statuses.every((status) => status === 413),
          name,
        )
      else t.strictSame(statuses, [413], name)
      t.ok(await connection.closed(), 'the connection is closed')
      connection.destroy()
    }
  })

  await t.test('an ambiguous length is refused, and no hidden request is executed', async (t) => {
    const body = eventBody('smuggled')
    const hidden = request(body)
    const line = 'POST /capture/ HTTP/1.1\r\nHost: tenrec\r\n'
    const size = body.length.toString(16)
    await expectAnswers(
      target,
      {
        'both kinds': `${line}Content-Length: ${body.length}\r\nTransfer-Encoding: chunked\r\n\r\n${size}\r\n${body}\r\n0\r\n\r\n`,
        'hidden behind a chunk': `${line}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${hidden}`,
        'two lengths': `${line}Content-Length: ${body.length}\r\nContent-Length: 5\r\n\r\n${body}`,
        'an unknown coding': `${line}Transfer-Encoding: xchunked\r\n\r\n${size}\r\n${body}\r\n0\r\n\r\n`,
        'a signed length': `${line}Content-Length: +${body.length}\r\n\r\n${body}`,
        'a hexadecimal length': `${line}Content-Length: 0x${size}\r\n\r\n${body}`,
        'a list of lengths': `${line}Content-Length: ${body.length}, ${body.length}\r\n\r\n${body}`,
      },
      [400, 501],
    )
    t.equal(await storedCount(target, 'smuggled'), 0)
  })

  await t.test('a length above the limit is refused before the body arrives', async (t) => {
    for (const length of ['25000000', '1000000000000']) {
      const connection = await RawConnection.open(url)
      connection.write(
        `POST /e/ HTTP/1.1\r\nHost: tenrec\r\nOrigin: null\r\nContent-Length: ${length}\r\n\r\n`,
      )
      t.strictSame(await connection.untilAnswers(1), [413])
      t.match(connection.text, /access-control-allow-origin: null/i, 'browsers can read the answer')
      connection.destroy()
    }
  })

  await t.test('too many headers and very long URLs are refused', async (t) => {
    await floods(t, target)
  })

  await t.test('the valid client was not affected', async (t) => good.check(t))
})

async function floods(t: Test, target: Target): Promise<void> {
  const lines = (count: number, length: number): string =>
    Array.from({ length: count }, (_, index) => `X-${index}: ${'x'.repeat(length)}\r\n`).join('')
  const body = eventBody('flood')
  await expectAnswers(
    target,
    {
      '1,000 headers': request(body, lines(1000, 1)),
      'one header of 100 KB': request(body, lines(1, 100_000)),
      '100 headers of 2 KB': request(body, lines(100, 2000)),
      '20,000 headers': request(body, lines(20_000, 10)),
      '2 MB of headers': request(body, lines(20, 100_000)),
      'an address of 100 KB': `GET /e/?data=${'x'.repeat(100_000)} HTTP/1.1\r\nHost: tenrec\r\n\r\n`,
      'headers without an end': `POST /e/ HTTP/1.1\r\n${lines(3000, 30)}`,
    },
    [400, 414, 431],
  )
  t.equal(await storedCount(target, 'flood'), 0)
  const allowed = {
    '80 headers': request(eventBody('allowed'), lines(80, 20)),
    '16 KB of headers': request(eventBody('allowed'), lines(4, 4000)),
    'a cookie of 30 KB': request(eventBody('allowed'), `Cookie: ${'c'.repeat(30_000)}\r\n`),
  }
  await expectAnswers(target, allowed, [200])
  const data = encodeURIComponent(eventBody('allowed').replace('"u"', `"${'u'.repeat(20_000)}"`))
  const odd =
    '__proto__=1&constructor=2&compression=__proto__&toString=3&_=__proto__&project_id=constructor'
  for (const query of [`data=${data}`, `data=${data}&${odd}`]) {
    assert.equal((await send(`${target.url}/e/?${query}`)).status, 200, query.slice(-100))
  }
  t.equal(await storedCount(target, 'allowed'), Object.keys(allowed).length + 1)
}
