/**
 * Stores how persons have changed since they were stored completely. Most commits change a few properties of many
 * persons, whose records are far apart. Writing each record would cost a page for each person. So a commit appends the
 * changes as blocks at the end of a table, and an index tells where the newest changes of each person are.
 *
 * If an event changes a person who is not in memory, the person is not read. The data of the event is only appended to
 * the stored changes, as a *delta*. After `PERSON_DELTAS_MAX` deltas, or when the properties are needed, the person is
 * read and *folded*: the deltas are applied, and the person is stored without them.
 *
 *   person_changes   project, block u32 -> entries u32, for each entry person number u32 and
 *                      end u32 (the offset of its end in the block), then the entries
 *     entry          version u32 | properties as compact JSON | for each delta a line feed and its text
 *                      (rules/persons/property-deltas.ts) | crc32 u32 over project, person number
 *                      and the bytes before it
 *   change_places    project, person number / 256 -> for each of 256 persons the block u32, then for each
 *                      the position in the block u8, then for each the room u8; sealed
 *
 * All numbers are little-endian. An entry without changed properties has the version 2^32 - 1; the version of the
 * complete record then applies. Block 0 means that there are no changes. The *room* is one more than the number of
 * deltas that may still follow. A room of 0 means that the person has no deltas and must not get any. Older stores have
 * no rooms, and a missing room counts as 0. A block is removed when none of its entries is current. If most entries of
 * a block are outdated, the current ones are moved to a new block.
 */
import { grown } from '../../rules/analytics/growing-arrays.ts'
import { attempt, DamagedRecordError, type DamageListener, refuseDamage } from '../faults.ts'
import { bytesOf } from '../lmdb/codec.ts'
import type { Table } from '../lmdb/environment.ts'
import { type EventTables, keysOf, numberInKey, pairKey } from '../lmdb/keys.ts'
import { entriesOf, lastKey, load, store } from '../lmdb/records.ts'
import type { CachedRanges } from './cached-ranges.ts'
import {
  CHANGES,
  ChangesBlockWriter,
  type ChangesEntry,
  entryCount,
  findEntry,
  numberAt,
  readEntry,
  type StoredChanges,
} from './change-blocks.ts'
import {
  DELTA_EVENT_BYTES_MAX,
  DELTA_PERSON_BYTES_MAX,
  PERSON_CHANGES_MAX,
  PERSON_DELTAS_MAX,
} from './limits.ts'

const CHUNK_PERSONS = 256
/**
 * When an array must grow, it gets this many times the length that is needed. So it does not have to grow again with
 * each new person.
 */
const GROWTH = 1.25
/**
 * The room of a person who has no deltas and may get some. Each delta reduces the room by one, down to 1. So a person
 * whose room is from 1 to `ROOM_FRESH - 1` has deltas. In stores of older versions, a person without deltas may have a
 * room of 8, which looks like one delta. Such a person is folded once, which changes nothing.
 */
const ROOM_FRESH = PERSON_DELTAS_MAX + 1
/**
 * A bit of the room. It is set for a person that got a delta since the last commit, and must not get another one before
 * the commit.
 */
const DELTA_WAITS = 0x80
const CHUNK_BYTES = CHUNK_PERSONS * 6
const OLD_CHUNK_BYTES = CHUNK_PERSONS * 5
/**
 * A block with fewer entries than this is combined with others, so that small commits do not leave many small blocks.
 */
const ENTRIES_SMALL = 16
/**
 * If less than this fraction of a block's entries are current, these entries are moved to another block, and the block
 * is removed.
 */
const SPARSE_PART = 0.3
/** A commit moves the entries of at most this many blocks for each block that it writes. */
const EMPTIED_PER_BLOCK = 2

/**
 * An event is appended as a delta only if the limit for the properties of a person is at least this number of bytes, or
 * if there is no limit. The limit is not checked when a delta is appended, so deltas must not be able to exceed it. The
 * most that properties can reach by deltas is: the stored person, changes of at most the same size, and for each delta
 * 1024 bytes plus twelve times the bytes of the event.
 */
const DELTA_LIMIT_BYTES_MIN =
  2 * DELTA_PERSON_BYTES_MAX + PERSON_DELTAS_MAX * (12 * DELTA_EVENT_BYTES_MAX + 1024)

/**
 * Returns whether an event of `eventBytes` bytes may be appended as a delta. `bytesMax` is the limit for the properties
 * of a person, in bytes. 0: there is no limit.
 */
export function mayWait(eventBytes: number, bytesMax: number): boolean {
  if (eventBytes > DELTA_EVENT_BYTES_MAX) return false
  return bytesMax === 0 || bytesMax >= DELTA_LIMIT_BYTES_MIN
}

