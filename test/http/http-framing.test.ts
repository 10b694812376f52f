/**
 * HTTP requests on the wire: requests with an unambiguous length are answered. All others are refused, or the
 * connection is closed.
 *
 * @lane quick
 */
import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { connect } from 'node:net'
import t from 'tap'
import { collectBody } from '../../src/http/server/body.ts'
import { send, sendAccepted, sendEmpty, sendJson } from '../../src/http/server/respond.ts'
import { collect, jsonOf, pause, startServer, talk, until } from '../fixtures/http-client.ts'
import { HTTP_SERVER } from '../fixtures/http-server.ts'

const bodies: string[] = []
/** More than socket buffers hold. */
const LARGE = Buffer.alloc(16 * 1024 * 1024, 'large ')
const { port, metrics, server } = await startServer(t, (server, budget) => {
  server.raw('/json', (exchange) => sendJson(exchange, 200, { a: 'value' }))
  server.raw('/nothing-to-say', (exchange) => sendEmpty(exchange, 204))
  server.raw('/large', (exchange) => {
    const body = [LARGE.subarray(0, 1_000_000), LARGE.subarray(1_000_000)]
    send(exchange, { status: 200, contentType: 'text/plain', body })
  })
  server.raw('/pieces', (exchange) => {
    const pieces = ['first ', 'second'].map((text) => Buffer.from(text))
    const body = { next: async () => pieces.shift() ?? null, cancel: () => undefined }
    send(exchange, { status: 200, contentType: 'text/plain', body })
  })
  server.raw('/capture', (exchange, head) => {
    collectBody(exchange, head.contentLength, {
      bytesMax: 1000,
      budget,
      onBody: (body) => {
        bodies.push(Buffer.from(body).toString())
        sendAccepted(exchange)
      },
    })
  })
})

const POST = 'POST /capture/ HTTP/1.1\r\nHost: a.example\r\n'
const HIDDEN = `POST /capture/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: 6\r\n\r\nhidden`

t.beforeEach(() => {
  bodies.length = 0
})

t.test('an unambiguous request is answered, however it is split into packets', async (t) => {
  const accepted: Record<string, readonly string[]> = {
    'Content-Length': [`${POST}Content-Length: 2\r\n\r\nab`],
    // The parser of Node 20 accepts only spaces after a length and refuses tabs with 400.
    ...(HTTP_SERVER === 'node'
      ? {}
      : { 'tabs around the value': [`${POST}Content-Length:\t2\t\r\n\r\nab`] }),
    'body byte by byte': [`${POST}Content-Length: 2\r\n\r\n`, 'a', 'b'],
    'request line in three packets': [
      'POST /cap',
      'ture',
      `${POST.slice(13)}Content-Length: 2\r\n\r\nab`,
    ],
    chunked: [`${POST}Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n`],
    'chunked in capitals': [`${POST}Transfer-Encoding: CHUNKED\r\n\r\n2\r\nab\r\n0\r\n\r\n`],
    'chunks of one byte': [
      `${POST}Transfer-Encoding: chunked\r\n\r\n`,
      '1\r\na\r\n',
      '1\r\nb\r\n',
      '0\r\n\r\n',
    ],
    'odd header names': [`${POST}__proto__: x\r\nconstructor: y\r\nContent-Length: 2\r\n\r\nab`],
  }
  for (const [name, parts] of Object.entries(accepted)) {
    bodies.length = 0
    const received = await talk(port, parts, { answers: 1 })
    t.same([received.statuses, bodies], [[200], ['ab']], name)
  }
})

t.test('Expect: 100-continue is answered before the body is sent', async (t) => {
  const head = `${POST}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n`
  const received = await talk(port, [head, 'ab'], { answers: 1 })
  t.same(received.statuses, [100, 200])
})

t.test('ambiguous framing is refused with 400, and the connection is closed', async (t) => {
  const refused: Record<string, string> = {
    'two lengths, short one first': 'Content-Length: 2\r\nContent-Length: 3',
    'two lengths, long one first': 'Content-Length: 3\r\nContent-Length: 2',
    'two equal lengths': 'Content-Length: 2\r\nContent-Length: 2',
    'a list of lengths': 'Content-Length: 2, 2',
    'a negative length': 'Content-Length: -2',
    'a plus sign': 'Content-Length: +2',
    'a hexadecimal length': 'Content-Length: 0x2',
    'a fraction': 'Content-Length: 2.0',
    'an empty length': 'Content-Length:',
    'twenty digits': 'Content-Length: 00000000000000000002',
    'a length beyond 64 bits': 'Content-Length: 18446744073709551621',
    'length and chunked': 'Content-Length: 2\r\nTransfer-Encoding: chunked',
    'chunked and length': 'Transfer-Encoding: chunked\r\nContent-Length: 2',
    'gzip as transfer encoding': 'Transfer-Encoding: gzip',
    identity: 'Transfer-Encoding: identity',
    'something that ends in chunked': 'Transfer-Encoding: xchunked',
    'a list of encodings': 'Transfer-Encoding: gzip, chunked',
    'chunked twice': 'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked',
    'two hosts': 'Host: b.example',
    'two authorizations': 'Authorization: Bearer a\r\nAuthorization: Bearer b',
  }
  for (const [name, headers] of Object.entries(refused)) {
    const received = await talk(port, `${POST}${headers}\r\n\r\nab`)
    t.same(received.statuses, [400], `${name}: 400`)
    t.ok(received.isClosed, `${name}: closed`)
  }
  t.same(bodies, [], 'no handler received any of them')
})

