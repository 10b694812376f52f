/**
 * The layouts of a uuid index that the bench `uuid-index` compares: the layout of `store/`, and plain tables of LMDB. A
 * plain layout keeps entries in memory until they are committed, because a duplicate may be in the same commit. It
 * writes them in the order of their keys. The plain layouts have no checksums, which would make them more expensive.
 */
import { type Database, open, type RootDatabase } from 'lmdb'
import { UuidIndex } from '../../src/store/events/uuid/uuid-index.ts'
import { UuidTable } from '../../src/store/events/uuid/uuid-table.ts'
import type { Table } from '../../src/store/lmdb/environment.ts'

/** The names of all layouts. The first one is the layout that the store uses. */
export const LAYOUTS = ['runs', 'hash-key', 'hash-dup', 'hash-page', 'time-key'] as const
/** One of `LAYOUTS`. */
export type LayoutName = (typeof LAYOUTS)[number]

/**
 * An event as the index sees it: the two halves of its fingerprint as signed numbers, and the first eight bytes of its
 * uuid.
 */
export interface Entry {
  high: number
  low: number
  uuidHigh: number
  uuidLow: number
  sequence: number
}

/** An index that is measured. */
export interface Layout {
  /** Appends the sequence numbers of all events that may be the entry. */
  find(entry: Entry, found: number[]): void
  add(entry: Entry): void
  /** Writes the added entries in a transaction. */
  commit(): void
  /** Does the work that is left for idle times. */
  maintain(): void
  /** The number of newest entries that are only in memory. After a start, they must be added again. */
  readonly unwritten: number
}

/** The options of a layout. */
export interface LayoutOptions {
  readonly layout: LayoutName
  readonly folder: string
  /** The expected number of entries. It decides how many pages `hash-page` has. */
  readonly entries: number
  /** If true, each commit is flushed. */
  readonly isFlushed: boolean
}

const MAP_BYTES = 256 * 1024 ** 3
/**
 * The number of entries for which a page of 4 KiB is planned. It leaves room, because some pages get more entries than
 * others.
 */
const PAGE_ENTRIES = 305
const ENTRY_BYTES = 12

/**
 * A table with many values of equal length for each key. lmdb-js supports the flag `dupFixed`, although its types do
 * not have it. It finds the start of a range of values only with an encoder.
 */
const FIXED_VALUES = {
  keyEncoding: 'binary',
  cache: false,
  dupSort: true,
  dupFixed: true,
  encoder: {
    encode: (value: Buffer): Buffer => value,
    decode: (bytes: Buffer, length: number): Buffer => Buffer.from(bytes.subarray(0, length)),
    writeKey(value: Buffer, target: Buffer, position: number): number {
      target.set(value, position)
      return position + value.length
    },
  },
} as const

type Bytes = Database<Buffer, Buffer>

/** Opens a layout in a folder. */
export function openLayout(options: LayoutOptions): Layout {
  const { layout, folder, isFlushed } = options
  const plain = { encoding: 'binary', keyEncoding: 'binary', cache: false } as const
  const root = open<Buffer, Buffer>({
    path: folder,
    noSubdir: false,
    mapSize: MAP_BYTES,
    overlappingSync: false,
    noSync: !isFlushed,
    ...plain,
  })
  if (layout === 'runs') return new RunLayout(root)
  const table = root.openDB('entries', layout === 'hash-dup' ? FIXED_VALUES : plain)
  if (layout === 'hash-key') return new KeyLayout(root, table, false)
  if (layout === 'time-key') return new KeyLayout(root, table, true)
  if (layout === 'hash-dup') return new DupLayout(root, table)
  return new PageLayout(root, table, options.entries)
}

/** The index of the store, used as `ProcessingWriter` uses it. */
class RunLayout implements Layout {
  readonly #root: RootDatabase<Buffer, Buffer>
  readonly #index: UuidIndex

  constructor(root: RootDatabase<Buffer, Buffer>) {
    this.#root = root
    const options = { encoding: 'binary', keyEncoding: 'binary', cache: false } as const
    // A table of lmdb-js has a name, which the types leave out.
    const open = (name: string) => root.openDB<Buffer, Buffer>(name, options) as Table
    this.#index = new UuidIndex({ uuid_runs: open('uuid_runs'), uuid_chunks: open('uuid_chunks') })
  }

