/**
 * Tests the data directory: its creation, its format, and the damage that is refused before LMDB opens a file.
 *
 * @lane quick
 */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { diskSpace } from '../../src/base/disk-space.ts'
import { OperatorError } from '../../src/base/errors.ts'
import {
  DISK_RESERVE_BYTES,
  DiskReserve,
  NOTHING_ACCEPTED,
  reserveBytesOf,
} from '../../src/engine/front/disk-reserve.ts'
import { DataDir, ENVIRONMENT_NAMES, requireStore } from '../../src/store/directory/data-dir.ts'
import { lockHolder } from '../../src/store/directory/data-dir-lock.ts'
import { inspectLmdbFile } from '../../src/store/lmdb/lmdb-file.ts'
import { planMigration } from '../../src/store/maintenance/migrations.ts'
import { Differences } from '../fixtures/differences.ts'
import {
  filledStore,
  newestMeta,
  overwrite,
  PAGE,
  recordCount,
  setLastPage,
} from '../fixtures/faults/data-file.ts'
import { statesOf } from '../fixtures/faults/file-steps.ts'

async function reopen(path: string): Promise<readonly string[]> {
  const dir = await DataDir.open(path)
  dir.release()
  return dir.notes
}

async function refusal(path: string): Promise<OperatorError> {
  return refusalOf(() => reopen(path))
}

async function refusalOf(action: () => unknown): Promise<OperatorError> {
  try {
    await action()
  } catch (error) {
    if (error instanceof OperatorError) return error
    throw error
  }
  throw new Error('nothing was refused')
}

function hasFormat(path: string): boolean {
  return existsSync(join(path, 'format'))
}

t.test('the first opening creates a complete store that only its owner can read', async (t) => {
  const path = join(t.testdir(), 'a', 'data')
  const dir = await DataDir.open(path)
  t.equal(dir.path, path)
  t.strictSame(dir.notes, [])
  t.equal(statSync(path).mode & 0o777, 0o700)
  const owner = readlinkSync(join(path, 'lock'))
  t.strictSame(readdirSync(path).sort(), ['events', 'flags', 'format', 'lock', owner, 'log'])
  t.ok(statSync(join(path, 'lock')).isFile(), 'programs that follow links find a file')
  t.equal(readFileSync(join(path, 'format'), 'utf8'), 'tenrec 7\n')
  for (const name of ENVIRONMENT_NAMES) {
    t.strictSame(inspectLmdbFile(join(path, name, 'data.mdb')), { kind: 'sound' })
  }
  dir.release()
  t.strictSame(readdirSync(path).sort(), ['events', 'flags', 'format', 'log'])
  t.strictSame(await reopen(path), [])
})

t.test('an interrupted creation is completed, and keeps existing data', async (t) => {
  const { path } = await filledStore(t)
  unlinkSync(join(path, 'format'))
  rmSync(join(path, 'log'), { recursive: true })
  writeFileSync(join(path, 'creating'), '')
  mkdirSync(join(path, '.new-1', 'log'), { recursive: true })
  writeFileSync(join(path, '.new-1', 'log', 'data.mdb'), '')
  t.strictSame(await reopen(path), [])
  t.equal(await recordCount(path), 200)
  t.notOk(existsSync(join(path, '.new-1')))
  t.notOk(existsSync(join(path, 'creating')))
  t.ok(existsSync(join(path, 'log', '000000000001.log')))
  t.ok(existsSync(join(path, 'format')))
})

t.test('a creation that is killed at any step is completed by the next start', async (t) => {
  const root = t.testdir({})
  const path = join(root, 'data')
  const states = await statesOf(path, async () => {
    const dir = await DataDir.open(path)
    dir.release()
  })
  t.ok(states.some((state) => existsSync(join(state, 'events')) && !hasFormat(state)))
  const differences = new Differences()
  for (const [step, state] of states.entries()) {
    differences.same(await reopen(state), [], `step ${step}: the notes`)
    for (const name of ENVIRONMENT_NAMES) {
      differences.equal(requireStore(state, name), state, `step ${step}: ${name}`)
    }
    const entries = readdirSync(state).sort()
    differences.same(entries, ['events', 'flags', 'format', 'log'], `step ${step}: the entries`)
  }
  t.strictSame(differences.list(), [], 'every start leaves a whole store')
})

t.test('a store without its format file is refused, and not created anew', async (t) => {
  for (const lost of [[], ['log'], ['events', 'flags']]) {
    const { path } = await filledStore(t)
    unlinkSync(join(path, 'format'))
    for (const name of lost) rmSync(join(path, name), { recursive: true })
    const before = readdirSync(path).sort()
    for (const error of [
      await refusal(path),
      await refusalOf(() => requireStore(path, 'events')),
      await refusalOf(() => planMigration(path)),
    ]) {
      t.equal(error.exitCode, 78)
      t.match(error.message, `${join(path, 'format')} is missing`)
      t.match(error.message, /Restore a backup/)
    }
    t.strictSame(readdirSync(path).sort(), before, 'nothing was changed')
    writeFileSync(join(path, 'format'), 'tenrec 7\n')
    if (lost.length === 0) t.strictSame(await reopen(path), [], 'it can be put back')
    else t.equal((await refusal(path)).exitCode, 78, 'other missing files are not created anew')
    rmSync(path, { recursive: true })
  }
})

