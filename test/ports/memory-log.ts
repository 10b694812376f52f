/** A log in shared memory. One thread appends, and the others read. It is lost with its process. */
import type { LogAppender, LogExtent, LogReader } from '../../src/ports/log.ts'
import { seal } from '../../src/rules/capture/log-block.ts'

const BLOCKS_MAX = 65_536
const BYTES_MAX = 32 * 1024 * 1024
const [COUNT, TRIMMED, USED] = [0, 1, 2]
const HEAD_NUMBERS = 3 + 2 * BLOCKS_MAX

/** Byte strings by number, from 1. One thread adds, any thread may read. */
export class SharedBlocks {
  readonly memory: SharedArrayBuffer
  readonly #head: Int32Array
  readonly #bytes: Buffer

  /** `memory` is that of another thread. Without it, new memory is allocated. */
  constructor(memory = new SharedArrayBuffer(4 * HEAD_NUMBERS + BYTES_MAX)) {
    this.memory = memory
    this.#head = new Int32Array(memory, 0, HEAD_NUMBERS)
    this.#bytes = Buffer.from(memory, 4 * HEAD_NUMBERS)
  }

  get count(): number {
    return Atomics.load(this.#head, COUNT)
  }

  get trimmed(): number {
    return Atomics.load(this.#head, TRIMMED)
  }

  /** Adds all byte strings, then makes them visible. Throws RangeError if the memory is full, and then adds none. */
  add(blocks: readonly Uint8Array[]): number {
    let { count } = this
    let used = this.#head[USED] ?? 0
    for (const block of blocks) {
      if (count >= BLOCKS_MAX || used + block.length > BYTES_MAX) throw new RangeError('full')
      this.#bytes.set(block, used)
      this.#head[3 + 2 * count] = used
      this.#head[4 + 2 * count] = block.length
      used += block.length
      count++
    }
    this.#head[USED] = used
    Atomics.store(this.#head, COUNT, count)
    return count
  }

  trim(through: number): void {
    Atomics.store(this.#head, TRIMMED, Math.max(this.trimmed, Math.min(through, this.count)))
  }

  /** Returns a copy. */
  read(number: number): Buffer | undefined {
    if (number <= this.trimmed || number > this.count) return undefined
    const start = this.#head[1 + 2 * number] ?? 0
    return Buffer.from(this.#bytes.subarray(start, start + (this.#head[2 + 2 * number] ?? 0)))
  }
}

/** Returns both ends of the log. */
export class MemoryLog implements LogAppender, LogReader {
  readonly #blocks: SharedBlocks
  #seen = 0

  constructor(memory?: SharedArrayBuffer) {
    this.#blocks = new SharedBlocks(memory)
  }

  get memory(): SharedArrayBuffer {
    return this.#blocks.memory
  }

  async append(blocks: readonly Buffer[], trimThrough: number): Promise<number> {
    for (const block of blocks) seal(block)
    const before = this.#blocks.count
    const last = this.#blocks.add(blocks)
    this.#blocks.trim(Math.min(trimThrough, before))
    return last
  }

  shrink(): void {}

  refresh(): void {
    this.#seen = this.#blocks.count
  }

  extent(): LogExtent | null {
    const first = this.#blocks.trimmed + 1
    return first > this.#seen ? null : { first, last: this.#seen }
  }

  block(sequence: number): Buffer | undefined {
    return sequence > this.#seen ? undefined : this.#blocks.read(sequence)
  }

  async close(): Promise<void> {}
}
