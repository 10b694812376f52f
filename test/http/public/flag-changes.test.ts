/**
 * Streams of flag changes: their messages, the clients that receive them, and how a stream ends. The first tests run
 * with both HTTP libraries.
 *
 * @lane quick
 */
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import type { HttpServerName } from '../../../src/config/settings-table.ts'
import { FlagListeners } from '../../../src/engine/front/flag-listeners.ts'
import type { FlagSnapshot } from '../../../src/engine/front/flag-snapshots.ts'
import {
  FLAG_LISTENER_STALL_MS_MAX,
  FLAG_LISTENERS_OF_ADDRESS_MAX,
} from '../../../src/engine/front/limits.ts'
import { FLAG_CHANGE_ROUTES } from '../../../src/http/routes/public/flag-changes.ts'
import { chooseFront } from '../../../src/http/server/choose-front.ts'
import { bindPublic } from '../../../src/http/server/public-route.ts'
import { TrustedProxies } from '../../../src/http/server/url.ts'
import { compileFlags } from '../../../src/rules/flags/compile.ts'
import type { FlagSet } from '../../../src/rules/flags/types.ts'
import { EventStream } from '../../fixtures/event-stream.ts'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'
import { startServer, until } from '../../fixtures/http-client.ts'

const FRONTS: readonly HttpServerName[] =
  chooseFront('auto').name === 'uws' ? ['uws', 'node'] : ['node']
const KEY = 'phc_listening'
const PLAIN = `/flags/changes?token=${KEY}`
const OFREP = `/ofrep/v1/event_stream?token=${KEY}`

interface Shown {
  readonly id: string
  readonly event: string
  readonly data: Readonly<Record<string, unknown>>
}

/** The messages in the text of a stream, apart from comments. */
function messagesIn(text: string): readonly Shown[] {
  return [...text.matchAll(/id: (\w+)\nevent: (\w+)\ndata: (.+)\n\n/g)].map(
    ([, id = '', event = '', data = '{}']) => ({
      id,
      event,
      data: JSON.parse(data) as Shown['data'],
    }),
  )
}

/** A server with streams only, and flags that change when the test says so. */
async function start(t: Test, httpServer: HttpServerName, listenersMax = 1000) {
  let set: FlagSet = {
    projectId: 1,
    timezone: 'UTC',
    flags: [],
    cohorts: new Map(),
    groupTypes: new Map(),
  }
  const snapshotNow = (): FlagSnapshot => ({
    serial: 1,
    set,
    compiled: compileFlags(set),
    continuityKeys: [],
    hasActiveFlags: false,
  })
  let snapshot = snapshotNow()
  let nowMs = 100_000
  let isKeyValid = true
  let changes = 0
  const held: FlagListeners[] = []
  const projectByKey = (key: string) =>
    key === KEY && isKeyValid ? { id: 1, apiKey: KEY, isCompressed: false } : null
  const { port, server, metrics } = await startServer(
    t,
    (started, _, serverMetrics) => {
      const listeners = new FlagListeners({
        snapshots: { of: () => snapshot },
        clock: { monotonic: () => nowMs },
        metrics: serverMetrics,
        listenersMax,
        delayMs: 0,
      })
      held.push(listeners)
      const directory = { projectByKey } as never
      const routes = bindPublic(FLAG_CHANGE_ROUTES, {
        directory,
        projects: directory,
        listeners,
        publicUrl: null,
        trustedProxies: new TrustedProxies(['127.0.0.0/8']),
      })
      started.publicRoutes(routes)
    },
    { httpServer },
  )
  const [listeners] = held
  if (listeners === undefined) throw new Error('the server was not set up')
  t.teardown(() => listeners.close())
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    server,
    metrics,
    listeners,
    change(): void {
      set = { ...set, groupTypes: new Map([[0, `type ${++changes}`]]) }
      snapshot = snapshotNow()
      listeners.changed(1)
    },
    pass(ms: number): void {
      nowMs += ms
    },
    revokeKey(): void {
      isKeyValid = false
    },
  }
}

/** Opens a stream over a socket, whose text is collected while it is read. */
async function open(t: Test, port: number, path: string, headers = '') {
  const socket = connect({ port, host: '127.0.0.1' })
  t.teardown(() => socket.destroy())
  const state = { socket, text: '' }
  socket.setEncoding('latin1')
  socket.on('data', (text: string) => {
    state.text += text
  })
  socket.on('error', () => undefined)
  socket.write(`GET ${path} HTTP/1.1\r\nHost: a.example\r\n${headers}\r\n`)
  await until(() => state.text.includes(': open') || /^HTTP\S+ [45]/.test(state.text))
  return state
}

