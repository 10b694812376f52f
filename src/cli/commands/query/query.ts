/**
 * `tenrec query ...`: numbers of charts, and who is behind them, asked of a running daemon. The routes
 * answer persons; a number is the total of an answer of which one person is read.
 */
import { UsageError } from '../../../base/errors.ts'
import { idOption } from '../../lib/arguments.ts'
import type { Command, CommandInput } from '../../lib/command.ts'
import { printRows } from '../../lib/output.ts'
import { heights, printBars } from '../../lib/query-chart.ts'
import {
  QUESTION_OPTIONS,
  QueryClient,
  type QuestionParameters,
  seriesOf,
} from '../../lib/query-client.ts'
import { QUERY_STEPS_MAX } from '../../limits.ts'
import { datesOf, PERIOD_OPTIONS, type QueryRange, queryRange } from './query-periods.ts'

const STATUSES = ['new', 'returning', 'resurrecting', 'dormant'] as const
const PERIOD_NAMES = { day: 'Day', week: 'Week', month: 'Month' } as const

/** `tenrec query trends`. */
export const QUERY_TRENDS: Command = {
  name: 'query trends',
  sentence: 'Count the persons with an event, period by period; EVENT * is any.',
  operands: ['EVENT'],
  options: [...PERIOD_OPTIONS, ...QUESTION_OPTIONS],
  settings: ['dataDir'],
  async run(input) {
    const range = queryRange(input)
    const client = new QueryClient(input)
    const target = targetOf(input, range)
    if (input.options.has('persons')) {
      return client.printPersons('trends', { ...target, ...datesOf(range) })
    }
    const rows = await inOrder(range.starts, async (start) => {
      const day = { ...target, date_from: start, date_to: start }
      return { [range.interval]: start, persons: await client.total('trends', day) }
    })
    printBars(input.io, rows, 'persons', input.options.has('json'))
    return client.finish()
  },
}

/** `tenrec query funnel`. */
export const QUERY_FUNNEL: Command = {
  name: 'query funnel',
  sentence: 'Count the persons who get through steps, one event after the other.',
  operands: ['EVENT', '...'],
  options: [
    ...PERIOD_OPTIONS,
    { name: 'window', placeholder: 'DAYS', sentence: 'Time for all steps; without it 14 days.' },
    { name: 'order', placeholder: 'ORDER', sentence: 'ordered (without it), strict, unordered.' },
    {
      name: 'step',
      placeholder: 'N',
      sentence: 'With --persons: who got so far; -2 for who stopped before step 2.',
    },
    ...QUESTION_OPTIONS,
  ],
  settings: ['dataDir'],
  async run(input) {
    const parameters = funnelOf(input)
    const client = new QueryClient(input)
    const { operands } = input
    const isJson = input.options.has('json')
    if (input.options.has('persons')) {
      const step = input.options.get('step') ?? String(operands.length)
      if (!/^-?\d{1,2}$/.test(step)) throw new UsageError('--step must be the number of a step')
      return client.printPersons('funnel', { ...parameters, funnel_step: step })
    }
    let first: number | null = null
    const rows = await inOrder([...operands.keys()], async (index) => {
      const persons = await client.total('funnel', { ...parameters, funnel_step: index + 1 })
      first ??= persons
      const share = first === 0 ? 0 : Math.round((1000 * persons) / first) / 1000
      const event = operands[index] ?? ''
      return {
        ...{ step: index + 1, event, persons },
        share: isJson ? share : `${(100 * share).toFixed(1)} %`,
      }
    })
    printBars(input.io, rows, 'persons', isJson)
    return client.finish(rows.filter(({ persons }) => persons === 0).map(({ event }) => event))
  },
}

/** `tenrec query lifecycle`. */
export const QUERY_LIFECYCLE: Command = {
  name: 'query lifecycle',
  sentence: 'Count new, returning, resurrecting and dormant persons, period by period.',
  operands: ['EVENT'],
  options: [
    ...PERIOD_OPTIONS,
    {
      name: 'status',
      placeholder: 'STATUS',
      sentence: `With --persons, in the last period: ${STATUSES.join(', ')}.`,
    },
    ...QUESTION_OPTIONS,
  ],
  settings: ['dataDir'],
  async run(input) {
    const range = queryRange(input, true)
    const client = new QueryClient(input)
    const [event = ''] = input.operands
    const { interval } = range
    const shared = { events: [seriesOf(event)], interval, ...datesOf(range) }
    const asked = (start: string, status: string): QuestionParameters => {
      return { ...shared, target_date: start, lifecycle_type: status }
    }
    if (input.options.has('persons')) {
      return client.printPersons('lifecycle', asked(range.starts.at(-1) ?? '', statusOf(input)))
    }
    const rows = await inOrder(range.starts, async (start) => {
      const counts = await inOrder(STATUSES, async (status) => {
        return [status, await client.total('lifecycle', asked(start, status))] as const
      })
      return { [interval]: start, ...Object.fromEntries(counts) }
    })
    printBars(input.io, rows, 'returning', input.options.has('json'))
    return client.finish()
  },
}

