/** Answers of queries as pictures: one for each kind, and every number a way to who is behind it. */
import { useState } from 'preact/hooks'
import { exact, percent, plain, seconds, short } from '../base/format.ts'
import type { Query, Series } from '../base/queries.ts'
import { type Behind, PersonsBehind, type PersonsUrl } from './behind.tsx'
import { Chart } from './chart.tsx'
import { TakeAlong } from './copy.tsx'
import { Empty } from './notice.tsx'
import { type Edge, Paths } from './paths.tsx'

type Open = (behind: Behind) => void

/** The answer of a query, by its kind. */
export function Answer({ query, results }: { readonly query: Query; readonly results: unknown }) {
  const [behind, setBehind] = useState<Behind | null>(null)
  const View = VIEWS[query.kind]
  const isEmpty = Array.isArray(results) && results.length === 0
  return (
    <>
      {View === undefined ? (
        <Empty title={`The console draws no ${query.kind}.`} />
      ) : isEmpty ? (
        <Empty title="No events in this range.">Choose a longer range, or other filters.</Empty>
      ) : (
        <View query={query} results={results as never} open={setBehind} />
      )}
      {behind === null ? null : <PersonsBehind behind={behind} close={() => setBehind(null)} />}
    </>
  )
}

interface ViewProps<Results> {
  readonly query: Query
  readonly results: Results
  readonly open: Open
}

const VIEWS: Readonly<Record<string, (props: ViewProps<never>) => preact.JSX.Element>> = {
  TrendsQuery: (props) => <Lines {...props} />,
  StickinessQuery: (props) => <Lines {...props} />,
  LifecycleQuery: (props) => <Lines {...props} />,
  FunnelsQuery: (props) => <Funnel {...props} />,
  RetentionQuery: (props) => <Retention {...props} />,
  PathsQuery: (props) => <PathsView {...props} />,
}

/** Series over time; lifecycles upon each other. A query for one number has a table of numbers. */
function Lines({ query, results, open }: ViewProps<readonly Series[]>) {
  const labels = results[0]?.labels ?? []
  const lines = results.map((series) => ({
    label: nameOf(series),
    data: series.data,
    isBefore: series.compare_label === 'previous',
  }))
  const rows = () => labels.map((label, index) => [label, ...lines.map(({ data }) => data[index])])
  if (results[0]?.aggregated_value != null) return <Numbers {...{ query, results, open }} />
  return (
    <>
      <Chart
        label={query.kind.replace('Query', '')}
        labels={labels}
        lines={lines}
        kind={query.kind === 'LifecycleQuery' ? 'bars' : 'lines'}
        open={(line, index) =>
          open({
            title: `${lines[line]?.label}, ${results[line]?.labels[index]}: ${exact(Math.abs(results[line]?.data[index] ?? 0))}`,
            url: results[line]?.persons_urls?.[index],
          })
        }
      />
      <TakeAlong name={query.kind} head={['', ...lines.map(({ label }) => label)]} rows={rows} query={query} />
    </>
  )
}

function Numbers({ results, open }: ViewProps<readonly Series[]>) {
  return (
    <ul class="numbers">
      {results.map((series, place) => (
        <li key={`${series.label} ${place}`}>
          <Count
            words={exact(series.aggregated_value)}
            behind={{ title: nameOf(series), url: series.persons_urls?.[0] }}
            open={open}
          />{' '}
          {nameOf(series)}
        </li>
      ))}
    </ul>
  )
}

/** What a series is called: its value of a breakdown, and the period before. */
function nameOf({ label, compare_label: period }: Series): string {
  const words = label
    .replace('$$_posthog_breakdown_null_$$', '(none)')
    .replace('$$_posthog_breakdown_other_$$', '(others)')
  return period === 'previous' ? `${words}, period before` : words
}

/** A number that opens who is behind it. */
function Count({ words, behind, open }: { readonly words: string; readonly behind: Behind; readonly open: Open }) {
  return (
    <button type="button" class="link" onClick={() => open(behind)}>
      {words}
    </button>
  )
}

interface Step {
  readonly name: string
  readonly custom_name: string | null
  readonly count: number
  readonly median_conversion_time: number | null
  readonly persons_urls?: readonly PersonsUrl[]
}

