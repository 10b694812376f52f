/**
 * Sets the gauges whose values are looked up only when `/metrics` is read, because keeping them up to date would cost
 * more.
 */
import { getOrAdd } from '../../base/maps.ts'
import {
  type CachesOfThread,
  ownMemory,
  type ThreadMemory,
} from '../../base/memory/memory-board.ts'
import { processMemory } from '../../base/memory/process-memory.ts'
import { PART_NAMES, storeBytes } from '../../store/directory/data-dir.ts'
import type { BusyTime } from '../threads/busy-time.ts'
import type { DiskReserve } from './disk-reserve.ts'
import type { ProcessingLoop } from './processing-loop.ts'
import type { ServiceMetrics } from './service-metrics.ts'
import type { FairShares } from './shares/fair-shares.ts'

/** The sources of the gauges. */
export interface GaugeSources {
  readonly dataDir: string
  readonly backlogBytesMax: number
  readonly loop: Pick<ProcessingLoop, 'waitingEvents' | 'backlogBytes' | 'waitingAgeMs' | 'lagMs'>
  readonly disk: Pick<DiskReserve, 'freeBytes' | 'reserveBytes'>
  /** The busy time of the threads, by the name of their kind. */
  readonly busy: Readonly<Record<string, BusyTime>>
  /** The number of uploads that wait to be checked, by lane. */
  readonly checksWaiting: Readonly<Record<string, number>>
  /** The number of tasks that wait for a thread, by the name of the kind of threads. */
  readonly queues: Readonly<Record<string, number>>
  readonly flags: { readonly version: number }
  readonly damage: { readonly value: number }
  readonly isReady: () => boolean
  readonly shares: Pick<FairShares, 'count' | 'refused'>
  /** The number of waiting uploads that were refused to make room for uploads of other senders. */
  readonly displacedChecks: number
  /** The budget of working memory, in bytes. */
  readonly memoryBytesMax: number
  /** The memory of each thread, by the name of the kind of threads. */
  readonly memory: Readonly<Record<string, readonly ThreadMemory[]>>
  /** The caches of the main thread, and the caches that all threads share. */
  readonly caches: CachesOfThread
}

/** Sets the gauges to the current values. */
export function collectGauges(metrics: ServiceMetrics, sources: GaugeSources): void {
  metrics.senders.value = sources.shares.count
  metrics.sharesRefused({ ...sources.shares.refused, checks: sources.displacedChecks })
  metrics.serviceReady.value = sources.isReady() ? 1 : 0
  metrics.ingestQueueDepth.value = sources.loop.waitingEvents
  metrics.ingestBacklogBytes.value = sources.loop.backlogBytes
  metrics.ingestBacklogBytesMax.value = sources.backlogBytesMax
  metrics.ingestLagSeconds.value = sources.loop.lagMs / 1000
  metrics.ingestOldestUnprocessedSeconds.value = sources.loop.waitingAgeMs / 1000
  metrics.diskFreeBytes.value = sources.disk.freeBytes
  metrics.diskReserveBytes.value = sources.disk.reserveBytes
  metrics.storeDamage.value = sources.damage.value
  metrics.flagSnapshotVersion.value = sources.flags.version
  for (const [lane, count] of Object.entries(sources.checksWaiting)) {
    metrics.ingestChecksWaiting.with(lane).value = count
  }
  for (const name of PART_NAMES) {
    metrics.storeMapUsedBytes.with(name).value = storeBytes(sources.dataDir, name)
  }
  for (const [name, busy] of Object.entries(sources.busy)) {
    metrics.workerBusySeconds.with(name).value = busy.seconds
    metrics.workerThreads.with(name).value = busy.threads
  }
  collectMemory(metrics, sources)
  for (const [name, depth] of Object.entries(sources.queues)) {
    metrics.workerQueueDepth.with(name).value = depth
  }
}

/** Sets the gauges of memory to the values that the threads have last reported. */
function collectMemory(metrics: ServiceMetrics, sources: GaugeSources): void {
  const { anonymousBytes, fileBytes } = processMemory()
  metrics.memoryBudgetBytes.value = sources.memoryBytesMax
  metrics.memoryResidentBytes.with('anonymous').value = anonymousBytes
  metrics.memoryResidentBytes.with('files').value = fileBytes
  const threads: (readonly [string, Omit<ThreadMemory, 'number' | 'caches'>])[] = [
    ['main', ownMemory()],
  ]
  const caches = new Map<string, { bytes: number; bytesMax: number }>()
  const addCaches = (added: CachesOfThread): void => {
    for (const [name, { bytes, bytesMax }] of Object.entries(added)) {
      const sum = getOrAdd(caches, name, () => ({ bytes: 0, bytesMax: 0 }))
      sum.bytes += bytes
      sum.bytesMax += bytesMax
    }
  }
  addCaches(sources.caches)
  for (const [kind, ofKind] of Object.entries(sources.memory)) {
    for (const thread of ofKind) {
      threads.push([`${kind}_${thread.number}`, thread])
      addCaches(thread.caches)
    }
  }
  // The gauges are cleared first, because they may still show threads that have ended and caches that are closed.
  for (const family of [
    metrics.memoryHeapUsedBytes,
    metrics.memoryHeapBytes,
    metrics.memoryHeapBytesMax,
    metrics.memoryBufferBytes,
    metrics.memoryCacheBytes,
    metrics.memoryCacheBytesMax,
  ]) {
    family.clear()
  }
  for (const [name, memory] of threads) {
    metrics.memoryHeapUsedBytes.with(name).value = memory.heapUsedBytes
    metrics.memoryHeapBytes.with(name).value = memory.heapBytes
    metrics.memoryHeapBytesMax.with(name).value = memory.heapBytesMax
    metrics.memoryBufferBytes.with(name).value = memory.bufferBytes
  }
  for (const [name, { bytes, bytesMax }] of caches) {
    metrics.memoryCacheBytes.with(name).value = bytes
    metrics.memoryCacheBytesMax.with(name).value = bytesMax
  }
}
