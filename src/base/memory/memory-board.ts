/**
 * The memory figures of each thread, in shared memory. The main thread can therefore read the figures of a busy thread
 * without asking it. A group of threads has one board with a slot for each thread.
 */
import { getHeapStatistics } from 'node:v8'
import { threadId } from 'node:worker_threads'
import { memoryUsage } from './process-memory.ts'

/** The names of the caches in metrics. */
const CACHES = [
  'columns',
  'column_values',
  'row_memory',
  'remembered_parts',
  'segments',
  'names',
  'distinct_ids',
  'persons',
  'uuid_index',
  'slabs',
] as const
/** One of CACHES. */
export type CacheName = (typeof CACHES)[number]

/** The size of one cache of one thread: the estimated bytes that it holds, and the most that it may hold. */
export interface CacheBytes {
  readonly bytes: number
  readonly bytesMax: number
}

/** The sizes of the caches of one thread. A cache that the thread has not opened is absent. */
export type CachesOfThread = Readonly<Partial<Record<CacheName, CacheBytes>>>

/** The memory of one thread. */
export interface ThreadMemory {
  /** The number of the thread within its group, from 1. */
  readonly number: number
  readonly heapUsedBytes: number
  readonly heapBytes: number
  readonly heapBytesMax: number
  /** Memory outside of the heap: buffers and typed arrays that are not shared. */
  readonly bufferBytes: number
  readonly caches: CachesOfThread
}

const FIRST_CACHE = 4
const FIGURES = FIRST_CACHE + 2 * CACHES.length

/** The board as it is passed to threads. */
export interface MemoryBoard {
  /** For each slot: the id of the thread that owns it, or 0. */
  readonly owners: Int32Array
  readonly figures: Float64Array
  /** A counter that is increased when memory is short. A thread that sees a new value releases what it can. */
  readonly shortages: Int32Array
}

/** Creates the counter of memory shortages. All boards of a daemon share one counter. */
export function shortageCount(): Int32Array {
  return new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
}

/** Creates a board with `places` slots. */
export function memoryBoard(places: number, shortages: Int32Array): MemoryBoard {
  const shared = (bytes: number) => new SharedArrayBuffer(bytes)
  return {
    owners: new Int32Array(shared(places * Int32Array.BYTES_PER_ELEMENT)),
    figures: new Float64Array(shared(places * FIGURES * Float64Array.BYTES_PER_ELEMENT)),
    shortages,
  }
}

/**
 * Returns the latest figures of the threads of a board. `living` contains the IDs of all existing threads. The slots of
 * other threads are freed.
 */
export function readBoard(
  { owners, figures }: MemoryBoard,
  living: ReadonlySet<number>,
): readonly ThreadMemory[] {
  const threads: ThreadMemory[] = []
  for (let place = 0; place < owners.length; place++) {
    const owner = Atomics.load(owners, place)
    if (owner === 0) continue
    if (!living.has(owner)) {
      Atomics.compareExchange(owners, place, owner, 0)
      continue
    }
    const at = place * FIGURES
    const caches: Partial<Record<CacheName, CacheBytes>> = {}
    for (const [index, name] of CACHES.entries()) {
      const first = at + FIRST_CACHE + 2 * index
      const bytesMax = figures[first + 1] ?? 0
      if (bytesMax > 0) caches[name] = { bytes: figures[first] ?? 0, bytesMax }
    }
    threads.push({
      number: place + 1,
      heapUsedBytes: figures[at] ?? 0,
      heapBytes: figures[at + 1] ?? 0,
      heapBytesMax: figures[at + 2] ?? 0,
      bufferBytes: figures[at + 3] ?? 0,
      caches,
    })
  }
  return threads
}

/**
 * Returns the memory of the calling thread. Cost: about 20 us. The figure that V8 calls external is not used, because
 * it includes each page of the store that lmdb-js exposes as a buffer.
 */
export function ownMemory(): Omit<ThreadMemory, 'number' | 'caches'> {
  const heap = getHeapStatistics()
  return {
    heapUsedBytes: heap.used_heap_size,
    heapBytes: heap.total_heap_size,
    heapBytesMax: heap.heap_size_limit,
    bufferBytes: memoryUsage().arrayBuffers,
  }
}

/** Writes the figures of the calling thread to its slot of a board. */
export class MemoryReport {
  readonly #board: MemoryBoard
  #place = -1

  constructor(board: MemoryBoard) {
    this.#board = board
  }

  /** Writes the current figures. Does nothing if the board has no free slot. */
  tell(caches: CachesOfThread): void {
    const { figures } = this.#board
    if (!this.#hasPlace()) return
    const at = this.#place * FIGURES
    const memory = ownMemory()
    figures[at] = memory.heapUsedBytes
    figures[at + 1] = memory.heapBytes
    figures[at + 2] = memory.heapBytesMax
    figures[at + 3] = memory.bufferBytes
    for (const [index, name] of CACHES.entries()) {
      const first = at + FIRST_CACHE + 2 * index
      figures[first] = caches[name]?.bytes ?? 0
      figures[first + 1] = caches[name]?.bytesMax ?? 0
    }
  }

  #hasPlace(): boolean {
    const { owners } = this.#board
    for (let place = 0; this.#place < 0 && place < owners.length; place++) {
      if (Atomics.compareExchange(owners, place, 0, threadId) === 0) this.#place = place
    }
    return this.#place >= 0
  }
}
