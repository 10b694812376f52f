/**
 * Filters on the behavior of persons, which only the rule of a cohort may contain. They say which event a person must
 * have, how often, and when. This file reads them from client input; rules/queries/cohort-members.ts finds the persons.
 * Source: docs/compatibility/persons.md, "Cohorts by behavior".
 */
import { isObject, type JsonObject } from '../../base/json.ts'
import { isMoment } from '../analytics/date-range.ts'
import { type FilterGroup, filtersOf, type PropertyFilter } from './filter-group.ts'
import {
  BEHAVIOR_COUNT_MAX,
  BEHAVIOR_PERIODS_MAX,
  BEHAVIOR_YEARS_MAX,
  TREE_FILTERS_MAX,
} from './limits.ts'
import { LIST_OPERATORS, operatorRefusal } from './operator-names.ts'

/** The operators that compare a number of events. `eq` means the same as `exact`. */
const COUNT_OPERATORS = ['gte', 'lte', 'gt', 'lt', 'eq', 'exact'] as const
/** The units of time. Days and longer units follow the calendar in the zone of the project. */
const TIME_UNITS = ['hour', 'day', 'week', 'month', 'year'] as const
const EVENT_TYPES = ['events', 'actions'] as const
/** The types that a filter in `event_filters` may have. */
const EVENT_FILTER_TYPES: readonly unknown[] = ['event', 'element']

/** The length of each unit in years, rounded up, to refuse filters that look back too far. */
const YEARS: Readonly<Record<TimeUnit, number>> = {
  hour: 1 / 8760,
  day: 1 / 365,
  week: 7 / 365,
  month: 1 / 12,
  year: 1,
}
const HOURS: Readonly<Record<TimeUnit, number>> = {
  hour: 1,
  day: 24,
  week: 7 * 24,
  month: 30 * 24,
  year: 365 * 24,
}
const RELATIVE = /^-(\d{1,5})([hdwmy])$/

/** How the number of events is compared. */
export type CountOperator = (typeof COUNT_OPERATORS)[number]
/** A unit of time. */
export type TimeUnit = (typeof TIME_UNITS)[number]

/** The members that each kind of behavior needs, in addition to the event and the time. */
const KINDS = {
  performed_event: [],
  performed_event_multiple: ['count'],
  performed_event_first_time: [],
  performed_event_sequence: ['second'],
  performed_event_regularly: ['count', 'periods'],
  stopped_performing_event: ['recent'],
  restarted_performing_event: ['recent'],
} as const
/** The name of a kind of behavior. */
export type BehaviorKind = keyof typeof KINDS
/** The kinds of behavior whose time may be given as dates. */
const DATED: readonly BehaviorKind[] = [
  'performed_event',
  'performed_event_multiple',
  'performed_event_first_time',
  'performed_event_sequence',
]
/** Members of a filter on behavior that PostHog computes from the other members. They are accepted, but not stored. */
const DERIVED: readonly string[] = ['bytecode', 'bytecode_error', 'conditionHash']

/** A filter on the behavior of a person. It has only the members that its kind of behavior uses. */
export interface BehaviorFilter extends PropertyFilter {
  readonly type: 'behavioral'
  /** The name of the event, or the number of the action as text. */
  readonly key: string
  readonly value: BehaviorKind
  readonly event_type: 'events' | 'actions'
  /** The filters that the event must pass. */
  readonly event_filters?: readonly PropertyFilter[]
  /**
   * Only events of the last `time_value` units are taken into account. For `performed_event_regularly`, it is the
   * length of a period in units.
   */
  readonly time_value?: number
  readonly time_interval?: TimeUnit
  /**
   * Dates that replace `time_value`: only events between them are taken into account. If `explicit_datetime_to` is
   * absent, the range ends now.
   */
  readonly explicit_datetime?: string
  readonly explicit_datetime_to?: string
  /** The comparison that the number of events must pass, such as `gte` and 5 for "at least 5 times". */
  readonly operator?: CountOperator
  readonly operator_value?: number
  /** The second event of a sequence. */
  readonly seq_event?: string
  readonly seq_event_type?: 'events' | 'actions'
  /**
   * For a sequence: the longest time from the first event to the second one. For `stopped_performing_event`: the length
   * of the recent time in which the person must not have the event. For `restarted_performing_event`: the length of the
   * recent time in which the person must have the event again.
   */
  readonly seq_time_value?: number
  readonly seq_time_interval?: TimeUnit
  /**
   * The number of periods that are looked at, counted back from now. The event must have happened in at least
   * `min_periods` of them.
   */
  readonly total_periods?: number
  readonly min_periods?: number
}