t.test("Tenrec's own refusal is JSON with four keys and says what to change", async (t) => {
  const received = await talk(port, `${POST}Content-Length: 2\r\nContent-Length: 2\r\n\r\nab`)
  t.same(jsonOf(received), {
    type: 'invalid_request',
    code: 'bad_request',
    detail: 'Send only one Content-Length header.',
    attr: null,
  })
  t.match(received.text, /connection: close/i)
})

t.test('a request hidden behind ambiguous framing is never answered or executed', async (t) => {
  const carriers: Record<string, string> = {
    'two lengths': `${POST}Content-Length: 2\r\nContent-Length: 200\r\n\r\nab${HIDDEN}`,
    'length and chunked': `${POST}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${HIDDEN}`,
    'unknown transfer encoding': `${POST}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n${HIDDEN}`,
    'chunked twice': `${POST}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n${HIDDEN}`,
  }
  for (const [name, bytes] of Object.entries(carriers)) {
    const received = await talk(port, bytes)
    t.notOk(received.statuses.includes(200), `${name}: not answered`)
    t.ok(received.isClosed, `${name}: closed`)
  }
  t.same(bodies, [], 'not executed')
})

t.test('malformed header lines are never answered or executed', async (t) => {
  const refused: Record<string, string> = {
    'a length on a folded line': 'X-A: b\r\n Content-Length: 2',
    'a line feed within a value': 'X-A: b\nContent-Length: 2',
    'a zero byte in a value': 'X-A: b\0c\r\nContent-Length: 2',
    'a zero byte in a name': 'X\0A: b\r\nContent-Length: 2',
    'a blank before the colon': 'Content-Length : 2',
  }
  // They count as incomplete and are closed as such. See slow-connections.test.ts.
  const asking = Object.entries(refused).map(async ([name, headers]) => {
    const received = await talk(port, `${POST}${headers}\r\n\r\nab${HIDDEN}`, { waitMs: 500 })
    t.notOk(received.statuses.includes(200), name)
  })
  await Promise.all(asking)
  t.same(bodies, [])
})

const CHUNKED = `${POST}Transfer-Encoding: chunked\r\n\r\n`

t.test(
  'a chunked request is answered, and its connection is closed after the answer',
  async (t) => {
    const requests: Record<string, readonly string[]> = {
      'a capture': [`${CHUNKED}2\r\nab\r\n0\r\n\r\n`],
      'chunk by chunk': [CHUNKED, '1\r\na\r\n', '1\r\nb\r\n', '0\r\n\r\n'],
      'a long body': [`${CHUNKED}300\r\n${'x'.repeat(0x300)}\r\n0\r\n\r\n`],
      'no such path': [CHUNKED.replace('/capture/', '/nothing'), '2\r\nab\r\n0\r\n\r\n'],
    }
    for (const [name, parts] of Object.entries(requests)) {
      const socket = connect({ port, host: '127.0.0.1', noDelay: true })
      const answered = collect(socket)
      socket.once('data', () => socket.write(HIDDEN))
      for (const part of parts) {
        socket.write(part)
        await pause(2)
      }
      const received = await answered
      t.same(received.statuses, [name === 'no such path' ? 404 : 200], name)
      t.match(received.text, /^connection: close\r$/im, `${name}: the answer announces it`)
      t.ok(received.isClosed, `${name}: the connection is closed`)
    }
    t.same(bodies, ['ab', 'ab', 'x'.repeat(0x300)], 'a later request was not read')
  },
)

