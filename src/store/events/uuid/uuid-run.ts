/**
 * A run: entries of the uuid index on the disk, sorted by fingerprint. A published run never changes.
 *
 *   uuid_chunks   run, kind 0, chunk -> up to 680 entries, sorted by (high, low), as three columns of u32
 *                                       little-endian: high halves | low halves | sequence numbers
 *                 run, kind 1, chunk -> 65,472 bytes of the Bloom filter of the run
 *   uuid_runs     run -> version u8, level u8, reserved u16, entries u32, filter words u32,
 *                        then the high and low half of the first entry of each chunk
 *
 * A run is published by its record in `uuid_runs`. Chunks without such a record are leftovers. An entry does not say to
 * which project its sequence number belongs. So a reader that has found an entry must read the event and compare it.
 */
import { DamagedRecordError } from '../../faults.ts'
import { bytesOf } from '../../lmdb/codec.ts'
import { chunkKey, type EventTables, keysOf, numberInKey, numberKey } from '../../lmdb/keys.ts'
import { need, removeRange, store } from '../../lmdb/records.ts'
import { UuidFilter } from './uuid-filter.ts'

const FORMAT_VERSION = 1
const HEAD_BYTES = 12
const KIND_ENTRIES = 0
const KIND_FILTER = 1
/** The number of entries in a chunk. With this number, a chunk and its checksum just fit into two pages of LMDB. */
const CHUNK_ENTRIES = 680
const ENTRY_BYTES = 12
/**
 * The number of bytes in a chunk of a filter. With this number, a chunk and its checksum just fit into sixteen pages of
 * LMDB, and a chunk contains whole blocks of the filter.
 */
const FILTER_CHUNK_BYTES = 65_472

/** The tables in which the runs are stored. */
export type UuidTables = Pick<EventTables, 'uuid_runs' | 'uuid_chunks'>

/** The directory of a published run. */
export interface UuidRun {
  readonly number: number
  /**
   * The number of merges that the entries of the run have gone through. The runs of one level are merged into a run of
   * the next level.
   */
  readonly level: number
  readonly entries: number
  readonly filterWords: number
  /** For each chunk, the high and the low half of its first entry, one after another. */
  readonly firsts: Uint32Array
}

/** Returns all published runs, oldest first. The runs in `known` are not read again. Throws `DamagedRecordError`. */
export function loadRuns(
  tables: UuidTables,
  known: ReadonlyMap<number, UuidRun> = new Map(),
): readonly UuidRun[] {
  const runs: UuidRun[] = []
  for (const stored of tables.uuid_runs.getKeys({})) {
    const number = numberInKey(stored, 0)
    runs.push(known.get(number) ?? loadRun(tables, number))
  }
  return runs
}

function loadRun(tables: UuidTables, number: number): UuidRun {
  const key = numberKey(number)
  const bytes = need(tables.uuid_runs, key)
  if (bytes.length < HEAD_BYTES || bytes.readUInt8() !== FORMAT_VERSION) {
    throw new DamagedRecordError(tables.uuid_runs.name, key, 'the format is unknown')
  }
  const firsts = new Uint32Array((bytes.length - HEAD_BYTES) / 4)
  bytes.copy(bytesOf(firsts), 0, HEAD_BYTES)
  return {
    number,
    level: bytes.readUInt8(1),
    entries: bytes.readUInt32LE(4),
    filterWords: bytes.readUInt32LE(8),
    firsts,
  }
}

/** Returns the filter of a run. Throws `DamagedRecordError`. */
export function loadFilter(tables: UuidTables, run: UuidRun): UuidFilter {
  const words = new Uint32Array(run.filterWords)
  const target = bytesOf(words)
  for (let chunk = 0; chunk * FILTER_CHUNK_BYTES < target.length; chunk++) {
    loadChunk(tables, run.number, KIND_FILTER, chunk).copy(target, chunk * FILTER_CHUNK_BYTES)
  }
  return new UuidFilter(words)
}

function loadChunk(tables: UuidTables, run: number, kind: number, chunk: number): Buffer {
  return need(tables.uuid_chunks, chunkKey(run, kind, chunk))
}

/** Reads the entries of a run in order. The halves of fingerprints are unsigned numbers. */
export class RunCursor {
  readonly run: UuidRun
  readonly #tables: UuidTables
  #chunk = -1
  #bytes: Buffer = Buffer.alloc(0)
  #count = 0
  #index = 0
  high = 0
  low = 0
  sequence = 0

  constructor(tables: UuidTables, run: UuidRun) {
    this.#tables = tables
    this.run = run
  }

