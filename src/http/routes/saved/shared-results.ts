/**
 * Results of shared pages. Anybody who has the address may ask for one as often as the limits of rates allow,
 * so that a result is computed once for all who ask at the same time, and kept for a while.
 */
import type { Clock } from '../../../base/clock.ts'
import { keepNewest } from '../../../base/maps.ts'
import { SHARED_RESULT_AGE_MS_MAX, SHARED_RESULT_UNITS_MAX, SHARED_RESULTS_MAX } from '../limits.ts'
import type { ComputeInsight } from './saved-services.ts'

interface Kept {
  readonly atMs: number
  readonly result: ReturnType<ComputeInsight>
}

/** The same computation, of which each result is kept for a while. */
export function keptResults(compute: ComputeInsight, clock: Clock): ComputeInsight {
  const kept = new Map<string, Kept>()
  return (projectId, query) => {
    const name = `${projectId} ${JSON.stringify(query)}`
    const before = kept.get(name)
    const atMs = clock.monotonic()
    if (before !== undefined && atMs - before.atMs < SHARED_RESULT_AGE_MS_MAX) return before.result
    const forget = (): void => {
      if (kept.get(name)?.result === result) kept.delete(name)
    }
    const result = compute(projectId, query)
    keepNewest(kept, name, { atMs, result }, SHARED_RESULTS_MAX)
    result.then((found) => {
      if (JSON.stringify(found).length > SHARED_RESULT_UNITS_MAX) forget()
    }, forget)
    return result
  }
}