t.test('answers without a body to chunked requests close their connections too', async (t) => {
  const requests: Record<string, readonly [string, number, RegExp]> = {
    'HEAD /json': ['/json', 200, /^content-length: 13\r$/gim],
    // The library has no other kind of answer that closes the connection.
    'POST /nothing-to-say': ['/nothing-to-say', 204, /^content-length: 0\r$/gim],
    'HEAD /large': ['/large', 200, new RegExp(`^content-length: ${LARGE.length}\r$`, 'gim')],
  }
  for (const [line, [route, status, length]] of Object.entries(requests)) {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true })
    const answered = collect(socket)
    socket.once('data', () => socket.write(HIDDEN))
    socket.write(CHUNKED.replace('POST /capture/', line))
    socket.write('2\r\nab\r\n0\r\n\r\n')
    const { statuses, text, isClosed } = await answered
    t.same([statuses, isClosed], [[status], true], line)
    t.equal(text.match(/^content-length:/gim)?.length, 1, `${line}: one Content-Length`)
    t.match(text, length, `${line}: the right Content-Length`)
    t.equal(text.match(/^connection: close\r$/gim)?.length, 1, `${line}: announced once`)
    t.ok(text.endsWith('\r\n\r\n'), `${line}: no body`)
    t.equal(metrics.httpRequests.with(route, String(status)).value, 1, `${line}: counted`)
  }
  t.equal(server.requestsInProgress, 0)
  t.same(bodies, [], 'a later request was not read')
})

t.test('a refusal of HEAD with an endless body is sent before the body ends', async (t) => {
  const head = POST.replace('POST', 'HEAD')
  const received = await talk(port, `${head}Content-Length: 100000000\r\n\r\n`)
  t.same([received.statuses, received.isClosed], [[413], true])
  t.ok(received.text.endsWith('\r\n\r\n'))
})

t.test(
  'a large answer to a chunked request is complete, and its connection is closed',
  async (t) => {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true })
    let receivedBytes = 0
    let isClosed = false
    const chunks: Buffer[] = []
    socket.on('data', (chunk: Buffer) => {
      chunks.push(chunk)
      receivedBytes += chunk.length
      if (receivedBytes > LARGE.length) socket.write(HIDDEN)
    })
    socket.on('error', () => undefined)
    socket.on('close', () => {
      isClosed = true
    })
    socket.pause()
    socket.write(`${CHUNKED.replace('/capture/', '/large')}2\r\nab\r\n0\r\n\r\n`)
    await until(() => metrics.httpAnswerBytesWaiting.value > 0)
    socket.resume()
    t.ok(await until(() => isClosed), 'the connection is closed')
    const received = Buffer.concat(chunks)
    const headBytes = received.indexOf('\r\n\r\n') + 4
    const head = received.subarray(0, headBytes).toString()
    t.ok(received.subarray(headBytes).equals(LARGE), 'complete and in order')
    t.match(head, new RegExp(`^content-length: ${LARGE.length}\r$`, 'im'))
    t.match(head, /^connection: close\r$/im)
    t.equal(metrics.httpRequests.with('/large', '200').value, 2, 'counted like the HEAD before')
    t.equal(metrics.httpAnswerBytesWaiting.value, 0)
    t.same(bodies, [], 'a later request was not read')
  },
)

t.test('an answer in chunks to a chunked request is well-formed and the last one', async (t) => {
  const call = request(`http://127.0.0.1:${port}/pieces`, { method: 'POST', agent: false })
  call.write('ab')
  call.end('cd')
  const [answer] = (await once(call, 'response')) as [IncomingMessage]
  let text = ''
  for await (const part of answer) text += String(part)
  t.equal(text, 'first second')
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  const answered = collect(socket)
  let isSent = false
  socket.on('data', (chunk: Buffer) => {
    if (!isSent && chunk.includes('\r\n0\r\n\r\n')) isSent = socket.write(HIDDEN)
  })
  socket.write(`${CHUNKED.replace('/capture/', '/pieces')}2\r\nab\r\n0\r\n\r\n`)
  const received = await answered
  t.same(received.statuses, [200])
  t.ok(isSent)
  const chunks = ['6', 'first ', '6', 'second', '0', '', ''].join('\r\n')
  t.equal(received.text.slice(received.text.indexOf('\r\n\r\n') + 4), chunks)
  t.same(bodies, [], 'a later request was not read')
})

t.test('clients that send chunked requests continue on another connection', async (t) => {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  const sent = Array.from({ length: 5 }, (_, index) => `chunk ${index}`)
  for (const text of sent) {
    const url = `http://127.0.0.1:${port}/capture/`
    const call = request(url, { method: 'POST', agent })
    call.write(text.slice(0, 3))
    call.end(text.slice(3))
    const [answer] = (await once(call, 'response')) as [IncomingMessage]
    t.equal(answer.statusCode, 200)
    await once(answer.resume(), 'end')
  }
  t.same(bodies, sent)
})

