/**
 * The parts of the bench `queries` that have no baseline: the queries that a page of a web site sends at once (figures
 * and eight tables over 30 days with a million events), and the list of the property names of a project.
 */
import { type Daemon, PROJECT_KEY } from '../daemon.ts'
import type { BenchContext } from '../harness.ts'
import { median } from '../samples.ts'
import { fillAll } from './analytics-fill.ts'
import { PROJECT_ID } from './analytics-store.ts'
import { WORKLOAD_DAYS, WORKLOAD_START_MS } from './analytics-workload.ts'
import { Asker } from './query-asker.ts'

const DAY_MS = 86_400_000
const DAYS = 30
/** The 30 days of the queries contain a million of these events. */
const EVENTS = 3_000_000
const TABLES = [
  'Page',
  'InitialPage',
  'ExitPage',
  'InitialChannelType',
  'InitialReferringDomain',
  'Browser',
  'DeviceType',
  'Country',
]
const FIRST_MS_MAX = 300
const AGAIN_MS_MAX = 20
const AGAIN_ASKED = 20
const PROPERTIES = 2000
const PROPERTIES_PER_EVENT = 100
const NAMES_MS_MAX = 20

/**
 * Reports the time that the nine queries take together, one after the other and all at once. Both are measured for the
 * first and for the second time.
 */
export async function measureWeb(context: BenchContext): Promise<void> {
  const { dataDir } = await fillAll(context, context.events(40_000, EVENTS), [])
  const first: number[] = []
  const again: number[] = []
  let cpuMs = 0
  for (let round = 0; round < context.rounds(3); round++) {
    const daemon = await context.startDaemon({ dataDir })
    const asker = new Asker(daemon)
    const all = () => Promise.all(webQueries().map((query) => asker.ask(query)))
    // Before the measurement, all threads have started and answered a query.
    await Promise.all(
      [1, 2].map(() => asker.ask({ kind: 'EventsQuery', select: ['event'], limit: 1 })),
    )
    const before = daemon.cpuSeconds()
    first.push(await timeMs(all))
    cpuMs += (daemon.cpuSeconds() - before) * 1000
    for (let asked = 0; asked < AGAIN_ASKED; asked++) again.push(await timeMs(all))
    asker.close()
    await daemon.stop()
  }
  const what = `web overview and ${TABLES.length} tables of ${DAYS} days`
  context.report({
    figure: `${what}, asked first after a start`,
    value: median(first),
    unit: 'ms',
    target: { of: 'value', bound: 'at most', limit: FIRST_MS_MAX },
    note: `median of ${first.length}, nothing decoded; processor time ${(cpuMs / first.length).toFixed(0)} ms`,
  })
  context.report({
    figure: `${what}, asked again`,
    value: median(again),
    unit: 'ms',
    target: { of: 'value', bound: 'at most', limit: AGAIN_MS_MAX },
    note: `median of ${again.length}`,
  })
}

/** Reports the time of a page of names in a project with many names. The names arrive with a few new events. */
export async function measureNames(context: BenchContext, daemon: Daemon): Promise<void> {
  const batch = Array.from({ length: PROPERTIES / PROPERTIES_PER_EVENT }, (_, event) => {
    const names = Array.from({ length: PROPERTIES_PER_EVENT }, (_, index): [string, number] => {
      return [`property ${event * PROPERTIES_PER_EVENT + index}`, index]
    })
    return { event: 'named', distinct_id: 'names', properties: Object.fromEntries<number>(names) }
  })
  const body = JSON.stringify({ api_key: PROJECT_KEY, batch })
  const response = await fetch(`${daemon.url}/batch/`, { method: 'POST', body })
  await response.arrayBuffer()
  if (response.status !== 200) throw new Error(`/batch/ answered ${response.status}`)
  await daemon.drain()
  const asker = new Asker(daemon)
  const path = `/api/projects/${PROJECT_ID}/property_definitions/?search=property&limit=100`
  const list = async (): Promise<void> => {
    const { count } = JSON.parse(await asker.get(path)) as { readonly count: number }
    if (count < PROPERTIES) throw new Error(`only ${count} names are listed`)
  }
  const firstMs = await timeMs(list)
  const times: number[] = []
  for (let asked = 0; asked < AGAIN_ASKED; asked++) times.push(await timeMs(list))
  asker.close()
  context.report({
    figure: `a page of the names of ${PROPERTIES} properties`,
    value: median(times),
    unit: 'ms',
    target: { of: 'value', bound: 'at most', limit: NAMES_MS_MAX },
    note: `median of ${times.length}; the first one ${firstMs.toFixed(1)} ms`,
  })
}

function webQueries(): readonly object[] {
  const dateOf = (day: number) =>
    new Date(WORKLOAD_START_MS + day * DAY_MS).toISOString().slice(0, 10)
  const dateRange = { date_from: dateOf(WORKLOAD_DAYS - DAYS), date_to: dateOf(WORKLOAD_DAYS - 1) }
  const rest = { dateRange, properties: [] }
  return [
    { kind: 'WebOverviewQuery', ...rest },
    ...TABLES.map((breakdownBy) => ({
      kind: 'WebStatsTableQuery',
      breakdownBy,
      ...rest,
      limit: 10,
      includeBounceRate: breakdownBy === 'Page' || breakdownBy === 'InitialPage',
    })),
  ]
}

async function timeMs(action: () => Promise<unknown>): Promise<number> {
  const startMs = performance.now()
  await action()
  return performance.now() - startMs
}
