/**
 * `tenrec query ...`: numbers of charts, and who is behind them, asked of a running daemon. The routes
 * answer persons; a number is the total of an answer of which one person is read.
 */
import { UsageError } from '../../../base/errors.ts'
import { given, type JsonObject } from '../../../base/json.ts'
import type { CommandDescription, CommandInput, Commands } from '../../lib/command.ts'
import { print } from '../../lib/output.ts'
import { heights, withBars } from '../../lib/query-chart.ts'
import { QueryClient, questionOptions, seriesOf } from '../../lib/query-client.ts'
import { QUERY_STEPS_MAX } from '../../limits.ts'
import { datesOf, PERIOD_OPTIONS, type QueryRange, queryRange } from './query-periods.ts'

const STATUSES = ['new', 'returning', 'resurrecting', 'dormant'] as const
const PERIOD_NAMES = { day: 'Day', week: 'Week', month: 'Month' } as const

/** A question as a command: the route has the same name. */
interface Question extends Omit<CommandDescription, 'run'> {
  readonly isMonday?: boolean
  /** What the route is asked with `--persons`. Throws `UsageError`. */
  persons(input: CommandInput, range: QueryRange): JsonObject
  /** The rows that are printed without it. Throws as `QueryClient`. */
  rows(client: QueryClient, input: CommandInput, range: QueryRange): Promise<readonly JsonObject[]>
  /** Which column has bars. */
  readonly column?: string
  /** Names of events that nobody had; without it those are asked for that can be. */
  missed?(rows: readonly JsonObject[]): readonly string[]
}

const QUESTIONS: readonly Question[] = [
  {
    name: 'trends',
    sentence: 'Count the persons with an event, period by period; EVENT * is any.',
    persons: (input, range) => ({ ...targetOf(input, range), ...datesOf(range) }),
    rows: (client, input, range) =>
      inOrder(range.starts, async (start) => {
        const day = { ...targetOf(input, range), date_from: start, date_to: start }
        return { [range.interval]: start, persons: await client.total(day) }
      }),
    column: 'persons',
  },
  {
    name: 'funnel',
    sentence: 'Count the persons who get through steps, one event after the other.',
    operands: ['EVENT', '...'],
    options: {
      '--window DAYS': 'Time for all steps; without it 14 days.',
      '--order ORDER': 'ordered (without it), strict, unordered.',
      '--step N': 'With --persons: who got so far; -2 for who stopped before step 2.',
    },
    persons(input, range) {
      const step = input.text('step') ?? String(input.operands.length)
      if (!/^-?\d{1,2}$/.test(step)) throw new UsageError('--step must be the number of a step')
      return { ...funnelOf(input, range), funnel_step: step }
    },
    rows(client, input, range) {
      const parameters = funnelOf(input, range)
      let first: number | null = null
      return inOrder([...input.operands.entries()], async ([index, event]) => {
        const persons = await client.total({ ...parameters, funnel_step: index + 1 })
        first ??= persons
        const share = first === 0 ? 0 : Math.round((1000 * persons) / first) / 1000
        const shown = input.isJson ? share : `${(100 * share).toFixed(1)} %`
        return { step: index + 1, event, persons, share: shown }
      })
    },
    column: 'persons',
    missed: (rows) => rows.filter(({ persons }) => persons === 0).map(({ event }) => String(event)),
  },
  {
    name: 'lifecycle',
    sentence: 'Count new, returning, resurrecting and dormant persons, period by period.',
    options: {
      '--status STATUS': `With --persons, in the last period: ${STATUSES.join(', ')}.`,
    },
    isMonday: true,
    persons(input, range) {
      const status = input.text('status') ?? 'new'
      if (!STATUSES.some((known) => known === status)) {
        throw new UsageError(`--status must be one of ${STATUSES.join(', ')}`)
      }
      return lifecycleOf(input, range, range.starts.at(-1) ?? '', status)
    },
    rows: (client, input, range) =>
      inOrder(range.starts, async (start) => {
        const counts = await inOrder(STATUSES, async (status) => {
          return [status, await client.total(lifecycleOf(input, range, start, status))] as const
        })
        return { [range.interval]: start, ...Object.fromEntries(counts) }
      }),
    column: 'returning',
  },
  {
    name: 'retention',
    sentence: 'Count who comes back after an event, cohort by cohort.',
    options: {
      '--returning EVENT': 'The event that shows a return; without it the same.',
      '--first-time': 'Only who had the event never before.',
      '--cohort N': 'With --persons: which cohort, from 1.',
    },
    persons(input, range) {
      const cohort = input.id('cohort', 1)
      if (cohort > range.starts.length) throw new UsageError('there is no such --cohort')
      return { ...retentionOf(input, range), selected_interval: cohort - 1 }
    },
    rows: (client, input, range) =>
      inOrder([...range.starts.entries()], async ([selected_interval, start]) => {
        const asked = { ...retentionOf(input, range), selected_interval, limit: 1 }
        const { total, totals } = await client.page(asked)
        const [, ...returned] = Array.isArray(totals) ? totals.map(Number) : []
        const persons = Number(total ?? 0)
        const row = { [range.interval]: start, persons }
        if (input.isJson) return { ...row, returned }
        const shown = { ...row, returned: returned.join(' ') }
        const shares = returned.map((count) => (persons === 0 ? 0 : count / persons))
        return input.io.machine.isTerminal ? { ...shown, chart: heights(shares) } : shown
      }),
  },
  {
    name: 'stickiness',
    sentence: 'Count persons by the number of periods in which they had an event.',
    options: { '--periods N': 'With --persons: who was there so often.' },
    persons: (input, range) => stickinessOf(input, range, input.id('periods', 1)),
    rows: (client, input, range) =>
      inOrder([...range.starts.keys()], async (index) => {
        const asked = stickinessOf(input, range, index + 1)
        return { periods: index + 1, persons: await client.total(asked) }
      }),
    column: 'persons',
  },
]

