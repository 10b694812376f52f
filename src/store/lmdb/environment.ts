/**
 * Opens LMDB environments. This is the only file that imports lmdb. Every environment is a folder in the data directory
 * with the files `data.mdb` and `lock.mdb`. Every key and every value consists of bytes. The source file that owns a
 * table defines their format.
 *
 * Environments are opened with synchronous flushing (`overlappingSync: false`): a transaction is on the disk when it
 * returns. For the measurements see docs/ARCHITECTURE.md, "Durability".
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

/**
 * A table: a map from bytes to bytes, ordered by key. lmdb-js knows the name of a table, but its types do not declare
 * it.
 */
export type Table = Database<Buffer, Buffer> & { readonly name: string }

/** The range of keys to read from a table, and the order in which they are read. */
export type Range = RangeOptions

/**
 * The address space that is reserved for one environment, in bytes. The reservation takes no memory and no disk space.
 */
const MAP_BYTES = 256 * 1024 ** 3
const META_PAGES = 2
/** The unit of `blocks` in the result of stat(2). */
const DISK_BLOCK_BYTES = 512
/**
 * The smallest run of free pages that is released. The file system has to keep a record of every gap, which is not
 * worth it for fewer pages.
 */
const RELEASED_RUN_PAGES_MIN = 8
/**
 * The largest number of pages that one system call releases. A read of the data file may have to wait until the call
 * ends.
 */
const RELEASED_RANGE_PAGES = 2048
/** Matches a line of the reader table in the form of lmdb.h: process, thread, and then a transaction or `-`. */
const READER_LINE = /^\s*-?\d+ [0-9a-f]+ (\d+|-)$/
const NO_READER_LINE = /^(\s*pid\s+thread\s+txnid|\(no active readers\))?$/
/** The time after which a writer looks again for readers whose process has ended. */
const DEAD_READERS_PERIOD_MS = 60_000
const TABLE_OPTIONS = { encoding: 'binary', keyEncoding: 'binary', cache: false } as const

/**
 * Receives all writes of the transactions of an environment, and decides for each transaction whether it may commit.
 */
export interface WriteCapture {
  /** The folder that contains all environments. */
  readonly path: string
  readonly name: string
  /**
   * Called at the end of each transaction that wrote something, with the writes. If it returns false, the transaction
   * is rolled back.
   */
  readonly mayCommit: (environment: Environment, writes: WriteSet) => boolean
}

let capture: WriteCapture | null = null

/** Captures the writes of environments that this thread opens after the call. Null ends the capture. */
export function captureWrites(wanted: WriteCapture | null): void {
  capture = wanted
}

/**
 * Makes a table add its writes to the list that `writes` returns, in addition to making them. While `writes` returns
 * null, nothing is added.
 */
