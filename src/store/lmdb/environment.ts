/**
 * The only door to LMDB. Every environment is a folder below the data directory with `data.mdb` and
 * `lock.mdb` in it; every key and every value is bytes, laid out by the file that owns the table.
 *
 * Environments are opened with synchronous flushing (`overlappingSync: false`): a transaction that
 * returned is on the disk. Measured reasons: docs/ARCHITECTURE.md, "Durability".
 */
import { chmodSync, closeSync, fdatasyncSync, mkdirSync, openSync, statSync } from 'node:fs'
import { join } from 'node:path'
import {
  ABORT,
  type Database,
  open,
  type RangeOptions,
  type RootDatabase,
  type Transaction,
} from 'lmdb'
import { SYSTEM_CLOCK } from '../../base/clock.ts'
import { DISK_PLENTY_BYTES, type DiskRoom } from '../../base/disk-room.ts'
import { OperatorError } from '../../base/errors.ts'
import { getOrAdd } from '../../base/maps.ts'
import { addressesMissing } from '../../base/process-limits.ts'
import type { Write, WriteSet } from '../../ports/change-log.ts'
import { CommitFailedError, counted } from '../faults.ts'
import { DataFileRoom } from './data-file-room.ts'
import { type FileRange, type PunchFailure, punchHoles } from './hole-punch.ts'
import { PIN_ATTEMPTS_MAX, READERS_MAX, RELEASED_RANGES_MAX, TABLES_MAX } from './limits.ts'
import { PAGE_BYTES_OFFSET } from './lmdb-layout.ts'
import { freePagesBefore, LmdbFault, type LmdbState, newestState } from './lmdb-walk.ts'
import { addPages, changedPages, type PageCounts, TableChanges } from './page-counts.ts'

/** A table: bytes to bytes, ordered by key. lmdb-js knows its name, and its types do not. */
export type Table = Database<Buffer, Buffer> & { readonly name: string }

/** Which keys of a table, and in which order. */
export type Range = RangeOptions

/** Address space reserved for one environment. It costs no memory and no disk. */
const MAP_BYTES = 256 * 1024 ** 3
const META_PAGES = 2
/** What `blocks` of a stat counts. */
const DISK_BLOCK_BYTES = 512
/** Shorter runs of free pages are not given back: the file system would keep a record for each of the gaps. */
const RELEASED_RUN_PAGES_MIN = 8
/** Pages that are given back with one system call. Reads of the data file may have to wait for it. */
const RELEASED_RANGE_PAGES = 2048
/** How lmdb.h shows a reader: process, thread, transaction or `-`. */
const READER_LINE = /^\s*-?\d+ [0-9a-f]+ (\d+|-)$/
const NO_READER_LINE = /^(\s*pid\s+thread\s+txnid|\(no active readers\))?$/
/** How often those who write look for readers whose process has ended. */
const DEAD_READERS_PERIOD_MS = 60_000
const TABLE_OPTIONS = { encoding: 'binary', keyEncoding: 'binary', cache: false } as const

/** Whose writes are captured, and who decides about them. */
export interface WriteCapture {
  /** The folder of all environments. */
  readonly path: string
  readonly name: string
  /** At the end of each transaction that wrote; false: it is taken back, as if it had written nothing. */
  readonly mayCommit: (environment: Environment, writes: WriteSet) => boolean
}

let capture: WriteCapture | null = null

/** From now on the write sets of an environment are captured, of whatever is opened in this thread; null: no more. */
export function captureWrites(wanted: WriteCapture | null): void {
  capture = wanted
}

/** Notes in `writes`, while there is a list, what is written to a table. */
function captureTable(name: string, table: Table, writes: () => Write[] | null): Table {
  const note = (key: Buffer, value: Buffer | null): void => {
    // Whoever writes may use its memory again.
    const copy = { table: name, key: Buffer.from(key), value: value && Buffer.from(value) }
    writes()?.push(copy)
  }
  const put = table.put.bind(table) as Table['put']
  const remove = table.remove.bind(table) as Table['remove']
  return Object.assign(table, {
    put: (key: Buffer, value: Buffer) => {
      note(key, value)
      return put(key, value)
    },
    remove: (key: Buffer) => {
      note(key, null)
      return remove(key)
    },
  })
}

