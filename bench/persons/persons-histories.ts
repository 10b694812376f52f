/** The part of the bench `persons` that compares random histories of persons with the reference model. */
import { checkHistories } from '../../test/fixtures/persons/person-histories.ts'
import type { BenchContext } from '../harness.ts'

/**
 * Runs this many random histories. Throws if one of them differs from the model. The error contains the smallest such
 * history.
 */
export function measureHistories(context: BenchContext, histories: number): void {
  const startMs = performance.now()
  checkHistories({ numRuns: histories, seed: context.seed })
  context.report({
    figure: 'random histories that end as the reference model says',
    value: histories,
    unit: 'histories',
    target: { of: 'value', bound: 'at least', limit: context.size(1, 10_000) },
    note: `up to 25 moves each, seed ${context.seed}, ${((performance.now() - startMs) / 1000).toFixed(0)} s`,
  })
}
