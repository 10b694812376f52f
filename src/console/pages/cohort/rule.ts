/**
 * The rule of a cohort: the types of its groups and conditions, functions that change a condition, and functions that
 * describe a rule as a sentence.
 */

/** A condition in the form of the API. */
export interface Condition {
  readonly type: string
  readonly key: string
  readonly value?: unknown
  readonly operator?: string
  readonly negation?: boolean
  readonly [member: string]: unknown
}

/** Whether all or only one of several things must match. */
export type Match = 'AND' | 'OR'

/** A group of conditions. All of them or one of them must match. */
export interface Group {
  readonly type: Match
  readonly values: readonly Condition[]
}

/** A rule. All of its groups or one of them must match. */
export interface Rule {
  readonly type: Match
  readonly values: readonly Group[]
}

/** The parts of a sentence for which names must be looked up. */
export interface RuleNames {
  readonly event: (name: string) => string
  readonly action: (id: string) => string
  readonly cohort: (id: number) => string
  /** Returns a filter on a property as a sentence. */
  readonly filter: (filter: Condition) => string
}

/** What a condition is about. `other` stands for a condition that the fields cannot show. It is kept unchanged. */
export type Kind =
  | Exclude<keyof typeof BEHAVIORS, 'many'>
  | 'not'
  | 'person'
  | 'in'
  | 'out'
  | 'other'

/**
 * For each kind of condition about an event, the value that stands for it in the API. Conditions of the kind `did` have
 * two values: `did` for "at least once", and `many` for all other numbers of times.
 */
const BEHAVIORS = {
  did: 'performed_event',
  many: 'performed_event_multiple',
  first: 'performed_event_first_time',
  sequence: 'performed_event_sequence',
  regularly: 'performed_event_regularly',
  stopped: 'stopped_performing_event',
  again: 'restarted_performing_event',
} as const

/** The kinds, worded as the beginning of a sentence. */
export const KINDS: readonly (readonly [Exclude<Kind, 'other'>, string])[] = [
  ['did', 'Did the event'],
  ['not', 'Did not do the event'],
  ['first', 'Did the event for the first time'],
  ['sequence', 'Did two events in order'],
  ['regularly', 'Did the event regularly'],
  ['stopped', 'Stopped doing the event'],
  ['again', 'Started doing the event again'],
  ['person', 'Has the property'],
  ['in', 'Is in the cohort'],
  ['out', 'Is not in the cohort'],
]

/** The operators that compare how often an event happened. */
export const COMPARISONS: readonly (readonly [operator: string, words: string])[] = [
  ['gte', 'at least'],
  ['exact', 'exactly'],
  ['lte', 'at most'],
  ['gt', 'more than'],
  ['lt', 'fewer than'],
]

/** The units of time. */
export const UNITS: readonly (readonly [unit: string, words: string])[] = [
  ['hour', 'hours'],
  ['day', 'days'],
  ['week', 'weeks'],
  ['month', 'months'],
  ['year', 'years'],
]

/** The length of each unit in hours, to compare two times. */
const HOURS: Readonly<Record<string, number>> = {
  hour: 1,
  day: 24,
  week: 168,
  month: 720,
  year: 8760,
}

const NEW_TIME = { time_value: 30, time_interval: 'day' } as const
const NEW_RECENT = { seq_time_value: 7, seq_time_interval: 'day' } as const
/** For some kinds, the members of a new condition that are added to the event and the time, or replace the time. */
const NEW_MEMBERS: Partial<Readonly<Record<Kind, object>>> = {
  sequence: { seq_event: '', seq_event_type: 'events', ...NEW_RECENT },
  regularly: {
    operator: 'gte',
    operator_value: 1,
    min_periods: 3,
    total_periods: 4,
    time_value: 1,
    time_interval: 'week',
  },
  stopped: NEW_RECENT,
  again: NEW_RECENT,
}

/**
 * Returns the rule that a stored filter tree stands for. If the tree has conditions but no groups, they are put into a
 * group.
 */
export function ruleOf(tree: unknown): Rule {
  if (!isNode(tree)) return { type: 'AND', values: [] }
  const values: readonly unknown[] = Array.isArray(tree['values']) ? tree['values'] : [tree]
  const type = tree['type'] === 'OR' ? 'OR' : 'AND'
  if (values.some((value) => isNode(value) && Array.isArray(value['values']))) {
    return { type, values: values.map((value) => groupOf(value)) }
  }
  return { type: 'AND', values: [{ type, values: values as readonly Condition[] }] }
}

