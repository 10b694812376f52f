/**
 * Tests that free pages of a data file are released to the disk while it is in use. No state that is being read, or
 * that a crash could lead to, loses a page. A kill at any time keeps all commits. No other process can open the store
 * while pages are released.
 *
 * @lane all
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import fs, {
  chmodSync,
  closeSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import t, { type Test } from 'tap'
import { SYSTEM_CLOCK } from '../../src/base/clock.ts'
import { isShortage } from '../../src/store/faults.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { FreePageRelease } from '../../src/store/lmdb/free-page-release.ts'
import { punchHoles } from '../../src/store/lmdb/hole-punch.ts'
import { inspectLmdbFile } from '../../src/store/lmdb/lmdb-file.ts'
import { freePagesBefore, newestState, walkLmdbFile } from '../../src/store/lmdb/lmdb-walk.ts'
import { Dice } from '../fixtures/dice.ts'
import { onSmallDisk } from '../fixtures/small-disk.ts'
import { SCRIPT_WORDS, sourceText } from '../fixtures/source-script.ts'

const TABLES = ['large', 'small'] as const
const LARGE_BYTES = 60_000
const EVERYTHING = Number.MAX_SAFE_INTEGER

interface Store {
  readonly environment: Environment<(typeof TABLES)[number]>
  readonly file: string
  readonly lockDescriptor: number
}

function openStore(t: Test): Store {
  const dataDir = t.testdir()
  const environment = new Environment({ dataDir, name: 'events', tables: TABLES })
  const lockDescriptor = openSync(dataDir, 'r')
  t.teardown(async () => {
    await environment.close()
    closeSync(lockDescriptor)
  })
  return { environment, file: join(dataDir, 'events', 'data.mdb'), lockDescriptor }
}

function keyOf(number: number): Buffer {
  const key = Buffer.alloc(4)
  key.writeUInt32BE(number)
  return key
}

/** Stores `count` large values from number `first` on, each filled with one byte, in one transaction. */
function fill({ environment }: Store, first: number, count: number, byte: number): void {
  environment.write(() => {
    for (let number = first; number < first + count; number++) {
      void environment.tables.large.put(keyOf(number), Buffer.alloc(LARGE_BYTES, byte))
    }
  })
}

function clear({ environment }: Store, first: number, count: number): void {
  environment.write(() => {
    for (let number = first; number < first + count; number++) {
      void environment.tables.large.remove(keyOf(number))
    }
  })
}

/** Makes commits that free almost nothing, because freed pages are reusable from the second commit on. */
function commitTwice({ environment }: Store): void {
  for (let round = 0; round < 2; round++) {
    environment.write(() => void environment.tables.small.put(keyOf(0), Buffer.from([round])))
  }
}

function diskBytes(file: string): number {
  return statSync(file).blocks * 512
}

/** Returns the numbers from `first` on with values that differ from the stored ones. */
function wrongValues({ environment }: Store, first: number, count: number, byte: number): number[] {
  const expected = Buffer.alloc(LARGE_BYTES, byte)
  const numbers = Array.from({ length: count }, (_, index) => first + index)
  return numbers.filter((number) => !environment.tables.large.get(keyOf(number))?.equals(expected))
}

t.test('free pages are released, and used again', async (t) => {
  const store = openStore(t)
  const { environment, file, lockDescriptor } = store
  for (let round = 0; round < 10; round++) fill(store, round * 30, 30, round + 1)
  const before = diskBytes(file)
  clear(store, 0, 240)
  commitTwice(store)
  const { bytes, next, failure } = environment.releasePages(0, EVERYTHING, lockDescriptor)
  t.equal(failure, null)
  t.equal(next, null)
  t.ok(bytes > 230 * LARGE_BYTES, `${bytes} bytes were released`)
  t.ok(diskBytes(file) < before - 230 * LARGE_BYTES)
  t.ok(environment.reusableBytes() < 10 * LARGE_BYTES, 'hardly any disk space is unused')
  t.ok(environment.freeBytes() > 230 * LARGE_BYTES, 'the file has its free pages')
  t.strictSame([...wrongValues(store, 240, 30, 9), ...wrongValues(store, 270, 30, 10)], [])
  const length = statSync(file).size
  for (let round = 0; round < 7; round++) fill(store, round * 30, 30, 100 + round)
  t.ok(statSync(file).size <= length + 4 * LARGE_BYTES, 'writes use free pages first')
  for (let round = 0; round < 7; round++) {
    t.strictSame(wrongValues(store, round * 30, 30, 100 + round), [])
  }
  t.equal(inspectLmdbFile(file).kind, 'sound')
  t.ok(walkLmdbFile(file, newestState(file)).freePages > 0)
})