/** `tenrec query retention`. */
export const QUERY_RETENTION: Command = {
  name: 'query retention',
  sentence: 'Count who comes back after an event, cohort by cohort.',
  operands: ['EVENT'],
  options: [
    ...PERIOD_OPTIONS,
    {
      name: 'returning',
      placeholder: 'EVENT',
      sentence: 'The event that shows a return; without it the same.',
    },
    { name: 'first-time', placeholder: null, sentence: 'Only who had the event never before.' },
    { name: 'cohort', placeholder: 'N', sentence: 'With --persons: which cohort, from 1.' },
    ...QUESTION_OPTIONS,
  ],
  settings: ['dataDir'],
  async run(input) {
    const range = queryRange(input)
    const client = new QueryClient(input)
    const parameters = retentionOf(input, range)
    if (input.options.has('persons')) {
      const cohort = idOption(input, 'cohort', 1)
      if (cohort > range.starts.length) throw new UsageError('there is no such --cohort')
      return client.printPersons('retention', { ...parameters, selected_interval: cohort - 1 })
    }
    const isJson = input.options.has('json')
    const isChart = input.io.machine.isTerminal && !isJson
    const rows = await inOrder([...range.starts.keys()], async (cohort) => {
      const asked = { ...parameters, selected_interval: cohort, limit: 1 }
      const { total, totals } = await client.page('retention', asked)
      const [, ...returned] = Array.isArray(totals) ? totals.map(Number) : []
      const persons = Number(total ?? 0)
      const shares = returned.map((count) => (persons === 0 ? 0 : count / persons))
      const start = range.starts[cohort] ?? ''
      const row = { [range.interval]: start, persons, returned }
      return isChart ? { ...row, chart: heights(shares) } : row
    })
    const shown = isJson ? rows : rows.map((row) => ({ ...row, returned: row.returned.join(' ') }))
    printRows(input.io, shown, isJson)
    return client.finish()
  },
}

/** `tenrec query stickiness`. */
export const QUERY_STICKINESS: Command = {
  name: 'query stickiness',
  sentence: 'Count persons by the number of periods in which they had an event.',
  operands: ['EVENT'],
  options: [
    ...PERIOD_OPTIONS,
    { name: 'periods', placeholder: 'N', sentence: 'With --persons: who was there so often.' },
    ...QUESTION_OPTIONS,
  ],
  settings: ['dataDir'],
  async run(input) {
    const range = queryRange(input)
    const client = new QueryClient(input)
    const target = { ...targetOf(input, range), ...datesOf(range) }
    if (input.options.has('persons')) {
      const stickiness_days = idOption(input, 'periods', 1)
      return client.printPersons('stickiness', { ...target, stickiness_days })
    }
    const rows = await inOrder([...range.starts.keys()], async (index) => {
      const asked = { ...target, stickiness_days: index + 1 }
      return { periods: index + 1, persons: await client.total('stickiness', asked) }
    })
    printBars(input.io, rows, 'persons', input.options.has('json'))
    return client.finish()
  },
}

function targetOf({ operands: [event = ''] }: CommandInput, { interval }: QueryRange) {
  const target = { entity_type: 'events', interval }
  return event === '*' ? target : { ...target, entity_id: event }
}

function funnelOf(input: CommandInput): QuestionParameters {
  const { operands, options } = input
  if (operands.length > QUERY_STEPS_MAX)
    throw new UsageError(`a funnel has ${QUERY_STEPS_MAX} steps at most`)
  const order = options.get('order')
  return {
    ...datesOf(queryRange(input)),
    events: operands.map((name, index) => seriesOf(name, index)),
    funnel_window_interval: idOption(input, 'window', 14),
    funnel_window_interval_unit: 'day',
    ...(order === undefined ? {} : { funnel_order_type: order }),
  }
}

function retentionOf(input: CommandInput, range: QueryRange): QuestionParameters {
  const [event = ''] = input.operands
  const { interval, starts } = range
  return {
    target_entity: seriesOf(event),
    returning_entity: seriesOf(input.options.get('returning') ?? event),
    retention_type: `retention_${input.options.has('first-time') ? 'first_time' : 'recurring'}`,
    period: PERIOD_NAMES[interval],
    total_intervals: starts.length,
    // The range of the route ends one period behind this day.
    date_to: starts.at(-1) ?? range.to,
  }
}

function statusOf({ options }: CommandInput): string {
  const status = options.get('status') ?? 'new'
  if (STATUSES.some((known) => known === status)) return status
  throw new UsageError(`--status must be one of ${STATUSES.join(', ')}`)
}

/** One request after the other: a daemon answers few questions at once. */
async function inOrder<T, R>(items: readonly T[], ask: (item: T) => Promise<R>): Promise<R[]> {
  const answers: R[] = []
  for (const item of items) answers.push(await ask(item))
  return answers
}
