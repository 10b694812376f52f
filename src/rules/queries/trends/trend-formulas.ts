/** Lines made of those of all series, bucket by bucket, by a formula. */
import { getOrAdd } from '../../../base/maps.ts'
import { PacedLimits, type QueryLimits } from '../paced-limits.ts'
import { parseFormula } from './formula.ts'
import { compareValues, type Line, type LineValue, sumOf } from './trend-lines.ts'
import type { TrendFormula, TrendsPlan } from './trends-plan.ts'

/**
 * The lines of a formula: one for each value that any series has, zeros standing for those that a series
 * does not have; the largest first. Throws as `EventScanner.checkLimits`.
 */
export function formulaLines(
  { series, breakdown }: TrendsPlan,
  { text }: TrendFormula,
  linesOf: readonly (readonly Line[])[],
  limits: QueryLimits,
): readonly Line[] {
  const formula = parseFormula(text, series.length)
  const found = new Map<string, { value: LineValue; bySeries: (readonly number[])[] }>()
  for (const [index, lines] of linesOf.entries()) {
    for (const { value, data } of lines) {
      const one = getOrAdd(found, JSON.stringify(value), () => ({ value, bySeries: [] }))
      one.bySeries[index] = data
    }
  }
  const pace = new PacedLimits(limits)
  const lines = Array.from(found.values(), ({ value, bySeries }) => {
    const length = Math.max(...series.map((_, index) => bySeries[index]?.length ?? 0))
    const data = Array.from({ length }, (_, bucket) => {
      pace.count(series.length)
      return formula === null
        ? 0
        : formula(series.map((_, index) => bySeries[index]?.[bucket] ?? 0))
    })
    return { value, data, sum: sumOf(data) }
  })
  const isByNumber = (breakdown?.cohorts.length ?? 0) > 0
  return lines.sort((a, b) => compareValues(a, b, isByNumber))
}