  get unwritten(): number {
    return this.#index.tableEntries
  }

  find({ high, low }: Entry, found: number[]): void {
    this.#index.find(high, low, found)
  }

  add({ high, low, sequence }: Entry): void {
    this.#index.add(high, low, sequence)
  }

  commit(): void {
    if (!this.#index.isFull) return
    this.#index.flush((write) => this.#root.transactionSync(write))
  }

  maintain(): void {
    while (this.#index.hasWork) {
      const endMs = performance.now() + 50
      this.#root.transactionSync(() => this.#index.maintain(() => performance.now() >= endMs))
    }
  }
}

/** The part that all plain layouts share: entries wait in memory for the commit. */
abstract class PlainLayout implements Layout {
  protected readonly table: Bytes
  readonly unwritten = 0
  readonly #root: RootDatabase<Buffer, Buffer>
  readonly #pending = new UuidTable()

  constructor(root: RootDatabase<Buffer, Buffer>, table: Bytes) {
    this.#root = root
    this.table = table
  }

  protected abstract findStored(entry: Entry, found: number[]): void
  protected abstract store(high: number, low: number, sequence: number): void

  find(entry: Entry, found: number[]): void {
    this.#pending.find(entry.high, entry.low, found)
    this.findStored(entry, found)
  }

  add({ high, low, sequence }: Entry): void {
    this.#pending.add(high, low, sequence)
  }

  commit(): void {
    this.#root.transactionSync(() => this.storeAll())
    this.#pending.clear(this.#pending.count)
  }

  maintain(): void {}

  protected storeAll(): void {
    this.#pending.visitSorted((high, low, sequence) => this.store(high, low, sequence))
  }
}

/**
 * A table from fingerprints to sequence numbers. If several events have the same fingerprint, the value contains all of
 * their numbers. In `time-key`, the key is the first eight bytes of the uuid (in version 7, they begin with the time),
 * followed by the low half of the fingerprint.
 */
class KeyLayout extends PlainLayout {
  readonly #isTime: boolean
  readonly #key: Buffer
  readonly #value = Buffer.alloc(4)
  #waiting: Entry[] = []

  constructor(root: RootDatabase<Buffer, Buffer>, table: Bytes, isTime: boolean) {
    super(root, table)
    this.#isTime = isTime
    this.#key = Buffer.alloc(isTime ? ENTRY_BYTES : 8)
  }

