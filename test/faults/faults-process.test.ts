/**
 * Tests faults around the built daemon: a disk that fails, file descriptors that run out, a stopped process, a log that
 * no one reads. Every request answered with 200 is stored afterward, once.
 *
 * @lane all
 */
import { spawnSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { PERSONAL_KEY, PROJECT_KEY, type SpawnedDaemon, spawnDaemon } from '../fixtures/daemon.ts'
import { EventLedger, seededRandom } from '../fixtures/event-ledger.ts'
import { readEvents, type StoredEvent, untilVisible } from '../fixtures/event-pages.ts'
import { closeConnections, postJson, send } from '../fixtures/exact-client.ts'
import { eventually } from '../fixtures/timed-command.ts'

const CLIENTS = 4
const NOTHING_WRONG = { lost: [], doubled: [], altered: [], invented: [] }
const SOURCE = fileURLToPath(new URL('../fixtures/faults/disk-faults.c', import.meta.url))
/** Error numbers of the kernel. */
const EIO = 5
const ENOSPC = 28

t.teardown(closeConnections)
t.setTimeout(300_000)

/** The library that makes writes fail, or null without a compiler. */
function compileFaults(folder: string): string | null {
  const library = join(folder, 'disk-faults.so')
  const { status } = spawnSync('cc', ['-shared', '-fPIC', '-O2', '-o', library, SOURCE, '-ldl'])
  return status === 0 ? library : null
}

function startLoad(url: string, ledger: EventLedger): { stop(): Promise<void> } {
  let isOver = false
  const clients = Array.from({ length: CLIENTS }, () =>
    ledger.drive(url, PROJECT_KEY, () => isOver),
  )
  return {
    async stop() {
      isOver = true
      await Promise.all(clients)
    },
  }
}

/** Returns everything that can be read, once a last event is visible. */
async function readAll(daemon: SpawnedDaemon): Promise<readonly StoredEvent[]> {
  const uuid = crypto.randomUUID()
  const end = { api_key: PROJECT_KEY, event: 'end', distinct_id: 'reader', uuid }
  const { status } = await postJson(`${daemon.url}/capture/`, end)
  if (status !== 200) throw new Error(`the last event was answered ${status}`)
  const source = { url: daemon.url, personalKey: PERSONAL_KEY }
  await untilVisible(source, uuid)
  return (await readEvents(source)).filter(({ event }) => event !== end.event)
}

async function checkLedger(t: Test, daemon: SpawnedDaemon, ledger: EventLedger): Promise<void> {
  await ledger.settle(daemon.url, PROJECT_KEY)
  t.strictSame(ledger.check(await readAll(daemon)), NOTHING_WRONG)
  t.strictSame(ledger.unexpectedStatuses, [], 'only 200 and 503')
}

for (const { what, call, error } of [
  { what: 'a flush fails', call: 'fsync', error: EIO },
  { what: 'a write finds the disk full', call: 'write', error: ENOSPC },
]) {
  t.test(
    `${what}: the daemon ends immediately, and nothing that was answered is lost`,
    async (t) => {
      const folder = t.testdir({ data: {} })
      const library = compileFaults(folder)
      if (library === null) {
        t.comment('skipped: there is no C compiler')
        return
      }
      const dataDir = join(folder, 'data')
      const faults = join(folder, 'faults')
      writeFileSync(faults, '')
      const env = { LD_PRELOAD: library, FAULT_PATH: join(dataDir, 'log'), FAULT_FILE: faults }
      const daemon = await spawnDaemon({ dataDir, env })
      const ledger = new EventLedger(seededRandom(error))
      const load = startLoad(daemon.url, ledger)
      t.ok(await eventually(async () => ledger.acknowledgedCount > 50))
      writeFileSync(faults, `${call} ${error}`)
      const { signal } = await daemon.ended
      await load.stop()
      t.equal(signal, 'SIGKILL', 'an ordinary exit could hang in the store')
      t.match(daemon.lastLines(), /"level":60/, 'the last line gives the reason')
      writeFileSync(faults, '')
      const next = await spawnDaemon({ dataDir, env })
      await checkLedger(t, next, ledger)
      await next.stop()
    },
  )
}

t.test('a process that was stopped for some seconds continues normally', async (t) => {
  const daemon = await spawnDaemon({ dataDir: join(t.testdir(), 'data') })
  const ledger = new EventLedger(seededRandom(1))
  const load = startLoad(daemon.url, ledger)
  t.ok(await eventually(async () => ledger.acknowledgedCount > 20))
  daemon.signal('SIGSTOP')
  await sleep(2000)
  daemon.signal('SIGCONT')
  const before = ledger.acknowledgedCount
  t.ok(await eventually(async () => ledger.acknowledgedCount > before + 20))
  await load.stop()
  await checkLedger(t, daemon, ledger)
  t.same(await daemon.stop(), { code: 0, signal: null })
})

/** Opens connections and keeps them, whether they are accepted or not. */
function openMany(port: number, count: number): readonly Socket[] {
  return Array.from({ length: count }, () => {
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => {})
    return socket
  })
}

