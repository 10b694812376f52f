/**
 * The log: what was accepted and is not yet processed, in order of arrival. It is an environment of its
 * own (`log`), so that an acknowledgement never waits for the write lock of processing.
 *
 * Table `blocks`: sequence u64 big-endian -> block (ingest/log-block.ts). Sequences start at 1 and are
 * never used twice, also not after the blocks before them are gone.
 *
 * One thread appends (`LogAppender`); any thread and process may read (`LogReader`). This file is the
 * whole of the port: another log (a message broker) would offer the same two classes.
 */
import { seal } from '../ingest/log-block.ts'
import { Environment, type Table } from './environment.ts'

const NAME = 'log'
const BLOCKS = 'blocks'
/** Blocks that one append removes at most, so that no acknowledgement waits for a long clean-up. */
const TRIM_BLOCKS_MAX = 512

/** Where the log is and how it is flushed. */
export interface LogOptions {
  readonly dataDir: string
  /** `--durability commit`: an append returns when it is visible, and reaches the disk a moment later. */
  readonly isFlushDeferred?: boolean
}

/** Sequences from `first` to `last` are stored; `last` is `first - 1` when there are none. */
export interface LogExtent {
  readonly first: number
  readonly last: number
}

/** The writing end. One per data directory. */
export class LogAppender {
  readonly #environment: Environment
  readonly #blocks: Table
  #first: number
  #last: number

  /** `processed`: the sequence up to which everything is processed; later sequences begin behind it. */
  constructor(options: LogOptions & { readonly processed: number }) {
    this.#environment = new Environment({
      dataDir: options.dataDir,
      name: NAME,
      tables: [BLOCKS],
      isFlushDeferred: options.isFlushDeferred === true,
    })
    this.#blocks = this.#environment.table(BLOCKS)
    const extent = extentOf(this.#blocks)
    this.#last = Math.max(extent?.last ?? 0, options.processed)
    this.#first = extent?.first ?? this.#last + 1
  }

  /**
   * Appends blocks in one transaction and removes blocks up to `trimThrough` in the same one. When it
   * returns, they are durable. Returns the sequence of the last block. Throws what LMDB throws; then
   * the outcome is unknown and the appender must not be used again.
   */
  append(blocks: readonly Buffer[], trimThrough: number): number {
    let last = this.#last
    let first = this.#first
    this.#environment.write(() => {
      for (const block of blocks) {
        seal(block)
        void this.#blocks.put(sequenceKey(++last), block)
      }
      const trimEnd = Math.min(trimThrough, this.#last, first + TRIM_BLOCKS_MAX - 1)
      while (first <= trimEnd) void this.#blocks.remove(sequenceKey(first++))
    })
    this.#last = last
    this.#first = first
    return last
  }

  get extent(): LogExtent {
    return { first: this.#first, last: this.#last }
  }

  close(): Promise<void> {
    return this.#environment.close()
  }
}

/** The reading end. */
export class LogReader {
  readonly #environment: Environment
  readonly #blocks: Table
  #memory: Buffer = Buffer.allocUnsafeSlow(1024 * 1024)

  /** Read-only it throws `OperatorError` for a log into which nothing was ever written. */
  constructor(options: LogOptions & { readonly isReadOnly?: boolean }) {
    this.#environment = new Environment({
      dataDir: options.dataDir,
      name: NAME,
      tables: [BLOCKS],
      isFlushDeferred: options.isFlushDeferred === true,
      isReadOnly: options.isReadOnly === true,
    })
    this.#blocks = this.#environment.table(BLOCKS)
  }

  /** Lets `block` see what was appended since the last call. */
  refresh(): void {
    this.#environment.refresh()
  }

  /** The stored sequences, or null when the log is empty. */
  extent(): LogExtent | null {
    return extentOf(this.#blocks)
  }

  /**
   * The block with that sequence, valid until the next call. It is copied into memory that is used again:
   * fresh memory for each block costs ten times the copy.
   */
  block(sequence: number): Buffer | undefined {
    const stored = this.#blocks.getBinaryFast(sequenceKey(sequence))
    if (stored === undefined) return undefined
    const bytes = stored.length
    if (bytes > this.#memory.length) this.#memory = Buffer.allocUnsafeSlow(bytes * 2)
    const block = this.#memory.subarray(0, bytes)
    // The length that lmdb-js gives is shorter than the memory behind it.
    block.set(stored.subarray(0, bytes))
    return block
  }

  close(): Promise<void> {
    return this.#environment.close()
  }
}

function sequenceKey(sequence: number): Buffer {
  const key = Buffer.allocUnsafe(8)
  key.writeBigUInt64BE(BigInt(sequence))
  return key
}

function extentOf(blocks: Table): LogExtent | null {
  let first: number | null = null
  for (const key of blocks.getKeys({ limit: 1 })) first = Number(Buffer.from(key).readBigUInt64BE())
  if (first === null) return null
  let last = first
  for (const key of blocks.getKeys({ limit: 1, reverse: true })) {
    last = Number(Buffer.from(key).readBigUInt64BE())
  }
  return { first, last }
}