/** Returns whether a filter is about behavior. */
export function isBehavior(filter: PropertyFilter): filter is BehaviorFilter {
  return filter.type === 'behavioral'
}

/**
 * Returns whether a tree contains a filter on behavior. The members of a cohort with such a rule are calculated and
 * stored.
 */
export function hasBehavior(tree: FilterGroup | null): boolean {
  return tree !== null && filtersOf(tree).some(isBehavior)
}

/** Returns all filters of a tree. In place of a filter on behavior, the list contains the filters on its event. */
export function filtersWithin(tree: FilterGroup): readonly PropertyFilter[] {
  return filtersOf(tree).flatMap((filter) =>
    isBehavior(filter) ? (filter.event_filters ?? []) : [filter],
  )
}

/**
 * Reads a filter on behavior. If the filter is refused, returns the reason as a text that continues a sentence about
 * the filter. `readEvent` reads a filter on the event, and returns null if this filter cannot be used.
 */
export function readBehavior(
  raw: JsonObject,
  readEvent: (raw: unknown) => PropertyFilter | null,
): BehaviorFilter | string {
  const reader = new BehaviorReader(raw, readEvent)
  const filter = reader.read()
  return reader.fault ?? filter
}

type Members = Partial<Record<keyof BehaviorFilter, unknown>>

/** Reads the members of one filter on behavior. Only the first fault is reported. */
class BehaviorReader {
  fault: string | null = null
  readonly #raw: JsonObject
  readonly #readEvent: (raw: unknown) => PropertyFilter | null
  /** The names of the members that were read. Any other member is a fault. */
  readonly #known = new Set<string>(['type', 'key', 'value', 'negation', ...DERIVED])

  constructor(raw: JsonObject, readEvent: (raw: unknown) => PropertyFilter | null) {
    this.#raw = raw
    this.#readEvent = readEvent
  }

  read(): BehaviorFilter {
    const { value, negation } = this.#raw
    const isKind = typeof value === 'string' && Object.hasOwn(KINDS, value)
    if (!isKind) {
      this.#refuse(`needs one of ${Object.keys(KINDS).join(', ')} as \`value\``)
    }
    const kind: BehaviorKind = isKind ? (value as BehaviorKind) : 'performed_event'
    if (negation !== undefined && negation !== null && typeof negation !== 'boolean') {
      this.#refuse('needs true or false as `negation`')
    }
    const eventType = this.#choice('event_type', EVENT_TYPES, 'events')
    const filters = this.#eventFilters()
    const needs: readonly string[] = KINDS[kind]
    const members: Members = {
      type: 'behavioral',
      key: this.#event('key', eventType),
      value: kind,
      event_type: eventType,
      ...(filters.length === 0 ? {} : { event_filters: filters }),
      ...this.#time(kind),
      ...(needs.includes('count') ? this.#count() : {}),
      ...(needs.includes('second') ? this.#second() : {}),
      ...(needs.includes('second') || needs.includes('recent') ? this.#length('seq_') : {}),
      ...(needs.includes('periods') ? this.#periods() : {}),
      ...(negation === true ? { negation: true } : {}),
    }
    if (needs.includes('recent')) this.#checkRecent(members as BehaviorFilter)
    this.#refuseUnknown(kind)
    // If there is no fault, each member that the kind needs was read and checked.
    return members as unknown as BehaviorFilter
  }

  #refuse(reason: string): void {
    this.fault ??= reason
  }

  #refuseUnknown(kind: BehaviorKind): void {
    for (const [name, value] of Object.entries(this.#raw)) {
      if (this.#known.has(name) || value === null || value === undefined) continue
      this.#refuse(
        `has the member \`${name.slice(0, 40)}\`, which ${kind} does not use. Leave it out`,
      )
    }
  }

  /** Returns a member of the filter, or undefined if it is absent or null. */
  #member(name: string): unknown {
    this.#known.add(name)
    const value = Object.hasOwn(this.#raw, name) ? this.#raw[name] : undefined
    return value ?? undefined
  }

  #choice<Choice extends string>(
    name: string,
    choices: readonly Choice[],
    otherwise: Choice | null = null,
  ): Choice {
    const value = this.#member(name)
    if (value === undefined && otherwise !== null) return otherwise
    const found = choices.find((choice) => choice === value)
    if (found === undefined) this.#refuse(`needs one of ${choices.join(', ')} as \`${name}\``)
    return found ?? (choices[0] as Choice)
  }

  #whole(name: string, max: number): number {
    const value = this.#member(name)
    const number = typeof value === 'string' && /^\d{1,9}$/.test(value) ? Number(value) : value
    if (typeof number === 'number' && Number.isInteger(number) && number >= 1 && number <= max) {
      return number
    }
    this.#refuse(`needs a whole number from 1 to ${max} as \`${name}\``)
    return 1
  }

  /** Returns the name of an event, or the number of an action. */
  #event(name: string, type: 'events' | 'actions'): string {
    const value = this.#member(name)
    if (type === 'events') {
      if (typeof value === 'string' && value !== '') return value
      this.#refuse(`needs the name of an event as \`${name}\``)
    } else {
      const text = typeof value === 'number' || typeof value === 'string' ? String(value) : ''
      if (/^[1-9]\d{0,9}$/.test(text)) return text
      this.#refuse(`needs the number of an action as \`${name}\``)
    }
    return ''
  }