function Funnel({ query, results, open }: ViewProps<readonly Step[]>) {
  const first = results[0]?.count ?? 0
  const head = ['Step', 'Persons', 'Of all', 'Of those before', 'Median time']
  const rows = results.map((step, place) => {
    const before = results[place - 1]?.count ?? step.count
    return {
      step,
      share: first === 0 ? 0 : step.count / first,
      ofBefore: before === 0 ? 0 : step.count / before,
    }
  })
  return (
    <>
      <ol class="funnel" aria-label="Funnel">
        {rows.map(({ step, share, ofBefore }, place) => (
          <li key={`${step.name} ${place}`}>
            <div class="funnel-words">
              <b>
                {place + 1}. {step.custom_name ?? step.name ?? 'every event'}
              </b>
              <span>
                <Count
                  words={exact(step.count)}
                  behind={{ title: `Step ${place + 1}: ${step.name}`, url: step.persons_urls?.[0] }}
                  open={open}
                />{' '}
                persons, {percent(share)}
              </span>
            </div>
            <div class="funnel-bar">
              <span style={{ width: `${share * 100}%` }} />
            </div>
            {place === 0 ? null : (
              <small class="quiet">
                {percent(ofBefore)} of those before; {exact((results[place - 1]?.count ?? 0) - step.count)} left; median{' '}
                {seconds(step.median_conversion_time)}
              </small>
            )}
          </li>
        ))}
      </ol>
      <TakeAlong
        name="funnel"
        head={head}
        rows={() =>
          rows.map(({ step, share, ofBefore }) => [step.name, step.count, share, ofBefore, step.median_conversion_time])
        }
        query={query}
      />
    </>
  )
}

interface Cohort {
  readonly label: string
  readonly date: string
  readonly values: readonly {
    readonly count: number
    readonly label: string
    readonly persons_url?: PersonsUrl
  }[]
}

function Retention({ query, results, open }: ViewProps<readonly Cohort[]>) {
  const head = ['Came', 'Persons', ...(results[0]?.values.map(({ label }) => label) ?? [])]
  return (
    <>
      {/* biome-ignore lint/a11y/useSemanticElements: what scrolls must be reached by keys. */}
      <div class="table" role="region" aria-label="Retention" tabIndex={0}>
        <table class="heat">
          <thead>
            <tr>
              {head.map((words) => (
                <th key={words} scope="col" class={words === 'Came' ? '' : 'number'}>
                  {words}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {results.map((row, index) => (
              <tr key={row.date}>
                <th scope="row">{row.date.slice(0, 10)}</th>
                <td class="number">{exact(row.values[0]?.count)}</td>
                {row.values.slice(0, results.length - index).map(({ count, label, persons_url: url }) => (
                  <HeatCell
                    key={label}
                    count={count}
                    size={row.values[0]?.count ?? 0}
                    open={() => open({ title: `${row.date.slice(0, 10)}, ${label}: ${count}`, url })}
                  />
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <TakeAlong
        name="retention"
        head={head}
        rows={() => results.map(({ date, values }) => [date, values[0]?.count, ...values.map(({ count }) => count)])}
        query={query}
      />
    </>
  )
}

/** How strong the colour behind the largest share is: text stays readable on it, also in the dark. */
const HEAT_PERCENT_MAX = 45

function HeatCell({ count, size, open }: { readonly count: number; readonly size: number; readonly open: () => void }) {
  const share = size === 0 ? 0 : count / size
  return (
    <td
      class="number"
      style={{ '--share': `${Math.round(share * HEAT_PERCENT_MAX)}%` }}
      title={`${exact(count)} persons`}
    >
      <button type="button" class="link" onClick={open} aria-label={`${percent(share, 0)}, ${exact(count)} persons`}>
        {size === 0 ? '–' : percent(share, 0)}
      </button>
    </td>
  )
}

function PathsView({ query, results, open }: ViewProps<readonly Edge[]>) {
  const head = ['From', 'To', 'Times', 'Mean time in ms']
  return (
    <>
      <Paths
        edges={results}
        open={({ source, target, value, persons_url: url }) =>
          open({ title: `${source} → ${target}: ${short(value)}`, url })
        }
      />
      <TakeAlong
        name="paths"
        head={head}
        rows={() =>
          results.map(({ source, target, value, average_conversion_time: time }) => [
            plain(source),
            plain(target),
            value,
            time,
          ])
        }
        query={query}
      />
    </>
  )
}