/** The tables that contain the changes of persons, and the index of them. */
export type ChangeTables = Pick<EventTables, 'person_changes' | 'change_places'>

/**
 * Returns the stored changes of a person, or null if there are none. `kept` caches the records that say where changes
 * are stored. Throws `DamagedRecordError`.
 */
export function loadChanges(
  tables: ChangeTables,
  projectId: number,
  number: number,
  kept: CachedRanges | null = null,
): StoredChanges | null {
  const places = kept === null ? loadPlaces(tables, projectId, number) : kept.of(projectId, number)
  const index = number % CHUNK_PERSONS
  const block = places?.readUInt32LE(index * 4) ?? 0
  const position = places?.[CHUNK_PERSONS * 4 + index] ?? 0
  if (block === 0) return null
  const key = pairKey(projectId, block)
  return readEntry(key, number, storedEntry(tables.person_changes, key, number, position))
}

/**
 * Returns the record of table `change_places` that says where the changes of a person and of 255 others are stored.
 * Returns null if none of these persons has changes. Throws `DamagedRecordError`.
 */
export function loadPlaces(tables: ChangeTables, projectId: number, number: number): Buffer | null {
  const key = pairKey(projectId, Math.floor(number / CHUNK_PERSONS))
  const places = load(tables.change_places, key)
  if (places !== undefined) checkChunk(key, places)
  return places ?? null
}

/** Some persons in a range of 256 person numbers, and the key of that range in table `change_places`. */
export interface PersonRange {
  readonly key: Buffer
  readonly projectId: number
  readonly numbers: readonly number[]
}

/**
 * Yields the persons with deltas, in ranges of 256 person numbers. `start` is the key of the first range in table
 * `change_places`. A range without such persons is yielded with an empty list. Each range takes about 1.5 us. Throws
 * `DamagedRecordError`.
 */
export function* personsWithDeltas(
  { change_places: table }: ChangeTables,
  start: Buffer,
): Generator<PersonRange> {
  for (const { key, value } of entriesOf(table, { start })) {
    checkChunk(key, value)
    const first = numberInKey(key, 4) * CHUNK_PERSONS
    const numbers: number[] = []
    for (let index = 0; index < CHUNK_PERSONS; index++) {
      const room = value[OLD_CHUNK_BYTES + index] ?? 0
      if (room === 0 || room >= ROOM_FRESH || value.readUInt32LE(index * 4) === 0) continue
      numbers.push(first + index)
    }
    yield { key: Buffer.from(key), projectId: numberInKey(key, 0), numbers }
  }
}

interface BlockUse {
  entries: number
  current: number
}

/**
 * The changes of the persons of one project, for the one writing thread. The object takes 6 bytes of memory per person.
 */
export class PersonChanges {
  readonly #projectId: number
  readonly #tables: ChangeTables
  readonly #onDamage: DamageListener
  // Parallel arrays, indexed by person number:
  //
  //   #blocks      the block that contains the changes, or 0
  //   #positions   the position of the entry in the block
  //   #rooms       the room for further deltas, and the bit DELTA_WAITS
  #blocks = new Uint32Array(0)
  #positions = new Uint8Array(0)
  #rooms = new Uint8Array(0)
  readonly #dirty = new Set<number>()
  readonly #uses = new Map<number, BlockUse>()
  readonly #sparse = new Set<number>()
  readonly #dead: number[] = []
  readonly #writer: ChangesBlockWriter
  #lastBlock = 0
  #isLoaded = false
  /** The deltas that persons got since the last commit. They are not stored yet. */
  readonly #deltas = new Map<number, string>()
  #written = 0

  /**
   * `onDamage` receives an error for each entry that is damaged and therefore cannot be moved or extended. The entry
   * stays as it is.
   */
  constructor(projectId: number, tables: ChangeTables, onDamage: DamageListener = refuseDamage) {
    this.#projectId = projectId
    this.#tables = tables
    this.#onDamage = onDamage
    this.#writer = new ChangesBlockWriter(projectId)
  }

  /** Returns the changes of a person as they were stored by the last commit, or null. Throws `DamagedRecordError`. */
  load(number: number): StoredChanges | null {
    const entry = this.#storedEntry(number)
    return entry === null ? null : readEntry(entry.key, number, entry)
  }

  /**
   * Returns whether a delta may be appended to the changes of a person. Between two commits, a person gets at most one
   * delta. If further events change the person before the next commit, it is read, because caching it is then cheaper.
   */
  hasRoom(number: number): boolean {
    this.#open()
    const room = this.#rooms[number] ?? 0
    return room > 1 && room < DELTA_WAITS
  }

