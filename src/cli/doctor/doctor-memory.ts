/**
 * Checks the memory for `tenrec doctor`: the budget and its parts, and the memory of threads and caches that a running
 * daemon reports.
 */
import type { Settings } from '../../config/settings.ts'
import { planOf } from '../../engine/threads/tasks.ts'
import { readMetrics } from '../lib/metric-samples.ts'
import { bytesText, type Finding, fine, warning } from './doctor-finding.ts'

/** Describes the memory budget of the settings, and its largest parts. */
export function checkBudget(settings: Settings): Finding {
  const { memoryBytesMax, analyticsThreads, workerThreads, queryCacheBytes, origins } = settings
  const { questionBytes } = planOf(settings)
  const parts = [
    `threads for reads ${workerThreads}`,
    `threads for analytic queries ${analyticsThreads}`,
    `decoded columns ${bytesText(queryCacheBytes)}`,
    `working memory of queries ${bytesText(questionBytes)}`,
  ]
  const from = origins.memoryBytesMax.kind === 'default' ? 'auto' : origins.memoryBytesMax.text
  return fine(
    'memory_budget',
    `\`memory_max\` is ${bytesText(memoryBytesMax)} (${from}). It is divided as follows: ${parts.join(', ')}.`,
  )
}

/** Checks the memory use that the metrics of a daemon report. Throws `OperatorError` if the daemon does not answer. */
export async function checkMemoryUse(baseUrl: string): Promise<readonly Finding[]> {
  const samples = await readMetrics(baseUrl)
  const budget = samples?.get('memory_budget_bytes') ?? null
  if (samples === null || budget === null) return []
  const anonymous = samples.get('memory_resident_bytes{kind="anonymous"}') ?? 0
  const files = samples.get('memory_resident_bytes{kind="files"}') ?? 0
  const use =
    `The daemon uses ${bytesText(anonymous)} of its budget of ${bytesText(budget)}. ` +
    `It also maps ${bytesText(files)} of files, which the system can reclaim when it needs memory.`
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
          `${use} If this continues, raise \`memory_max\`, or find the thread that uses the memory.`,
        )
      : fine('memory_use', use),
    fine('memory_threads', heaps.join('; ')),
    fine('memory_caches', caches.join('; ')),
  ]
}
