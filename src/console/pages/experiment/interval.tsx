/**
 * The picture of a confidence interval: a bar from the lower end to the upper end of the change, and a line where there
 * is no change.
 */
import { changeText, intervalText, type VariantResult } from './words.ts'

const WIDTH = 240
const HEIGHT = 28
const EDGE = 6

/**
 * Returns the largest change, upward or downward, in the intervals of some variants. All their pictures use it as
 * scale, so that they can be compared.
 */
export function scaleOf(variants: readonly VariantResult[]): number {
  const ends = variants.flatMap(({ always_valid: interval }) => {
    const lift = interval?.lift
    return lift ? [Math.abs(lift.low), Math.abs(lift.high)] : []
  })
  return Math.max(0.01, ...ends)
}

interface IntervalProps {
  readonly variant: VariantResult
  /** The relative change at both edges of the picture. */
  readonly scale: number
  readonly isLessBetter: boolean
}

/** Draws the always-valid interval of a variant. */
export function Interval({ variant, scale, isLessBetter }: IntervalProps) {
  const lift = variant.always_valid?.lift
  if (!lift) return <span class="quiet">{intervalText(variant)}</span>
  const at = (change: number) => EDGE + ((change / scale + 1) / 2) * (WIDTH - 2 * EDGE)
  const isSure = lift.low > 0 || lift.high < 0
  const mood = !isSure ? '' : lift.low > 0 === isLessBetter ? 'worse' : 'better'
  return (
    <div class={`interval ${mood}`}>
      <b>{changeText(lift.estimate)}</b>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={intervalText(variant)}>
        <line class="zero" x1={at(0)} x2={at(0)} y1="0" y2={HEIGHT} />
        <rect x={at(lift.low)} y="9" width={Math.max(1, at(lift.high) - at(lift.low))} height="10" rx="5" />
        <circle cx={at(lift.estimate)} cy="14" r="5" />
      </svg>
      <small>{intervalText(variant)}</small>
    </div>
  )
}
