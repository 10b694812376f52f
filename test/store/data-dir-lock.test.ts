/**
 * Tests that a directory has one owner: within one process, next to another process, in another pid namespace, and
 * after every lock file was removed. Where no namespace can be created, the notes of the daemon are rewritten to name
 * another one, which is all that a process in a container could see.
 *
 * @lane all
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { ProjectStore } from '../../src/store/catalog/project-store.ts'
import { DataDir, ENVIRONMENT_NAMES, requireStore } from '../../src/store/directory/data-dir.ts'
import { lockDataDir, lockForCommand, lockHolder } from '../../src/store/directory/data-dir-lock.ts'
import { KernelLock } from '../../src/store/directory/kernel-lock.ts'
import { PERSONAL_KEY, PROJECT_KEY, type SpawnedDaemon, spawnDaemon } from '../fixtures/daemon.ts'
import { readEvents } from '../fixtures/event-pages.ts'
import { refusal } from '../fixtures/refusal.ts'

const MAIN = fileURLToPath(new URL('../../dist/main.js', import.meta.url))
const NAMESPACE = ['unshare', '--pid', '--fork', '--kill-child=SIGKILL', '--mount-proc'] as const
const HAS_NAMESPACES = spawnSync(NAMESPACE[0], [...NAMESPACE.slice(1), 'true']).status === 0
/** Ends a daemon that started although it should have been refused. */
const COMMAND_MS_MAX = 30_000

t.setTimeout(300_000)

async function reopen(path: string): Promise<readonly string[]> {
  const dir = await DataDir.open(path)
  dir.release()
  return dir.notes
}

/** Returns the exit of a command that runs as its own process. */
interface Ending {
  readonly code: number | null
  readonly err: string
}

async function run(words: readonly string[], isElsewhere = false): Promise<Ending> {
  const [program = '', ...rest] = [
    ...(isElsewhere && HAS_NAMESPACES ? NAMESPACE : []),
    process.execPath,
    MAIN,
    ...words,
  ]
  const child = spawn(program, rest, {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { PATH: process.env['PATH'] },
    timeout: COMMAND_MS_MAX,
    killSignal: 'SIGKILL',
  })
  let err = ''
  child.stderr.on('data', (bytes) => {
    err += String(bytes)
  })
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
  return { code, err }
}

/** Without namespaces, rewrites the notes of the owner so that they name another namespace. */
function pretendElsewhere(path: string): void {
  if (HAS_NAMESPACES) return
  const change = (file: string): void => {
    if (!existsSync(file)) return
    writeFileSync(file, readFileSync(file, 'utf8').replace(/pid:\[\d+\]/, 'pid:[1]'))
  }
  change(join(path, 'lock'))
  for (const name of ENVIRONMENT_NAMES) change(join(path, name, 'namespace'))
}

/** Returns the reason why a daemon did not start. */
async function failureOf(start: Promise<SpawnedDaemon>): Promise<string> {
  return start.then(
    () => 'it started',
    (error: unknown) => String(error),
  )
}

function removeLockFiles(path: string): void {
  for (const entry of readdirSync(path)) {
    if (entry.startsWith('lock')) rmSync(join(path, entry))
  }
  for (const name of ENVIRONMENT_NAMES) rmSync(join(path, name, 'lock.mdb'))
}

async function capture(daemon: SpawnedDaemon, name: string): Promise<void> {
  const batch = Array.from({ length: 50 }, (_, index) => ({
    event: name,
    distinct_id: `user ${index % 7}`,
    properties: { index },
  }))
  const body = JSON.stringify({ api_key: PROJECT_KEY, batch })
  const response = await fetch(`${daemon.url}/batch/`, { method: 'POST', body })
  t.equal(response.status, 200)
}

