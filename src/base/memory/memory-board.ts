/**
 * What each thread tells of its memory, in memory that all threads share, so that the main thread reads the
 * figures of a thread that is busy without asking it. A group of threads has one board with a place for each.
 */
import { getHeapStatistics } from 'node:v8'
import { threadId } from 'node:worker_threads'
import { memoryUsage } from './process-memory.ts'

/** Caches by the name that metrics give them. */
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

/** Bytes of one cache of one thread: what it holds now, about, and what it may hold. */
export interface CacheBytes {
  readonly bytes: number
  readonly bytesMax: number
}

/** The caches of a thread; those that it has not opened are absent. */
export type CachesOfThread = Readonly<Partial<Record<CacheName, CacheBytes>>>

/** Memory of one thread. */
export interface ThreadMemory {
  /** From 1, among the threads of its group. */
  readonly number: number
  readonly heapUsedBytes: number
  readonly heapBytes: number
  readonly heapBytesMax: number
  /** Outside of the heap: buffers and typed arrays that are not shared. */
  readonly bufferBytes: number
  readonly caches: CachesOfThread
}

const FIRST_CACHE = 4
const FIGURES = FIRST_CACHE + 2 * CACHES.length

/** The board as it is handed to threads. */
export interface MemoryBoard {
  /** For each place the thread that has it, or 0. */
  readonly owners: Int32Array
  readonly figures: Float64Array
  /** Another number than before: memory is short, and threads give back what they can. */
  readonly shortages: Int32Array
}

/** How often memory was short, for all boards of a daemon. */
export function shortageCount(): Int32Array {
  return new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
}

/** A board with so many places. */
export function memoryBoard(places: number, shortages: Int32Array): MemoryBoard {
  const shared = (bytes: number) => new SharedArrayBuffer(bytes)
  return {
    owners: new Int32Array(shared(places * Int32Array.BYTES_PER_ELEMENT)),
    figures: new Float64Array(shared(places * FIGURES * Float64Array.BYTES_PER_ELEMENT)),
    shortages,
  }
}

/** What the threads of a board have told last. `living`: which threads there are; places of others become free. */
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
 * Memory of the calling thread. Cost: some 20 us. What V8 calls external is no figure for it: each page of the store
 * that lmdb-js shows as a buffer counts there.
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

/** The end of a thread. */
export class MemoryReport {
  readonly #board: MemoryBoard
  #place = -1

  constructor(board: MemoryBoard) {
    this.#board = board
  }

  /** Writes the figures of now. Without a free place nothing is told. */
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