t.test(
  'bytes after a chunked request are never executed, and neither is that request',
  async (t) => {
    const endings: Record<string, string> = {
      'another request': `0\r\n\r\n${HIDDEN}`,
      'another request in chunks': `0\r\n\r\n${CHUNKED}6\r\nhidden\r\n0\r\n\r\n`,
      // This is legal, but the library reads it as a request of another HTTP version.
      'a trailer': '0\r\nX-Sum: 1\r\n\r\n',
      'a trailer and another request': `0\r\nX-Sum: 1\r\n\r\n${HIDDEN}`,
      'a request in the place of a trailer': `0\r\n${HIDDEN}`,
    }
    for (const [name, ending] of Object.entries(endings)) {
      const received = await talk(port, `${CHUNKED}2\r\nab\r\n${ending}`)
      t.ok(received.isClosed, `${name}: closed`)
      t.notOk(received.statuses.includes(200), `${name}: not acknowledged`)
    }
    t.same(bodies, [])
  },
)

t.test('nonstandard chunks that the library accepts cannot hide a request', async (t) => {
  const odd: Record<string, string> = {
    'an extension, taken for a part of the length': `1;\r\na\r\n0\r\n\r\n${HIDDEN}`,
    'no line end behind a chunk': `2\r\nab0\r\n\r\n${HIDDEN}`,
    'junk behind the end': `2\r\nab\r\n0\r\n\r\njunk\r\n\r\n${HIDDEN}`,
  }
  const asking = Object.entries(odd).map(([, chunks]) =>
    talk(port, [CHUNKED + chunks, HIDDEN], { waitMs: 500 }),
  )
  for (const received of await Promise.all(asking)) {
    t.ok(received.statuses.filter((status) => status === 200).length <= 1)
  }
  t.notOk(bodies.includes('hidden'), 'the request behind them was not carried out')
})

t.test('Host must be a name or an address', async (t) => {
  const cases: readonly (readonly [string, number])[] = [
    ['a.example:8000', 200],
    ['127.0.0.1', 200],
    ['[::1]:8000', 200],
    ['under_score', 200],
    ['', 400],
    ['a/b', 400],
    ['a b', 400],
    ['user@a', 400],
    ['a:port', 400],
    ['a'.repeat(4000), 400],
  ]
  for (const [host, status] of cases) {
    const request = `POST /capture HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 1\r\n\r\na`
    t.same((await talk(port, request, { answers: 1 })).statuses, [status], host.slice(0, 20))
  }
})

t.test('input that is not HTTP/1.1 gets an error, and the connection is closed', async (t) => {
  const cases: Record<string, string> = {
    'HTTP/1.0': 'GET /capture HTTP/1.0\r\nHost: a\r\n\r\n',
    'the HTTP/2 preface': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    'a TLS hello': '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
    'bare line feeds': 'GET /capture HTTP/1.1\nHost: a\n\n',
    'an absolute URI': 'GET http://other.example/capture HTTP/1.1\r\nHost: a\r\n\r\n',
    CONNECT: 'CONNECT other.example:443 HTTP/1.1\r\nHost: a\r\n\r\n',
    'a chunk size that is no number': `${POST}Transfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n0\r\n\r\n`,
  }
  for (const [name, bytes] of Object.entries(cases)) {
    const received = await talk(port, bytes)
    t.ok(received.isClosed, `${name}: closed`)
    t.ok(
      received.statuses.every((status) => status >= 400),
      `${name}: no success`,
    )
  }
  t.same(bodies, [])
})

t.test('an incomplete body is not delivered', async (t) => {
  const cases = [
    `${POST}Content-Length: 10\r\n\r\nab`,
    `${POST}Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n`,
  ]
  for (const bytes of cases) {
    const received = await talk(port, bytes, { isHalfClosed: true })
    t.same([received.statuses, received.isClosed], [[], true])
  }
  t.same(bodies, [])
})

t.test('pipelined requests are answered in order', async (t) => {
  const requests = Array.from({ length: 30 }, (_, index) => {
    const body = `n${index}`
    return `${POST}Content-Length: ${body.length}\r\n\r\n${body}`
  })
  const received = await talk(port, requests.join(''), { answers: 30 })
  t.same(received.statuses, Array(30).fill(200))
  t.same(
    bodies,
    Array.from({ length: 30 }, (_, index) => `n${index}`),
  )
})

t.test('16 KB of headers and 90 headers are accepted, 100 KB are refused with 431', async (t) => {
  const many = Array.from({ length: 90 }, (_, index) => `X-${index}: y\r\n`).join('')
  const ending = 'Content-Length: 1\r\n\r\na'
  const passes = [`${POST}Cookie: ${'c'.repeat(16_000)}\r\n${ending}`, `${POST}${many}${ending}`]
  for (const bytes of passes) t.same((await talk(port, bytes, { answers: 1 })).statuses, [200])
  const flood = await talk(port, `${POST}Cookie: ${'c'.repeat(100_000)}\r\n${ending}`)
  t.same([flood.statuses, flood.isClosed], [[431], true])
})