function groupOf(node: unknown): Group {
  const { type, values } = node as {
    readonly type?: string
    readonly values?: readonly Condition[]
  }
  return { type: type === 'OR' ? 'OR' : 'AND', values: values ?? [] }
}

function isNode(node: unknown): node is Readonly<Record<string, unknown>> {
  return typeof node === 'object' && node !== null
}

/** Returns the filter tree for a rule, as requests contain it. Groups without conditions are left out. */
export function treeOf({ type, values }: Rule): { readonly properties: Rule } {
  return { properties: { type, values: values.filter((group) => group.values.length > 0) } }
}

/** Returns what a condition is about. */
export function kindOf(condition: Condition): Kind {
  const { type, value, negation = false, operator } = condition
  if (type === 'person') return negation ? 'other' : 'person'
  if (type === 'cohort') {
    if (operator !== undefined && operator !== 'in' && operator !== 'not_in') return 'other'
    return (operator === 'not_in') === negation ? 'in' : 'out'
  }
  // A time between two dates has no `time_value`.
  if (type !== 'behavioral' || condition['time_value'] === undefined) return 'other'
  if (negation) return value === BEHAVIORS.did ? 'not' : 'other'
  if (value === BEHAVIORS.many) return 'did'
  const kinds = Object.keys(BEHAVIORS) as (keyof typeof BEHAVIORS)[]
  return (kinds.find((kind) => BEHAVIORS[kind] === value) as Kind | undefined) ?? 'other'
}

/**
 * Returns a condition of the given kind that replaces the condition `before`. If both conditions are about an event,
 * the new one keeps the event, its filters and, if it has the same meaning, the time.
 */
export function conditionOf(
  kind: Exclude<Kind, 'other'>,
  before: Condition,
  cohort: number | null,
): Condition {
  if (kind === 'person') return { type: 'person', key: '', operator: 'exact', value: '' }
  if (kind === 'in' || kind === 'out') {
    const value = before.type === 'cohort' ? before.value : (cohort ?? '')
    return { type: 'cohort', key: 'id', value, operator: kind === 'in' ? 'in' : 'not_in' }
  }
  const {
    key,
    event_type = 'events',
    time_value,
    time_interval,
    event_filters,
  } = before.type === 'behavioral' ? before : ({ type: '', key: '' } as Condition)
  // In a condition "did the event regularly", the time is the length of one period. In all other kinds, the time says
  // how far back events count, so the length of a period is not taken over.
  const isPeriod = before.value === BEHAVIORS.regularly
  return {
    type: 'behavioral',
    key,
    event_type,
    value: BEHAVIORS[kind === 'not' ? 'did' : kind],
    ...(time_value === undefined || isPeriod ? NEW_TIME : { time_value, time_interval }),
    ...(event_filters !== undefined && { event_filters }),
    ...NEW_MEMBERS[kind],
    ...(kind === 'not' && { negation: true }),
  }
}

/** How often the event of a condition must have happened: the operator and the number that it is compared with. */
export interface Often {
  readonly operator: string
  readonly times: number
}

/** Returns how often the event of a condition must have happened. */
export function oftenOf({ value, operator: given, operator_value: times = 1 }: Condition): Often {
  const operator = given ?? (value === BEHAVIORS.did ? 'gte' : 'exact')
  return { operator: operator === 'eq' ? 'exact' : operator, times: Number(times) }
}

/**
 * Returns a condition with another choice of how often its event must have happened. "At least once" is stored without
 * an operator and a number, except in a condition "did the event regularly".
 */
export function withOften(condition: Condition, { operator, times }: Often): Condition {
  const { operator: _, operator_value: __, ...rest } = condition
  const isCounted = condition.value === BEHAVIORS.regularly
  if (operator === 'gte' && times === 1 && !isCounted) return { ...rest, value: BEHAVIORS.did }
  return {
    ...rest,
    value: isCounted ? BEHAVIORS.regularly : BEHAVIORS.many,
    operator,
    operator_value: times,
  }
}

/** Returns a condition with other filters on the properties of its event. */
export function withEventFilters(condition: Condition, filters: readonly object[]): Condition {
  const { event_filters: _, ...rest } = condition
  return filters.length === 0 ? rest : { ...rest, event_filters: filters }
}

