/** The part of bench `persons` that compares random histories with the reference model. */
import { checkHistories } from '../../test/fixtures/persons/person-histories.ts'
import type { BenchContext } from '../harness.ts'

/** Runs this many histories. Throws with the smallest one that differs from the model. */
export function measureHistories(context: BenchContext, histories: number): void {
  const startMs = performance.now()
  checkHistories(histories, context.seed)
  context.report({
    figure: 'random histories that end as the reference model says',
    value: histories,
    unit: 'histories',
    target: { of: 'value', bound: 'at least', limit: context.size(1, 10_000) },
    note: `up to 25 moves each, seed ${context.seed}, ${((performance.now() - startMs) / 1000).toFixed(0)} s`,
  })
}
