/** Form fields for the percentages of a flag: a slider with its number, and a bar with the shares of all variants. */
import { useRef } from 'preact/hooks'
import { TextField } from '../../kit.ts'
import { movedBorder, type Variant } from './draft.ts'

interface ShareProps {
  readonly label?: string
  readonly value: number
  readonly change: (share: number) => void
}

/** A field for a percentage, which can be set with a slider or as a number. */
export function Share({ label = 'Share in %', value, change }: ShareProps) {
  const set = (words: string) => change(Math.max(0, Math.min(100, Number(words))))
  return (
    <div class="share">
      <input
        type="range"
        min={0}
        max={100}
        aria-label={`${label}, slider`}
        value={value}
        onInput={({ currentTarget }) => set(currentTarget.value)}
      />
      <TextField isNarrow label={label} type="number" value={String(value)} change={set} />
    </div>
  )
}

interface BarProps {
  readonly variants: readonly Variant[]
  /** Called when a border between two variants is moved. Absent if the borders cannot be moved. */
  readonly change?: (variants: readonly Variant[]) => void
}

/** For each key, by how many percent it moves a border. */
const STEPS: Readonly<Record<string, number>> = { ArrowLeft: -1, ArrowRight: 1, PageDown: -10, PageUp: 10 }

/**
 * A bar with a part for each variant. The borders between the parts can be dragged, or moved with the keys in `STEPS`.
 */
export function VariantBar({ variants, change }: BarProps) {
  const bar = useRef<HTMLDivElement>(null)
  function drag(event: PointerEvent, at: number) {
    if (!(event.buttons & 1) || bar.current === null) return
    const { left, width } = bar.current.getBoundingClientRect()
    const before = variants.slice(0, at).reduce((sum, one) => sum + one.rollout_percentage, 0)
    const share = Math.round(((event.clientX - left) / width) * 100) - before
    change?.(movedBorder(variants, at, share - (variants[at]?.rollout_percentage ?? 0)))
  }
  return (
    <div class="variant-bar" ref={bar}>
      {variants.map(({ key, rollout_percentage: share }, at) => (
        <>
          <span
            key={key}
            class="variant-part"
            style={{ flexGrow: share, '--color': `var(--series-${at % 8})` }}
            title={`${key} ${share} %`}
          />
          {change && at < variants.length - 1 && (
            <hr
              key={`border ${key}`}
              class="variant-border"
              tabIndex={0}
              aria-orientation="vertical"
              aria-label={`Border between ${key} and ${variants[at + 1]?.key}`}
              aria-valuemin={0}
              aria-valuemax={100}
              aria-valuenow={share}
              onPointerDown={({ currentTarget, pointerId }) => currentTarget.setPointerCapture(pointerId)}
              onPointerMove={(event) => drag(event, at)}
              onKeyDown={(event) => {
                const step = STEPS[event.key]
                if (step === undefined) return
                event.preventDefault()
                change(movedBorder(variants, at, step))
              }}
            />
          )}
        </>
      ))}
    </div>
  )
}
