/**
 * `tenrec query ...`: the numbers of charts, each from one query to a running daemon, and the persons behind them, from
 * the analytic routes of persons.
 */
import { UsageError } from '../../../base/errors.ts'
import { given, type JsonObject, objectsOf } from '../../../base/json.ts'
import type { CommandDescription, CommandInput, Commands } from '../../lib/command.ts'
import { heights } from '../../lib/query-chart.ts'
import {
  isTable,
  printRows,
  QueryClient,
  questionOptions,
  seriesOf,
} from '../../lib/query-client.ts'
import { QUERY_RETURNS_MAX, QUERY_STEPS_MAX } from '../../limits.ts'
import { datesOf, PERIOD_OPTIONS, type QueryRange, queryRange } from './query-periods.ts'

const STATUSES = ['new', 'returning', 'resurrecting', 'dormant'] as const
const PERIOD_NAMES = { day: 'Day', week: 'Week', month: 'Month' } as const
/** Labels for breakdown values that stand for missing or combined values. */
const BREAKDOWN_LABELS: ReadonlyMap<unknown, string> = new Map([
  ['$$_posthog_breakdown_null_$$', '(none)'],
  ['$$_posthog_breakdown_other_$$', '(other)'],
])
/**
 * The names of columns in the output, for some ways of counting (the option `--math`). For any other way, the column
 * has the name of the way.
 */
const MATH_COLUMNS: ReadonlyMap<string, string> = new Map([
  ['dau', 'persons'],
  ['total', 'events'],
])

/** A query command. Its name is also the name of the analytic route that lists the persons behind its numbers. */
interface Question extends Omit<CommandDescription, 'run'> {
  /** True if weeks begin on Monday in the analytic route. */
  readonly isMonday?: boolean
  /** Returns the parameters of the route for `--persons`. Throws `UsageError`. */
  persons(input: CommandInput, range: QueryRange): JsonObject
  /** Returns the query that is sent without `--persons`. Range and filters are added to it. Throws `UsageError`. */
  query(input: CommandInput, range: QueryRange): JsonObject
  /** Returns the rows to print, from the results of the query. */
  rows(
    results: readonly JsonObject[],
    input: CommandInput,
    range: QueryRange,
  ): readonly JsonObject[]
  /** Returns the name of the column that gets bars. */
  column?(input: CommandInput): string
  /** Returns the names of events that did not occur. Default: all events of the query, if all numbers are 0. */
  missed?(rows: readonly JsonObject[]): readonly string[]
}

