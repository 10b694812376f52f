/** The field for the date range of a page. The URL contains the range. */
import { setQuery } from '../base/address.ts'
import { customDays, daysText, movedRange, RANGES, rangeOf } from '../base/days.ts'
import { comparison, rangeValue, today } from '../base/range.ts'
import { project } from '../base/session.ts'
import { Button, Check, Choice } from './fields.tsx'

/** The choices of a comparison. The URL contains their values. */
const COMPARISONS = [
  ['', 'No comparison'],
  ['1', 'Previous period'],
  ['year', 'Year ago'],
] as const

/**
 * The field for the date range. If `compares` is true, a switch beside the field turns the comparison with the previous
 * period on. If `compares` is `year`, a menu offers the comparison with the previous period or the previous year. The
 * key `.` moves the focus to the field.
 */
export function RangePicker({ compares = false }: { compares?: boolean | 'year' }) {
  const value = rangeValue.value
  const custom = customDays(value)
  const range = rangeOf(value)
  const known = RANGES.some((one) => one.value === range.value)
  // A URL may contain a range that the menu does not offer, such as 90 days.
  const others = known || custom !== null ? [] : [[range.value, range.label] as const]
  const options = [...RANGES.map((one) => [one.value, one.label] as const), ...others]
  const days = range.days(today.value)
  return (
    <div class="row" id="range">
      <Mover direction={-1} label="Previous period" words="‹" />
      <Choice
        label="Time range"
        isQuiet
        value={custom === null ? range.value : 'custom'}
        options={[...options, ['custom', 'Custom range']]}
        change={(chosen) => choose(chosen === 'custom' ? customRange() : chosen)}
      />
      <Mover direction={1} label="Next period" words="›" />
      {custom === null ? (
        days && <small title={`Days in the time zone ${project.value.timezone}`}>{daysText(days)}</small>
      ) : (
        <>
          <Day label="From" value={custom.from} change={(day) => choose(`${day}..${custom.to}`)} />
          <Day label="To" value={custom.to} change={(day) => choose(`${custom.from}..${day}`)} />
        </>
      )}
      {compares === true && (
        <Check
          label="Compare"
          value={comparison.value !== 'none'}
          change={(is) => setQuery({ compare: is ? '1' : null })}
        />
      )}
      {compares === 'year' && (
        <Choice
          label="Compare with"
          isQuiet
          value={{ none: '', previous: '1', year: 'year' }[comparison.value]}
          options={COMPARISONS}
          change={(chosen) => setQuery({ compare: chosen })}
        />
      )}
    </div>
  )
}

/** Writes a range to the URL. A list then shows its first page. */
function choose(range: string | null): void {
  setQuery({ range, cursor: null })
}

/** A button that moves the range to the previous or the next period. */
function Mover({ direction, label, words }: { direction: -1 | 1; label: string; words: string }) {
  const moved = movedRange(rangeValue.value, today.value, direction)
  return (
    <Button press={() => choose(moved)} disabled={moved === null} aria-label={label} title={label}>
      {words}
    </Button>
  )
}

function Day({ label, value, change }: { label: string; value: string; change: (day: string) => void }) {
  const set = (day: string) => day !== '' && change(day)
  return (
    <input
      type="date"
      aria-label={label}
      title={`A day in the time zone ${project.value.timezone}`}
      value={value}
      max={today.value}
      onChange={(event) => set(event.currentTarget.value)}
    />
  )
}

/**
 * Returns the range that is chosen at first when the reader wants a custom range: the days of the current range, or
 * else the last 30 days.
 */
function customRange(): string {
  const days = rangeOf(rangeValue.value).days(today.value) ?? rangeOf('30d').days(today.value)
  return `${days?.from}..${days?.to}`
}
