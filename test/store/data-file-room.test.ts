/**
 * A transaction commits only when its data file has room for all pages that it can write: on a full disk it is taken
 * back with ENOSPC, reads go on, and the next one succeeds once there is room. Needs a small file system, which only
 * root may mount.
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

t.test('on a full disk a transaction is taken back, and the next one succeeds with room', (t) =>
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
    t.ok(freeMib(disk) < 0.01, 'nothing is free')
    const failures: unknown[] = []
    for (let number = 100; number < 400 && failures.length < 5; number++) {
      try {
        put(number, 2)
      } catch (error) {
        failures.push(error)
        t.equal(large.get(keyOf(number)), undefined, 'nothing of it is there')
      }
    }
    t.strictSame(
      failures.map(isShortage),
      failures.map(() => 'disk'),
    )
    t.equal(failures.length, 5, 'a full disk is met')
    t.equal(large.get(keyOf(3))?.[0], 1, 'reads go on')
    rmSync(other)
    put(1000, 3)
    t.equal(large.get(keyOf(1000))?.length, 100_000)
    await environment.close()
  }),
)

t.test('the files of an environment are those of their owner alone', async (t) => {
  const dataDir = t.testdir()
  const environment = new Environment({ dataDir, name: 'events', tables: TABLES })
  for (const name of ['data.mdb', 'lock.mdb']) {
    t.equal(statSync(join(dataDir, 'events', name)).mode & 0o777, 0o600, name)
  }
  await environment.close()
})