/** Returns the body without its head and the framing of its chunks. */
function bodyOf({ text }: { readonly text: string }): string {
  const body = text.slice(text.indexOf('\r\n\r\n') + 4)
  return body.replace(/(?:^|\r\n)[0-9a-f]+\r\n/g, '').replace(/\r\n$/, '')
}

for (const front of FRONTS) {
  t.test(`${front}: a change is told with its version, in the form of each stream`, async (t) => {
    const { port, metrics, change } = await start(t, front)
    const plain = await open(t, port, PLAIN)
    const ofrep = await open(t, port, OFREP, 'Origin: https://shop.example\r\n')
    t.match(plain.text, /^HTTP\/1\.1 200 OK\r\n/)
    t.match(plain.text, /Content-Type: text\/event-stream\r\n/)
    t.match(plain.text, /Cache-Control: no-store\r\n/)
    t.match(ofrep.text, /Access-Control-Allow-Origin: https:\/\/shop\.example\r\n/)
    t.match(bodyOf(ofrep), /^retry: \d+\n: open\n\n$/)
    const [first] = messagesIn(bodyOf(plain))
    t.match(first, { event: 'flags', data: { version: first?.id } })
    t.equal(metrics.flagListeners.value, 2)
    change()
    await until(() => bodyOf(ofrep).includes('refetch') && messagesIn(bodyOf(plain)).length === 2)
    const [, second] = messagesIn(bodyOf(plain))
    t.not(second?.id, first?.id)
    t.strictSame(messagesIn(bodyOf(ofrep)), [
      {
        id: second?.id,
        event: 'message',
        data: { type: 'refetchEvaluation', etag: `"${second?.id}"` },
      },
    ])
    plain.socket.destroy()
    ofrep.socket.destroy()
    await until(() => metrics.flagListeners.value === 0)
  })

  t.test(`${front}: a client that returns is told only what it has missed`, async (t) => {
    const { port, change, pass } = await start(t, front)
    change()
    pass(60_000)
    const [known] = messagesIn(bodyOf(await open(t, port, PLAIN)))
    const header = `Last-Event-ID: ${known?.id}\r\n`
    const current = await open(t, port, OFREP, header)
    t.strictSame(messagesIn(bodyOf(current)), [])
    t.strictSame(messagesIn(bodyOf(await open(t, port, OFREP))), [], 'a new client knows the flags')
    change()
    const behind = await open(t, port, OFREP, header)
    t.match(messagesIn(bodyOf(behind)), [{ data: { type: 'refetchEvaluation' } }])
    const late = await open(t, port, OFREP)
    t.equal(messagesIn(bodyOf(late)).length, 1, 'it may have asked just before the change')
  })

  t.test(`${front}: a stopped reader gets the latest version later, or is cut off`, async (t) => {
    const { port, metrics, change, pass } = await start(t, front)
    const slow = await open(t, port, PLAIN)
    const stopped = await open(t, port, PLAIN)
    slow.socket.pause()
    stopped.socket.pause()
    let told = -1
    let count = 0
    const changeAndTell = async () => {
      count++
      change()
      await new Promise((resolve) => setImmediate(resolve))
    }
    // Until the buffers of both sockets are full.
    while (metrics.flagListenersTold.value > told) {
      told = metrics.flagListenersTold.value
      await changeAndTell()
    }
    for (let more = 0; more < 10; more++) await changeAndTell()
    t.equal(metrics.flagListenersTold.value, told, 'nothing more is sent')
    const expected = messagesIn(bodyOf(await open(t, port, PLAIN)))[0]?.id ?? ''
    slow.socket.resume()
    await until(() => messagesIn(bodyOf(slow)).at(-1)?.id === expected)
    t.ok(messagesIn(bodyOf(slow)).length < count, 'versions in between are left out')
    pass(FLAG_LISTENER_STALL_MS_MAX + 1)
    await until(() => metrics.flagListenersCut.value === 1)
    t.equal(metrics.flagListeners.value, 2, 'the others stay')
  })

  t.test(`${front}: a stream ends with its key, and with the server`, async (t) => {
    const { port, metrics, change, listeners, revokeKey } = await start(t, front)
    const first = await open(t, port, PLAIN)
    listeners.close()
    await until(() => /\r\n0\r\n\r\n$/.test(first.text))
    t.equal(metrics.flagListeners.value, 0)
    const world = await start(t, front)
    const second = await open(t, world.port, PLAIN)
    world.revokeKey()
    world.change()
    await until(() => /\r\n0\r\n\r\n$/.test(second.text))
    t.equal(messagesIn(bodyOf(second)).length, 1, 'the change is not told')
    revokeKey()
    change()
    t.match((await open(t, port, PLAIN)).text, /^HTTP\/1\.1 401 /)
  })

  t.test(`${front}: a connection is used again after its stream, but not during it`, async (t) => {
    const { port, metrics, listeners } = await start(t, front)
    const next = 'GET /flags/changes HTTP/1.1\r\nHost: a.example\r\n\r\n'
    const [ended, busy] = [await open(t, port, PLAIN), await open(t, port, PLAIN)]
    const busyClosed = new Promise((resolve) => busy.socket.once('close', resolve))
    busy.socket.write(next)
    await busyClosed
    t.notMatch(busy.text, /HTTP\/1\.1 401/)
    await until(() => metrics.flagListeners.value === 1)
    listeners.close()
    await until(() => /\r\n0\r\n\r\n$/.test(ended.text))
    ended.socket.write(next)
    t.ok(await until(() => ended.text.includes('HTTP/1.1 401 ')))
  })

  t.test(`${front}: a stream goes on while the server waits for the last requests`, async (t) => {
    const { port, server, change, listeners } = await start(t, front)
    const stream = await open(t, port, PLAIN)
    const closed = server.close(60_000)
    change()
    t.ok(await until(() => messagesIn(bodyOf(stream)).length === 2))
    listeners.close()
    t.equal(await closed, 0, 'no request was cut off')
    t.ok(await until(() => /\r\n0\r\n\r\n$/.test(stream.text)))
  })

  t.test(`${front}: limits are answered`, async (t) => {
    const { port } = await start(t, front, 1)
    await open(t, port, PLAIN)
    const refused = await open(t, port, PLAIN)
    t.match(refused.text, /^HTTP\/1\.1 503 /)
    t.match(refused.text, /Retry-After: 30\r\n/)
    t.match(refused.text, /All 1 streams of flag changes are in use/)
    const off = await start(t, front, 0)
    t.match((await open(t, off.port, PLAIN)).text, /^HTTP\/1\.1 404 /)
    t.match((await open(t, off.port, '/flags/changes')).text, /^HTTP\/1\.1 401 /)
    t.match((await open(t, off.port, '/flags/changes?token=phc_x')).text, /^HTTP\/1\.1 401 /)
  })
}