t.test('the release continues where it ended', async (t) => {
  const store = openStore(t)
  for (let round = 0; round < 4; round++) fill(store, round * 50, 50, 1)
  clear(store, 0, 190)
  commitTwice(store)
  let total = 0
  let steps = 0
  for (let next: number | null = 0; next !== null; steps++) {
    const step = store.environment.releasePages(next, 1024 ** 2, store.lockDescriptor)
    total += step.bytes
    next = step.next
  }
  t.ok(steps > 5 && total > 185 * LARGE_BYTES, `${total} bytes were released in ${steps} steps`)
  t.strictSame(wrongValues(store, 190, 10, 1), [])
})

t.test('a state that is being read keeps its pages until it is released', async (t) => {
  const store = openStore(t)
  const { environment, lockDescriptor } = store
  fill(store, 0, 100, 7)
  environment.refresh()
  const pin = environment.pin()
  clear(store, 0, 100)
  commitTwice(store)
  t.ok(environment.releasePages(0, EVERYTHING, lockDescriptor).bytes < LARGE_BYTES)
  const expected = Buffer.alloc(LARGE_BYTES, 7)
  const values = [...pin.entries('large')].map(({ value }) => expected.equals(value))
  t.strictSame(values, Array(100).fill(true))
  pin.release()
  t.ok(environment.releasePages(0, EVERYTHING, lockDescriptor).bytes > 95 * LARGE_BYTES)
})

t.test('no page is released before the newest state is on disk', async (t) => {
  const store = openStore(t)
  const { environment, file, lockDescriptor } = store
  const size = 50
  fill(store, 0, size, 1)
  clear(store, 0, size)
  commitTwice(store)
  const before = diskBytes(file)
  const { fdatasyncSync } = fs
  const found: { readonly file: string; readonly bytes: number }[] = []
  const replace = (flush: typeof fdatasyncSync): void => {
    fs.fdatasyncSync = flush
    syncBuiltinESMExports()
  }
  t.teardown(() => replace(fdatasyncSync))
  replace((descriptor) => {
    found.push({ file: fs.readlinkSync(`/proc/self/fd/${descriptor}`), bytes: diskBytes(file) })
    fdatasyncSync(descriptor)
  })
  t.ok(environment.releasePages(0, EVERYTHING, lockDescriptor).bytes > 0)
  t.strictSame(found, [{ file, bytes: before }])
  // A disk that cannot flush gives no guarantee about its content.
  fill(store, 0, size, 1)
  clear(store, 0, size)
  commitTwice(store)
  const again = diskBytes(file)
  replace(() => {
    throw Object.assign(new Error('EIO: i/o error, fdatasync'), { code: 'EIO' })
  })
  t.throws(() => environment.releasePages(0, EVERYTHING, lockDescriptor), { code: 'EIO' })
  t.equal(diskBytes(file), again)
})