/** Returns the reason why a rule cannot be saved yet, or null if it can be saved. */
export function problemOf({ values }: Rule): string | null {
  const all = values.flatMap((group) => group.values)
  if (all.length === 0) return 'Add a condition. Without one, the cohort would have no rule.'
  for (const condition of all) {
    const kind = kindOf(condition)
    if (kind === 'other') continue
    if (kind === 'person' && condition.key === '')
      return 'Choose a property, or remove the condition.'
    if ((kind === 'in' || kind === 'out') && !Number(condition.value)) {
      return 'Choose a cohort, or remove the condition.'
    }
    if (condition.type !== 'behavioral') continue
    if (condition.key === '' || condition['seq_event'] === '')
      return 'Choose an event, or remove the condition.'
    const filters = (condition['event_filters'] ?? []) as readonly Condition[]
    if (filters.some(({ key }) => key === ''))
      return 'Choose a property, or remove the event filter.'
    const {
      time_value: length,
      time_interval: unit,
      seq_time_value: recent = 1,
      seq_time_interval: recentUnit,
      min_periods: least = 1,
      total_periods: total = 1,
    } = condition
    const numbers = [length, oftenOf(condition).times, recent, least, total]
    if (!numbers.every((number) => Number.isInteger(number) && Number(number) >= 1)) {
      return 'A number of events, periods or days must be a whole number from 1.'
    }
    if (Number(least) > Number(total)) return 'The event cannot be in more periods than there are.'
    const hours = (value: unknown, of: unknown) => Number(value) * (HOURS[String(of)] ?? 1)
    const isWithin = hours(recent, recentUnit) < hours(length, unit)
    if ((kind === 'stopped' || kind === 'again') && !isWithin) {
      return 'The second time of a condition must be shorter than the first one.'
    }
  }
  return null
}

/** Returns a rule as a sentence. A group with several conditions is in brackets. */
export function sentenceOfRule({ type, values }: Rule, names: RuleNames): string {
  const groups = values.filter((group) => group.values.length > 0)
  const sentences = groups.map((group) => {
    const words = group.values
      .map((one) => sentenceOf(one, names))
      .join(group.type === 'OR' ? ' or ' : ' and ')
    return groups.length > 1 && group.values.length > 1 ? `(${words})` : words
  })
  return sentences.join(type === 'OR' ? ' or ' : ' and ')
}

/** Returns a condition as a part of a sentence. */
export function sentenceOf(condition: Condition, names: RuleNames): string {
  const { type, value, negation = false, operator } = condition
  if (type === 'cohort') {
    const isIn = (operator === 'not_in' || operator === 'is_not') === negation
    return `${isIn ? 'in' : 'not in'} “${names.cohort(Number(value))}”`
  }
  if (type !== 'behavioral')
    return negation ? `not ${names.filter(condition)}` : names.filter(condition)
  const filters = (condition['event_filters'] ?? []) as readonly Condition[]
  const nameOf = (name: string, isAction: boolean) =>
    isAction ? `the action “${names.action(name)}”` : `“${names.event(name)}”`
  const event = nameOf(condition.key, condition['event_type'] === 'actions')
  const second = nameOf(String(condition['seq_event']), condition['seq_event_type'] === 'actions')
  const what = `${event}${filters.length === 0 ? '' : ` (${filters.map(names.filter).join(', ')})`}`
  const often = countWords(condition)
  const recent = lengthWords(condition['seq_time_value'], condition['seq_time_interval'])
  const within = timeWords(condition)
  const words = {
    performed_event: `did ${what} ${within}`,
    performed_event_multiple: `did ${what} ${often} ${within}`,
    performed_event_first_time: `did ${what} for the first time ${within}`,
    performed_event_sequence: `did ${what} and within ${recent} ${second}, ${within}`,
    performed_event_regularly: `did ${what} ${often} in ${String(condition['min_periods'])} of the last ${String(condition['total_periods'])} periods of ${lengthWords(condition['time_value'], condition['time_interval'])}`,
    stopped_performing_event: `did ${what} ${within}, but not in the last ${recent}`,
    restarted_performing_event: `did ${what} again in the last ${recent} after none ${within}`,
  }[String(value)]
  if (words === undefined) return names.filter(condition)
  return negation ? words.replace(/^did/, 'did not do') : words
}

function countWords({ operator = 'exact', operator_value: times }: Condition): string {
  const comparisons: Readonly<Record<string, string>> = {
    ...Object.fromEntries(COMPARISONS),
    eq: 'exactly',
  }
  return `${comparisons[operator] ?? operator} ${times === 1 ? 'once' : `${String(times)} times`}`
}

function lengthWords(value: unknown, unit: unknown): string {
  return `${String(value)} ${String(unit)}${value === 1 ? '' : 's'}`
}

function timeWords(condition: Condition): string {
  const { explicit_datetime: from, explicit_datetime_to: to } = condition
  if (from !== undefined)
    return `since ${String(from)}${to === undefined ? '' : ` until ${String(to)}`}`
  return `in the last ${lengthWords(condition['time_value'], condition['time_interval'])}`
}
