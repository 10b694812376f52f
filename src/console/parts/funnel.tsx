/**
 * Shows the answers to funnel queries: the steps (also for each value of a breakdown), the time that people needed, and
 * the conversion over time.
 */
import { exact, percent, seconds } from '../base/format.ts'
import { counted } from '../base/labels.ts'
import type { Query, Series } from '../base/queries.ts'
import { Count, type OpenPersons, type PersonsUrl } from './behind.tsx'
import { Chart } from './chart.tsx'
import { ExportMenu } from './copy.tsx'
import { Empty } from './notice.tsx'
import { placeColor } from './place-color.ts'

interface Step {
  readonly name: string | null
  readonly custom_name: string | null
  readonly count: number
  readonly average_conversion_time: number | null
  readonly median_conversion_time: number | null
  readonly breakdown?: unknown
  readonly breakdown_value?: unknown
  readonly persons_urls?: readonly PersonsUrl[]
}

/**
 * How long people took to complete a funnel. Each bin contains the number of seconds at which it begins, and the number
 * of people in it.
 */
interface Times {
  readonly bins: readonly (readonly [seconds: number, count: number])[]
  readonly average_conversion_time: number | null
}

interface FunnelProps {
  readonly query: Query
  readonly results: readonly Step[] | readonly (readonly Step[])[] | readonly Series[] | Times
  readonly open: OpenPersons
}

/** Shows the answer to a funnel query, which has one of three forms. */
export function Funnel({ query, results, open }: FunnelProps) {
  if ('bins' in results) return <TimeToConvert times={results} query={query} />
  const [first] = results
  if (first === undefined) return null
  if (Array.isArray(first)) return <Steps query={query} funnels={results as readonly (readonly Step[])[]} open={open} />
  if ('data' in first) return <Conversions series={results as readonly Series[]} query={query} />
  return <Steps query={query} funnels={[results as readonly Step[]]} open={open} />
}

/** A step of a funnel, compared with the first step and with the previous step. */
interface Row {
  readonly step: Step
  readonly ofFirst: number
  readonly ofPrevious: number
  readonly dropped: number
}

interface StepsProps {
  readonly query: Query
  /** The steps of one funnel, or of one funnel for each value of a breakdown. */
  readonly funnels: readonly (readonly Step[])[]
  readonly open: OpenPersons
}

function Steps({ query, funnels, open }: StepsProps) {
  const rows = funnels.map(rowsOf)
  const isSplit = funnels.length > 1 || funnels[0]?.[0]?.breakdown_value !== undefined
  return (
    <>
      <ol class="funnel" aria-label="Funnel">
        {rows[0]?.map(({ step }, place) => (
          <li key={`${step.name} ${place}`}>
            <b>
              {place + 1}. <bdi>{nameOf(step)}</bdi>
            </b>
            {rows.map((steps, index) => {
              const row = steps[place]
              const value = isSplit ? breakdownWords(steps[0]?.step) : null
              return row && <StepRow key={index} row={row} place={place} index={index} value={value} open={open} />
            })}
          </li>
        ))}
      </ol>
      <ExportMenu name="funnel" rows={() => rows.flatMap((steps) => steps.map(csvRow))} query={query} />
    </>
  )
}

interface StepRowProps {
  readonly row: Row
  readonly place: number
  readonly index: number
  /** The value of the breakdown, or null if there is no breakdown. */
  readonly value: string | null
  readonly open: OpenPersons
}

function StepRow({ row: { step, ofFirst, ofPrevious, dropped }, place, index, value, open }: StepRowProps) {
  const name = value === null ? nameOf(step) : `${nameOf(step)}, ${value}`
  const [url] = step.persons_urls ?? []
  return (
    <div class="funnel-step" style={placeColor(index)}>
      <div class="funnel-words">
        <bdi>{value}</bdi>
        <span>
          <Count
            words={exact(step.count)}
            label={`Step ${place + 1}${value === null ? '' : `, ${value}`}: ${counted(step.count, 'person', 'people')}`}
            behind={{ title: `Step ${place + 1}: ${name}`, url }}
            open={open}
          />{' '}
          {step.count === 1 ? 'person' : 'people'}, {percent(ofFirst)}
        </span>
      </div>
      <div class="funnel-bar">
        <span style={{ width: `${ofFirst * 100}%` }} />
      </div>
      {place > 0 && (
        <small class="quiet">
          {percent(ofPrevious)} from previous step,{' '}
          {dropped > 0 ? (
            <Count
              words={`${exact(dropped)} dropped off`}
              behind={{ title: `Dropped off before step ${place + 1}: ${name}`, url: dropOffUrl(url, place) }}
              open={open}
            />
          ) : (
            'nobody dropped off'
          )}
          , median time {seconds(step.median_conversion_time)}
        </small>
      )}
    </div>
  )
}