t.test('after any write, both states that a crash could lead to are complete', async (t) => {
  const store = openStore(t)
  const { environment, file, lockDescriptor } = store
  const random = new Dice(4711)
  const expected = new Map<number, number>()
  let released = 0
  for (let round = 0; round < 60; round++) {
    environment.write(() => {
      for (let change = random.below(12); change >= 0; change--) {
        const number = random.below(80)
        if (random.below(2) === 0) {
          void environment.tables.large.remove(keyOf(number))
          expected.delete(number)
          continue
        }
        const bytes = 1 + random.below(200_000)
        void environment.tables.large.put(keyOf(number), Buffer.alloc(bytes, round + 1))
        expected.set(number, bytes * 256 + round + 1)
      }
    })
    if (random.below(3) > 0) continue
    released += environment.releasePages(0, EVERYTHING, lockDescriptor).bytes
    const newest = newestState(file)
    const pages = readFileSync(file)
    const pageBytes = pages.readUInt32LE(48)
    const other = newest.transaction % 2n === 0n ? pageBytes : 0
    const before = {
      transaction: newest.transaction - 1n,
      meta: pages.subarray(other, other + 192),
    }
    t.doesNotThrow(
      () => walkLmdbFile(file, newest),
      `round ${round}: the current state is complete`,
    )
    t.doesNotThrow(
      () => walkLmdbFile(file, before),
      `round ${round}: the previous state is complete`,
    )
    const zeros = Buffer.alloc(pageBytes)
    const isZero = (page: number): boolean =>
      pages.subarray(page * pageBytes, (page + 1) * pageBytes).equals(zeros)
    const holes = Array.from({ length: pages.length / pageBytes }, (_, page) => page).filter(isZero)
    const free = new Set<number>()
    for (const run of freePagesBefore(file, newest, newest.transaction)) {
      for (let page = run.first; page < run.first + run.pages; page++) free.add(page)
    }
    t.strictSame(
      holes.filter((page) => !free.has(page)),
      [],
      'only free pages were given back',
    )
    const found = new Map<number, number>()
    for (const { key, value } of environment.tables.large.getRange()) {
      const byte = value[0] ?? 0
      if (value.every((one) => one === byte))
        found.set(key.readUInt32BE(), value.length * 256 + byte)
    }
    t.strictSame(new Map([...found].sort()), new Map([...expected].sort()))
  }
  t.ok(released > 0)
})

