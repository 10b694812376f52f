/** The picker of the time range, which is stored in the URL. */
import { setQuery } from '../base/address.ts'
import { isCompared, RANGES, rangeValue } from '../base/range.ts'
import { Check, Choice } from './fields.tsx'

/** Shows the range and, with `compares`, a switch for the previous period. The key `.` focuses it. */
export function RangePicker({ compares = false }: { compares?: boolean }) {
  const value = rangeValue.value
  const [from = '', to] = value.split('..')
  return (
    <div class="row" id="range">
      <Choice
        label="Time range"
        isQuiet
        value={to === undefined ? value : 'custom'}
        options={[...RANGES, ['custom', 'From … to …']]}
        change={(chosen) => setQuery({ range: chosen === 'custom' ? customRange() : chosen })}
      />
      {to !== undefined && (
        <>
          <Day label="From" value={from} change={(day) => setQuery({ range: `${day}..${to}` })} />
          <Day label="To" value={to} change={(day) => setQuery({ range: `${from}..${day}` })} />
        </>
      )}
      {compares && (
        <Check label="Compare" value={isCompared.value} change={(is) => setQuery({ compare: is ? '1' : null })} />
      )}
    </div>
  )
}

function Day({ label, value, change }: { label: string; value: string; change: (day: string) => void }) {
  const set = (day: string) => day !== '' && change(day)
  return <input type="date" aria-label={label} value={value} onChange={(event) => set(event.currentTarget.value)} />
}

/** Returns the last 30 days, as the initial custom range. */
function customRange(): string {
  const day = (daysAgo: number) => new Date(Date.now() - daysAgo * 86_400_000).toISOString().slice(0, 10)
  return `${day(30)}..${day(0)}`
}