  /** Adds a delta to the changes of a person, for which `hasRoom` must be true. The next commit stores it. */
  append(number: number, delta: string): void {
    this.#deltas.set(number, delta)
    this.#rooms[number] = (this.#rooms[number] ?? 0) | DELTA_WAITS
  }

  /**
   * Returns and removes the delta that a person got since the last commit. Returns null if it got none. The caller must
   * apply the delta to the person and store the person.
   */
  takeDelta(number: number): string | null {
    const delta = this.#deltas.get(number) ?? null
    if (delta !== null) this.#forgetDelta(number)
    return delta
  }

  /**
   * Stores the changes of a person, in place of the earlier ones. `hasRoom` tells whether the person may get deltas
   * afterward. Call it only within a write transaction.
   */
  put(number: number, version: number, json: string, hasRoom: boolean): void {
    this.#open()
    this.#writer.addChanges(number, version, json, hasRoom ? ROOM_FRESH : 0)
    this.#writeFull()
  }

  /**
   * Removes the changes of a person, because the person was removed or stored completely. `hasRoom` tells whether the
   * person may get deltas afterward.
   */
  remove(number: number, hasRoom = false): void {
    this.#open()
    this.#place(number, 0, 0, hasRoom ? ROOM_FRESH : 0)
  }

  /** Writes all changes that were not written yet. Call it last in a transaction. */
  store(): void {
    if (!this.#isLoaded) return
    const deltas = [...this.#deltas].sort(([a], [b]) => a - b)
    // One damaged person must not prevent the deltas of other persons from being stored.
    for (const [number, delta] of deltas) {
      attempt(() => this.#putDelta(number, delta), this.#onDamage)
    }
    for (const [number] of deltas) this.#forgetDelta(number)
    if (this.#written + this.#writer.entries.length > 0) this.#emptySparse()
    if (this.#writer.entries.length > 0) this.#writeBlock()
    for (const block of this.#dead.splice(0)) {
      void this.#tables.person_changes.remove(pairKey(this.#projectId, block))
    }
    for (const chunk of [...this.#dirty].sort((a, b) => a - b)) this.#writeChunk(chunk)
    this.#dirty.clear()
    this.#written = 0
  }

  /** Appends the delta of a person to its stored changes, without decoding them. */
  #putDelta(number: number, delta: string): void {
    const stored = this.#storedEntry(number)
    this.#writer.addDelta(number, stored, delta, this.#roomOf(number) - 1)
    this.#writeFull()
  }

  #forgetDelta(number: number): void {
    this.#deltas.delete(number)
    this.#rooms[number] = this.#roomOf(number)
  }

  #roomOf(number: number): number {
    return (this.#rooms[number] ?? 0) & ~DELTA_WAITS
  }

  /** Moves the current entries of blocks in which most entries are outdated to a new block. */
  #emptySparse(): void {
    let left = (this.#written + 1) * EMPTIED_PER_BLOCK
    // Skip persons that have newer changes in the block that is being filled. Their entries in sparse blocks become
    // outdated when that block is written.
    const waiting = new Set(this.#writer.entries.map(({ number }) => number))
    for (const block of this.#sparse) {
      if (left-- <= 0) return
      this.#sparse.delete(block)
      const key = pairKey(this.#projectId, block)
      const value = this.#tables.person_changes.get(key)
      if (value === undefined) continue
      const count = entryCount(value)
      for (let position = 0; position < count; position++) {
        const number = numberAt(value, position)
        if (this.#blocks[number] !== block || this.#positions[number] !== position) continue
        if (waiting.has(number)) continue
        const entry = attempt(() => findEntry(key, value, number, position), this.#onDamage)
        if (entry === null) continue
        this.#writer.addCopy(number, entry, this.#roomOf(number))
        this.#writeFull()
        // The old entry still counts as current until the new block is written. So note that the person was copied.
        waiting.add(number)
      }
    }
  }

  #writeFull(): void {
    if (this.#writer.isFull) this.#writeBlock()
  }

  #writeBlock(): void {
    const { entries } = this.#writer
    const block = ++this.#lastBlock
    void this.#tables.person_changes.put(pairKey(this.#projectId, block), this.#writer.finish())
    this.#uses.set(block, { entries: entries.length, current: 0 })
    if (entries.length < ENTRIES_SMALL) this.#sparse.add(block)
    for (const [position, { number, room }] of entries.entries()) {
      this.#place(number, block, position, room)
    }
    this.#written++
  }

  /** Returns the entry of a person as it was stored by the last commit, or null. It is valid until the next read. */
  #storedEntry(number: number): (ChangesEntry & { readonly key: Buffer }) | null {
    this.#open()
    const block = this.#blocks[number] ?? 0
    if (block === 0) return null
    const key = pairKey(this.#projectId, block)
    const position = this.#positions[number] ?? 0
    return { key, ...storedEntry(this.#tables.person_changes, key, number, position) }
  }

  #place(number: number, block: number, position: number, room: number): void {
    this.#makeRoom(number + 1)
    const before = this.#blocks[number] ?? 0
    if (before === block && block === 0 && this.#rooms[number] === room) return
    if (before !== 0) this.#outdate(before)
    this.#blocks[number] = block
    this.#positions[number] = position
    this.#rooms[number] = room
    const use = this.#uses.get(block)
    if (use !== undefined) use.current++
    this.#dirty.add(Math.floor(number / CHUNK_PERSONS))
  }

  #outdate(block: number): void {
    const use = this.#uses.get(block)
    if (use === undefined) return
    use.current--
    if (use.current === 0) {
      this.#uses.delete(block)
      this.#sparse.delete(block)
      this.#dead.push(block)
    } else if (use.current < use.entries * SPARSE_PART) this.#sparse.add(block)
  }

  #writeChunk(place: number): void {
    const key = pairKey(this.#projectId, place)
    const start = place * CHUNK_PERSONS
    const end = start + CHUNK_PERSONS
    const blocks = bytesOf(this.#blocks.subarray(start, end))
    const more = [this.#positions.subarray(start, end), this.#rooms.subarray(start, end)]
    store(this.#tables.change_places, key, blocks, ...more)
  }

  /** Makes the arrays long enough for all person numbers below `end`. */
  #makeRoom(end: number): void {
    if (end <= this.#blocks.length) return
    const persons = Math.ceil((end * GROWTH) / CHUNK_PERSONS) * CHUNK_PERSONS
    this.#blocks = grown(this.#blocks, persons)
    this.#positions = grown(this.#positions, persons)
    this.#rooms = grown(this.#rooms, persons)
  }

  /** Reads the index and counts the current entries. Takes some milliseconds for a million persons. */
  #open(): void {
    if (this.#isLoaded) return
    // Start with empty arrays, because an earlier attempt may have failed halfway. Writing with half an index would
    // overwrite blocks that the other half uses.
    this.#blocks.fill(0)
    this.#positions.fill(0)
    this.#rooms.fill(0)
    this.#uses.clear()
    this.#sparse.clear()
    const range = keysOf(this.#projectId)
    for (const { key, value } of entriesOf(this.#tables.change_places, range)) {
      checkChunk(key, value)
      const start = numberInKey(key, 4) * CHUNK_PERSONS
      this.#makeRoom(start + CHUNK_PERSONS)
      const blocks = this.#blocks.subarray(start, start + CHUNK_PERSONS)
      value.copy(bytesOf(blocks))
      this.#positions.set(value.subarray(CHUNK_PERSONS * 4, OLD_CHUNK_BYTES), start)
      this.#rooms.set(value.subarray(OLD_CHUNK_BYTES), start)
      for (const block of blocks) {
        if (block === 0) continue
        const use = this.#uses.get(block)
        // The number of entries is stored in the block, which is not read here. It is from 1 to `PERSON_CHANGES_MAX`,
        // and half of this maximum is a guess. With a wrong guess, the block is only rewritten earlier or later
        // (`#outdate`).
        if (use === undefined)
          this.#uses.set(block, { entries: PERSON_CHANGES_MAX / 2, current: 1 })
        else use.current++
      }
    }
    for (const [block, { current }] of this.#uses) {
      if (current < ENTRIES_SMALL) this.#sparse.add(block)
    }
    const last = lastKey(this.#tables.person_changes, range)
    if (last !== undefined) this.#lastBlock = numberInKey(last, 4)
    this.#isLoaded = true
  }
}

function checkChunk(key: Buffer, { length }: Buffer): void {
  if (length === CHUNK_BYTES || length === OLD_CHUNK_BYTES) return
  throw new DamagedRecordError('change_places', key, 'the value has a wrong length')
}

function storedEntry(table: Table, key: Buffer, number: number, position: number): ChangesEntry {
  // Only one entry of the value is needed, so the value is not copied. It is valid until the next read.
  const value = table.getBinaryFast(key)
  if (value === undefined) throw new DamagedRecordError(CHANGES, key, 'the value is missing')
  return findEntry(key, value, number, position)
}