function rowsOf(steps: readonly Step[]): readonly Row[] {
  const share = (part: number, whole = part) => (whole === 0 ? 0 : part / whole)
  return steps.map((step, place) => {
    const { count } = steps[place - 1] ?? step
    return {
      step,
      ofFirst: share(step.count, steps[0]?.count),
      ofPrevious: share(step.count, count),
      dropped: count - step.count,
    }
  })
}

/** Returns a step as a row for a file. */
function csvRow({ step, ofFirst, ofPrevious, dropped }: Row, place: number): object {
  return {
    step: place + 1,
    event: nameOf(step),
    ...(step.breakdown_value !== undefined && { value: breakdownWords(step) }),
    persons: step.count,
    percent_of_first_step: Math.round(ofFirst * 10_000) / 100,
    percent_of_previous_step: Math.round(ofPrevious * 10_000) / 100,
    dropped_off: dropped,
    average_seconds: step.average_conversion_time,
    median_seconds: step.median_conversion_time,
  }
}

function nameOf({ custom_name: custom, name }: Step): string {
  return custom ?? name ?? 'All events'
}

/** Returns the value of a breakdown in words. For a cohort, its name is in `breakdown`. */
function breakdownWords({ breakdown, breakdown_value: value }: Partial<Step> = {}): string {
  const found = Array.isArray(value) ? value : [breakdown ?? value]
  return found.map((one) => (one === 'Other' ? '(others)' : one ? String(one) : '(none)')).join(' / ')
}

/**
 * Returns the URL of the list of people who reached the previous step and did not reach this one. `place` is the index
 * of this step, from 0. A `funnel_step` of -n stands for the people who did exactly n - 1 steps: for `place` 1, it is
 * -2, and the list contains the people who did exactly 1 step. Source: docs/compatibility/analytics.md, "Funnels".
 */
function dropOffUrl(url: PersonsUrl, place: number): PersonsUrl {
  if (url == null) return url
  const changed = new URL(url.url, location.origin)
  if (!changed.searchParams.has('funnel_step')) return null
  changed.searchParams.set('funnel_step', String(-place - 1))
  return { url: changed.pathname + changed.search }
}

function TimeToConvert({ times: { bins, average_conversion_time: average }, query }: { times: Times; query: Query }) {
  if (bins.every(([, count]) => count === 0)) return <Empty title="Nobody completed the funnel in this range." />
  const labels = bins.map(([from], index) => {
    const to = bins[index + 1]?.[0]
    return to === undefined ? `from ${seconds(from)}` : `${seconds(from)} – ${seconds(to)}`
  })
  return (
    <>
      <p>
        On average, people took <b>{seconds(average)}</b>.
      </p>
      <Chart
        label="Time to convert"
        kind="bars"
        labels={labels}
        lines={[{ label: 'People', data: bins.map(([, count]) => count) }]}
        query={query}
      />
    </>
  )
}

function Conversions({ series, query }: { series: readonly Series[]; query: Query }) {
  const lines = series.map((one, place) => ({
    label: one.breakdown_value === undefined ? 'Converted' : breakdownWords(one),
    data: one.data,
    place,
  }))
  const percentOf = (value: number | null | undefined) => percent(value == null ? value : value / 100)
  const [first] = series
  return (
    <Chart
      label="Conversion over time"
      labels={first?.labels ?? []}
      days={first?.days}
      lines={lines}
      format={percentOf}
      query={query}
    />
  )
}
