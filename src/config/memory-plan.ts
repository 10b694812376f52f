/**
 * How working memory is divided: one budget, which the setting `memory_max` names or the machine decides, becomes
 * the number of threads, the heap that each kind may have, and what every cache and buffer may hold. Up to
 * `USUAL_BYTES` everything shrinks with the budget; a larger budget goes to the caches of analytic queries. Pure.
 *
 * The budget is about memory of the process itself. Pages of the store that are mapped are the page cache of the
 * system, which takes them back when it needs them; that is why a part of a small machine is left to it.
 */
import { SCAN_CACHE_BYTES_DEFAULT } from '../base/limits.ts'

const MIB = 1024 ** 2

/** What the plan is made of. */
export interface MemoryFacts {
  /** The budget. */
  readonly memoryBytesMax: number
  readonly coreCount: number
}

/** The parts of the budget; bytes. */
export interface MemoryPlan {
  /** As `memory_max`. */
  readonly budgetBytes: number
  /** Threads by default, where no setting says how many. */
  readonly workerThreads: number
  readonly analyticsThreads: number
  /** Bodies of requests and answers on their way, by default. */
  readonly inFlightBytes: number
  readonly waitingAnswersBytes: number
  /** Decoded columns of all threads for analytics together, by default. */
  readonly queryCacheBytes: number
  /** What each thread for analytics remembers of queries. */
  readonly rememberedBytes: number
  /** Finished answers that the main thread keeps. */
  readonly keptAnswersBytes: number
  /** Segments that each reading thread keeps open. */
  readonly segmentViewsBytes: number
  /** Names of events and properties that each reading thread keeps. */
  readonly namesBytes: number
  /** Numbers of distinct_ids that the processing thread keeps. */
  readonly distinctIdsBytes: number
  /** Persons and groups that it keeps. */
  readonly personsBytes: number
  /** Newest entries of the index of uuids that it keeps before they go to the disk. */
  readonly uuidTableEntries: number
  /** Bytes of events that it gathers for one commit. */
  readonly commitBytes: number
  /** Working memory of one question: rows, persons and answers before they are text. */
  readonly questionBytes: number
  /** Decisions that the main thread remembers, with their requests and answers. */
  readonly decisionsBytes: number
  /** Heap of old objects that a thread may have, by kind; MiB. One that needs more ends and is replaced. */
  readonly heapMib: Readonly<
    Record<'writer' | 'processor' | 'checkers' | 'readers' | 'long_readers' | 'analytics', number>
  >
  /** Heap of young objects of the processing thread, MiB. */
  readonly processingYoungMib: number
  /** Heap of old objects that a thread for analytics fills before V8 goes through it, MiB. */
  readonly analyticsOldMib: number
  /** Milliseconds after which threads that nobody asks anything are ended, where there are others. */
  readonly idleThreadMs: number
}

/** With this budget everything has the size that is worth having on a machine of two cores. */
const USUAL_BYTES = 640 * MIB
/** What a further core may take: a thread for reading, one for analytics, half a one for long reads. */
const CORE_BYTES = 64 * MIB
const USUAL_CORES = 2
const MOST_CORES = 256
const MOST_ANALYTICS_THREADS = 16
/** Of the memory of a small machine; the rest is for the page cache, and for what others do. */
const MACHINE_SHARE = 0.75
/** What the process and its threads take without any work, and the caches that are told by nobody else. */
const REST_BYTES = 224 * MIB
/** The least that a daemon can work with. */
export const MEMORY_BYTES_MIN = 128 * MIB

/** The budget that `auto` stands for, of a machine with so much memory. */
export function automaticBudget(machineBytes: number, coreCount: number): number {
  const cores = Math.min(MOST_CORES, Math.max(USUAL_CORES, coreCount))
  const usual = USUAL_BYTES + (cores - USUAL_CORES) * CORE_BYTES
  return Math.max(MEMORY_BYTES_MIN, Math.floor(Math.min(usual, machineBytes * MACHINE_SHARE)))
}

/** The plan of a budget. */
export function memoryPlan({ memoryBytesMax: budgetBytes, coreCount }: MemoryFacts): MemoryPlan {
  const share = Math.min(1, budgetBytes / USUAL_BYTES)
  const part = (usualBytes: number, leastBytes: number): number =>
    Math.max(leastBytes, Math.floor(usualBytes * share))
  const mib = (usual: number, least: number): number => Math.max(least, Math.round(usual * share))
  /** Cores that there is memory for. */
  const affordable =
    budgetBytes < USUAL_BYTES
      ? 1
      : USUAL_CORES + Math.floor((budgetBytes - USUAL_BYTES) / CORE_BYTES)
  const cores = Math.max(1, Math.min(coreCount, affordable))
  const spareBytes = Math.max(0, budgetBytes - automaticBudget(Number.MAX_SAFE_INTEGER, coreCount))
  const usedBytes = budgetBytes - spareBytes
  const columnsBytes = Math.max(16 * MIB, Math.floor(SCAN_CACHE_BYTES_DEFAULT * share * share))
  return {
    budgetBytes,
    workerThreads: Math.min(MOST_CORES, Math.max(1, cores - 1)),
    analyticsThreads: Math.min(MOST_ANALYTICS_THREADS, cores),
    inFlightBytes: part(256 * MIB, 48 * MIB),
    waitingAnswersBytes: part(128 * MIB, 16 * MIB),
    queryCacheBytes: columnsBytes + Math.floor(spareBytes / 2),
    rememberedBytes: part(16 * MIB, 2 * MIB),
    keptAnswersBytes: part(8 * MIB, MIB),
    segmentViewsBytes: share === 1 ? 64 * MIB : part(24 * MIB, 4 * MIB),
    namesBytes: share === 1 ? 64 * MIB : part(32 * MIB, 8 * MIB),
    distinctIdsBytes: part(32 * MIB, 4 * MIB),
    personsBytes: Math.max(4 * MIB, Math.floor(64 * MIB * share * share)),
    // Its memory doubles when more than half of it is used.
    uuidTableEntries: share === 1 ? 512 * 1024 : 200_000,
    commitBytes: part(64 * MIB, 8 * MIB),
    questionBytes:
      Math.max(24 * MIB, Math.floor(usedBytes - REST_BYTES - columnsBytes)) +
      Math.floor(spareBytes / 4),
    decisionsBytes: part(40 * MIB, 4 * MIB),
    heapMib: {
      writer: mib(128, 64),
      processor: mib(512, 192),
      checkers: mib(512, 192),
      readers: mib(512, 160),
      long_readers: mib(512, 160),
      analytics: mib(512, 160),
    },
    processingYoungMib: share === 1 ? 48 : 12,
    analyticsOldMib: share === 1 ? 48 : 12,
    idleThreadMs: share === 1 ? 600_000 : 45_000,
  }
}