function captureTable(name: string, table: Table, writes: () => Write[] | null): Table {
  const note = (key: Buffer, value: Buffer | null): void => {
    // The caller may reuse the memory of the key and the value, so both are copied.
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

/** The options of an environment. */
export interface EnvironmentOptions<Name extends string = string> {
  /** The folder that contains all environments. */
  readonly dataDir: string
  /** The name of the environment, which is also the name of its folder: `log`, `events` or `flags`. */
  readonly name: string
  readonly tables: readonly Name[]
  /** If true, the environment must exist, and nothing is written: missing tables are not created. */
  readonly isReadOnly?: boolean
  /**
   * If true, a transaction returns before it is on the disk. When it returns, readers see its changes. The changes
   * reach the disk a little later.
   */
  readonly isFlushDeferred?: boolean
  /** If true, the writes of this environment are not captured, even after a call of `captureWrites`. */
  readonly isUncaptured?: boolean
  /**
   * Receives the number of bytes that a transaction needs, and the number of free bytes at the end of the data file.
   */
  readonly diskRoom?: DiskRoom | undefined
}

/** An open environment. A thread may open a folder only once at a time, and must close it before the thread ends. */
export class Environment<Name extends string = string> {
  /** The tables that the option `tables` names. Reading a table that does not exist throws `OperatorError`. */
  readonly tables: Readonly<Record<Name, Table>>
  readonly #path: string
  readonly #root: RootDatabase<Buffer, Buffer>
  /**
   * All opened tables. A value is undefined if the table does not exist and cannot be created, because the environment
   * is read-only.
   */
  readonly #tables = new Map<string, Table | undefined>()
  /** Receives the writes of this environment. Usually null: the writes are not captured. */
  readonly #capture: WriteCapture | null
  /** The writes of the transaction that is running, if they are captured, otherwise null. */
  #writes: Write[] | null = null
  #nextCheckMs = 0
  /**
   * Checks that the data file has space for a transaction. Null if the environment is read-only, because nothing is
   * written then.
   */
  readonly #room: DataFileRoom | null
  readonly #diskRoom: DiskRoom | undefined
  /** For each table, the changes of the transaction that is running. */
  readonly #changes = new Map<string, TableChanges>()
  #isWriting = false

  constructor(options: EnvironmentOptions<Name>) {
    const isCaptured = capture?.path === options.dataDir && capture.name === options.name
    this.#capture = isCaptured && options.isUncaptured !== true ? capture : null
    this.#path = join(options.dataDir, options.name)
    const obstacle = addressesMissing()
    // If LMDB cannot map the file, lmdb-js ends the process. So the limit of address space is checked first.
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
    // New tables are created in one transaction, because a flush for each of them would take seconds on slow disks.
    const isComplete = options.isReadOnly === true || this.#hasAll(options.tables)
    if (isComplete) openTables()
    else this.write(openTables)
    const tables: Partial<Record<Name, Table>> = {}
    for (const name of options.tables) {
      const value = this.#tables.get(name)
      Object.defineProperty(tables, name, value ? { value } : { get: () => this.table(name) })
    }
    // The object has a property for each of the names.
    this.tables = tables as Record<Name, Table>
  }

  /** Opens every existing table, whatever version of Tenrec created it, and returns the names. */
  openAll(): readonly string[] {
    const names = this.#names()
    for (const name of names) this.#tables.set(name, this.#open(name))
    this.refresh()
    return names
  }

  /**
   * Pins the current state, so that its `entries` can be read over many turns of the event loop, until `release`. As
   * long as a state is pinned, LMDB cannot reuse deleted pages, and the file grows. So release it soon. Tables that are
   * opened later cannot be read through the result.
   */
  pin(): PinnedEnvironment {
    return new PinnedEnvironment(this.#tables, this.#root.useReadTransaction())
  }

  /**
   * Pins the newest state of the data file, for a caller that reads the pages of the file itself. Other processes may
   * write to the file at the same time. Returns null if they change the file so often that no state could be pinned.
   */
  pinNewest(): PinnedState | null {
    const file = join(this.#path, 'data.mdb')
    for (let attempt = 0; attempt < PIN_ATTEMPTS_MAX; attempt++) {
      const state = newestState(file)
      this.refresh()
      const pin = this.pin()
      // If the file has changed since it was read, the pinned state may be newer than `state`, or the meta page was
      // read while another process was writing it. Then try again.
      if (newestState(file).meta.equals(state.meta)) return { state, pin }
      pin.release()
    }
    return null
  }

  /** Returns an opened table, or undefined if it does not exist and the environment is read-only. */
  find(name: string): Table | undefined {
    return this.#tables.get(name)
  }

  /** Returns an opened table. Throws `OperatorError` if it does not exist. */
  table(name: string): Table {
    const table = this.#tables.get(name)
    if (table !== undefined) return table
    if (!this.#tables.has(name)) throw new TypeError(`no table ${name} was opened`)
    // A read-only environment cannot create the table.
    throw new OperatorError(
      `The store has no table ${name}. Start the daemon of this version once to create it.`,
    )
  }

  /**
   * Runs `action` in one write transaction and returns its result when the transaction is durable. With
   * `isFlushDeferred`, it returns a little earlier. Throws the error of `action`, or `CommitFailedError`.
   */
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
    // The transaction has run `action`, so its result is there.
    return given[0] as T
  }

  /**
   * Runs `action` in one write transaction. The action must not change anything that a reader can see: it may, for
   * example, merge segments or rebuild an index.
   */
  rearrange<T>(action: () => T): T {
    return this.#write(this.#checked(action, true), true)
  }

  /**
   * Returns `action` followed by a check that the data file has room for all pages that the transaction can write. If
   * it has not, the check throws ENOSPC and the transaction is rolled back. The pages of a transaction that stores
   * events are also noted in the figures that the threads share.
   */
  #checked<T>(action: () => T, isRearranging = false): () => T {
    const room = this.#room
    if (room === null || this.#isWriting) return action
    return () => {
      this.#isWriting = true
      try {
        for (const changes of this.#changes.values()) changes.clear()
        const before = room.freeDiskBytes < DISK_PLENTY_BYTES ? this.#pageCounts() : null
        const result = action()
        if (before !== null && result !== ABORT) this.#requireRoom(room, before, isRearranging)
        return result
      } finally {
        this.#isWriting = false
      }
    }
  }

  #requireRoom(
    room: DataFileRoom,
    before: ReadonlyMap<string, PageCounts>,
    isRearranging: boolean,
  ): void {
    const { free, lastPageNumber, pageSize } = statisticsOf(this.#root)
    const after = this.#pageCounts()
    const pages = changedPages(this.#changes, before, after, addPages(free))
    const usedBytes = (lastPageNumber + 1) * pageSize
    const shared = this.#diskRoom
    if (shared !== undefined && !isRearranging) {
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

  /**
   * Returns three numbers of bytes. `diskBytes` is the free space on the disk. `insideBytes` is the space in the data
   * file after its last page, or 0 while the disk has plenty of space. `usedBytes` is the size of the used pages.
   */
  room(): { readonly diskBytes: number; readonly insideBytes: number; readonly usedBytes: number } {
    const { lastPageNumber, pageSize } = statisticsOf(this.#root)
    const endBytes = (lastPageNumber + 1) * pageSize
    const diskBytes = this.#room?.freeDiskBytes ?? 0
    // While the disk has plenty of space, `insideBytes` does not matter, so the file is not opened to find it out.
    const isPlenty = diskBytes >= DISK_PLENTY_BYTES
    const insideBytes = isPlenty ? 0 : (this.#room?.insideBytes(endBytes) ?? 0)
    return { diskBytes, insideBytes, usedBytes: endBytes - this.freeBytes() }
  }

  /** Returns whether `bytes` bytes can be written without using the space that is reserved for accepted events. */
  hasSpare(bytes: number): boolean {
    const { promisedBytes = 0 } = this.#diskRoom ?? {}
    return this.hasRoom(promisedBytes + bytes)
  }

  /** Returns whether `bytes` bytes can be written, even if they use the reserved space. */
  hasRoom(bytes: number): boolean {
    const { diskBytes, insideBytes } = this.room()
    return diskBytes >= DISK_PLENTY_BYTES || diskBytes + insideBytes >= bytes
  }

  #write<T>(action: () => T, isRearranging = false): T {
    const now = SYSTEM_CLOCK.monotonic()
    // Remove readers whose process has ended. Such a reader would prevent LMDB from reusing free pages, and the data
    // file would keep growing.
    if (now >= this.#nextCheckMs) {
      this.#nextCheckMs = now + DEAD_READERS_PERIOD_MS
      this.clearDeadReaders()
    }
    const result = counted(() => this.#transaction(action), isRearranging)
    // If `action` returned a promise, LMDB would treat the transaction as asynchronous and commit nothing.
    if (result instanceof Promise)
      throw new TypeError('a write transaction may not be asynchronous')
    return result
  }

  /**
   * Runs a transaction. If `action` throws, the transaction is aborted and the same error is thrown. If the commit
   * fails afterward, `CommitFailedError` is thrown.
   */
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

  /** Makes commits of other threads and processes visible to the reads of this thread. */
  refresh(): void {
    this.#root.resetReadTxn()
  }

  /**
   * Returns the number of free bytes in the data file: those in pages that no open table uses. Writes take these pages
   * first. The number describes the state at the last `refresh` or write. It takes about 20 us for each table.
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
   * Returns the number of free bytes in the data file that take space on the disk: `freeBytes` without the pages that
   * were released to the file system. It costs one call of stat(2) more than `freeBytes`.
   */
  reusableBytes(): number {
    const { size, blocks } = statSync(join(this.#path, 'data.mdb'))
    return Math.max(0, this.freeBytes() - Math.max(0, size - blocks * DISK_BLOCK_BYTES))
  }

  /**
   * Releases free pages to the file system, starting at page `from`, and at most about `bytesMax` bytes. For LMDB, the
   * pages stay free pages of the data file. They take space on the disk again when LMDB writes to them.
   *
   * First the newest state is flushed to the disk. Then the function releases the pages that LMDB may overwrite now. No
   * state that is being read uses these pages, and no state that may become current after a crash. The write
   * transaction prevents LMDB from using the pages in the meantime. `lockDescriptor` holds the lock on the data
   * directory. Another program releases the pages (hole-punch.ts) and inherits this lock. If this process is killed,
   * the program keeps the lock until it ends, so that no other process writes in the meantime. Runs of fewer than
   * `RELEASED_RUN_PAGES_MIN` pages are not released. Throws `LmdbFault` if the list of free pages is inconsistent.
   */
  releasePages(from: number, bytesMax: number, lockDescriptor: number): ReleasedPages {
    this.refresh()
    this.clearDeadReaders()
    const released: ReleasedPages[] = []
    // The transaction writes nothing, so its commit changes nothing. It is not aborted, because LMDB would then discard
    // its cached list of free pages and read the list again.
    this.#write(() => {
      released.push(this.#releasePages(from, bytesMax, lockDescriptor))
    }, true)
    // The transaction has run `action`, so its result is there.
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
      // A process that defers its flushes may have written the newest state only to memory. After a power cut, an older
      // state would be current again, and that state may use the pages that are released here. So the file is flushed
      // first. The flush is fast if everything is on the disk already.
      fdatasyncSync(descriptor)
      const blocksBefore = statSync(path).blocks
      const failure = punchHoles(descriptor, ranges, lockDescriptor)
      const blocks = blocksBefore - statSync(path).blocks
      return { bytes: Math.max(0, blocks * DISK_BLOCK_BYTES), next, failure }
    } finally {
      closeSync(descriptor)
    }
  }

  /**
   * Returns the number of the transaction that wrote the oldest state that is being read, or null if nothing is being
   * read.
   */
  #oldestReader(): bigint | null {
    let oldest: bigint | null = null
    for (const line of this.#root.readerList().split('\n')) {
      const transaction = READER_LINE.exec(line)?.[1]
      if (transaction === undefined) {
        if (NO_READER_LINE.test(line)) continue
        throw new LmdbFault(`its table of readers has a line in an unknown form: '${line}'`)
      }
      if (transaction === '-') continue
      const number = BigInt(transaction)
      if (oldest === null || number < oldest) oldest = number
    }
    return oldest
  }

  /**
   * Removes the readers whose process has ended from the reader table, and returns their number. The first write calls
   * this, and later writes call it from time to time. A thread that ends removes its own entry itself.
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

  /** Returns a table that also counts the changes of each transaction. */
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

  /** Returns whether all these tables exist. */
  #hasAll(tables: readonly string[]): boolean {
    const names = new Set(this.#names())
    return tables.every((name) => names.has(name))
  }

  #names(): readonly string[] {
    const names: string[] = []
    // lmdb-js includes the zero byte at the end of each name, so the byte is removed here.
    for (const key of this.#root.getKeys()) {
      names.push(Buffer.from(key).toString('latin1').replace(/\0$/, ''))
    }
    return names
  }
}

/**
 * Makes the files readable only for their owner, because LMDB creates them readable for everyone. Files of another user
 * keep their mode. A file that was removed is skipped: another thread may still have it open.
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

/** The statistics of a tree and of its file, as lmdb-js returns them. Its types do not declare them. */
interface TreeStatistics extends TreePages {
  readonly pageSize: number
  readonly lastPageNumber: number
  /** The statistics of the tree that lists the free pages. */
  readonly free: TreePages
}

function statisticsOf(table: { getStats(): object }): TreeStatistics {
  return table.getStats() as TreeStatistics
}

/** The result of one call of `releasePages`. */
export interface ReleasedPages {
  /** The number of bytes that were released to the file system. */
  readonly bytes: number
  /** The page from which to continue, or null if no page is left. */
  readonly next: number | null
  readonly failure: PunchFailure | null
}

/** A key with its value. Both are valid only until the next entry is read. */
export interface Entry {
  readonly key: Buffer
  readonly value: Buffer
}

/** A pinned state of a data file. Release the pin soon, because the file grows meanwhile. */
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

  /** Returns the entries of a table that was open when the state was pinned, in the order of their keys. */
  entries(name: string): Iterable<Entry> {
    const table = this.#tables.get(name)
    if (table === undefined) throw new TypeError(`no table ${name} was opened`)
    return table.getRange({ transaction: this.#transaction })
  }

  release(): void {
    this.#transaction.done()
  }
}
