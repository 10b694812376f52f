/** The page "Web": visitors, their sources, and the pages that they view. */
import { useEffect } from 'preact/hooks'
import {
  AddFilter,
  query as address,
  askQuery,
  Button,
  Check,
  Command,
  compareFilter,
  compareFilterOf,
  comparison,
  dateRangeSoFar,
  Empty,
  exact,
  FilterChips,
  filtersOfAddress,
  hasEvent,
  isCompared,
  loaderLine,
  Menu,
  may,
  movedRange,
  Page,
  pageOf,
  project,
  RANGES,
  RangePicker,
  rangeOf,
  rangeValue,
  type Series,
  Shown,
  setQuery,
  today,
  useLoaded,
} from '../kit.ts'
import { Notes } from './notes/notes.tsx'
import type { Asked, Goal } from './web/asked.ts'
import { Details } from './web/details.tsx'
import { chosenGoal, GoalChoice } from './web/goal-choice.tsx'
import { ReportBox } from './web/report-card.tsx'
import { CARDS } from './web/reports.ts'
import { ShareWeb } from './web/share.tsx'
import { FigureTiles, type OverviewItem } from './web/tiles.tsx'
import { WebChart } from './web/web-chart.tsx'

/** The filter that leaves out events of bots. The daemon marks such events if bot detection is on. */
const NO_BOTS = { key: '$is_bot', operator: 'is_not_set', type: 'event' } as const
const ONLINE_EVERY_MS = 30_000
const ONLINE_MS = 300_000
const REPORTS = CARDS.flatMap(({ reports, more }) => [...reports, ...(more?.reports ?? [])])

/**
 * The page "Web". It shows visitors, views and sessions in a date range, a chart of them, and four cards with tables.
 */
export default function WebPage() {
  const hidesBots = address.value.get('bots') === 'hide'
  const properties = [...filtersOfAddress(), ...(hidesBots ? [NO_BOTS] : [])]
  const goalId = chosenGoal()
  const goal: Goal | null = goalId === null ? null : { conversionGoal: { actionId: goalId } }
  const asked: Asked = { dateRange: dateRangeSoFar.value, properties }
  // The tiles always show a change. If the reader has not chosen a comparison, it is the change since the previous
  // period.
  const compared = compareFilterOf(rangeOf(rangeValue.value), isCompared.value ? comparison.value : 'previous')
  const before = comparison.value === 'year' ? 'Year ago' : 'Previous period'
  const query = { kind: 'WebOverviewQuery', ...asked, ...(compared && { compareFilter: compared }) }
  const ask = (more: Goal | null, signal: AbortSignal) =>
    askQuery<readonly OverviewItem[]>({ ...query, ...more }, signal)
  // Persons can reach a goal without a pageview. The query with a goal counts them as visitors, too, so the number of
  // visitors is taken from the query without a goal. Its items come first in the result.
  const overview = useLoaded(`web ${project.value.id} ${JSON.stringify([query, goal])}`, async (signal) =>
    (await Promise.all([ask(null, signal), ...(goal ? [ask(goal, signal)] : [])])).flat(),
  )
  const { data: items, isStale } = overview
  // The tiles are drawn before their numbers arrive, so that the page does not move later.
  const isFirst = items === undefined && overview.isLoading
  const visitors = isStale ? null : (items?.[0]?.value ?? null)
  const shared = { asked: { ...asked, ...goal }, compareFilter: compareFilter.value, visitors }
  const detailed = REPORTS.find(({ by }) => by === address.value.get('details'))
  useKeys()
  const controls = (
    <>
      <Online />
      <AddFilter />
      {may('action:read') && <GoalChoice />}
      <RangePicker compares="year" />
      <ShareWeb properties={properties} goal={goal} />
      <Menu label="Options of the page">
        <Check label="Hide bots" value={hidesBots} change={(is) => setQuery({ bots: is ? 'hide' : null })} />
        <a href={pageOf('/settings')}>Edit goals</a>
      </Menu>
    </>
  )
  const isEmpty = items?.every(({ value }) => !value) === true && properties.length === 0
  return (
    <Page title="Web" aside={controls}>
      <FilterChips />
      {isEmpty && !isStale && <NoVisits />}
      <section class="card" aria-label="Figures">
        <Shown of={{ ...overview, data: items ?? [], isStale: isStale || isFirst }}>
          {() => <FigureTiles items={items} before={before} />}
        </Shown>
        <WebChart asked={asked} goal={goal} compareFilter={compared} before={before} />
        <Notes />
      </section>
      <div class="grid">
        {CARDS.map((card) => (
          <ReportBox key={card.parameter} card={card} {...shared} />
        ))}
      </div>
      {detailed && <Details key={detailed.by} report={detailed} {...shared} />}
    </Page>
  )
}