const QUESTIONS: readonly Question[] = [
  {
    name: 'trends',
    sentence: 'Count the persons who had an event, for each period. EVENT * stands for any event.',
    options: {
      '--math MATH':
        'Number to compute instead of persons: total (events), weekly_active or unique_session, or a function of a property, such as sum:price, with avg, min, max, median, p90 and more.',
      '--breakdown PROPERTY': 'Break down by the values of an event property.',
      '--compare': 'Compare with the preceding time range of the same length.',
    },
    persons: (input, range) => ({ ...targetOf(input, range), ...datesOf(range) }),
    query(input) {
      const [, math, math_property] = /^([^:]*):?(.+)?$/s.exec(mathOf(input)) ?? []
      return {
        kind: 'TrendsQuery',
        series: [{ ...nodeOf(input.operand), math, math_property }],
        breakdownFilter: { breakdown: input.text('breakdown') },
        compareFilter: { compare: input.has('compare') },
      }
    },
    rows: (items, input, range) =>
      input.has('breakdown') && isTable(input)
        ? breakdownTable(items, input)
        : items.filter(isCurrent).flatMap((item) => trendRows(items, item, input, range)),
    column: columnOf,
  },
  {
    name: 'funnel',
    sentence: 'Count the persons who complete each step of a funnel. Each EVENT is one step.',
    operands: ['EVENT', '...'],
    options: {
      '--window DAYS': 'Days within which a person must complete all steps. Default: 14.',
      '--order ORDER': 'Order of the steps: ordered, strict or unordered. Default: ordered.',
      '--step N':
        'With --persons: list persons who reached step N. Use -2 for persons who dropped off before step 2.',
    },
    persons(input, range) {
      const step = input.text('step') ?? String(input.operands.length)
      if (!/^-?\d{1,2}$/.test(step))
        throw new UsageError(
          '--step must be the number of a step, such as 2, or -2 for persons who dropped off before step 2.',
        )
      return {
        ...datesOf(range),
        events: stepsOf(input).map((name, index) => seriesOf(name, index)),
        funnel_window_interval: input.id('window', 14),
        funnel_window_interval_unit: 'day',
        ...given({ funnel_order_type: input.text('order') }),
        funnel_step: step,
      }
    },
    query: (input) => ({
      kind: 'FunnelsQuery',
      series: stepsOf(input).map(nodeOf),
      funnelsFilter: {
        funnelWindowInterval: input.id('window', 14),
        funnelWindowIntervalUnit: 'day',
        funnelOrderType: input.text('order'),
      },
    }),
    rows(steps, input) {
      const first = Number(steps[0]?.['count'] ?? 0)
      return input.operands.map((event, index) => {
        const persons = Number(steps[index]?.['count'] ?? 0)
        const share = first === 0 ? 0 : Math.round((1000 * persons) / first) / 1000
        const shown = isTable(input) ? `${(100 * share).toFixed(1)} %` : share
        return { step: index + 1, event, persons, share: shown }
      })
    },
    column: () => 'persons',
    missed: (rows) => rows.filter(({ persons }) => persons === 0).map(({ event }) => String(event)),
  },
  {
    name: 'lifecycle',
    sentence: 'Count new, returning, resurrecting and dormant persons for each period.',
    options: {
      '--status STATUS': `With --persons: list persons with this status in the last period: ${STATUSES.join(', ')}. Default: new.`,
    },
    isMonday: true,
    persons(input, range) {
      const status = input.text('status') ?? 'new'
      if (!STATUSES.some((known) => known === status)) {
        throw new UsageError(`--status must be one of ${STATUSES.join(', ')}.`)
      }
      return {
        events: [seriesOf(input.operand)],
        interval: range.interval,
        ...datesOf(range),
        target_date: range.starts.at(-1) ?? '',
        lifecycle_type: status,
      }
    },
    query: ({ operand }) => ({ kind: 'LifecycleQuery', series: [nodeOf(operand)] }),
    rows: (items, _, { interval }) =>
      daysOf(items[0]).map((day, index) => {
        const counts = items.map((item) => {
          return [String(item['status']), Math.abs(numbersOf(item)[index] ?? 0)] as const
        })
        return { [interval]: day, ...Object.fromEntries(counts) }
      }),
    column: () => 'returning',
  },
  {
    name: 'retention',
    sentence:
      'Count the persons who come back after an event. Persons with the event in the same period form a cohort.',
    options: {
      '--returning EVENT': 'Event that counts as coming back. Default: the same event.',
      '--first-time': 'Only persons who had never had the event before.',
      '--cohort N': 'With --persons: number of the cohort, starting with 1. Default: 1.',
    },
    persons(input, range) {
      const cohort = input.id('cohort', 1)
      if (cohort > range.starts.length)
        throw new UsageError(
          `--cohort must be at most ${range.starts.length}, the number of cohorts.`,
        )
      const [target_entity, returning_entity] = returnOf(input)
      return {
        target_entity,
        returning_entity,
        retention_type: retentionType(input),
        period: PERIOD_NAMES[range.interval],
        total_intervals: range.starts.length,
        // The analytic route lists persons up to the period that begins on this day.
        date_to: range.starts.at(-1) ?? range.to,
        selected_interval: cohort - 1,
      }
    },
    query(input, { interval, starts }) {
      const [targetEntity, returningEntity] = returnOf(input)
      const retentionFilter = {
        targetEntity,
        returningEntity,
        retentionType: retentionType(input),
        period: PERIOD_NAMES[interval],
        totalIntervals: Math.min(starts.length, QUERY_RETURNS_MAX),
      }
      return { kind: 'RetentionQuery', retentionFilter }
    },
    rows: (cohorts, input, { interval, starts }) =>
      cohorts.map(({ values }, index) => {
        // The periods after the end of the range are not complete, so their numbers are left out.
        const counts = objectsOf(values).slice(0, cohorts.length - index)
        const [persons = 0, ...returned] = counts.map(({ count }) => Number(count))
        const row = { [interval]: starts[index], persons }
        if (!isTable(input)) return { ...row, returned }
        const shown = { ...row, returned: returned.join(' ') }
        const shares = returned.map((count) => (persons === 0 ? 0 : count / persons))
        return input.io.machine.isTerminal ? { ...shown, chart: heights(shares) } : shown
      }),
  },
  {
    name: 'stickiness',
    sentence: 'Count persons by the number of periods in which they had an event.',
    options: {
      '--periods N':
        'With --persons: list persons who had the event in exactly N periods. Default: 1.',
    },
    persons(input, range) {
      const stickiness_days = input.id('periods', 1)
      return { ...targetOf(input, range), ...datesOf(range), stickiness_days }
    },
    query: ({ operand }) => ({ kind: 'StickinessQuery', series: [nodeOf(operand)] }),
    rows: ([item]) => numbersOf(item).map((persons, index) => ({ periods: index + 1, persons })),
    column: () => 'persons',
  },
]