  #eventFilters(): readonly PropertyFilter[] {
    const given = this.#member('event_filters')
    if (given === undefined) return []
    if (!Array.isArray(given)) {
      this.#refuse('needs a list as `event_filters`')
      return []
    }
    if (given.length > TREE_FILTERS_MAX) {
      this.#refuse(`may have at most ${TREE_FILTERS_MAX} \`event_filters\``)
      return []
    }
    return (given as readonly unknown[]).flatMap((raw, index): readonly PropertyFilter[] => {
      const filter = this.#readEvent(raw)
      const { type = 'event', operator } = isObject(raw) ? raw : {}
      const refusal = operatorRefusal(operator, LIST_OPERATORS)
      let fault: string | null = null
      if (!EVENT_FILTER_TYPES.includes(type)) fault = 'whose type must be event or element'
      else if (refusal !== null) fault = `which ${refusal}`
      else if (filter === null) fault = 'which needs a `key` and a `value` that can be compared'
      if (fault !== null) this.#refuse(`has \`event_filters[${index}]\`, ${fault}`)
      return filter === null ? [] : [filter]
    })
  }

  #count(): Members {
    const operator = this.#choice('operator', COUNT_OPERATORS, 'exact')
    return { operator, operator_value: this.#whole('operator_value', BEHAVIOR_COUNT_MAX) }
  }

  #second(): Members {
    const type = this.#choice('seq_event_type', EVENT_TYPES, 'events')
    return { seq_event: this.#event('seq_event', type), seq_event_type: type }
  }

  /** Reads a number of units: `time_value` and `time_interval`, or `seq_time_value` and `seq_time_interval`. */
  #length(prefix: '' | 'seq_'): Members {
    const unit = this.#choice(`${prefix}time_interval`, TIME_UNITS)
    const max = Math.min(99_999, Math.floor(BEHAVIOR_YEARS_MAX / YEARS[unit]))
    const value = this.#whole(`${prefix}time_value`, max)
    return { [`${prefix}time_value`]: value, [`${prefix}time_interval`]: unit }
  }

  #time(kind: BehaviorKind): Members {
    const mayBeDated = DATED.includes(kind)
    const from = mayBeDated ? this.#date('explicit_datetime') : null
    if (from === null) return this.#length('')
    const to = this.#date('explicit_datetime_to')
    // Clients may send dates and `time_value` together. The dates have priority, as in PostHog.
    this.#member('time_value')
    this.#member('time_interval')
    return { explicit_datetime: from, ...(to === null ? {} : { explicit_datetime_to: to }) }
  }

  #date(name: string): string | null {
    const value = this.#member(name)
    if (value === undefined || value === '') return null
    if (typeof value === 'string' && (isMoment(value) || isRelative(value))) return value
    this.#refuse(`needs a date such as 2026-01-31 or -30d as \`${name}\``)
    return null
  }

  #periods(): Members {
    const total = this.#whole('total_periods', BEHAVIOR_PERIODS_MAX)
    const least = this.#whole('min_periods', BEHAVIOR_PERIODS_MAX)
    if (least > total) this.#refuse('needs a `min_periods` of at most `total_periods`')
    return { total_periods: total, min_periods: least }
  }

  /**
   * Checks that the recent time (`seq_time_value`) is shorter than the whole time (`time_value`), which contains it.
   */
  #checkRecent({
    time_value: value = 1,
    time_interval: unit = 'day',
    seq_time_value: recent = 1,
    seq_time_interval: recentUnit = 'day',
  }: BehaviorFilter): void {
    if (recent * HOURS[recentUnit] < value * HOURS[unit]) return
    this.#refuse('needs a time in `seq_time_value` that is shorter than the one in `time_value`')
  }
}

function isRelative(text: string): boolean {
  const match = RELATIVE.exec(text)
  if (match === null) return false
  const unit = TIME_UNITS.find(([letter]) => letter === match[2]) ?? 'day'
  return Number(match[1]) * YEARS[unit] <= BEHAVIOR_YEARS_MAX
}
