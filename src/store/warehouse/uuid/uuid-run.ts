/**
 * A run: entries of the uuid index on disk, sorted by fingerprint, never changed once published.
 *
 * Table `uuid_chunks`: run, kind 0, chunk -> up to 680 entries as three columns of u32 little-endian
 * (high halves, low halves, S), sorted by (high, low); run, kind 1, chunk -> 65,472 bytes of the
 * run's Bloom filter. Table `uuid_runs`: run -> `version u8, level u8, reserved u16, entries u32,
 * filter words u32`, then high and low half of the first entry of each chunk. A run is published with
 * its record in `uuid_runs`; chunks without one are left-overs. S belongs to the project of the event,
 * which is not stored: whoever finds an entry reads the event and compares.
 */

import { DamagedRecordError } from '../../faults.ts'
import { seal, unseal } from '../../lmdb/codec.ts'
import type { Table } from '../../lmdb/environment.ts'
import { chunkKey, numberInKey, numberKey } from '../../lmdb/keys.ts'
import { UuidFilter } from './uuid-filter.ts'

const RUNS = 'uuid_runs'
const CHUNKS = 'uuid_chunks'
const FORMAT_VERSION = 1
const HEAD_BYTES = 12
const KIND_ENTRIES = 0
const KIND_FILTER = 1
/** A sealed chunk of entries just fits two pages of LMDB. */
const CHUNK_ENTRIES = 680
const ENTRY_BYTES = 12
/** A sealed piece of a filter just fits sixteen pages, and is a whole number of blocks. */
const FILTER_PIECE_BYTES = 65_472

/** The tables of the index. */
export interface UuidTables {
  readonly runs: Table
  readonly chunks: Table
}

/** The directory of a published run. */
export interface UuidRun {
  readonly number: number
  /** Merges that led to it: runs of one level are merged into one of the next. */
  readonly level: number
  readonly entries: number
  readonly filterWords: number
  readonly firstHighs: Uint32Array
  readonly firstLows: Uint32Array
}

/** All published runs, oldest first. Throws `DamagedRecordError`. */
export function loadRuns(tables: UuidTables): readonly UuidRun[] {
  const runs: UuidRun[] = []
  for (const { key, value } of tables.runs.getRange({})) runs.push(decodeRun(key, value))
  return runs
}

/** Numbers of the published runs, oldest first. */
export function loadRunNumbers(tables: UuidTables): readonly number[] {
  const numbers: number[] = []
  for (const key of tables.runs.getKeys({})) numbers.push(numberInKey(key, 0))
  return numbers
}

/** One published run, or null. Throws `DamagedRecordError`. */
export function loadRun(tables: UuidTables, number: number): UuidRun | null {
  const key = numberKey(number)
  const value = tables.runs.get(key)
  return value === undefined ? null : decodeRun(key, value)
}

function decodeRun(key: Uint8Array, sealed: Buffer): UuidRun {
  const bytes = unseal(RUNS, key, sealed)
  if (bytes.length < HEAD_BYTES || bytes.readUInt8() !== FORMAT_VERSION) {
    throw new DamagedRecordError(RUNS, key, 'the format is unknown')
  }
  const chunks = (bytes.length - HEAD_BYTES) / 8
  const firstHighs = new Uint32Array(chunks)
  const firstLows = new Uint32Array(chunks)
  for (let chunk = 0; chunk < chunks; chunk++) {
    firstHighs[chunk] = bytes.readUInt32LE(HEAD_BYTES + chunk * 8)
    firstLows[chunk] = bytes.readUInt32LE(HEAD_BYTES + chunk * 8 + 4)
  }
  return {
    number: numberInKey(key, 0),
    level: bytes.readUInt8(1),
    entries: bytes.readUInt32LE(4),
    filterWords: bytes.readUInt32LE(8),
    firstHighs,
    firstLows,
  }
}

/** The filter of a run. Throws `DamagedRecordError`. */
export function loadFilter(tables: UuidTables, run: UuidRun): UuidFilter {
  const words = new Uint32Array(run.filterWords)
  const target = Buffer.from(words.buffer)
  for (let piece = 0; piece * FILTER_PIECE_BYTES < target.length; piece++) {
    loadChunk(tables, run.number, KIND_FILTER, piece).copy(target, piece * FILTER_PIECE_BYTES)
  }
  return new UuidFilter(words)
}

function loadChunk(tables: UuidTables, run: number, kind: number, chunk: number): Buffer {
  const key = chunkKey(run, kind, chunk)
  const sealed = tables.chunks.get(key)
  if (sealed === undefined) throw new DamagedRecordError(CHUNKS, key, 'the value is missing')
  return unseal(CHUNKS, key, sealed)
}

