/**
 * Tests when the uuid index is written while the disk is short of space. Its newest entries stay in memory as long as
 * the space is reserved for accepted events. Needs a small file system, which only root may mount.
 *
 * @lane quick
 */
import { closeSync, fstatSync, ftruncateSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { DiskRoom } from '../../src/base/disk-room.ts'
import { EventReader } from '../../src/store/events/read/event-reader.ts'
import { ProcessingWriter } from '../../src/store/events/write/processing-writer.ts'
import { onSmallDisk } from '../fixtures/small-disk.ts'
import { eventInput, uuidOf } from '../fixtures/stored-events.ts'

const DISK_MIB = 64
const KIB = 1024
const TABLE_ENTRIES_MAX = 20_000
const EVENTS_OF_COMMIT = 500
/** More than the disk can ever have free. */
const ALL_BYTES = 2 ** 40
/** Enough for a commit of events, and too little for the table of the index at twice its usual size. */
const SHORT_BYTES = 700 * KIB

/** A store on a small disk, whose free space a test can set. */
class ShortStore {
  readonly diskRoom = new DiskRoom()
  readonly #other: number
  readonly #dataDir: string
  readonly #tableEntriesMax: number
  #writer: ProcessingWriter
  #events = 0

  constructor(disk: string, tableEntriesMax = TABLE_ENTRIES_MAX) {
    this.#tableEntriesMax = tableEntriesMax
    this.#dataDir = join(disk, 'data')
    this.#other = openSync(join(disk, 'other'), 'w')
    this.#writer = this.#open()
  }

  #open(): ProcessingWriter {
    const { diskRoom } = this
    return new ProcessingWriter({
      dataDir: this.#dataDir,
      tableEntriesMax: this.#tableEntriesMax,
      diskRoom,
    })
  }

  get events(): number {
    return this.#events
  }

  get warehouse(): ProcessingWriter['warehouse'] {
    return this.#writer.warehouse
  }

  /** Another program takes or frees space until about this number of bytes is free for the store. */
  setFree(bytes: number): void {
    const { diskBytes, insideBytes } = this.#writer.room()
    const { size } = fstatSync(this.#other)
    const surplus = diskBytes + insideBytes - bytes
    if (surplus <= 0) {
      ftruncateSync(this.#other, Math.max(0, size + surplus))
      return
    }
    const page = Buffer.alloc(4 * KIB, 1)
    try {
      for (let taken = 0; taken + page.length <= surplus; taken += page.length) {
        writeSync(this.#other, page, 0, page.length, size + taken)
      }
    } catch {
      // No more space can be taken, because the rest belongs to the data file.
    }
  }

  /** Stores new events in one commit after the other, with this number of free bytes before each, until `isEnough`. */
  addUntil(isEnough: () => boolean, freeBytes: number | null): void {
    for (let commit = 0; commit < 1000 && !isEnough(); commit++) {
      if (freeBytes !== null) this.setFree(freeBytes)
      for (let count = 0; count < EVENTS_OF_COMMIT; count++) {
        this.#writer.add(eventInput({ uuid: uuidOf(this.#events++) }))
      }
      this.#writer.commit(this.#events)
      this.warehouse.writeIndex?.()
    }
  }

  /** Sends stored events again. Returns how many of them are stored a second time. */
  storedTwice(): number {
    let count = 0
    for (let number = 0; number < this.#events; number += 97) {
      if (this.#writer.add(eventInput({ uuid: uuidOf(number) }))) count++
    }
    return count
  }

  /** The number of entries of the index that are on the disk. */
  async writtenEntries(): Promise<number> {
    const reader = new EventReader({
      dataDir: this.#dataDir,
      expand: (properties) => properties,
    })
    const { uuidRunEntries } = reader.statistics()
    await reader.close()
    return uuidRunEntries
  }

  async reopen(): Promise<void> {
    await this.#writer.close()
    this.#writer = this.#open()
  }

  async close(): Promise<void> {
    await this.#writer.close()
    closeSync(this.#other)
  }
}

t.test('the index leaves reserved space to accepted events at first', (t) =>
  onSmallDisk(t, DISK_MIB, async (disk) => {
    const store = new ShortStore(disk)
    store.diskRoom.promisedBytes = ALL_BYTES
    store.addUntil(() => store.events >= TABLE_ENTRIES_MAX * 1.5, null)
    t.equal(await store.writtenEntries(), 0, 'all free space is reserved')
    t.equal(store.warehouse.indexBytesDue, 0)
    store.addUntil(() => store.events >= TABLE_ENTRIES_MAX * 2, null)
    t.equal(await store.writtenEntries(), TABLE_ENTRIES_MAX * 2, 'its memory is limited')
    store.diskRoom.promisedBytes = 0
    store.addUntil(() => store.events >= TABLE_ENTRIES_MAX * 3, null)
    t.equal(await store.writtenEntries(), TABLE_ENTRIES_MAX * 3, 'no space is reserved')
    await store.close()
  }),
)

t.test('events wait when the index has no space and its memory is full', (t) =>
  onSmallDisk(t, DISK_MIB, async (disk) => {
    const store = new ShortStore(disk)
    store.diskRoom.promisedBytes = ALL_BYTES
    store.addUntil(() => (store.warehouse.indexBytesDue ?? 0) > 0, SHORT_BYTES)
    t.equal(store.events, TABLE_ENTRIES_MAX * 4)
    t.equal(await store.writtenEntries(), 0)
    t.equal(store.warehouse.writeIndex?.(), 0, 'still no space')
    t.equal(store.storedTwice(), 0, 'duplicates are found in memory')
    const dueBytes = store.warehouse.indexBytesDue ?? 0
    store.setFree(dueBytes + 8 * KIB)
    t.equal(store.warehouse.writeIndex?.(), dueBytes, 'the space that was asked for is enough')
    t.equal(store.warehouse.indexBytesDue, 0)
    t.equal(await store.writtenEntries(), TABLE_ENTRIES_MAX * 4)
    t.equal(store.storedTwice(), 0, 'duplicates are found on the disk')
    await store.reopen()
    t.equal(store.storedTwice(), 0, 'duplicates are found after a restart')
    await store.close()
  }),
)

t.test('events can be processed although many runs of the index cannot be merged', (t) =>
  onSmallDisk(t, DISK_MIB, async (disk) => {
    const store = new ShortStore(disk, EVENTS_OF_COMMIT)
    // With one more run, the index would merge some of them before the next events.
    store.addUntil(() => store.events >= EVENTS_OF_COMMIT * 25, null)
    for (const freeBytes of [0, SHORT_BYTES, 20 * KIB * KIB]) {
      store.setFree(freeBytes)
      t.equal(store.warehouse.writeIndex?.(), 0)
      t.equal(store.storedTwice(), 0)
    }
    await store.close()
  }),
)