/** `tenrec query ...`, but paths. */
export const COMMANDS: Commands = QUESTIONS.map((question) => ({
  name: `query ${question.name}`,
  sentence: question.sentence,
  operands: question.operands ?? ['EVENT'],
  options: { ...PERIOD_OPTIONS, ...question.options, ...questionOptions(true) },
  async run(input) {
    const range = queryRange(input, question.isMonday)
    const client = new QueryClient(input, question.name)
    if (input.has('persons')) return client.printPersons(question.persons(input, range))
    const rows = await question.rows(client, input, range)
    const { column } = question
    print(input.io, column === undefined ? rows : withBars(input, rows, column), input.isJson)
    return client.finish(question.missed?.(rows))
  },
}))

function targetOf({ operand }: CommandInput, { interval }: QueryRange): JsonObject {
  const target = { entity_type: 'events', interval }
  return operand === '*' ? target : { ...target, entity_id: operand }
}

function stickinessOf(input: CommandInput, range: QueryRange, periods: number): JsonObject {
  return { ...targetOf(input, range), ...datesOf(range), stickiness_days: periods }
}

function lifecycleOf(
  { operand }: CommandInput,
  range: QueryRange,
  start: string,
  status: string,
): JsonObject {
  return {
    events: [seriesOf(operand)],
    interval: range.interval,
    ...datesOf(range),
    target_date: start,
    lifecycle_type: status,
  }
}

function funnelOf(input: CommandInput, range: QueryRange): JsonObject {
  const { operands } = input
  if (operands.length > QUERY_STEPS_MAX)
    throw new UsageError(`a funnel has ${QUERY_STEPS_MAX} steps at most`)
  return {
    ...datesOf(range),
    events: operands.map((name, index) => seriesOf(name, index)),
    funnel_window_interval: input.id('window', 14),
    funnel_window_interval_unit: 'day',
    ...given({ funnel_order_type: input.text('order') }),
  }
}

function retentionOf(input: CommandInput, range: QueryRange): JsonObject {
  const { operand } = input
  const { interval, starts } = range
  return {
    target_entity: seriesOf(operand),
    returning_entity: seriesOf(input.text('returning') ?? operand),
    retention_type: `retention_${input.has('first-time') ? 'first_time' : 'recurring'}`,
    period: PERIOD_NAMES[interval],
    total_intervals: starts.length,
    // The range of the route ends one period behind this day.
    date_to: starts.at(-1) ?? range.to,
  }
}

/** One request after the other: a daemon answers few questions at once. */
async function inOrder<T, R>(items: readonly T[], ask: (item: T) => Promise<R>): Promise<R[]> {
  const answers: R[] = []
  for (const item of items) answers.push(await ask(item))
  return answers
}