const NO_PRLIMIT = spawnSync('prlimit', ['--version']).status === 0 ? false : 'prlimit is missing'

t.test(
  'a lack of file descriptors costs connections, not the daemon',
  { skip: NO_PRLIMIT },
  async (t) => {
    const daemon = await spawnDaemon({ dataDir: join(t.testdir(), 'data') })
    const ledger = new EventLedger(seededRandom(2))
    const load = startLoad(daemon.url, ledger)
    t.ok(await eventually(async () => ledger.acknowledgedCount > 20))
    t.equal(spawnSync('prlimit', [`--pid=${daemon.pid}`, '--nofile=128:128']).status, 0)
    const sockets = openMany(daemon.port, 400)
    await sleep(1500)
    t.ok(daemon.isRunning)
    for (const socket of sockets) socket.destroy()
    t.ok(
      await eventually(async () => {
        const answer = await send(`${daemon.url}/_readyz`).catch(() => null)
        return answer?.status === 200
      }),
      'the daemon recovers without a restart',
    )
    await load.stop()
    await checkLedger(t, daemon, ledger)
    t.same(await daemon.stop(), { code: 0, signal: null })
  },
)

t.test(
  'with the fewest open files and all connections taken, events are accepted and processed',
  { skip: NO_PRLIMIT },
  async (t) => {
    const dataDir = join(t.testdir(), 'data')
    const args = ['--workers', '1']
    const daemon = await spawnDaemon({ dataDir, args, launcher: ['prlimit', '--nofile=64'] })
    const ledger = new EventLedger(seededRandom(3))
    const sockets = openMany(daemon.port, 200)
    const load = startLoad(daemon.url, ledger)
    await sleep(1500)
    t.ok(daemon.isRunning, 'the daemon runs while all connections are taken')
    for (const socket of sockets) socket.destroy()
    const before = ledger.acknowledgedCount
    t.ok(await eventually(async () => ledger.acknowledgedCount > before + 20))
    await load.stop()
    await checkLedger(t, daemon, ledger)
    t.same(await daemon.stop(), { code: 0, signal: null })
  },
)

/** Returns the first lines and the exit code of a start with a limit, and whether it created its data directory. */
function startWith(folder: string, limit: string) {
  const dataDir = join(folder, 'data')
  const main = fileURLToPath(new URL('../../dist/main.js', import.meta.url))
  const words = [limit, process.execPath, main, 'serve', '--data-dir', dataDir, '--port', '0']
  const { status, stderr } = spawnSync('prlimit', words, { encoding: 'utf8', timeout: 60_000 })
  return { status, lines: stderr.trim().split('\n'), hasWritten: existsSync(dataDir) }
}

for (const { what, limit, needed } of [
  {
    what: 'open files',
    limit: '--nofile=40',
    needed: /^tenrec: .*open files is 40.*`ulimit -n 65536`/,
  },
  {
    what: 'open files for its threads',
    limit: '--nofile=58',
    needed: /^tenrec: .*open files is 58.*`ulimit -n 65536`/,
  },
  {
    what: 'address space',
    limit: `--as=${8 * 1024 ** 3}`,
    needed: /^tenrec: .*address space is 8 GiB.*`ulimit -v unlimited`/,
  },
]) {
  t.test(
    `a start with too little of ${what} names its minimum`,
    { skip: NO_PRLIMIT },
    async (t) => {
      const { status, lines, hasWritten } = startWith(t.testdir(), limit)
      t.equal(status, 78)
      t.equal(lines.length, 1, 'the error is one sentence')
      t.match(lines[0], needed)
      t.notOk(hasWritten, 'nothing was written')
    },
  )
}
