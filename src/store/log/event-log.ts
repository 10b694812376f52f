/**
 * The log: what was accepted and is not yet processed, in order of arrival. It is an environment of its
 * own (`log`), so that an acknowledgement never waits for the write lock of processing.
 *
 * Table `blocks`: sequence u64 big-endian -> block (rules/capture/log-block.ts). Sequences start at 1 and are
 * never used twice, also not after the blocks before them are gone. Table `state`: text `end` -> the last
 * sequence that there ever was, as a sealed f64; written with every change, so that an empty log still says
 * how far it came (store-agreement.ts).
 *
 * One thread appends (`LogAppender`); any thread and process may read (`LogReader`). They implement
 * ports/log.ts.
 */
import type * as ports from '../../ports/log.ts'
import { seal as sealBlock } from '../../rules/capture/log-block.ts'
import { seal, unseal } from '../lmdb/codec.ts'
import { Environment, type Table } from '../lmdb/environment.ts'
import { LOG_ENVIRONMENT, LOG_TABLES } from '../lmdb/keys.ts'
import { TRIM_BLOCKS_MAX } from './limits.ts'

const BLOCKS = 'blocks'
const STATE = 'state'
const END_KEY = Buffer.from('end', 'latin1')

/** Where the log is and how it is flushed. */
export interface LogOptions {
  readonly dataDir: string
  /** `--durability commit`: an append returns when it is visible, and reaches the disk a moment later. */
  readonly isFlushDeferred?: boolean
}

/** The writing end. One per data directory. */
export class LogAppender implements ports.LogAppender {
  readonly #environment: Environment
  readonly #blocks: Table
  readonly #state: Table
  #first: number
  #last: number

