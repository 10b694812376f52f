/** Shows series that consist of a single number each: as a large number, as bars, as a pie, or as a table. */
import { exact, percent } from '../base/format.ts'
import type { Query, Series } from '../base/queries.ts'
import { Count, type OpenPersons } from './behind.tsx'
import { ExportMenu } from './copy.tsx'
import { placeColor } from './place-color.ts'
import { COLORS } from './series-look.ts'
import { Bar, Table } from './table.tsx'

interface ValuesProps {
  readonly query: Query
  readonly results: readonly Series[]
  readonly open: OpenPersons
}

/** Returns true if each series is a single number. */
export function isValues(results: readonly Series[]): boolean {
  return results[0]?.aggregated_value !== undefined && results[0]?.aggregated_value !== null
}

/** Shows the numbers in the form that the query asks for. */
export function Values({ query, results, open }: ValuesProps) {
  const { display } = (query['trendsFilter'] ?? {}) as { readonly display?: string }
  const rows = () => results.map((one) => ({ series: nameOf(one), value: one.aggregated_value ?? 0 }))
  return (
    <>
      {display === 'BoldNumber' && <Numbers results={results} open={open} />}
      {display === 'ActionsPie' && <Pie results={results} />}
      {display !== 'BoldNumber' && <ValueTable results={results} open={open} isPie={display === 'ActionsPie'} />}
      <ExportMenu name="numbers" rows={rows} query={query} />
    </>
  )
}

function Numbers({ results, open }: Pick<ValuesProps, 'results' | 'open'>) {
  return (
    <ul class="numbers">
      {results.map((one, place) => (
        <li key={`${one.label} ${place}`}>
          <b>
            <CountOf one={one} open={open} />
          </b>
          <bdi>{nameOf(one)}</bdi>
          <ChangeSince results={results} one={one} />
        </li>
      ))}
    </ul>
  )
}

/** Shows the change of a number since the period with which it is compared. */
function ChangeSince({ results, one }: { results: readonly Series[]; one: Series }) {
  const before = results.find((other) => {
    return other.compare_label === 'previous' && other.label === one.label && other !== one
  })
  if (one.compare_label !== 'current' || !before?.aggregated_value) return null
  const change = (one.aggregated_value ?? 0) / before.aggregated_value - 1
  return (
    <span class="change">
      {' '}
      {change > 0 ? '▲' : change < 0 ? '▼' : ''} {percent(Math.abs(change), 0)}
    </span>
  )
}

function CountOf({ one, open }: { one: Series; open: OpenPersons }) {
  const words = exact(one.aggregated_value)
  return <Count words={words} behind={{ title: `${nameOf(one)}: ${words}`, url: one.persons_urls?.[0] }} open={open} />
}

function ValueTable({ results, open, isPie }: Pick<ValuesProps, 'results' | 'open'> & { isPie: boolean }) {
  const most = Math.max(...results.map(({ aggregated_value: value }) => value ?? 0))
  const sum = results.reduce((all, { aggregated_value: value }) => all + (value ?? 0), 0)
  return (
    <Table
      label="Numbers"
      rows={results}
      keyOf={(one) => results.indexOf(one)}
      columns={[
        [
          'Series',
          (one) => (
            <Bar share={most === 0 ? 0 : (one.aggregated_value ?? 0) / most}>
              {isPie && results.indexOf(one) < COLORS && (
                <span class="swatch" style={placeColor(results.indexOf(one))} aria-hidden="true" />
              )}
              <bdi>{nameOf(one)}</bdi>
            </Bar>
          ),
        ],
        ['Number', (one) => <CountOf one={one} open={open} />, 'number'],
        ...(isPie
          ? [['Share', (one: Series) => percent((one.aggregated_value ?? 0) / (sum || 1)), 'number'] as const]
          : []),
      ]}
    />
  )
}

const PIE_SIZE = 200

/** A ring chart with a part for each number. The table beside it contains the same numbers. */
function Pie({ results }: { results: readonly Series[] }) {
  const numbers = results.map(({ aggregated_value: value }) => Math.max(0, value ?? 0))
  const sum = numbers.reduce((all, one) => all + one, 0)
  const [middle, radius, width] = [PIE_SIZE / 2, PIE_SIZE * 0.36, PIE_SIZE * 0.2]
  const length = 2 * Math.PI * radius
  let before = 0
  const label = results.map((one, place) => `${nameOf(one)} ${percent((numbers[place] ?? 0) / (sum || 1))}`).join(', ')
  return (
    <svg class="pie" viewBox={`0 0 ${PIE_SIZE} ${PIE_SIZE}`} role="img" aria-label={`Shares: ${label}`}>
      {results.map((one, place) => {
        const share = sum === 0 ? 0 : (numbers[place] ?? 0) / sum
        const start = before
        before += share
        return (
          <circle
            key={`${one.label} ${place}`}
            style={placeColor(place)}
            cx={middle}
            cy={middle}
            r={radius}
            stroke-width={width}
            stroke-dasharray={`${Math.max(0, share * length - 1)} ${length}`}
            stroke-dashoffset={-start * length}
            transform={`rotate(-90 ${middle} ${middle})`}
          />
        )
      })}
    </svg>
  )
}

function nameOf({ label, compare_label: period }: Series): string {
  const words = label
    .replace('$$_posthog_breakdown_null_$$', '(none)')
    .replace('$$_posthog_breakdown_other_$$', '(others)')
  return period === 'previous' ? `${words}, previous period` : words
}