/**
 * Explains why a date range contains no visits: either there were visits at other times, or no visit was ever recorded.
 */
function NoVisits() {
  const { data } = useLoaded(`seen ${project.value.id}`, (signal) => hasEvent('$pageview', signal))
  if (data === undefined) return null
  if (data) {
    return (
      <Empty title="No visits in this range.">
        There are visits at other times. <Button press={() => setQuery({ range: 'all' })}>Show all time</Button>
      </Empty>
    )
  }
  return (
    <Empty title="No visits yet.">
      First run this command once, in the folder of Tenrec. It downloads the script that your pages load:
      <Command text="npx tenrec snippet install" />
      Then put this line into the head of your pages:
      <Command text={loaderLine(location.origin, project.value.api_token)} />
      The page <a href={pageOf('/setup')}>Setup</a> shows other ways to send visits, and waits for the first one.
    </Empty>
  )
}

/**
 * The keyboard shortcuts of the page. Letters choose a date range, the arrow keys move it, X switches the comparison,
 * and Escape removes the filters.
 */
function useKeys(): void {
  useEffect(() => {
    function press(event: KeyboardEvent) {
      const { key, target, ctrlKey, metaKey, altKey, shiftKey, defaultPrevented } = event
      if (defaultPrevented || ctrlKey || metaKey || altKey || shiftKey) return
      const isBusy = target instanceof Element && target.closest('input, textarea, select, dialog, [popover]') !== null
      if (isBusy || document.querySelector('dialog[open], :popover-open') !== null) return
      const letter = key.toLowerCase()
      const range = RANGES.find((one) => one.letter === letter)?.value
      const direction = { ArrowLeft: -1, ArrowRight: 1 }[key] as -1 | 1 | undefined
      const moved = direction === undefined ? null : movedRange(rangeValue.value, today.value, direction)
      if (range !== undefined) setQuery({ range })
      else if (moved !== null) setQuery({ range: moved })
      else if (letter === 'x') setQuery({ compare: isCompared.value ? null : '1' })
      else if (key === 'Escape' && filtersOfAddress().length > 0) setQuery({ filter: null })
      else return
      event.preventDefault()
    }
    addEventListener('keydown', press)
    return () => removeEventListener('keydown', press)
  }, [])
}

/**
 * Shows how many persons had an event in the last five minutes. The date range and the filters of the page do not
 * matter.
 */
function Online() {
  const ask = async (signal: AbortSignal) => {
    const query = {
      kind: 'TrendsQuery',
      series: [{ kind: 'EventsNode', event: null, math: 'dau' }],
      // In a query for a single number, the relative date `-5M` would include the whole day, so the exact moment is
      // sent.
      dateRange: { date_from: new Date(Date.now() - ONLINE_MS).toISOString(), explicitDate: true },
      trendsFilter: { display: 'BoldNumber' },
    }
    const [all] = await askQuery<readonly Series[]>(query, signal)
    return all?.aggregated_value ?? 0
  }
  const { data } = useLoaded(`online ${project.value.id}`, ask, { everyMs: ONLINE_EVERY_MS })
  return (
    <span class="badge" title="People with an event in the last five minutes" role="status">
      {exact(data)} now online
    </span>
  )
}
