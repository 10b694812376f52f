/**
 * Tests that a transaction commits only if its data file has room for all pages that it can write. On a full disk it is
 * rolled back with ENOSPC, reads continue, and the next one succeeds when there is room. Needs a small file system,
 * which only root may mount.
 *
 * @lane quick
 */
import { closeSync, openSync, rmSync, statSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { DiskRoom } from '../../src/base/disk-room.ts'
import { isShortage } from '../../src/store/faults.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { freeMib, onSmallDisk } from '../fixtures/small-disk.ts'

const DISK_MIB = 48
const ROUNDS = 150
const TABLES = ['small', 'large'] as const

/** The same numbers in each run. */
function randomNumbers(): (below: number) => number {
  let state = 12_345
  return (below) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

function keyOf(number: number): Buffer {
  const key = Buffer.alloc(4)
  key.writeUInt32BE(number)
  return key
}

t.test('no transaction takes more pages than it was allowed', (t) =>
  onSmallDisk(t, DISK_MIB, async (dataDir) => {
    const diskRoom = new DiskRoom()
    const environment = new Environment({ dataDir, name: 'events', tables: TABLES, diskRoom })
    const { small, large } = environment.tables
    const random = randomNumbers()
    const endBytes = (): number => environment.room().usedBytes + environment.freeBytes()
    const beyond: number[] = []
    for (let round = 0; round < ROUNDS; round++) {
      const before = endBytes()
      environment.write(() => {
        for (let change = random(200); change >= 0; change--) {
          const key = keyOf(random(5000))
          if (random(3) === 0) void small.remove(key)
          else void small.put(key, Buffer.alloc(random(900), round))
        }
        for (let change = random(4); change >= 0; change--) {
          const key = keyOf(random(60))
          if (random(3) === 0) void large.remove(key)
          else void large.put(key, Buffer.alloc(random(90_000), round))
        }
      })
      const { commitFixedBytes, commitTouchedBytes, commitAddedBytes } = diskRoom
      const allowed = commitFixedBytes + commitTouchedBytes + commitAddedBytes
      if (endBytes() - before > allowed) beyond.push(round)
    }
    t.ok(diskRoom.commitAddedBytes > 0, 'pages were counted')
    t.strictSame(beyond, [])
    await environment.close()
  }),
)

t.test('on a full disk a transaction is rolled back, and the next one succeeds with room', (t) =>
  onSmallDisk(t, DISK_MIB, async (disk) => {
    const environment = new Environment({ dataDir: disk, name: 'events', tables: TABLES })
    const { large } = environment.tables
    const put = (number: number, byte: number): void =>
      environment.write(() => void large.put(keyOf(number), Buffer.alloc(100_000, byte)))
    for (let number = 0; number < 20; number++) put(number, 1)
    const other = join(disk, 'other')
    const descriptor = openSync(other, 'w')
    try {
      for (;;) writeSync(descriptor, Buffer.alloc(4096, 1))
    } catch {
      closeSync(descriptor)
    }
    t.ok(freeMib(disk) < 0.01, 'no page is free')
    const failures: unknown[] = []
    for (let number = 100; number < 400 && failures.length < 5; number++) {
      try {
        put(number, 2)
      } catch (error) {
        failures.push(error)
        t.equal(large.get(keyOf(number)), undefined, 'no part of the transaction is stored')
      }
    }
    t.strictSame(
      failures.map(isShortage),
      failures.map(() => 'disk'),
    )
    t.equal(failures.length, 5, 'the disk was full')
    t.equal(large.get(keyOf(3))?.[0], 1, 'reads continue')
    rmSync(other)
    put(1000, 3)
    t.equal(large.get(keyOf(1000))?.length, 100_000)
    await environment.close()
  }),
)

/** Fills the disk until a number of MiB is free. Returns the file that fills it. */
function fillDisk(disk: string, leftMib: number): string {
  const other = join(disk, 'other')
  const descriptor = openSync(other, 'w')
  try {
    while (freeMib(disk) > leftMib) writeSync(descriptor, Buffer.alloc(4096, 1))
  } catch {
    // No space is left.
  }
  closeSync(descriptor)
  return other
}

/**
 * Returns a function that writes `count` values of 100,000 bytes, each filled with `byte`, from key `first` on in one
 * transaction.
 */
function writerOf(environment: Environment<(typeof TABLES)[number]>) {
  const { large } = environment.tables
  return (first: number, count: number, byte: number): void =>
    environment.write(() => {
      for (let number = first; number < first + count; number++) {
        void large.put(keyOf(number), Buffer.alloc(100_000, byte))
      }
    })
}

t.test('disk space is counted only once for released pages', (t) =>
  onSmallDisk(t, DISK_MIB, async (disk) => {
    const environment = new Environment({ dataDir: disk, name: 'events', tables: TABLES })
    const { large, small } = environment.tables
    const lock = openSync(disk, 'r')
    const put = writerOf(environment)
    for (let first = 0; first < 200; first += 20) put(first, 20, 1)
    environment.write(() => {
      for (let number = 1; number < 200; number++) void large.remove(keyOf(number))
    })
    for (let round = 0; round < 2; round++) {
      environment.write(() => void small.put(keyOf(0), Buffer.from([round])))
    }
    t.ok(environment.releasePages(0, 100 * 1024 ** 2, lock).bytes > 18_000_000)
    fillDisk(disk, 3)
    put(1000, 20, 2)
    // One by one until no room is left, neither on the disk nor in the file.
    let count = 0
    t.throws(() => {
      for (; count < 100; count++) put(2000 + count, 1, 3)
    })
    const { diskBytes, insideBytes } = environment.room()
    t.ok(diskBytes + insideBytes < 400_000, `${diskBytes} and ${insideBytes} bytes are left`)
    const values = [0, 1000, 1019, 2000].map((number) => large.get(keyOf(number))?.[0])
    t.strictSame(values, [1, 2, 2, 3])
    await environment.close()
    closeSync(lock)
  }),
)

t.test('room after the last page complements free pages that were released', (t) =>
  onSmallDisk(t, DISK_MIB, async (disk) => {
    const environment = new Environment({ dataDir: disk, name: 'events', tables: TABLES })
    const { large, small } = environment.tables
    const lock = openSync(disk, 'r')
    const put = writerOf(environment)
    const freeAll = (): void => {
      environment.write(() => {
        for (const number of [...large.getKeys()]) void large.remove(number)
      })
      for (let round = 0; round < 2; round++) {
        environment.write(() => void small.put(keyOf(0), Buffer.from([round])))
      }
    }
    for (let first = 0; first < 200; first += 20) put(first, 20, 1)
    freeAll()
    // The transaction takes free pages, and its room after the last page stays.
    put(0, 40, 1)
    freeAll()
    t.ok(environment.room().insideBytes > 3_000_000)
    t.ok(environment.releasePages(0, 100 * 1024 ** 2, lock).bytes > 18_000_000)
    fillDisk(disk, 0)
    for (let number = 0; number < 20; number++) put(number, 1, 4)
    const wrong = Array.from({ length: 20 }, (_, number) => number).filter(
      (number) => !large.get(keyOf(number))?.equals(Buffer.alloc(100_000, 4)),
    )
    t.strictSame(wrong, [])
    await environment.close()
    closeSync(lock)
  }),
)

t.test('only the owner can read the files of an environment', async (t) => {
  const dataDir = t.testdir()
  const environment = new Environment({ dataDir, name: 'events', tables: TABLES })
  for (const name of ['data.mdb', 'lock.mdb']) {
    t.equal(statSync(join(dataDir, 'events', name)).mode & 0o777, 0o600, name)
  }
  await environment.close()
})