t.test('a folder in place of a lock is an error with exit code 1', async (t) => {
  for (const place of ['lock', 'events/lock.mdb']) {
    const { path } = await filledStore(t)
    rmSync(join(path, place), { force: true })
    mkdirSync(join(path, place))
    const error = await refusal(path)
    t.equal(error.exitCode, 1)
    t.match(error.message, `${join(path, place)} is a directory`)
    rmSync(path, { recursive: true })
  }
})

t.test('garbage or an empty file in place of the LMDB lock does no harm', async (t) => {
  for (const content of [Buffer.alloc(0), Buffer.from('garbage'), Buffer.alloc(20_000, 0xa5)]) {
    const { path } = await filledStore(t)
    writeFileSync(join(path, 'events', 'lock.mdb'), content)
    await reopen(path)
    t.equal(await recordCount(path), 200)
    rmSync(path, { recursive: true })
  }
})

t.test('another format is refused with exit code 78', async (t) => {
  const { path } = await filledStore(t)
  for (const [content, message] of [
    ['tenrec 8\n', /has the format 8, but this version of Tenrec supports format 7/],
    ['tenrec 1\n', /has the format 1, but this version of Tenrec supports format 7/],
    ['', /is damaged/],
    ['something else\n', /is damaged/],
  ] as const) {
    writeFileSync(join(path, 'format'), content)
    const error = await refusal(path)
    t.equal(error.exitCode, 78)
    t.match(error.message, message)
    t.equal((await refusalOf(() => requireStore(path, 'flags'))).exitCode, 78)
  }
})

const DAMAGES: Readonly<Record<string, (file: string) => void>> = {
  'an empty file': (file) => truncateSync(file, 0),
  'a file cut to 100 bytes': (file) => truncateSync(file, 100),
  'a file cut to one page': (file) => truncateSync(file, PAGE),
  'a file cut to two pages': (file) => truncateSync(file, 2 * PAGE),
  'a file cut in half': (file) => truncateSync(file, statSync(file).size / 2),
  'a file without its last page': (file) => truncateSync(file, statSync(file).size - PAGE),
  'a missing file': (file) => unlinkSync(file),
  'a folder': (file) => {
    unlinkSync(file)
    mkdirSync(file)
  },
  'random bytes': (file) => writeFileSync(file, Buffer.alloc(10 * PAGE, 0x5a)),
  'a text': (file) => writeFileSync(file, 'not a database\n'.repeat(1000)),
  'a zeroed first meta page': (file) => overwrite(file, 0, Buffer.alloc(PAGE)),
  'two zeroed meta pages': (file) => overwrite(file, 0, Buffer.alloc(2 * PAGE)),
  'garbage in the second meta page': (file) => overwrite(file, PAGE, Buffer.alloc(PAGE, 0x5a)),
  'a zeroed second meta page': (file) => overwrite(file, PAGE, Buffer.alloc(PAGE)),
  'a newest meta page with the number of an old transaction': (file) => {
    overwrite(file, newestMeta(file) * PAGE + 152, Buffer.alloc(8))
  },
  'a last page far behind the end of the file': (file) => setLastPage(file, 2 ** 27),
  'a last page just behind the end of the file': (file) => {
    setLastPage(file, statSync(file).size / PAGE)
  },
  'a last page before pages in use, and before that of the other meta page': (file) => {
    setLastPage(file, 2)
  },
  'a page size of zero': (file) => overwrite(file, 48, Buffer.alloc(4)),
  'an overwritten root page': (file) => {
    const meta = newestMeta(file) * PAGE
    const root = Number(readFileSync(file).readBigUInt64LE(meta + 136))
    overwrite(file, root * PAGE, Buffer.alloc(PAGE))
  },
  'a root behind the last page': (file) => {
    const root = Buffer.alloc(8)
    root.writeBigUInt64LE(2n ** 33n)
    overwrite(file, newestMeta(file) * PAGE + 136, root)
  },
}

/** Checks that damage is refused, and that no file is changed meanwhile. */
async function checkRefused(
  differences: Differences,
  path: string,
  { what, file, part, message }: Damaged,
): Promise<void> {
  const before = existsSync(file) && statSync(file).isFile() ? readFileSync(file) : null
  const error = await refusal(path)
  differences.equal(error.exitCode, 78, `${what}: the exit code is right`)
  differences.match(error.message, message, `${what}: the message names the file`)
  differences.match(error.message, /Restore the (whole )?data directory from a backup/, what)
  differences.equal(error.message.includes('\n'), false, `${what}: the message is one line`)
  const { exitCode } = await refusalOf(() => requireStore(path, part))
  differences.equal(exitCode, 78, `${what}: a command has the right exit code`)
  differences.equal(lockHolder(path), null, `${what}: the lock is released`)
  if (before === null) return
  differences.ok(readFileSync(file).equals(before), `${what}: the file is unchanged`)
}

