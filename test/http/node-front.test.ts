/**
 * Tests how node:http releases requests and closes connections, where the interface of both libraries does not show it.
 *
 * @lane quick
 */
import { once } from 'node:events'
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import type { FrontResponse } from '../../src/http/server/front.ts'
import { NodeFront } from '../../src/http/server/node-front.ts'
import { NodeRequest } from '../../src/http/server/node-request.ts'
import { until } from '../fixtures/http-client.ts'

/** A front whose answers begin when the body has arrived, and go on until the test ends them. */
async function start(t: Test) {
  const front = new NodeFront()
  const answers: FrontResponse[] = []
  front.any('/long', (response) => {
    response.onAborted(() => undefined)
    response.onData((_, isLast) => {
      if (!isLast) return
      response.write(Buffer.from('begin'))
      answers.push(response)
    })
  })
  const port = Number(await front.listen('127.0.0.1', 0))
  t.teardown(() => front.close())
  const ask = async (body: string) => {
    const socket = connect(port, '127.0.0.1')
    t.teardown(() => socket.destroy())
    socket.write(`POST /long HTTP/1.1\r\nHost: a\r\n${body}`)
    await once(socket, 'data')
    return socket
  }
  return { front, answers, ask }
}

t.test('the request of a long answer is released when it is complete', async (t) => {
  const completed: boolean[] = []
  const { release } = NodeRequest.prototype
  t.intercept(NodeRequest.prototype, 'release', {
    value(this: NodeRequest) {
      completed.push(this.complete)
      release.call(this)
    },
  })
  const { ask } = await start(t)
  await ask('Content-Length: 4\r\n\r\nbody')
  await ask('Content-Length: 0\r\n\r\n')
  await ask('Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n')
  t.ok(await until(() => completed.length === 3))
  t.strictSame(completed, [true, true, true])
})

t.test('idle connections are closed as soon as the server stops listening', async (t) => {
  const { front, answers, ask } = await start(t)
  let connections = 0
  // biome-ignore lint/suspicious/useIterableCallbackReturn: this is no array.
  front.filter((_, change) => {
    connections += change
  })
  const idle = await ask('Content-Length: 0\r\n\r\n')
  answers[0]?.end()
  await once(idle, 'data')
  const busy = await ask('Content-Length: 0\r\n\r\n')
  t.equal(connections, 2)
  front.stopListening()
  t.equal(connections, 1)
  answers[1]?.end()
  const [end] = (await once(busy, 'data')) as [Buffer]
  t.match(String(end), /0\r\n\r\n$/, 'an answer in progress is completed')
})
