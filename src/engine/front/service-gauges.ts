/** Fills, before `/metrics` is read, what is cheaper to look up than to keep. */
import { PART_NAMES, storeBytes } from '../../store/directory/data-dir.ts'
import type { BusyTime } from '../threads/busy-time.ts'
import type { DiskGuard } from './disk-guard.ts'
import type { ProcessingLoop } from './processing-loop.ts'
import type { ServiceMetrics } from './service-metrics.ts'

/** Where the figures come from. */
export interface GaugeSources {
  readonly dataDir: string
  readonly backlogBytesMax: number
  readonly loop: Pick<ProcessingLoop, 'backlogEvents' | 'backlogBytes' | 'oldestAgeMs' | 'lagMs'>
  readonly disk: Pick<DiskGuard, 'freeBytes' | 'reserveBytes'>
  /** By the name of the threads. */
  readonly busy: Readonly<Record<string, BusyTime>>
  /** Uploads that wait to be checked, by lane. */
  readonly checksWaiting: Readonly<Record<string, number>>
  /** Tasks that wait, by the same name. */
  readonly queues: Readonly<Record<string, number>>
  readonly flags: { readonly version: number }
  readonly damage: { readonly value: number }
  readonly isReady: () => boolean
}

/** Sets the gauges to what the sources say now. */
export function collectGauges(metrics: ServiceMetrics, sources: GaugeSources): void {
  metrics.serviceReady.value = sources.isReady() ? 1 : 0
  metrics.ingestQueueDepth.value = sources.loop.backlogEvents
  metrics.ingestBacklogBytes.value = sources.loop.backlogBytes
  metrics.ingestBacklogBytesMax.value = sources.backlogBytesMax
  metrics.ingestLagSeconds.value = sources.loop.lagMs / 1000
  metrics.ingestOldestUnprocessedSeconds.value = sources.loop.oldestAgeMs / 1000
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
  for (const [name, depth] of Object.entries(sources.queues)) {
    metrics.workerQueueDepth.with(name).value = depth
  }
}