async function namesIn(daemon: SpawnedDaemon, count: number): Promise<readonly string[]> {
  const source = { url: daemon.url, personalKey: PERSONAL_KEY }
  for (let attempt = 0; attempt < 1200; attempt++) {
    const events = await readEvents(source)
    if (events.length >= count) return events.map(({ event }) => event)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  throw new Error(`${count} events were expected`)
}

t.test('a second owner is refused immediately with the pid of the first', async (t) => {
  const path = t.testdir()
  const dir = await DataDir.open(path)
  t.equal(lockHolder(path)?.pid, process.pid)
  const error = await refusal(reopen(path))
  t.equal(error.exitCode, 1)
  t.match(error.message, `in use by the process ${process.pid}`)
  dir.release()
  t.equal(lockHolder(path), null)
})

/** A process that locks a directory and waits. */
async function lockElsewhere(path: string): Promise<ChildProcess> {
  const script = `
    const fs = require('node:fs')
    const fields = fs.readFileSync('/proc/self/stat', 'latin1').split(') ').pop().split(' ')
    fs.symlinkSync('lock.' + process.pid + '.' + fields[19], process.argv[1])
    process.stdout.write('locked')
    setInterval(() => {}, 1000)`
  const child = spawn(process.execPath, ['-e', script, join(path, 'lock')], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  if (child.stdout !== null) await once(child.stdout, 'data')
  return child
}

t.test('an owner that cannot be named is not taken for an earlier version', async (t) => {
  const path = t.testdir()
  const dir = await DataDir.open(path)
  writeFileSync(join(path, readlinkSync(join(path, 'lock'))), '')
  t.match(lockHolder(path), { purpose: 'unknown' })
  t.match((await refusal(lockForCommand(path))).message, /Stop that process first\.$/)
  dir.release()
})

t.test('the lock of another process holds while it lives, and not after kill -9', async (t) => {
  const path = t.testdir()
  await reopen(path)
  const child = await lockElsewhere(path)
  t.match((await refusal(reopen(path))).message, `process ${child.pid}`)
  const ended = once(child, 'exit')
  child.kill('SIGKILL')
  await ended
  t.ok(lstatSync(join(path, 'lock')).isSymbolicLink(), 'the lock file was left behind')
  t.strictSame(await reopen(path), [])
})

t.test('an abandoned, reused, malformed or foreign lock is replaced', async (t) => {
  const path = t.testdir()
  await reopen(path)
  const lock = join(path, 'lock')
  const leftovers = [
    () => {
      symlinkSync('lock.999999999.5', lock)
      writeFileSync(join(path, 'lock.999999999.5'), '')
    },
    // Our own pid with another start time: the pid was reused.
    () => symlinkSync(`lock.${process.pid}.1`, lock),
    () => symlinkSync('nonsense', lock),
    () => writeFileSync(lock, 'garbage'),
    () => writeFileSync(lock, ''),
    () => {
      symlinkSync('lock.999999999.5', lock)
      writeFileSync(join(path, 'lock.999999999.5'), '{"pid_namespace":"pid:[1]"}')
    },
  ]
  for (const leave of leftovers) {
    rmSync(lock, { force: true })
    leave()
    const dir = await DataDir.open(path)
    t.match(readlinkSync(lock), new RegExp(`^lock\\.${process.pid}\\.`))
    dir.release()
    t.strictSame(readdirSync(path).sort(), ['events', 'flags', 'format', 'log'])
  }
})

t.test('if several processes find an abandoned lock, one of them gets it', async (t) => {
  const path = t.testdir()
  await reopen(path)
  for (let round = 0; round < 5; round++) {
    symlinkSync('lock.999999999.5', join(path, 'lock'))
    const outcomes = await Promise.allSettled(Array.from({ length: 5 }, () => DataDir.open(path)))
    const winners = outcomes.filter(({ status }) => status === 'fulfilled')
    t.equal(winners.length, 1)
    for (const outcome of outcomes) if (outcome.status === 'fulfilled') outcome.value.release()
  }
})

t.test('a process does not remove a lock that it lost', async (t) => {
  const path = t.testdir()
  const dir = await DataDir.open(path)
  unlinkSync(join(path, 'lock'))
  symlinkSync('1.1', join(path, 'lock'))
  dir.release()
  t.equal(readlinkSync(join(path, 'lock')), '1.1')
})

t.test('a short read or change is waited for', async (t) => {
  const path = t.testdir()
  await reopen(path)
  const release = await lockForCommand(path)
  t.match(lockHolder(path), { pid: process.pid, purpose: 'command' })
  setTimeout(release, 200)
  const dir = await DataDir.open(path)
  t.match(lockHolder(path), { pid: process.pid, purpose: 'daemon' })
  const beside = await lockForCommand(path)
  beside()
  t.match((await refusal(lockDataDir(path, 'restore'))).message, 'in use by the process')
  dir.release()
  t.equal(lockHolder(path), null)
  const restore = await lockDataDir(path, 'restore')
  t.match((await refusal(lockForCommand(path))).message, 'Stop that process first')
  restore()
})

t.test(
  'perl locks if flock is missing, and without both the error says what to install',
  async (t) => {
    const path = t.testdir({ data: {}, empty: {}, perl: {} })
    const perl = spawnSync('sh', ['-c', 'command -v perl'], { encoding: 'utf8' }).stdout.trim()
    if (perl !== '') symlinkSync(perl, join(path, 'perl', 'perl'))
    const { PATH } = process.env
    const holder = new KernelLock(join(path, 'data'))
    const other = new KernelLock(join(path, 'data'))
    try {
      t.ok(holder.tryTake('exclusive'))
      process.env['PATH'] = join(path, 'empty')
      t.throws(() => other.tryTake('exclusive'), { message: /Install util-linux/ })
      if (perl !== '') {
        process.env['PATH'] = join(path, 'perl')
        t.notOk(other.tryTake('shared'))
        t.ok(holder.tryTake('shared'))
        t.ok(other.tryTake('shared'))
        t.notOk(other.tryTake('exclusive'))
        holder.release()
        t.ok(other.tryTake('exclusive'))
      }
    } finally {
      process.env['PATH'] = PATH
      other.release()
    }
  },
)

t.test('a lock on a replaced folder is detected', async (t) => {
  const path = join(t.testdir({ data: {} }), 'data')
  const lock = new KernelLock(path)
  t.ok(lock.isInPlace)
  renameSync(path, `${path}-moved`)
  t.notOk(lock.isInPlace)
  mkdirSync(path)
  t.notOk(lock.isInPlace)
  lock.release()
})

t.test(
  'a daemon keeps its directory after all lock files are removed, and loses nothing',
  async (t) => {
    const dataDir = join(t.testdir(), 'data')
    const daemon = await spawnDaemon({ dataDir })
    t.teardown(() => daemon.kill())
    await capture(daemon, 'before')
    removeLockFiles(dataDir)
    const [second, command, reader] = await Promise.all([
      failureOf(spawnDaemon({ dataDir })),
      run(['project', 'create', '--name', 'Two', '--data-dir', dataDir]),
      run(['event', 'list', '--data-dir', dataDir]),
    ])
    t.match(second, /it ended with 1\n/)
    t.match(second, `${dataDir} is in use by an unknown process`)
    t.match(command, { code: 1, err: /lock\.mdb was removed while .* had it open/ })
    t.match(reader, { code: 1, err: /lock\.mdb was removed while .* had it open/ })
    await capture(daemon, 'after')
    t.equal((await namesIn(daemon, 100)).length, 100)
    t.strictSame(await daemon.stop(), { code: 0, signal: null })
    const again = await spawnDaemon({ dataDir })
    t.teardown(() => again.kill())
    const names = await namesIn(again, 100)
    t.equal(names.filter((name) => name === 'before').length, 50)
    t.equal(names.filter((name) => name === 'after').length, 50)
    t.match(await run(['project', 'create', '--name', 'Two', '--data-dir', dataDir]), { code: 0 })
  },
)

t.test(
  'a process of another PID namespace is refused and does not disturb the owner',
  async (t) => {
    const root = t.testdir()
    const [dataDir, folder] = [join(root, 'data'), join(root, 'backups')]
    const daemon = await spawnDaemon({ dataDir })
    t.teardown(() => daemon.kill())
    await capture(daemon, 'before')
    t.match(
      await run(['backup', folder, '--data-dir', dataDir]),
      { code: 0 },
      'a process of our namespace is accepted',
    )
    pretendElsewhere(dataDir)
    const elsewhere = (...words: readonly string[]) => run([...words, '--data-dir', dataDir], true)
    for (const [{ code, err }, wanted] of [
      [await elsewhere('serve', '--port', '0'), /is in use by a process of another PID namespace/],
      [
        await elsewhere('restore', folder, '--force'),
        /is in use by a process of another PID namespace/,
      ],
      [await elsewhere('project', 'create', '--name', 'Two'), /in the container of that process/],
      [await elsewhere('event', 'list'), /in the container of that process/],
      [await elsewhere('backup', `${folder}-2`), /in the container of that process/],
    ] as const) {
      t.equal(code, 1)
      t.match(err, wanted)
    }
    t.match(await elsewhere('init'), {
      code: 0,
      err: /already set up and in use by a process of another/,
    })
    await capture(daemon, 'after')
    t.equal((await namesIn(daemon, 100)).length, 100)
    t.strictSame(await daemon.stop(), { code: 0, signal: null })
    t.match(
      await elsewhere('project', 'create', '--name', 'Two'),
      { code: 0 },
      'the directory is free',
    )
    const again = await spawnDaemon({ dataDir })
    t.teardown(() => again.kill())
    t.equal((await namesIn(again, 100)).length, 100)
  },
)

t.test('a daemon does not start next to a command of another PID namespace', async (t) => {
  const path = t.testdir()
  await reopen(path)
  requireStore(path, 'flags')
  writeFileSync(join(path, 'flags', 'namespace'), 'pid:[1] 1.1\n')
  const { code, err } = await run(['init', '--data-dir', path])
  t.equal(code, 1)
  t.match(err, `${path} is in use by a process of another PID namespace`)
})

t.test('commands without a daemon take turns, also across pid namespaces', async (t) => {
  const path = t.testdir()
  t.match(await run(['init', '--data-dir', path]), { code: 0 })
  const names = ['One', 'Two', 'Three', 'Four']
  const words = (name: string) => ['project', 'create', '--name', name, '--data-dir', path]
  const endings = await Promise.all(names.map((name, index) => run(words(name), index % 2 === 1)))
  const store = new ProjectStore(path)
  const found = store.listProjects().map(({ name }) => name)
  await store.close()
  for (const [index, { code, err }] of endings.entries()) {
    if (code !== 0) t.match(err, /is in use by a process of another PID namespace/)
    t.equal(found.includes(names[index] ?? ''), code === 0, names[index] ?? '')
  }
  t.ok(endings.some(({ code }) => code === 0))
})