interface Damaged {
  readonly what: string
  readonly file: string
  readonly part: 'events' | 'log'
  /** Returns the part of the message that names the damage. */
  readonly message: string
}

for (const [what, damage] of Object.entries(DAMAGES)) {
  t.test(`${what} is refused with one line and exit code 78`, async (t) => {
    const { path, file } = await filledStore(t)
    damage(file)
    const differences = new Differences()
    await checkRefused(differences, path, { what, file, part: 'events', message: file })
    t.strictSame(differences.list(), [], 'it is refused, and nothing is changed')
  })
}

/** The other damages concern pages of LMDB. */
const LOG_DAMAGES = Object.entries(DAMAGES).filter(
  ([what]) => !/meta|root|a last|page size/.test(what),
)

t.test('the same damage to a log file is refused in the same way', async (t) => {
  t.ok(LOG_DAMAGES.length >= 10)
  const differences = new Differences()
  for (const [what, damage] of [
    ...LOG_DAMAGES,
    ['a zeroed first page', (file: string) => overwrite(file, 0, Buffer.alloc(PAGE))],
  ] as const) {
    const { path } = await filledStore(t)
    const file = join(path, 'log', '000000000001.log')
    damage(file)
    const message = existsSync(file) ? file : join(path, 'log')
    await checkRefused(differences, path, { what, file, part: 'log', message })
    rmSync(path, { recursive: true })
  }
  t.strictSame(differences.list(), [], 'every damage is refused, and nothing is changed')
})

t.test('a store without its marker is still checked', async (t) => {
  const { path, file } = await filledStore(t)
  unlinkSync(join(path, 'format'))
  truncateSync(file, 0)
  t.equal((await refusal(path)).exitCode, 78)
})

t.test('commands report that there is no store', async (t) => {
  const path = t.testdir()
  for (const place of [path, join(path, 'none')]) {
    const error = await refusalOf(() => requireStore(place, 'flags'))
    t.match(error, { exitCode: 1, message: /tenrec init/ })
  }
  await reopen(path)
  t.equal(requireStore(path, 'flags'), path)
})

t.test('a directory that cannot be created is an error with exit code 1', async (t) => {
  const path = t.testdir({ file: 'content' })
  const error = await refusal(join(path, 'file', 'data'))
  t.equal(error.exitCode, 1)
  t.match(error.message, /Cannot create/)
})

t.test('a moved, deleted or replaced directory is detected', async (t) => {
  const path = join(t.testdir(), 'data')
  const dir = await DataDir.open(path)
  t.ok(dir.isInPlace())
  renameSync(path, `${path}-moved`)
  t.notOk(dir.isInPlace())
  mkdirSync(path)
  t.notOk(dir.isInPlace(), 'an empty folder in its place')
  rmSync(path, { recursive: true })
  renameSync(`${path}-moved`, path)
  t.ok(dir.isInPlace(), 'the directory is back')
  const file = join(path, 'log', '000000000001.log')
  writeFileSync(`${file}.copy`, readFileSync(file))
  unlinkSync(file)
  t.notOk(dir.isInPlace())
  renameSync(`${file}.copy`, file)
  t.notOk(dir.isInPlace(), 'a copy is another file')
  dir.release()
})

t.test('free space decides whether more events are accepted', async (t) => {
  const path = t.testdir()
  const { freeBytes: free } = await diskSpace(path)
  t.ok(free > 0)
  const guard = new DiskReserve(path, 1)
  t.ok(guard.isBelowReserve(NOTHING_ACCEPTED), 'nothing is accepted before the first check')
  await guard.refresh()
  t.ok(guard.freeBytes > 0)
  t.notOk(guard.isBelowReserve(NOTHING_ACCEPTED))
  const inFlight = guard.freeBytes / 4
  t.ok(guard.isBelowReserve({ inFlight, backlog: 0 }), 'data in flight needs four times its size')
  t.notOk(guard.isBelowReserve({ inFlight: inFlight - 1, backlog: 0 }))
  const strict = new DiskReserve(path, Number.MAX_SAFE_INTEGER)
  await strict.refresh()
  t.ok(strict.isBelowReserve(NOTHING_ACCEPTED))
  const lost = new DiskReserve(join(path, 'none'), 1)
  await lost.refresh()
  t.ok(lost.isBelowReserve(NOTHING_ACCEPTED), 'a missing folder has no space')
})

t.test('the reserve is the setting, else 256 MiB or an eighth of a smaller disk', async (t) => {
  const mib = 1024 ** 2
  t.equal(reserveBytesOf(1, 100 * mib), 1)
  t.equal(reserveBytesOf(null, 96 * mib), 12 * mib)
  t.equal(reserveBytesOf(null, 2048 * mib), DISK_RESERVE_BYTES)
  t.equal(reserveBytesOf(null, 1e6 * mib), 256 * mib)
})