t.test('a process that is killed while it releases pages loses nothing', async (t) => {
  const dataDir = t.testdir()
  const script = `
    const { Environment } = await import(${sourceText('store/lmdb/environment')})
    const { openSync } = await import('node:fs')
    const dataDir = ${JSON.stringify(dataDir)}
    const environment = new Environment({ dataDir, name: 'events', tables: ['large', 'small'] })
    const lock = openSync(dataDir, 'r')
    const keyOf = (number) => { const key = Buffer.alloc(4); key.writeUInt32BE(number); return key }
    const first = Number(process.argv[1])
    for (let round = first; ; round++) {
      environment.write(() => {
        for (let index = 0; index < 20; index++) {
          void environment.tables.large.put(keyOf(round * 20 + index), Buffer.alloc(60000, round % 251 + 1))
          if (round > 2) void environment.tables.large.remove(keyOf((round - 3) * 20 + index))
        }
      })
      process.stdout.write(round + '\\n')
      environment.releasePages(0, 1e9, lock)
    }`
  let first = 0
  const environmentOf = (): Environment<(typeof TABLES)[number]> =>
    new Environment({ dataDir, name: 'events', tables: TABLES })
  for (let kill = 0; kill < 3; kill++) {
    const child = spawn(process.execPath, [...SCRIPT_WORDS, script, String(first)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let last = -1
    for await (const line of createInterface({ input: child.stdout })) {
      last = Number(line)
      if (last >= first + 6 + kill) child.kill('SIGKILL')
    }
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    const file = join(dataDir, 'events', 'data.mdb')
    t.equal(inspectLmdbFile(file).kind, 'sound')
    t.doesNotThrow(() => walkLmdbFile(file, newestState(file)))
    const environment = environmentOf()
    const wrong: number[] = []
    for (let round = last - 2; round <= last; round++) {
      const expected = Buffer.alloc(LARGE_BYTES, (round % 251) + 1)
      for (let index = 0; index < 20; index++) {
        const number = round * 20 + index
        const value = environment.tables.large.get(keyOf(number))
        // The transaction after the last acknowledged one may have removed the oldest values.
        if (value === undefined && round === last - 2) continue
        if (!value?.equals(expected)) wrong.push(number)
      }
    }
    t.strictSame(wrong, [])
    await environment.close()
    first = last + 2
  }
})

t.test('on a full disk no released page is written', (t) =>
  onSmallDisk(t, 64, async (dataDir) => {
    const environment = new Environment({ dataDir, name: 'events', tables: TABLES })
    const lockDescriptor = openSync(dataDir, 'r')
    const file = join(dataDir, 'events', 'data.mdb')
    const store = { environment, file, lockDescriptor }
    for (let round = 0; round < 8; round++) fill(store, round * 50, 50, 1)
    clear(store, 0, 390)
    commitTwice(store)
    const { bytes, failure } = environment.releasePages(0, EVERYTHING, lockDescriptor)
    t.equal(failure, null)
    t.ok(bytes > 350 * LARGE_BYTES)
    const other = join(dataDir, 'other')
    const descriptor = openSync(other, 'w')
    try {
      for (;;) writeSync(descriptor, Buffer.alloc(4096, 1))
    } catch {
      closeSync(descriptor)
    }
    const found: unknown[] = []
    for (let number = 1000; number < 1400; number++) {
      try {
        fill(store, number, 1, 2)
      } catch (error) {
        found.push(isShortage(error))
        if (found.length === 5) break
      }
    }
    t.strictSame(found, Array(5).fill('disk'), 'transactions are taken back')
    t.strictSame(wrongValues(store, 390, 10, 1), [])
    rmSync(other)
    fill(store, 0, 300, 3)
    t.strictSame(wrongValues(store, 0, 300, 3), [])
    t.doesNotThrow(() => walkLmdbFile(file, newestState(file)))
    await environment.close()
    closeSync(lockDescriptor)
  }),
)

/** Runs `action` with its own programs first in the search path, or with no programs. */
function withPrograms<T>(folder: string, isAlone: boolean, action: () => T): T {
  const path = process.env['PATH']
  process.env['PATH'] = isAlone ? folder : `${folder}:${path}`
  try {
    return action()
  } finally {
    process.env['PATH'] = path
  }
}

t.test('while pages are released, the program holds the lock on the data directory', async (t) => {
  const dataDir = t.testdir({
    perl: `#!/bin/sh\nreadlink /proc/self/fd/4 > "$0.out"\n`,
    file: 'x',
  })
  chmodSync(join(dataDir, 'perl'), 0o755)
  const lock = openSync(dataDir, 'r')
  const file = openSync(join(dataDir, 'file'), 'r+')
  const failure = withPrograms(dataDir, false, () =>
    punchHoles(file, [{ offset: 0, bytes: 1 }], lock),
  )
  t.equal(failure, null)
  t.equal(readFileSync(join(dataDir, 'perl.out'), 'utf8').trim(), dataDir)
  closeSync(lock)
  closeSync(file)
})

t.test('many short runs of pages are released in several transactions', async (t) => {
  const store = openStore(t)
  const { environment, file, lockDescriptor } = store
  const count = 300
  for (let first = 0; first < count; first += 50) fill(store, first, 50, 1)
  environment.write(() => {
    for (let number = 0; number < count; number += 2) {
      void environment.tables.large.remove(keyOf(number))
    }
  })
  commitTwice(store)
  const path = spawnSync('sh', ['-c', 'command -v perl'], { encoding: 'utf8' }).stdout.trim()
  const programs = dirname(dirname(file))
  const words = `tee "$0.lines" | wc -l >> "$0.counts"\nexec ${path} "$@" < "$0.lines"`
  writeFileSync(join(programs, 'perl'), `#!/bin/sh\n${words}\n`, { mode: 0o755 })
  const before = diskBytes(file)
  withPrograms(programs, false, () => {
    for (let next: number | null = 0; next !== null; ) {
      const step = environment.releasePages(next, EVERYTHING, lockDescriptor)
      t.equal(step.failure, null)
      next = step.next
    }
  })
  const counts = readFileSync(join(programs, 'perl.counts'), 'utf8').trim().split('\n').map(Number)
  t.ok(counts.length > 1, `${counts.length} transactions were used`)
  t.ok(
    counts.every((lines) => lines <= 128),
    `${counts.join(', ')} ranges were released`,
  )
  t.ok(diskBytes(file) < before - (count / 2 - 2) * LARGE_BYTES)
  const kept = Array.from({ length: count / 2 }, (_, index) => index * 2 + 1)
  t.strictSame(
    kept.filter((number) => wrongValues(store, number, 1, 1).length > 0),
    [],
  )
})

t.test('the alternative program works, too', async (t) => {
  const dataDir = t.testdir({ programs: {} })
  const where = spawnSync('sh', ['-c', 'command -v fallocate'], { encoding: 'utf8' }).stdout.trim()
  if (where === '') {
    t.comment('it is not installed here')
    return
  }
  const path = join(dataDir, 'file')
  writeFileSync(path, Buffer.alloc(8 * 4096, 1))
  const programs = join(dataDir, 'programs')
  writeFileSync(join(programs, 'fallocate'), `#!/bin/sh\nexec ${where} "$@"\n`, { mode: 0o755 })
  const file = openSync(path, 'r+')
  const ranges = [
    { offset: 4096, bytes: 4096 },
    { offset: 3 * 4096, bytes: 2 * 4096 },
  ]
  t.equal(
    withPrograms(programs, true, () => punchHoles(file, ranges, file)),
    null,
  )
  const pages = readFileSync(path)
  const kept = Array.from({ length: 8 }, (_, page) => pages[page * 4096])
  t.strictSame(kept, [1, 0, 1, 0, 0, 1, 1, 1])
  closeSync(file)
})

t.test('the release begins when many free pages take disk space', async (t) => {
  const store = openStore(t)
  const { environment, file, lockDescriptor } = store
  const bytesMin = 40 * LARGE_BYTES
  const release = new FreePageRelease({
    environment,
    lockDescriptor,
    clock: SYSTEM_CLOCK,
    bytesMin,
  })
  fill(store, 0, 200, 1)
  clear(store, 0, 20)
  commitTwice(store)
  t.equal(release.run(Number.POSITIVE_INFINITY), false)
  t.equal(release.takeNews(), null, 'a few free pages stay for the next writes')
  clear(store, 20, 150)
  commitTwice(store)
  const before = diskBytes(file)
  t.equal(release.run(Number.POSITIVE_INFINITY), false)
  t.match(release.takeNews(), { bytes: before - diskBytes(file), failure: null })
  t.ok(before - diskBytes(file) > 165 * LARGE_BYTES)
  t.equal(release.takeNews(), null)
  t.strictSame(wrongValues(store, 170, 30, 1), [])
})

t.test('without support by program or file system, the store is unchanged', async (t) => {
  const store = openStore(t)
  const { environment, file, lockDescriptor } = store
  const release = new FreePageRelease({
    environment,
    lockDescriptor,
    clock: SYSTEM_CLOCK,
    bytesMin: 1,
  })
  fill(store, 0, 100, 1)
  clear(store, 0, 90)
  commitTwice(store)
  const before = diskBytes(file)
  const empty = t.testdirName
  withPrograms(join(empty, 'nothing'), true, () => {
    t.equal(release.run(Number.POSITIVE_INFINITY), false)
    t.match(release.takeNews(), { bytes: 0, failure: /install util-linux/ })
    t.equal(release.run(Number.POSITIVE_INFINITY), false)
    t.equal(release.takeNews(), null, 'the release is not tried again')
  })
  t.equal(diskBytes(file), before)
  t.strictSame(wrongValues(store, 90, 10, 1), [])
})