/** `tenrec query ...`, except paths. */
export const COMMANDS: Commands = QUESTIONS.map((question) => ({
  name: `query ${question.name}`,
  sentence: question.sentence,
  operands: question.operands ?? ['EVENT'],
  options: { ...PERIOD_OPTIONS, ...question.options, ...questionOptions() },
  async run(input) {
    const isOfPersons = input.has('persons')
    const range = queryRange(input, isOfPersons && question.isMonday)
    const client = new QueryClient(input)
    if (isOfPersons) return client.printPersons(question.name, question.persons(input, range))
    const { interval } = range
    const query = { ...question.query(input, range), interval, dateRange: datesOf(range) }
    const rows = question.rows(await client.results(query), input, range)
    printRows(input, rows, question.column?.(input))
    return client.finish(question.missed?.(rows) ?? (rows.some(hasNumber) ? [] : undefined))
  },
}))

/** Returns whether a row has a number other than 0. */
function hasNumber({ periods: _, ...row }: JsonObject): boolean {
  return Object.values(row).some((value) => typeof value === 'number' && value !== 0)
}

function mathOf(input: CommandInput): string {
  return input.text('math') ?? 'dau'
}

function columnOf(input: CommandInput): string {
  return MATH_COLUMNS.get(mathOf(input)) ?? mathOf(input)
}

function isCurrent({ compare_label }: JsonObject): boolean {
  return compare_label !== 'previous'
}

/** Returns the numbers of the comparison range for the breakdown value of an item. Returns null without `--compare`. */
function previousOf(
  items: readonly JsonObject[],
  { breakdown_value }: JsonObject,
  input: CommandInput,
): readonly number[] | null {
  if (!input.has('compare')) return null
  return numbersOf(
    items.find((item) => !isCurrent(item) && item['breakdown_value'] === breakdown_value),
  )
}

/** Returns one row for each period. */
function trendRows(
  items: readonly JsonObject[],
  item: JsonObject,
  input: CommandInput,
  { interval }: QueryRange,
): readonly JsonObject[] {
  const numbers = numbersOf(item)
  const previous = previousOf(items, item, input)
  const breakdown = input.has('breakdown') ? { breakdown: breakdownOf(item) } : {}
  return daysOf(item).map((day, index) => ({
    [interval]: day,
    ...breakdown,
    [columnOf(input)]: numbers[index] ?? 0,
    ...(previous === null ? {} : { previous: previous[index] ?? 0 }),
  }))
}

/** Returns one row for each breakdown value. A row contains the numbers of all periods. */
function breakdownTable(items: readonly JsonObject[], input: CommandInput): readonly JsonObject[] {
  const current = items.filter(isCurrent)
  const largest = current.flatMap(numbersOf).reduce((most, number) => Math.max(most, number), 0)
  return current.map((item) => {
    const numbers = numbersOf(item)
    const previous = previousOf(items, item, input)
    const row = {
      breakdown: breakdownOf(item),
      sum: sumOf(numbers),
      last: numbers.at(-1) ?? 0,
      ...(previous === null ? {} : { previous: sumOf(previous) }),
    }
    if (!input.io.machine.isTerminal) return row
    return { ...row, chart: heights(numbers.map((number) => number / largest || 0)) }
  })
}

function breakdownOf({ breakdown_value: value }: JsonObject): unknown {
  return BREAKDOWN_LABELS.get(value) ?? value
}

function sumOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0)
}

function numbersOf(item: JsonObject | undefined): readonly number[] {
  const data = item?.['data']
  return Array.isArray(data) ? data.map(Number) : []
}

function daysOf(item: JsonObject | undefined): readonly string[] {
  const days = item?.['days']
  return Array.isArray(days) ? days.map(String) : []
}

function targetOf({ operand }: CommandInput, { interval }: QueryRange): JsonObject {
  const target = { entity_type: 'events', interval }
  return operand === '*' ? target : { ...target, entity_id: operand }
}

/** Returns the events with a name as a series of a query. */
function nodeOf(name: string): JsonObject {
  return { kind: 'EventsNode', event: name === '*' ? null : name }
}

function stepsOf({ operands }: CommandInput): readonly string[] {
  if (operands.length <= QUERY_STEPS_MAX) return operands
  throw new UsageError(`A funnel has at most ${QUERY_STEPS_MAX} steps.`)
}

function returnOf(input: CommandInput): readonly [JsonObject, JsonObject] {
  return [seriesOf(input.operand), seriesOf(input.text('returning') ?? input.operand)]
}

function retentionType(input: CommandInput): string {
  return `retention_${input.has('first-time') ? 'first_time' : 'recurring'}`
}