  /** Moves to the next entry. Returns false if there is none. */
  next(): boolean {
    this.#index++
    while (this.#index >= this.#count) {
      if (!this.#open(this.#chunk + 1)) return false
    }
    this.#read()
    return true
  }

  /** Moves to the first entry that is not less than a fingerprint. Returns false if all entries are less. */
  seek(high: number, low: number): boolean {
    if (!this.#open(this.#chunkBefore(high, low))) return false
    let start = 0
    let end = this.#count
    while (start < end) {
      const middle = (start + end) >>> 1
      this.#index = middle
      this.#read()
      if (this.isBelow(high, low)) start = middle + 1
      else end = middle
    }
    this.#index = start - 1
    return this.next()
  }

  /** Returns whether the current entry is less than a fingerprint. */
  isBelow(high: number, low: number): boolean {
    return this.high < high || (this.high === high && this.low < low)
  }

  /**
   * Appends the sequence numbers of the entries with this fingerprint to `found`, at most `limit` of them. If `low` is
   * null, only the high half of the fingerprint must be equal.
   */
  collect(
    high: number,
    low: number | null,
    found: number[],
    limit = Number.POSITIVE_INFINITY,
  ): void {
    const end = found.length + limit
    let isInside = this.seek(high, low ?? 0)
    while (isInside && this.high === high && (low ?? this.low) === this.low && found.length < end) {
      found.push(this.sequence)
      isInside = this.next()
    }
  }

  /**
   * Returns the number of the last chunk whose first entry is less than a fingerprint, or 0 if there is none. The first
   * entry with exactly this fingerprint may be in this chunk.
   */
  #chunkBefore(high: number, low: number): number {
    const { firsts } = this.run
    let start = 0
    let end = firsts.length / 2
    while (start < end) {
      const middle = (start + end) >>> 1
      const first = firsts[middle * 2] ?? 0
      const isBelow = first < high || (first === high && (firsts[middle * 2 + 1] ?? 0) < low)
      if (isBelow) start = middle + 1
      else end = middle
    }
    return Math.max(0, start - 1)
  }

  #open(chunk: number): boolean {
    if (chunk * 2 >= this.run.firsts.length) return false
    this.#bytes = loadChunk(this.#tables, this.run.number, KIND_ENTRIES, chunk)
    this.#chunk = chunk
    this.#count = this.#bytes.length / ENTRY_BYTES
    this.#index = 0
    return true
  }

  #read(): void {
    const at = this.#index * 4
    this.high = this.#bytes.readUInt32LE(at)
    this.low = this.#bytes.readUInt32LE(this.#count * 4 + at)
    this.sequence = this.#bytes.readUInt32LE(this.#count * 8 + at)
  }
}

/** Writes a run. Entries must be added in order. Call all methods only within a write transaction. */
export class RunWriter {
  readonly number: number
  readonly filter: UuidFilter
  readonly #tables: UuidTables
  readonly #highs = new Uint32Array(CHUNK_ENTRIES)
  readonly #lows = new Uint32Array(CHUNK_ENTRIES)
  readonly #sequences = new Uint32Array(CHUNK_ENTRIES)
  readonly #firsts: number[] = []
  #count = 0
  #entries = 0

  /** `entries` is the largest number of entries that will be added. */
  constructor(tables: UuidTables, number: number, entries: number) {
    this.#tables = tables
    this.number = number
    this.filter = UuidFilter.forEntries(entries)
  }

  add(high: number, low: number, sequence: number): void {
    if (this.#count === CHUNK_ENTRIES) this.#storeChunk()
    if (this.#count === 0) this.#firsts.push(high, low)
    this.#highs[this.#count] = high
    this.#lows[this.#count] = low
    this.#sequences[this.#count++] = sequence
    this.filter.add(high | 0, low | 0)
  }

  /**
   * Stores the entries that are left, the filter and the directory. The run is published when the transaction is
   * committed.
   */
  publish(level: number): UuidRun {
    if (this.#count > 0) this.#storeChunk()
    const { words } = this.filter
    const filterBytes = bytesOf(words)
    for (let chunk = 0; chunk * FILTER_CHUNK_BYTES < filterBytes.length; chunk++) {
      const start = chunk * FILTER_CHUNK_BYTES
      this.#put(KIND_FILTER, chunk, filterBytes.subarray(start, start + FILTER_CHUNK_BYTES))
    }
    const { number } = this
    const entries = this.#entries
    const firsts = Uint32Array.from(this.#firsts)
    const head = Buffer.alloc(HEAD_BYTES)
    head.writeUInt8(FORMAT_VERSION)
    head.writeUInt8(level, 1)
    head.writeUInt32LE(entries, 4)
    head.writeUInt32LE(words.length, 8)
    store(this.#tables.uuid_runs, numberKey(number), head, bytesOf(firsts))
    return { number, level, entries, filterWords: words.length, firsts }
  }

  #storeChunk(): void {
    const columns = [this.#highs, this.#lows, this.#sequences]
    const parts = columns.map((column) => bytesOf(column.subarray(0, this.#count)))
    this.#put(KIND_ENTRIES, this.#firsts.length / 2 - 1, ...parts)
    this.#entries += this.#count
    this.#count = 0
  }

  #put(kind: number, chunk: number, ...parts: readonly Uint8Array[]): void {
    store(this.#tables.uuid_chunks, chunkKey(this.number, kind, chunk), ...parts)
  }
}

/**
 * Removes chunks of a run that is not published, at most `limit` of them. Returns true if no chunk is left. Call it
 * only within a write transaction.
 */
export function removeChunks(tables: UuidTables, run: number, limit: number): boolean {
  return removeRange(tables.uuid_chunks, { ...keysOf(run), limit }) < limit
}

/** Returns the numbers of all runs that have chunks, published or not. */
export function loadChunkRuns(tables: UuidTables): readonly number[] {
  const numbers: number[] = []
  let from = 0
  for (;;) {
    const [key] = tables.uuid_chunks.getKeys({ start: numberKey(from), limit: 1 })
    if (key === undefined) return numbers
    from = numberInKey(key, 0) + 1
    numbers.push(from - 1)
  }
}