/** Which environment, and how it is opened. */
export interface EnvironmentOptions<Name extends string = string> {
  /** Folder that holds all environments. */
  readonly dataDir: string
  /** Folder of this one: `log`, `events` or `flags`. */
  readonly name: string
  readonly tables: readonly Name[]
  /** True: the environment must exist; nothing is ever written, not even empty tables. */
  readonly isReadOnly?: boolean
  /** True: a transaction returns once it is visible, and reaches the disk a moment later. */
  readonly isFlushDeferred?: boolean
  /** True: what is written is not captured, whoever wants to. */
  readonly isUncaptured?: boolean
  /** Told of the room in the data file and of what transactions take of it. */
  readonly diskRoom?: DiskRoom | undefined
}

/** An open environment. One per thread and folder; close it before the thread ends. */
export class Environment<Name extends string = string> {
  /** The tables that were opened; asking for one that does not exist throws `OperatorError`. */
  readonly tables: Readonly<Record<Name, Table>>
  readonly #path: string
  readonly #root: RootDatabase<Buffer, Buffer>
  /** Undefined: it does not exist, and this end may not make it. */
  readonly #tables = new Map<string, Table | undefined>()
  /** Who is told of writes; most environments have nobody. */
  readonly #capture: WriteCapture | null
  /** What the transaction that is captured has written. */
  #writes: Write[] | null = null
  #nextCheckMs = 0
  /** Null: this end writes nothing. */
  readonly #room: DataFileRoom | null
  readonly #diskRoom: DiskRoom | undefined
  /** What the open transaction has changed, by table. */
  readonly #changes = new Map<string, TableChanges>()
  #isWriting = false

  constructor(options: EnvironmentOptions<Name>) {
    const isCaptured = capture?.path === options.dataDir && capture.name === options.name
    this.#capture = isCaptured && options.isUncaptured !== true ? capture : null
    this.#path = join(options.dataDir, options.name)
    const obstacle = addressesMissing()
    // If LMDB cannot map the file, lmdb-js ends the process.
    if (obstacle !== null) throw new OperatorError(obstacle, { exitCode: 78 })
    if (options.isReadOnly !== true) mkdirSync(this.#path, { recursive: true, mode: 0o700 })
    this.#root = open<Buffer, Buffer>({
      path: this.#path,
      noSubdir: false,
      mapSize: MAP_BYTES,
      maxDbs: TABLES_MAX,
      maxReaders: READERS_MAX,
      overlappingSync: options.isFlushDeferred === true,
      readOnly: options.isReadOnly === true,
      cache: false,
      encoding: 'binary',
      keyEncoding: 'binary',
    })
    this.#diskRoom = options.diskRoom
    if (options.isReadOnly !== true) hideFiles(this.#path)
    this.#room = options.isReadOnly === true ? null : new DataFileRoom(this.#path)
    const openTables = (): void => {
      for (const name of options.tables) {
        const table = this.#open(name)
        const isPlain = this.#capture === null || table === undefined
        this.#tables.set(name, isPlain ? table : captureTable(name, table, () => this.#writes))
      }
    }
    // New tables are made in one transaction: a flush for each of them would take seconds on slow disks.
    const isComplete = options.isReadOnly === true || this.#hasAll(options.tables)
    if (isComplete) openTables()
    else this.write(openTables)
    const tables: Partial<Record<Name, Table>> = {}
    for (const name of options.tables) {
      const value = this.#tables.get(name)
      Object.defineProperty(tables, name, value ? { value } : { get: () => this.table(name) })
    }
    // It has a property for each of the names.
    this.tables = tables as Record<Name, Table>
  }

  /** Opens every table that is there, whoever made it, and answers their names. */
  openAll(): readonly string[] {
    const names = this.#names()
    for (const name of names) this.#tables.set(name, this.#open(name))
    this.refresh()
    return names
  }