  override add(entry: Entry): void {
    super.add(entry)
    if (this.#isTime) this.#waiting.push({ ...entry })
  }

  protected findStored(entry: Entry, found: number[]): void {
    if (this.#isTime) this.#setTime(entry)
    else this.#setHash(entry.high, entry.low)
    const value = this.table.getBinaryFast(this.#key)
    if (value === undefined) return
    for (let offset = 0; offset < value.length; offset += 4) found.push(value.readUInt32LE(offset))
  }

  protected store(high: number, low: number, sequence: number): void {
    this.#setHash(high, low)
    this.#put(sequence)
  }

  protected override storeAll(): void {
    if (!this.#isTime) {
      super.storeAll()
      return
    }
    this.#waiting.sort((a, b) => a.uuidHigh - b.uuidHigh || a.uuidLow - b.uuidLow)
    for (const entry of this.#waiting) {
      this.#setTime(entry)
      this.#put(entry.sequence)
    }
    this.#waiting = []
  }

  #put(sequence: number): void {
    this.#value.writeUInt32LE(sequence)
    if (putNew(this.table, this.#key, this.#value)) return
    const others = Buffer.from(this.table.getBinary(this.#key) ?? [])
    this.table.putSync(this.#key, Buffer.concat([others, this.#value]))
  }

  #setHash(high: number, low: number): void {
    this.#key.writeInt32BE(high | 0)
    this.#key.writeInt32BE(low | 0, 4)
  }

  #setTime({ uuidHigh, uuidLow, low }: Entry): void {
    this.#key.writeUInt32BE(uuidHigh)
    this.#key.writeUInt32BE(uuidLow, 4)
    this.#key.writeInt32BE(low | 0, 8)
  }
}

/** Adds a key. Returns false if the key already exists. */
function putNew(table: Bytes, key: Buffer, value: Buffer): boolean {
  // The call returns a value, although its type says otherwise.
  const isPut: unknown = table.putSync(key, value, { noOverwrite: true })
  return isPut !== false
}

/**
 * A table with a single key, whose values are a tree. A value has twelve bytes: fingerprint and sequence number. LMDB
 * stores such values without headers.
 */
class DupLayout extends PlainLayout {
  readonly #key = Buffer.from([0, 0, 0, 1])
  readonly #value = Buffer.alloc(ENTRY_BYTES)
  readonly #end = Buffer.alloc(ENTRY_BYTES)

  protected findStored({ high, low }: Entry, found: number[]): void {
    this.#set(this.#value, high, low, 0)
    this.#set(this.#end, high, low, 0xffff_ffff)
    const range = { start: this.#value, end: this.#end }
    for (const value of this.table.getValues(this.#key, range)) found.push(value.readUInt32BE(8))
  }

  protected store(high: number, low: number, sequence: number): void {
    this.#set(this.#value, high, low, sequence)
    this.table.putSync(this.#key, this.#value)
  }

  #set(bytes: Buffer, high: number, low: number, sequence: number): void {
    bytes.writeInt32BE(high | 0)
    bytes.writeInt32BE(low | 0, 4)
    bytes.writeUInt32BE(sequence, 8)
  }
}

/**
 * A table from the first bits of fingerprints to sorted arrays. An entry of an array has the low half, the high half
 * and the sequence number, and an array just fits into a page. The number of pages is chosen for the number of entries,
 * which a store would not know in advance.
 */
class PageLayout extends PlainLayout {
  readonly #shift: number
  readonly #key = Buffer.alloc(4)
  #page = -1
  #gathered: number[] = []

  constructor(root: RootDatabase<Buffer, Buffer>, table: Bytes, entries: number) {
    super(root, table)
    this.#shift = 32 - Math.max(1, Math.round(Math.log2(entries / PAGE_ENTRIES)))
  }

  protected findStored({ high, low }: Entry, found: number[]): void {
    const value = this.#read(high >>> this.#shift)
    let start = 0
    let end = value.length / ENTRY_BYTES
    const wanted = low >>> 0
    while (start < end) {
      const middle = (start + end) >>> 1
      if (value.readUInt32LE(middle * ENTRY_BYTES) < wanted) start = middle + 1
      else end = middle
    }
    for (let at = start * ENTRY_BYTES; at < value.length; at += ENTRY_BYTES) {
      if (value.readUInt32LE(at) !== wanted) return
      if (value.readInt32LE(at + 4) === (high | 0)) found.push(value.readUInt32LE(at + 8))
    }
  }

  protected store(high: number, low: number, sequence: number): void {
    const page = high >>> this.#shift
    if (page !== this.#page) this.#write()
    this.#page = page
    this.#gathered.push(low, high, sequence)
  }

  protected override storeAll(): void {
    super.storeAll()
    this.#write()
    this.#page = -1
  }

  #read(page: number): Buffer {
    this.#key.writeUInt32BE(page)
    const shared = this.table.getBinaryFast(this.#key)
    return shared?.subarray(0, shared.length) ?? Buffer.alloc(0)
  }

  /** Merges the entries that wait for a page into the content of the page. */
  #write(): void {
    if (this.#gathered.length === 0) return
    const entries: [number, number, number][] = []
    for (let at = 0; at < this.#gathered.length; at += 3) {
      const [low = 0, high = 0, sequence = 0] = this.#gathered.slice(at, at + 3)
      entries.push([low, high, sequence])
    }
    entries.sort((a, b) => a[0] - b[0])
    this.#gathered = []
    const old = this.#read(this.#page)
    const bytes = Buffer.allocUnsafe(old.length + entries.length * ENTRY_BYTES)
    let from = 0
    let to = 0
    for (const [low, high, sequence] of entries) {
      let until = from
      while (until < old.length && old.readUInt32LE(until) < low) until += ENTRY_BYTES
      to += old.copy(bytes, to, from, until)
      from = until
      to = bytes.writeUInt32LE(low, to)
      to = bytes.writeInt32LE(high | 0, to)
      to = bytes.writeUInt32LE(sequence, to)
    }
    old.copy(bytes, to, from, old.length)
    this.#key.writeUInt32BE(this.#page)
    this.table.putSync(this.#key, bytes)
  }
}
