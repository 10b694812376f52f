/**
 * The client address of each request, with several clients and with connections of the same client.
 *
 * @lane quick
 */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import t from 'tap'
import { json } from '../../src/http/server/router.ts'
import { startServer, until } from '../fixtures/http-client.ts'

const REQUEST = 'GET /api/peer/ HTTP/1.1\r\nHost: a.example\r\n\r\n'

t.test(
  'each request has the address of its own connection, whatever else is connected',
  async (t) => {
    const { port, metrics } = await startServer(t, (server) => {
      const route = { method: 'GET', path: '/api/peer/' } as const
      server.routes([{ ...route, handler: (api) => json(api.peerAddress) }])
    })
    const open = (localAddress: string): Socket =>
      connect({ port, host: '127.0.0.1', localAddress })
    const ask = async (socket: Socket): Promise<string> => {
      const received = once(socket, 'data')
      socket.write(REQUEST)
      return String(await received).split('\r\n\r\n')[1] ?? ''
    }
    const leave = async (...sockets: readonly Socket[]): Promise<void> => {
      const left = metrics.httpConnections.value - sockets.length
      for (const socket of sockets) socket.destroy()
      t.ok(await until(() => metrics.httpConnections.value === left))
    }
    const own = (digit: number): string => `127.0.0.${digit}`
    const [first, second, other] = [open(own(1)), open(own(1)), open(own(2))]
    for (const socket of [first, second]) t.equal(await ask(socket), `"${own(1)}"`)
    t.equal(await ask(other), `"${own(2)}"`)
    t.equal(await ask(first), `"${own(1)}"`)
    await leave(first, second)
    const third = open(own(3))
    t.equal(
      await ask(other),
      `"${own(2)}"`,
      'clients that were connected before keep their address',
    )
    t.equal(await ask(third), `"${own(3)}"`)
    await leave(other, third)
    const last = open(own(4))
    t.equal(await ask(last), `"${own(4)}"`, 'after all clients have disconnected')
    await leave(last)
  },
)