t.test('the listeners of one address are limited, whatever the address of the proxy', async (t) => {
  const { listeners } = await start(t, FRONTS[0] ?? 'node', 1_000_000)
  const connection = { send: () => true, end: () => undefined, cut: () => undefined }
  const request = { projectId: 1, form: 'plain', lastVersion: '', isAllowed: () => true } as const
  const address = '2001:db8::1'
  for (let count = 0; count < FLAG_LISTENERS_OF_ADDRESS_MAX; count++) {
    listeners.open({ ...request, address }, connection)
  }
  const refused = listeners.refusalFor({ projectId: 1, address: '2001:db8::2' })
  t.match(refused, { status: 429, retryAfterSeconds: 30 })
  t.equal(listeners.refusalFor({ projectId: 1, address: '192.0.2.1' }), null)
})

t.test('200 listeners learn of a change of a flag, and then get its new value', async (t) => {
  const world = await shareDecisions(2)
  const [flag] = await world.putFlags([{ key: 'told' }])
  const streams = await Promise.all(
    Array.from({ length: 200 }, () =>
      EventStream.open(`${world.url}/ofrep/v1/event_stream`, { 'X-API-Key': world.key() }),
    ),
  )
  const other = await EventStream.open(`${world.url}/flags/changes/?token=${world.key(2)}`, {})
  t.teardown(() => [...streams, other].map((stream) => stream.close()))
  const all = '/ofrep/v1/evaluate/flags'
  const headers = { 'X-API-Key': world.key() }
  const ask = () => world.ask(all, { headers, json: { context: { targetingKey: 'u' } } })
  const before = await ask()
  const url = `${world.url}/ofrep/v1/event_stream?token=${world.key()}`
  t.match(before.body, {
    flags: [{ key: 'told', value: true }],
    eventStreams: [{ type: 'sse', url, inactivityDelaySec: 120 }],
  })
  await world.api('PATCH', `feature_flags/${flag?.id}/`, 1, { active: false })
  await world.until(async () => streams.every(({ texts }) => texts.join('').includes('refetch')))
  t.notMatch((await ask()).body, { flags: [{ key: 'told' }] })
  t.equal(other.texts.join('').match(/event: flags/g)?.length, 1, 'another project is not told')
})
