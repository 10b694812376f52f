/**
 * Tests the sd_notify protocol from the side of the service manager: the test binds the datagram socket that receives
 * the messages.
 *
 * @lane quick
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { mock } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { OperatorError } from '../../src/base/errors.ts'
import { createLogger } from '../../src/base/log.ts'
import { createServiceManager, type ServiceEnvironment } from '../../src/base/service-manager.ts'

interface Receiver {
  on(event: 'error', listener: (error: Error) => void): void
  bind(path: string): void
  close(): void
}
interface DatagramModule {
  createSocket(type: 'unix_dgram', listener: (data: Buffer) => void): Receiver
}

const log = createLogger({ level: 'silent', format: 'json' })
const WAIT_MS_MAX = 60_000

function loadDatagramModule(): DatagramModule | null {
  try {
    return createRequire(import.meta.url)('unix-dgram') as DatagramModule
  } catch {
    return null
  }
}

const datagram = loadDatagramModule()
const noDatagram = datagram === null && 'the optional package unix-dgram is not installed'

/** Waits until a condition holds, at most a minute. */
async function until(isMet: () => boolean): Promise<void> {
  const end = performance.now() + WAIT_MS_MAX
  while (!isMet() && performance.now() < end) await sleep(5)
}

/** Binds a socket. Returns its path, the received messages, and a function that waits for the next `count` messages. */
function listen(t: Test) {
  // The path of a socket has at most 107 bytes, and a folder named after the test would be longer.
  const folder = mkdtempSync(join(tmpdir(), 'tenrec-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 's')
  const messages: string[] = []
  const receiver = datagram?.createSocket('unix_dgram', (data) => messages.push(data.toString()))
  if (receiver === undefined) throw new Error('needs unix-dgram')
  receiver.on('error', (error) => t.fail(error.message))
  receiver.bind(path)
  t.teardown(() => receiver.close())
  const receive = async (count: number) => {
    await until(() => messages.length >= count)
    return messages.splice(0)
  }
  return { path, messages, receive }
}

function create(t: Test, environment: ServiceEnvironment) {
  const manager = createServiceManager({ environment, log })
  t.teardown(() => manager.close())
  return manager
}

t.test('without NOTIFY_SOCKET every call does nothing', async (t) => {
  const manager = create(t, { WATCHDOG_USEC: '1000' })
  t.equal(manager.isManaged, false)
  t.equal(manager.watchdogMs, null)
  manager.ready()
  manager.status('x')
  manager.extendTimeout(1)
  manager.stopping()
  manager.startWatchdog(() => t.fail('nobody watches'))
})

t.test(
  'readiness, status, extended timeout and stop arrive in order',
  { skip: noDatagram },
  async (t) => {
    const { path, receive } = listen(t)
    const manager = create(t, { NOTIFY_SOCKET: path })
    t.equal(manager.isManaged, true)
    manager.extendTimeout(1.5)
    manager.status('opening\nREADY=1')
    manager.ready()
    manager.stopping()
    t.strictSame(await receive(4), [
      'EXTEND_TIMEOUT_USEC=1500',
      'STATUS=opening READY=1',
      'READY=1',
      'STOPPING=1',
    ])
  },
)

t.test(
  'the watchdog is notified twice a period, only while alive',
  { skip: noDatagram },
  async (t) => {
    const { path, messages } = listen(t)
    const manager = create(t, {
      NOTIFY_SOCKET: path,
      WATCHDOG_USEC: '100000',
      WATCHDOG_PID: String(process.pid),
    })
    t.equal(manager.watchdogMs, 100)
    /** Returns the watchdog messages sent during a given time. Messages arrive in the order in which they are sent. */
    const sentWithin = async (durationMs: number): Promise<readonly string[]> => {
      mock.timers.tick(durationMs)
      manager.status('end')
      await until(() => messages.at(-1) === 'STATUS=end')
      return messages.splice(0).slice(0, -1)
    }
    let isAlive = true
    mock.timers.enable({ apis: ['setInterval'] })
    t.teardown(() => mock.timers.reset())
    manager.startWatchdog(() => isAlive)
    t.strictSame(await sentWithin(0), ['WATCHDOG=1'], 'at the start')
    t.strictSame(await sentWithin(49), [], 'not before half a period is over')
    t.strictSame(await sentWithin(1), ['WATCHDOG=1'])
    t.strictSame(await sentWithin(100), ['WATCHDOG=1', 'WATCHDOG=1'])
    isAlive = false
    t.strictSame(await sentWithin(250), [], 'silent while not alive')
    isAlive = true
    t.strictSame(await sentWithin(50), ['WATCHDOG=1'], 'fed again')
    manager.close()
    t.strictSame(await sentWithin(250), [], 'silent once closed')
  },
)

t.test('the watchdog of another process is ignored', { skip: noDatagram }, async (t) => {
  const { path, messages } = listen(t)
  const manager = create(t, { NOTIFY_SOCKET: path, WATCHDOG_USEC: '20000', WATCHDOG_PID: '1' })
  t.equal(manager.watchdogMs, null)
  manager.startWatchdog(() => true)
  await sleep(60)
  t.strictSame(messages, [])
})

t.test('an invalid watchdog period counts as none', { skip: noDatagram }, async (t) => {
  const { path } = listen(t)
  for (const period of ['0', '-5', 'soon', '']) {
    t.equal(create(t, { NOTIFY_SOCKET: path, WATCHDOG_USEC: period }).watchdogMs, null, period)
  }
})

t.test('abstract sockets are reached through systemd-notify, in order', async (t) => {
  const folder = t.testdir()
  const record = join(folder, 'record')
  const script = `#!/bin/sh\n/bin/sleep 0.0$(($(/usr/bin/wc -l < '${record}') + 1))\necho "$NOTIFY_SOCKET $*" >> '${record}'\n`
  writeFileSync(record, '')
  writeFileSync(join(folder, 'systemd-notify'), script, { mode: 0o755 })
  const manager = create(t, { NOTIFY_SOCKET: '@tenrec-test', PATH: folder })
  t.equal(manager.isManaged, true)
  manager.status('opening the store')
  manager.ready()
  manager.stopping()
  const expected = ['STATUS=opening the store', 'READY=1', 'STOPPING=1']
  const readLines = () => readFileSync(record, 'utf8').split('\n').slice(0, -1)
  await until(() => readLines().length >= expected.length)
  t.strictSame(
    readLines(),
    expected.map((message) => `@tenrec-test ${message}`),
  )
})

t.test('a missing socket does not stop the daemon', { skip: noDatagram }, async (t) => {
  const manager = create(t, { NOTIFY_SOCKET: join(tmpdir(), 'tenrec-gone') })
  manager.ready()
  manager.stopping()
})

t.test('a watchdog that cannot be notified stops the start', async (t) => {
  const environment = { NOTIFY_SOCKET: '@tenrec', WATCHDOG_USEC: '30000000', PATH: t.testdir() }
  t.throws(() => createServiceManager({ environment, log }), OperatorError)
  t.throws(() => createServiceManager({ environment, log }), { message: /systemd-notify/ })
})

t.test('without a watchdog the daemon starts, but cannot send notifications', async (t) => {
  const manager = create(t, { NOTIFY_SOCKET: '@tenrec', PATH: t.testdir() })
  t.equal(manager.isManaged, false)
})
