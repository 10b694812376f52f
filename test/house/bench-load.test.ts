/**
 * Tests the load generator: one request at a time on each connection, also if the server closes idle ones.
 *
 * @lane quick
 */
import { createServer, type Socket } from 'node:net'
import t from 'tap'
import { closedLoop, type LoadReport } from '../../bench/load.ts'
import { Generator } from '../../bench/load-process.ts'

const CONNECTIONS = 8
const REQUESTS = 200
const ANSWER_MS = 2
const ANSWER = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

/** A server that counts its connections, its requests, and the simultaneous requests on one connection. */
function countingServer() {
  const seen = { sockets: [] as Socket[], requests: 0, atOnce: 0 }
  const server = createServer((socket) => {
    let waiting = 0
    seen.sockets.push(socket)
    socket.on('error', () => {})
    socket.on('data', (bytes) => {
      const requests = bytes.toString('latin1').split('GET / HTTP/1.1').length - 1
      seen.requests += requests
      waiting += requests
      seen.atOnce = Math.max(seen.atOnce, waiting)
      setTimeout(() => {
        waiting -= requests
        socket.write(ANSWER.repeat(requests))
      }, ANSWER_MS)
    })
  })
  return { seen, server }
}

async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await new Promise((resolve) => setTimeout(resolve, 5))
}

t.test('a connection that was closed while idle takes one request at a time', async (t) => {
  const { seen, server } = countingServer()
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    for (const socket of seen.sockets) socket.destroy()
    server.close()
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the server has no port')
  const generator = new Generator(
    closedLoop({
      url: `http://127.0.0.1:${address.port}`,
      request: { kind: 'get', path: '/' },
      connections: CONNECTIONS,
      requestsMax: REQUESTS,
      seconds: 20,
    }),
  )
  await new Promise<void>((resolve) => generator.connect(resolve))
  await until(() => seen.sockets.length === CONNECTIONS)
  for (const socket of seen.sockets) socket.destroy()
  await until(() => seen.sockets.length === 2 * CONNECTIONS)
  // Until the generator has seen that they are open, too.
  await new Promise((resolve) => setTimeout(resolve, 50))
  t.equal(seen.requests, 0, 'nothing is sent before the start')
  const report = await new Promise<LoadReport>((resolve) => generator.start(resolve))
  t.equal(report.statuses['200'], REQUESTS)
  t.equal(report.requestsLost, 0)
  t.equal(seen.atOnce, 1)
})

t.test(
  'a slow connection reserves no request: each is sent once before any is sent twice',
  async (t) => {
    const marks: string[] = []
    const sockets: Socket[] = []
    const server = createServer((socket) => {
      sockets.push(socket)
      const answerMs = sockets.length === 1 ? 30 : 1
      socket.on('error', () => {})
      socket.on('data', (bytes) => {
        marks.push(/"mark (\d+)"/.exec(bytes.toString('latin1'))?.[1] ?? 'none')
        setTimeout(() => socket.write(ANSWER), answerMs)
      })
    })
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
    t.teardown(() => {
      for (const socket of sockets) socket.destroy()
      server.close()
    })
    const address = server.address()
    if (address === null || typeof address === 'string') throw new Error('the server has no port')
    const bodies = Array.from({ length: REQUESTS }, (_, index) => `"mark ${index}"`)
    const generator = new Generator(
      closedLoop({
        url: `http://127.0.0.1:${address.port}`,
        request: { kind: 'post', path: '/', headers: {}, bodies },
        connections: CONNECTIONS,
        requestsMax: REQUESTS,
        seconds: 20,
      }),
    )
    await new Promise<void>((resolve) => generator.connect(resolve))
    const report = await new Promise<LoadReport>((resolve) => generator.start(resolve))
    t.equal(report.statuses['200'], REQUESTS)
    t.equal(new Set(marks).size, REQUESTS)
  },
)