  /**
   * Holds the state of now: what `entries` reads of it stays as it is, over many turns of the event loop,
   * until `release`. Meanwhile the file cannot reuse what is deleted, so it grows: release it soon.
   * Tables that are opened later cannot be read in it.
   */
  pin(): PinnedEnvironment {
    return new PinnedEnvironment(this.#tables, this.#root.useReadTransaction())
  }

  /**
   * Pins the newest state of the data file, which may be in use, for those who read its pages by
   * themselves; null when the file changes too often.
   */
  pinNewest(): PinnedState | null {
    const file = join(this.#path, 'data.mdb')
    for (let attempt = 0; attempt < PIN_ATTEMPTS_MAX; attempt++) {
      const state = newestState(file)
      this.refresh()
      const pin = this.pin()
      // A commit in between: the state that was pinned may be another, or the page was read half written.
      if (newestState(file).meta.equals(state.meta)) return { state, pin }
      pin.release()
    }
    return null
  }

  /** A table that was opened, or undefined when it does not exist and this end may not make it. */
  find(name: string): Table | undefined {
    return this.#tables.get(name)
  }

  /** The same for a table that is needed. Throws `OperatorError` when it does not exist. */
  table(name: string): Table {
    const table = this.#tables.get(name)
    if (table !== undefined) return table
    if (!this.#tables.has(name)) throw new TypeError(`no table ${name} was opened`)
    // Reading cannot add it.
    throw new OperatorError(
      `the store lacks the table ${name}: start the daemon of this version once, it adds what is new`,
    )
  }

  /** Runs `action` in one write transaction and returns when it is durable (see `isFlushDeferred`). Throws the error of `action`, or `CommitFailedError`. */
  write<T>(action: () => T): T {
    const capturing = this.#capture
    if (capturing === null || this.#writes !== null) return this.#write(this.#checked(action))
    const writes: Write[] = []
    const given: T[] = []
    this.#writes = writes
    try {
      const decided = (): typeof ABORT | undefined => {
        given.push(action())
        this.#writes = null
        return writes.length === 0 || capturing.mayCommit(this, writes) ? undefined : ABORT
      }
      this.#write(this.#checked(decided))
    } finally {
      this.#writes = null
    }
    // The transaction has run.
    return given[0] as T
  }

  /** The same of what changes nothing that anybody reads: segments are merged, an index is put in order. */
  rearrange<T>(action: () => T): T {
    return this.#write(this.#checked(action), true)
  }

  /**
   * `action`, and behind it a check that the data file has room for all pages that the transaction can write. Throws
   * ENOSPC when it has not, and the transaction is taken back.
   */
  #checked<T>(action: () => T): () => T {
    const room = this.#room
    if (room === null || this.#isWriting) return action
    return () => {
      this.#isWriting = true
      try {
        for (const changes of this.#changes.values()) changes.clear()
        const before = room.freeDiskBytes < DISK_PLENTY_BYTES ? this.#pageCounts() : null
        const result = action()
        if (before !== null && result !== ABORT) this.#requireRoom(room, before)
        return result
      } finally {
        this.#isWriting = false
      }
    }
  }

  #requireRoom(room: DataFileRoom, before: ReadonlyMap<string, PageCounts>): void {
    const { free, lastPageNumber, pageSize } = statisticsOf(this.#root)
    const after = this.#pageCounts()
    const pages = changedPages(this.#changes, before, after, addPages(free))
    const usedBytes = (lastPageNumber + 1) * pageSize
    const shared = this.#diskRoom
    if (shared !== undefined) {
      shared.commitFixedBytes = pages.fixed * pageSize
      shared.commitTouchedBytes = pages.touched * pageSize
      shared.commitAddedBytes = pages.added * pageSize
      shared.leafBytes = pages.leaves * pageSize
    }
    room.require((pages.fixed + pages.touched + pages.added) * pageSize, usedBytes)
    if (shared !== undefined) shared.insideBytes = room.insideBytes(usedBytes)
  }

  #pageCounts(): ReadonlyMap<string, PageCounts> {
    const counts = new Map<string, PageCounts>()
    for (const [name, table] of this.#tables) {
      if (table === undefined) continue
      const { treeBranchPageCount, treeLeafPageCount, overflowPages } = statisticsOf(table)
      const [branch, leaf, overflow] = [treeBranchPageCount, treeLeafPageCount, overflowPages]
      counts.set(name, { branch, leaf, overflow })
    }
    return counts
  }

  /** Bytes of the disk that are free, of the data file behind its last page (0 with plenty), and of it up to there in use. */
  room(): { readonly diskBytes: number; readonly insideBytes: number; readonly usedBytes: number } {
    const { lastPageNumber, pageSize } = statisticsOf(this.#root)
    const endBytes = (lastPageNumber + 1) * pageSize
    const diskBytes = this.#room?.freeDiskBytes ?? 0
    // With plenty nobody asks for it, and the file need not be opened for it.
    const isPlenty = diskBytes >= DISK_PLENTY_BYTES
    const insideBytes = isPlenty ? 0 : (this.#room?.insideBytes(endBytes) ?? 0)
    return { diskBytes, insideBytes, usedBytes: endBytes - this.freeBytes() }
  }

  /** Whether so many bytes can be written without taking room that is promised to what was accepted. */
  hasSpare(bytes: number): boolean {
    const { diskBytes, insideBytes } = this.room()
    const { promisedBytes = 0 } = this.#diskRoom ?? {}
    return diskBytes >= DISK_PLENTY_BYTES || diskBytes + insideBytes >= promisedBytes + bytes
  }

  #write<T>(action: () => T, isRearranging = false): T {
    const now = SYSTEM_CLOCK.monotonic()
    // Whoever reads keeps pages from being used again, also when it is gone; that harms those who write.
    if (now >= this.#nextCheckMs) {
      this.#nextCheckMs = now + DEAD_READERS_PERIOD_MS
      this.clearDeadReaders()
    }
    const result = counted(() => this.#transaction(action), isRearranging)
    // LMDB would take a promise for an asynchronous transaction and commit nothing.
    if (result instanceof Promise)
      throw new TypeError('a write transaction may not be asynchronous')
    return result
  }

  /** An error of `action` aborts the transaction and is rethrown. Any later error comes from the commit. */
  #transaction<T>(action: () => T): T {
    let isDone = false
    try {
      return this.#root.transactionSync(() => {
        const result = action()
        isDone = true
        return result
      })
    } catch (cause) {
      if (!isDone) throw cause
      throw new CommitFailedError(cause)
    }
  }

  /** Lets reads of this thread see what others have committed since the last read. */
  refresh(): void {
    this.#root.resetReadTxn()
  }

  /**
   * Bytes of pages of the data file that no open table uses: what is written takes them first. As of the
   * last `refresh` or write; some 20 us a table.
   */
  freeBytes(): number {
    const root = statisticsOf(this.#root)
    let used = META_PAGES + addPages(root) + addPages(root.free)
    for (const table of this.#tables.values()) {
      if (table !== undefined) used += addPages(statisticsOf(table))
    }
    return Math.max(0, root.lastPageNumber + 1 - used) * root.pageSize
  }

  /**
   * The same without the pages that were given back to the file system: bytes of the disk that hold nothing. Cost: one
   * stat more.
   */
  reusableBytes(): number {
    const { size, blocks } = statSync(join(this.#path, 'data.mdb'))
    return Math.max(0, this.freeBytes() - Math.max(0, size - blocks * DISK_BLOCK_BYTES))
  }

  /**
   * Gives free pages back to the file system, from page `from` on and about `bytesMax` bytes at most. The pages stay
   * free pages of the data file. They take room on the disk again when LMDB writes to them.
   *
   * Only pages that LMDB itself might overwrite now are given back, after the newest state was flushed: no state that is
   * read, nor any to which a crash could lead, has something there. The write transaction keeps LMDB from doing so
   * meanwhile, and `lockDescriptor` keeps other processes from it if this one is killed. Runs of less than
   * `RELEASED_RUN_PAGES_MIN` pages stay. Throws `LmdbFault` when the list of free pages is not sound.
   */
  releasePages(from: number, bytesMax: number, lockDescriptor: number): ReleasedPages {
    this.refresh()
    this.clearDeadReaders()
    const released: ReleasedPages[] = []
    // It commits nothing. An abort would make LMDB forget the free pages that it knows, and read their list again.
    this.#write(() => {
      released.push(this.#releasePages(from, bytesMax, lockDescriptor))
    }, true)
    // The transaction has run.
    return released[0] as ReleasedPages
  }

  #releasePages(from: number, bytesMax: number, lockDescriptor: number): ReleasedPages {
    const path = join(this.#path, 'data.mdb')
    const state = newestState(path)
    const oldest = this.#oldestReader()
    const before = oldest !== null && oldest < state.transaction ? oldest : state.transaction
    const pageBytes = state.meta.readUInt32LE(PAGE_BYTES_OFFSET)
    const ranges: FileRange[] = []
    let next: number | null = null
    let bytes = 0
    const isEnough = (): boolean => bytes >= bytesMax || ranges.length >= RELEASED_RANGES_MAX
    for (const run of freePagesBefore(path, state, before)) {
      const end = run.first + run.pages
      const first = Math.max(run.first, from)
      if (end - first < RELEASED_RUN_PAGES_MIN) continue
      for (let page = first; page < end && !isEnough(); page = next) {
        const leftPages = Math.ceil((bytesMax - bytes) / pageBytes)
        const pages = Math.min(RELEASED_RANGE_PAGES, end - page, leftPages)
        ranges.push({ offset: page * pageBytes, bytes: pages * pageBytes })
        bytes += pages * pageBytes
        next = page + pages
      }
      if (isEnough()) break
      next = null
    }
    if (ranges.length === 0) return { bytes: 0, next: null, failure: null }
    const descriptor = openSync(path, 'r+')
    try {
      // The newest state may have been written by a process that flushed later, and be in memory only. After a power
      // cut an older state would count then, which may use these pages. When all is on the disk already, this is quick.
      fdatasyncSync(descriptor)
      const blocksBefore = statSync(path).blocks
      const failure = punchHoles(descriptor, ranges, lockDescriptor)
      const blocks = blocksBefore - statSync(path).blocks
      return { bytes: Math.max(0, blocks * DISK_BLOCK_BYTES), next, failure }
    } finally {
      closeSync(descriptor)
    }
  }

  /** The oldest state that anybody reads, as the number of its transaction; null when nobody reads. */
  #oldestReader(): bigint | null {
    let oldest: bigint | null = null
    for (const line of this.#root.readerList().split('\n')) {
      const transaction = READER_LINE.exec(line)?.[1]
      if (transaction === undefined) {
        if (NO_READER_LINE.test(line)) continue
        throw new LmdbFault(`its table of readers has the line '${line}', which is not understood`)
      }
      if (transaction === '-') continue
      const number = BigInt(transaction)
      if (oldest === null || number < oldest) oldest = number
    }
    return oldest
  }

  /**
   * Clears the slots of readers whose process is gone; returns how many there were. The first write does
   * it, and later ones from time to time. Threads that end give their slots up themselves.
   */
  clearDeadReaders(): number {
    return this.#root.readerCheck()
  }

  async close(): Promise<void> {
    this.#room?.close()
    await this.#root.close()
  }

  #open(name: string): Table | undefined {
    const table = this.#root.openDB(name, TABLE_OPTIONS) as Table | undefined
    return table === undefined || this.#room === null ? table : this.#counted(name, table)
  }

  /** Counts what transactions change in a table. */
  #counted(name: string, table: Table): Table {
    const changes = getOrAdd(this.#changes, name, () => new TableChanges())
    const put = table.put.bind(table) as Table['put']
    const remove = table.remove.bind(table) as Table['remove']
    return Object.assign(table, {
      put: (key: Buffer, value: Buffer) => {
        changes.add(key.length + value.length)
        return put(key, value)
      },
      remove: (key: Buffer) => {
        changes.add(0)
        return remove(key)
      },
    })
  }

  /** Whether all these tables are there: LMDB keeps their names as keys. */
  #hasAll(tables: readonly string[]): boolean {
    const names = new Set(this.#names())
    return tables.every((name) => names.has(name))
  }

  #names(): readonly string[] {
    const names: string[] = []
    // lmdb-js keeps the zero byte that ends a name.
    for (const key of this.#root.getKeys()) {
      names.push(Buffer.from(key).toString('latin1').replace(/\0$/, ''))
    }
    return names
  }
}

/**
 * LMDB makes its files readable for everybody. Files of another user stay as they are, and so does a file that somebody
 * has removed while another thread has it open.
 */
function hideFiles(folder: string): void {
  for (const name of ['data.mdb', 'lock.mdb']) {
    const path = join(folder, name)
    const stat = statSync(path, { throwIfNoEntry: false })
    if (stat === undefined || (stat.mode & 0o077) === 0) continue
    const user = process.geteuid?.()
    if (user === 0 || user === stat.uid) chmodSync(path, 0o600)
  }
}

interface TreePages {
  readonly treeBranchPageCount: number
  readonly treeLeafPageCount: number
  readonly overflowPages: number
}

/** What lmdb-js says about a tree and the file that it is in; its types leave it out. */
interface TreeStatistics extends TreePages {
  readonly pageSize: number
  readonly lastPageNumber: number
  /** The list of free pages. */
  readonly free: TreePages
}

function statisticsOf(table: { getStats(): object }): TreeStatistics {
  return table.getStats() as TreeStatistics
}

/** What became of an attempt to give free pages back. */
export interface ReleasedPages {
  /** Bytes of the disk that are free now. */
  readonly bytes: number
  /** The page from which to go on; null: that was all. */
  readonly next: number | null
  readonly failure: PunchFailure | null
}

/** One key with its value; valid until the next one is asked for. */
export interface Entry {
  readonly key: Buffer
  readonly value: Buffer
}

/** A state of a data file, and what holds it: release it soon. */
export interface PinnedState {
  readonly state: LmdbState
  readonly pin: PinnedEnvironment
}

/** The state of an environment at one moment. */
export class PinnedEnvironment {
  readonly #tables: ReadonlyMap<string, Table | undefined>
  readonly #transaction: Transaction

  constructor(tables: ReadonlyMap<string, Table | undefined>, transaction: Transaction) {
    this.#tables = tables
    this.#transaction = transaction
  }

  /** Everything in a table that was open at the time, in the order of the keys. */
  entries(name: string): Iterable<Entry> {
    const table = this.#tables.get(name)
    if (table === undefined) throw new TypeError(`no table ${name} was opened`)
    return table.getRange({ transaction: this.#transaction })
  }

  release(): void {
    this.#transaction.done()
  }
}