  /** `processed`: the sequence up to which everything is processed; later sequences begin behind it. */
  constructor(options: LogOptions & { readonly processed: number }) {
    this.#environment = new Environment({
      dataDir: options.dataDir,
      name: LOG_ENVIRONMENT,
      tables: LOG_TABLES,
      isFlushDeferred: options.isFlushDeferred === true,
    })
    this.#blocks = this.#environment.table(BLOCKS)
    this.#state = this.#environment.table(STATE)
    const extent = extentOf(this.#blocks)
    const end = storedEnd(this.#state)
    this.#last = Math.max(extent?.last ?? 0, end, options.processed)
    this.#first = extent?.first ?? this.#last + 1
    // Emptied by an earlier version, or behind what is processed after a power cut without flushes.
    raiseEnd(this.#environment, options.processed)
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
        sealBlock(block)
        // The package has no address of shared memory: it would store whatever lies elsewhere.
        const isShared = block.buffer instanceof SharedArrayBuffer
        void this.#blocks.put(sequenceKey(++last), isShared ? Buffer.from(block) : block)
      }
      const trimEnd = Math.min(trimThrough, this.#last, first + TRIM_BLOCKS_MAX - 1)
      while (first <= trimEnd) void this.#blocks.remove(sequenceKey(first++))
      // Also where blocks are left: an earlier version may remove them, and does not note it.
      if (last > this.#last || first > this.#first) storeEnd(this.#state, last)
    })
    this.#last = last
    this.#first = first
    return last
  }

  get extent(): ports.LogExtent {
    return { first: this.#first, last: this.#last }
  }

  close(): Promise<void> {
    return this.#environment.close()
  }
}

/** The reading end. */
export class LogReader implements ports.LogReader {
  readonly #environment: Environment
  /** Undefined: nothing was ever written, and this end may not make it. */
  readonly #blocks: Table | undefined
  #memory: Buffer = Buffer.allocUnsafeSlow(1024 * 1024)

  constructor(options: LogOptions & { readonly isReadOnly?: boolean }) {
    this.#environment = new Environment({
      dataDir: options.dataDir,
      name: LOG_ENVIRONMENT,
      tables: [BLOCKS],
      isFlushDeferred: options.isFlushDeferred === true,
      isReadOnly: options.isReadOnly === true,
    })
    this.#blocks = this.#environment.find(BLOCKS)
  }

  /** Lets `block` see what was appended since the last call. */
  refresh(): void {
    this.#environment.refresh()
  }

  /** The stored sequences, or null when the log is empty. */
  extent(): ports.LogExtent | null {
    return this.#blocks === undefined ? null : extentOf(this.#blocks)
  }

  /**
   * The block with that sequence, valid until the next call. It is copied into memory that is used again:
   * fresh memory for each block costs ten times the copy.
   */
  block(sequence: number): Buffer | undefined {
    const stored = this.#blocks?.getBinaryFast(sequenceKey(sequence))
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

/** How far a log reaches. */
export interface LogReach {
  /** The last sequence that it ever had; 0 for none. */
  readonly last: number
  /** Where its processing stands. */
  readonly processed: number
  /** The first blocks that it should still have and has not; null when it has all that are not processed. */
  readonly missing: ports.LogExtent | null
}

/**
 * Looks how far a log reaches, beside those who write it or alone. `environment` has `LOG_TABLES` open, or
 * those of them that there are. `readProcessed` answers the position of processing; it is asked between two
 * looks at the log, so that neither blocks that are removed nor blocks that are added meanwhile pass for
 * missing. Throws `DamagedRecordError`. Cost: the keys of the blocks that are not processed.
 */
export function lookAtLog(environment: Environment, readProcessed: () => number): LogReach {
  const blocks = environment.find(BLOCKS)
  const state = environment.find(STATE)
  environment.refresh()
  const lastBefore = lastEver(blocks, state)
  const processed = readProcessed()
  const missing = blocks === undefined ? null : firstGap(blocks, processed, lastBefore)
  environment.refresh()
  return { last: lastEver(blocks, state), processed, missing }
}

/** Makes a log say that it came to `last`, unless it did. `environment` has `LOG_TABLES` open. */
export function raiseEnd(environment: Environment, last: number): void {
  const state = environment.table(STATE)
  if (lastEver(environment.table(BLOCKS), state) >= last) return
  environment.write(() => storeEnd(state, last))
}

function lastEver(blocks: Table | undefined, state: Table | undefined): number {
  const end = state === undefined ? 0 : storedEnd(state)
  return Math.max(end, (blocks === undefined ? null : extentOf(blocks))?.last ?? 0)
}

function firstGap(blocks: Table, processed: number, last: number): ports.LogExtent | null {
  let expected = processed + 1
  for (const key of blocks.getKeys({ start: sequenceKey(expected) })) {
    const sequence = Number(Buffer.from(key).readBigUInt64BE())
    if (sequence > expected) return { first: expected, last: sequence - 1 }
    expected++
  }
  return expected > last ? null : { first: expected, last }
}

function storedEnd(state: Table): number {
  const value = state.get(END_KEY)
  return value === undefined ? 0 : unseal(STATE, END_KEY, value).readDoubleLE()
}

/** Only in a write transaction. */
function storeEnd(state: Table, last: number): void {
  const bytes = Buffer.allocUnsafe(8)
  bytes.writeDoubleLE(last)
  void state.put(END_KEY, seal(END_KEY, bytes))
}

function sequenceKey(sequence: number): Buffer {
  const key = Buffer.allocUnsafe(8)
  key.writeBigUInt64BE(BigInt(sequence))
  return key
}

function extentOf(blocks: Table): ports.LogExtent | null {
  let first: number | null = null
  for (const key of blocks.getKeys({ limit: 1 })) first = Number(Buffer.from(key).readBigUInt64BE())
  if (first === null) return null
  let last = first
  for (const key of blocks.getKeys({ limit: 1, reverse: true })) {
    last = Number(Buffer.from(key).readBigUInt64BE())
  }
  return { first, last }
}