/** Walks the entries of a run in order. Halves are unsigned. */
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

  /** Moves to the next entry; false behind the last one. */
  next(): boolean {
    this.#index++
    while (this.#index >= this.#count) {
      if (!this.#open(this.#chunk + 1)) return false
    }
    this.#read()
    return true
  }

  /** Moves to the first entry that is not below a fingerprint; false when there is none. */
  seek(high: number, low: number): boolean {
    if (!this.#open(this.#chunkBefore(high, low))) return false
    let start = 0
    let end = this.#count
    while (start < end) {
      const middle = (start + end) >>> 1
      this.#index = middle
      this.#read()
      if (this.high < high || (this.high === high && this.low < low)) start = middle + 1
      else end = middle
    }
    this.#index = start - 1
    return this.next()
  }

  /** The last chunk that begins below a fingerprint: equal ones may begin in it. */
  #chunkBefore(high: number, low: number): number {
    const { firstHighs, firstLows } = this.run
    let start = 0
    let end = firstHighs.length
    while (start < end) {
      const middle = (start + end) >>> 1
      const first = firstHighs[middle] ?? 0
      if (first < high || (first === high && (firstLows[middle] ?? 0) < low)) start = middle + 1
      else end = middle
    }
    return Math.max(0, start - 1)
  }

  #open(chunk: number): boolean {
    if (chunk >= this.run.firstHighs.length) return false
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

/** Writes a run; entries come in order. Every method only in a write transaction. */
export class RunWriter {
  readonly number: number
  readonly filter: UuidFilter
  readonly #tables: UuidTables
  readonly #highs = new Uint32Array(CHUNK_ENTRIES)
  readonly #lows = new Uint32Array(CHUNK_ENTRIES)
  readonly #sequences = new Uint32Array(CHUNK_ENTRIES)
  readonly #firstHighs: number[] = []
  readonly #firstLows: number[] = []
  #count = 0
  #entries = 0

  /** `entries`: how many there will be at most. */
  constructor(tables: UuidTables, number: number, entries: number) {
    this.#tables = tables
    this.number = number
    this.filter = UuidFilter.forEntries(entries)
  }

  add(high: number, low: number, sequence: number): void {
    if (this.#count === CHUNK_ENTRIES) this.#storeChunk()
    if (this.#count === 0) {
      this.#firstHighs.push(high)
      this.#firstLows.push(low)
    }
    this.#highs[this.#count] = high
    this.#lows[this.#count] = low
    this.#sequences[this.#count++] = sequence
    this.filter.add(high | 0, low | 0)
  }

  /** Stores what is left, the filter and the directory: the run is published with the transaction. */
  publish(level: number): UuidRun {
    if (this.#count > 0) this.#storeChunk()
    const { words } = this.filter
    const filterBytes = Buffer.from(words.buffer)
    for (let piece = 0; piece * FILTER_PIECE_BYTES < filterBytes.length; piece++) {
      const start = piece * FILTER_PIECE_BYTES
      const key = chunkKey(this.number, KIND_FILTER, piece)
      const bytes = filterBytes.subarray(start, start + FILTER_PIECE_BYTES)
      void this.#tables.chunks.put(key, seal(key, bytes))
    }
    const run: UuidRun = {
      number: this.number,
      level,
      entries: this.#entries,
      filterWords: words.length,
      firstHighs: Uint32Array.from(this.#firstHighs),
      firstLows: Uint32Array.from(this.#firstLows),
    }
    const key = numberKey(run.number)
    void this.#tables.runs.put(key, seal(key, encodeRun(run)))
    return run
  }

  #storeChunk(): void {
    const count = this.#count
    // As on disk: all machines that Node runs on in practice are little-endian.
    const words = new Uint32Array(count * 3)
    words.set(this.#highs.subarray(0, count))
    words.set(this.#lows.subarray(0, count), count)
    words.set(this.#sequences.subarray(0, count), count * 2)
    const bytes = Buffer.from(words.buffer)
    const key = chunkKey(this.number, KIND_ENTRIES, this.#firstHighs.length - 1)
    void this.#tables.chunks.put(key, seal(key, bytes))
    this.#entries += count
    this.#count = 0
  }
}

function encodeRun(run: UuidRun): Buffer {
  const bytes = Buffer.alloc(HEAD_BYTES + run.firstHighs.length * 8)
  bytes.writeUInt8(FORMAT_VERSION)
  bytes.writeUInt8(run.level, 1)
  bytes.writeUInt32LE(run.entries, 4)
  bytes.writeUInt32LE(run.filterWords, 8)
  for (let chunk = 0; chunk < run.firstHighs.length; chunk++) {
    bytes.writeUInt32LE(run.firstHighs[chunk] ?? 0, HEAD_BYTES + chunk * 8)
    bytes.writeUInt32LE(run.firstLows[chunk] ?? 0, HEAD_BYTES + chunk * 8 + 4)
  }
  return bytes
}

/** Removes up to `limit` chunks of a run that is not published; true when none is left. Only in a write transaction. */
export function removeChunks(tables: UuidTables, run: number, limit: number): boolean {
  const range = { start: chunkKey(run, 0, 0), end: chunkKey(run + 1, 0, 0), limit: limit + 1 }
  const keys = [...tables.chunks.getKeys(range)].map((key) => Buffer.from(key))
  for (const key of keys.slice(0, limit)) void tables.chunks.remove(key)
  return keys.length <= limit
}

/** Numbers of runs that have chunks, published or not. */
export function loadChunkRuns(tables: UuidTables): readonly number[] {
  const numbers: number[] = []
  let from = 0
  for (;;) {
    let next: number | null = null
    for (const key of tables.chunks.getKeys({ start: chunkKey(from, 0, 0), limit: 1 })) {
      next = numberInKey(key, 0)
    }
    if (next === null) return numbers
    numbers.push(next)
    from = next + 1
  }
}
