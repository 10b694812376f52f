/**
 * Checks of `tenrec doctor` on memory: the budget and what follows from it, and what a daemon that runs tells of its
 * threads and caches.
 */
import type { Settings } from '../../config/settings.ts'
import { planOf } from '../../engine/threads/tasks.ts'
import { readMetrics } from '../lib/metric-samples.ts'
import { bytesText, type Finding, fine, warning } from './doctor-finding.ts'

/** The budget of the settings, and its largest parts. */
export function checkBudget(settings: Settings): Finding {
  const { memoryBytesMax, analyticsThreads, workerThreads, queryCacheBytes, origins } = settings
  const { questionBytes } = planOf(settings)
  const parts = [
    `${workerThreads} threads for reading and ${analyticsThreads} for analytics`,
    `${bytesText(queryCacheBytes)} for decoded columns`,
    `${bytesText(questionBytes)} for questions`,
  ]
  const from = origins.memoryBytesMax.kind === 'default' ? 'auto' : origins.memoryBytesMax.text
  return fine(
    'memory_budget',
    `memory_max is ${bytesText(memoryBytesMax)} (${from}): ${parts.join(', ')}`,
  )
}

/** What the daemon takes, as its metrics tell it. Throws `OperatorError` when nobody answers. */
export async function checkMemoryUse(baseUrl: string): Promise<readonly Finding[]> {
  const samples = await readMetrics(baseUrl)
  const budget = samples?.get('memory_budget_bytes') ?? null
  if (samples === null || budget === null) return []
  const anonymous = samples.get('memory_resident_bytes{kind="anonymous"}') ?? 0
  const files = samples.get('memory_resident_bytes{kind="files"}') ?? 0
  const use =
    `${bytesText(anonymous)} of a budget of ${bytesText(budget)} are used, and ` +
    `${bytesText(files)} of files are mapped, which the system takes back when it needs them`
  const heaps = samples.labels('memory_heap_used_bytes', 'thread').map((thread) => {
    const of = (what: string): number =>
      samples.get(`memory_${what}_bytes{thread="${thread}"}`) ?? 0
    const heap = `heap ${bytesText(of('heap_used'))} of ${bytesText(of('heap_limit'))}`
    return `${thread}: ${heap}, buffers ${bytesText(of('buffer'))}`
  })
  const caches = samples.labels('memory_cache_bytes', 'cache').map((cache) => {
    const of = (what: string): number => samples.get(`memory_${what}_bytes{cache="${cache}"}`) ?? 0
    return `${cache}: ${bytesText(of('cache'))} of ${bytesText(of('cache_limit'))}`
  })
  return [
    anonymous > budget
      ? warning(
          'memory_use',
          `${use}: if it stays so, raise memory_max, or look which thread it is`,
        )
      : fine('memory_use', use),
    fine('memory_threads', heaps.join('; ')),
    fine('memory_caches', caches.join('; ')),
  ]
}
