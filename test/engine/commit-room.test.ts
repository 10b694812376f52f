/**
 * Tests the estimates of the space that a commit needs while the disk is short of space, and what they reserve.
 *
 * @lane quick
 */
import t from 'tap'
import { DiskRoom } from '../../src/base/disk-room.ts'
import { DiskReserve, NOTHING_ACCEPTED } from '../../src/engine/front/disk-reserve.ts'
import { CommitRoom } from '../../src/engine/processor/commit-room.ts'

const KIB = 1024
const MIB = 1024 * KIB
const EVENT_BYTES = 1 * KIB

/** The figures of a data file, and of the pages that commits write to it. */
class Figures {
  readonly shared = new DiskRoom()
  readonly space = { diskBytes: 16 * MIB, insideBytes: 0, usedBytes: 64 * MIB }

  open(): CommitRoom {
    return new CommitRoom({ room: () => ({ ...this.space }) }, this.shared)
  }

  /** Begins a commit and sets its pages. Without a call of `end`, the commit has failed. */
  commit(room: CommitRoom, logBytes: number, addedBytes: number): void {
    room.begin(logBytes)
    this.shared.commitFixedBytes = 160 * KIB
    this.shared.commitTouchedBytes = 40 * KIB
    this.shared.commitAddedBytes = addedBytes
    this.shared.leafBytes = 2 * MIB
  }

  /** The space that stays reserved for a commit of usual size. */
  get usualBytes(): number {
    return this.shared.commitLeastBytes
  }
}

function afterCommits(figures: Figures): CommitRoom {
  const room = figures.open()
  for (let count = 0; count < 40; count++) {
    room.bytesMax(EVENT_BYTES, 1)
    figures.commit(room, 256 * KIB, 256 * KIB)
    figures.space.usedBytes += 256 * KIB
    room.end()
  }
  return room
}

/** Fails a commit, as after `afterCommits`, and returns the room of the next processing thread. */
function afterFailure(figures: Figures, logBytes: number, addedBytes: number): CommitRoom {
  figures.commit(figures.open(), logBytes, addedBytes)
  return figures.open()
}

t.test('after a small commit has failed, the next one is half as large', async (t) => {
  const figures = new Figures()
  afterCommits(figures)
  const room = afterFailure(figures, 8 * KIB, 9 * MIB)
  t.equal(room.bytesMax(EVENT_BYTES, 1), 4 * KIB)
  t.equal(afterFailure(figures, 4 * KIB, 9 * MIB).bytesMax(EVENT_BYTES, 1), 2 * KIB)
})

t.test('a commit of one event that failed must find the space that it needed', async (t) => {
  const figures = new Figures()
  afterCommits(figures)
  const neededBytes = 160 * KIB + 40 * KIB + 9 * MIB
  const room = afterFailure(figures, EVENT_BYTES, 9 * MIB)
  figures.space.diskBytes = neededBytes - 1
  t.equal(room.bytesMax(EVENT_BYTES, 1), 0)
  t.equal(figures.shared.neededBytes, neededBytes)
  figures.space.diskBytes = neededBytes
  t.equal(room.bytesMax(EVENT_BYTES, 1), EVENT_BYTES)
  t.equal(figures.shared.neededBytes, 0)
})

t.test('a commit that failed before its pages were known changes nothing', async (t) => {
  const figures = new Figures()
  const bytesMax = afterCommits(figures).bytesMax(EVENT_BYTES, 1)
  figures.open().begin(EVENT_BYTES)
  t.equal(figures.open().bytesMax(EVENT_BYTES, 1), bytesMax)
})

t.test('a small commit that failed does not change the space for a usual one', async (t) => {
  const figures = new Figures()
  afterCommits(figures)
  const { usualBytes } = figures
  const room = afterFailure(figures, EVENT_BYTES, 9 * MIB)
  room.bytesMax(EVENT_BYTES, 1)
  t.equal(figures.usualBytes, usualBytes)
  figures.commit(room, EVENT_BYTES, 8 * KIB)
  room.end()
  figures.space.diskBytes = 2 * MIB
  t.ok(room.bytesMax(EVENT_BYTES, 1) > EVENT_BYTES, 'success ends the wait')
})

t.test('a large commit that failed raises the space for a usual one', async (t) => {
  const figures = new Figures()
  afterCommits(figures)
  const { usualBytes } = figures
  afterFailure(figures, 256 * KIB, 9 * MIB).bytesMax(EVENT_BYTES, 1)
  t.ok(figures.usualBytes > usualBytes * 5)
})

t.test('the index of uuids is not counted as growth of the store', async (t) => {
  const figures = new Figures()
  const room = afterCommits(figures)
  const { growth } = figures.shared
  figures.space.usedBytes += 9 * MIB
  room.measureAnew()
  room.bytesMax(EVENT_BYTES, 1)
  figures.commit(room, 256 * KIB, 256 * KIB)
  figures.space.usedBytes += 256 * KIB
  room.end()
  t.equal(figures.shared.growth, growth)
})

t.test('a wrong estimate cannot reserve the whole disk', async (t) => {
  const shared = new DiskRoom()
  const disk = new DiskReserve(t.testdir(), 8 * MIB, shared)
  shared.commitLeastBytes = 2 ** 50
  await disk.refresh()
  t.equal(shared.promisedBytes, 12 * MIB)
  t.equal(disk.isBelowReserve(NOTHING_ACCEPTED), false)
  shared.commitLeastBytes = 6 * MIB
  await disk.refresh()
  t.equal(shared.promisedBytes, 10 * MIB)
})
