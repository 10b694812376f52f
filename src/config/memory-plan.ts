/**
 * Divides the working memory. There is one budget: the setting `memory_max`, or a default that depends on the machine.
 * The budget determines the number of threads, the heap of each kind of thread, and the size of each cache and buffer.
 * If the budget is smaller than `USUAL_BYTES`, every part is smaller. If the budget is larger than the cores of the
 * machine need, the surplus goes to analytic queries. The functions are pure.
 *
 * The budget covers the memory of the process itself. It does not cover mapped pages of the store. Those pages belong
 * to the page cache of the operating system, which evicts pages when memory is short. On a small machine, the default
 * budget therefore leaves a part of the memory to the page cache.
 */
import { SCAN_CACHE_BYTES_DEFAULT } from '../base/limits.ts'

const MIB = 1024 ** 2

/** What the plan depends on. */
export interface MemoryFacts {
  /** The whole budget in bytes. */
  readonly memoryBytesMax: number
  readonly coreCount: number
}

/** How the budget is divided. All sizes are in bytes unless their name says otherwise. */
export interface MemoryPlan {
  /** The whole budget: the value of the setting `memory_max`. */
  readonly budgetBytes: number
  /** The default numbers of threads. */
  readonly workerThreads: number
  readonly analyticsThreads: number
  /**
   * The default limit for request bodies in memory, and the limit for answers that wait until their clients read them.
   */
  readonly inFlightBytes: number
  readonly waitingAnswersBytes: number
  /** The default memory limit for decoded columns, which all analytics threads share. */
  readonly queryCacheBytes: number
  /** The memory limit for cached parts of query results in each analytics thread. */
  readonly rememberedBytes: number
  /** The memory limit for cached answers in the main thread. */
  readonly keptAnswersBytes: number
  /** The memory limit for open segments in each thread that reads. */
  readonly segmentViewsBytes: number
  /** The memory limit for cached names of events and properties in each thread that reads. */
  readonly namesBytes: number
  /** The memory limit for cached distinct ID numbers in the processing thread. */
  readonly distinctIdsBytes: number
  /** The memory limit for cached persons and groups in the processing thread. */
  readonly personsBytes: number
  /**
   * How many of the newest entries of the UUID index the processing thread holds in memory before it writes them to
   * disk.
   */
  readonly uuidTableEntries: number
  /** The number of bytes of events after which the processing thread commits. */
  readonly commitBytes: number
  /**
   * The memory limit of analytic queries: for rows, persons, and answers that are not converted to text yet. All
   * analytics threads share it equally.
   */
  readonly questionBytes: number
  /** The memory limit for cached decisions in the main thread, with their requests and answers. */
  readonly decisionsBytes: number
  /** The old-generation heap of each kind of thread, in MiB. A thread that needs more is ended and replaced. */
  readonly heapMib: Readonly<
    Record<'writer' | 'processor' | 'checkers' | 'readers' | 'long_readers' | 'analytics', number>
  >
  /** The young-generation heap of the processing thread, in MiB. */
  readonly processingYoungMib: number
  /** The size of the old generation at which V8 collects garbage in an analytics thread, in MiB. */
  readonly analyticsOldMib: number
  /** How long threads for checks, long reads and analytics may be idle before they are ended, in milliseconds. */
  readonly idleThreadMs: number
}

/** With this budget, every thread, cache and buffer has its normal size on a machine with two cores. */
const USUAL_BYTES = 640 * MIB
/**
 * How much the budget grows with each core after the second. The growth is enough for one more thread for reads, one
 * more thread for analytic queries, and half of the memory of one more thread for long reads.
 */
const CORE_BYTES = 64 * MIB
const USUAL_CORES = 2
const MOST_CORES = 256
const MOST_ANALYTICS_THREADS = 16
/**
 * The share of the machine's memory that `memory_max` = `auto` uses at most. The rest is for the page cache and other
 * programs.
 */
const MACHINE_SHARE = 0.75
/** How much memory an idle process with its threads needs, together with the caches that are not counted elsewhere. */
const REST_BYTES = 224 * MIB
/** The smallest budget with which a daemon works. */
export const MEMORY_BYTES_MIN = 128 * MIB

/** Returns the budget in bytes that `memory_max` = `auto` stands for on a machine with this much memory. */
export function automaticBudget(machineBytes: number, coreCount: number): number {
  const cores = Math.min(MOST_CORES, Math.max(USUAL_CORES, coreCount))
  const usual = USUAL_BYTES + (cores - USUAL_CORES) * CORE_BYTES
  return Math.max(MEMORY_BYTES_MIN, Math.floor(Math.min(usual, machineBytes * MACHINE_SHARE)))
}

/** Divides a budget among threads, caches and buffers. */
export function memoryPlan({ memoryBytesMax: budgetBytes, coreCount }: MemoryFacts): MemoryPlan {
  const share = Math.min(1, budgetBytes / USUAL_BYTES)
  const part = (usualBytes: number, leastBytes: number): number =>
    Math.max(leastBytes, Math.floor(usualBytes * share))
  const mib = (usual: number, least: number): number => Math.max(least, Math.round(usual * share))
  /** The largest number of cores for which the budget can pay the threads. */
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
    // The hash table of these entries doubles its memory when more than half of its slots are in use. It becomes a run
    // only at the end of a commit, so there is room for the 65,536 events of a commit before the next doubling.
    uuidTableEntries: (share === 1 ? 448 : 192) * 1024,
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
