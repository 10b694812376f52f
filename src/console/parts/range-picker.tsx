/** The choice of the time range, which lives in the address. */
import { setQuery } from '../base/address.ts'
import { isCompared, RANGES, rangeValue } from '../base/range.ts'
import { Check, Choice } from './fields.tsx'

/** Range and, with `compares`, the period before. `.` on the keyboard goes here. */
export function RangePicker({ compares = false }: { readonly compares?: boolean }) {
  const value = rangeValue.value
  const [from, to] = value.split('..')
  const isCustom = to !== undefined
  return (
    <div class="range" id="range">
      <Choice
        label="Time range"
        isQuiet
        value={isCustom ? 'custom' : value}
        options={[...RANGES, ['custom', 'From … to …']]}
        change={(chosen) => setQuery({ range: chosen === 'custom' ? customRange() : chosen })}
      />
      {isCustom ? (
        <>
          <Day label="From" value={from ?? ''} change={(day) => setQuery({ range: `${day}..${to}` })} />
          <Day label="To" value={to} change={(day) => setQuery({ range: `${from}..${day}` })} />
        </>
      ) : null}
      {compares ? (
        <Check label="Compare" value={isCompared.value} change={(is) => setQuery({ compare: is ? '1' : null })} />
      ) : null}
    </div>
  )
}

function Day({
  label,
  value,
  change,
}: {
  readonly label: string
  readonly value: string
  readonly change: (day: string) => void
}) {
  return (
    <input
      type="date"
      aria-label={label}
      value={value}
      onChange={({ currentTarget }) => {
        if (currentTarget.value !== '') change(currentTarget.value)
      }}
    />
  )
}

/** The last month, to begin with. */
function customRange(): string {
  const day = (daysAgo: number) => new Date(Date.now() - daysAgo * 86_400_000).toISOString().slice(0, 10)
  return `${day(30)}..${day(0)}`
}
