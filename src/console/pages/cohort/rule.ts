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
  readonly cohort: (id: number) => string
  /** Returns a filter on a property as a sentence. */
  readonly filter: (filter: Condition) => string
}

/** What a condition is about. `other` stands for a condition that the fields cannot show. It is kept unchanged. */
export type Kind = 'person' | 'did' | 'not' | 'first' | 'in' | 'out' | 'other'

/** The kinds, worded as the beginning of a sentence. */
export const KINDS: readonly (readonly [Exclude<Kind, 'other'>, string])[] = [
  ['did', 'Did the event'],
  ['not', 'Did not do the event'],
  ['first', 'Did the event for the first time'],
  ['person', 'Has the property'],
  ['in', 'Is in the cohort'],
  ['out', 'Is not in the cohort'],
]

/** The operators that compare how often an event happened. */
export const COMPARISONS: readonly (readonly [operator: string, words: string])[] = [
  ['gte', 'at least'],
  ['exact', 'exactly'],
  ['lte', 'at most'],
]

/** The units of time. */
export const UNITS: readonly (readonly [unit: string, words: string])[] = [
  ['hour', 'hours'],
  ['day', 'days'],
  ['week', 'weeks'],
  ['month', 'months'],
]

const NEW_TIME = { time_value: 30, time_interval: 'day' } as const

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
  const isOther =
    type !== 'behavioral' ||
    condition['event_type'] === 'actions' ||
    condition['time_value'] === undefined ||
    !UNITS.some(([unit]) => unit === condition['time_interval'])
  if (isOther) return 'other'
  if (value === 'performed_event') return negation ? 'not' : 'did'
  if (value === 'performed_event_multiple') {
    const isKnown = COMPARISONS.some(([one]) => one === (operator ?? 'exact'))
    return negation || !isKnown ? 'other' : 'did'
  }
  return value === 'performed_event_first_time' && !negation ? 'first' : 'other'
}

/**
 * Returns a condition of another kind. If both kinds are about an event, the event is kept, with its time and its
 * filters.
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
  const isEvent = before.type === 'behavioral'
  const { time_value = NEW_TIME.time_value, time_interval = NEW_TIME.time_interval } =
    before as TimeMembers
  const { event_filters } = before as { readonly event_filters?: readonly Condition[] }
  return {
    type: 'behavioral',
    key: isEvent ? before.key : '',
    event_type: 'events',
    value: kind === 'first' ? 'performed_event_first_time' : 'performed_event',
    time_value,
    time_interval,
    ...(isEvent && event_filters !== undefined && { event_filters }),
    ...(kind === 'not' && { negation: true }),
  }
}

interface TimeMembers {
  readonly time_value?: number
  readonly time_interval?: string
}

/** How often the event of a condition must have happened: the operator and the number that it is compared with. */
export interface Often {
  readonly operator: string
  readonly times: number
}

/** Returns how often the event of a condition must have happened. */
export function oftenOf({ value, operator = 'exact', operator_value: times }: Condition): Often {
  if (value !== 'performed_event_multiple') return { operator: 'gte', times: 1 }
  return { operator, times: Number(times) }
}

/**
 * Returns a condition with another choice of how often its event must have happened. The simplest form of a condition
 * stands for "at least once".
 */
export function withOften(condition: Condition, { operator, times }: Often): Condition {
  const { operator: _, operator_value: __, ...rest } = condition
  if (operator === 'gte' && times === 1) return { ...rest, value: 'performed_event' }
  return { ...rest, value: 'performed_event_multiple', operator, operator_value: times }
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
    if (condition.key === '') return 'Choose an event, or remove the condition.'
    const filters = (condition['event_filters'] ?? []) as readonly Condition[]
    if (filters.some(({ key }) => key === ''))
      return 'Choose a property, or remove the event filter.'
    const numbers = [condition['time_value'], oftenOf(condition).times]
    if (!numbers.every((number) => Number.isInteger(number) && Number(number) >= 1)) {
      return 'A number of events or of days must be a whole number from 1.'
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
  const isAction = condition['event_type'] === 'actions'
  const event = isAction ? `action ${condition.key}` : `“${names.event(condition.key)}”`
  const what = `${event}${filters.length === 0 ? '' : ` (${filters.map(names.filter).join(', ')})`}`
  const often = countWords(condition)
  const recent = lengthWords(condition['seq_time_value'], condition['seq_time_interval'])
  const within = timeWords(condition)
  const words = {
    performed_event: `did ${what} ${within}`,
    performed_event_multiple: `did ${what} ${often} ${within}`,
    performed_event_first_time: `did ${what} for the first time ${within}`,
    performed_event_sequence: `did ${what} and within ${recent} “${names.event(String(condition['seq_event']))}”, ${within}`,
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
    gt: 'more than',
    lt: 'fewer than',
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
