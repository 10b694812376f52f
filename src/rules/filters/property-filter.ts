/**
 * Turns the property filters of lists, charts, cohorts and actions into pure tests on one value. Values are compared as
 * texts, and a missing property is the empty text. The operators for numbers and dates read them from these texts.
 *
 * Source: docs/compatibility/events.md, "Property filters".
 */
import { dateParts, isDayOfCalendar, utcOf } from '../../base/time-zone.ts'
import type { PropertyFilter } from './filter-group.ts'
import { LIST_OPERATORS } from './operator-names.ts'
import {
  type DateRelation,
  type FilterDialect,
  listOf,
  operatorTest,
  type PropertyTest,
} from './operator-tests.ts'
import { propertyText, roundedText } from './property-text.ts'

const DAY_MS = 24 * 60 * 60 * 1000
const LAST_SECOND_MS = DAY_MS - 1000
const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i
const DATE =
  /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?\s?(Z|[+-]\d{2}(?::?\d{2})?)?)?$/i
const KNOWN: ReadonlySet<string> = new Set(LIST_OPERATORS)

/** The opposite of each operator, for filters with `negation`. */
const OPPOSITES = new Map([
  ['exact', 'is_not'],
  ['icontains', 'not_icontains'],
  ['regex', 'not_regex'],
  ['is_set', 'is_not_set'],
  ['gt', 'lte'],
  ['lt', 'gte'],
  ['is_date_before', 'is_date_after'],
])
for (const [operator, opposite] of [...OPPOSITES]) OPPOSITES.set(opposite, operator)

const LISTS: FilterDialect = {
  isMissingEmpty: true,
  each: listOf,
  text: propertyText,
  folded: (text) => text.toLowerCase(),
  equals: (wanted) => {
    const texts = listOf(wanted).map(propertyText)
    const rounded = texts.map(roundedText).filter((text) => text !== null)
    if (rounded.length === 0) return (value) => texts.includes(propertyText(value))
    return (value) => {
      const text = propertyText(value)
      return texts.includes(text) || (typeof value === 'number' && rounded.includes(text))
    }
  },
  number: (value) => numberOf(propertyText(value)),
  date: listDate,
  patterns: 'ascii',
  beyondBudget: () => new Error('the budget of patterns in lists has no limit'),
}

/**
 * Returns the test of a filter, or null if it cannot be built (no key, no value or an unknown operator). Callers leave
 * out such a filter instead of rejecting it. `negation` replaces the operator by its opposite.
 */
export function propertyTest(filter: PropertyFilter): PropertyTest | null {
  const operator = effectiveOperator(filter)
  if (filter.key === '' || !KNOWN.has(operator)) return null
  return operatorTest(operator, filter.value, LISTS, 'UTC')
}

/** Returns the operator of a filter, or its opposite if the filter is negated. */
export function effectiveOperator({ operator = 'exact', negation }: PropertyFilter): string {
  return negation === true ? (OPPOSITES.get(operator) ?? operator) : operator
}

/** Returns the number in a text, ignoring spaces. Returns NaN for any other text. */
export function numberOf(text: string): number {
  const compact = text.replaceAll(' ', '')
  return NUMBER.test(compact) ? Number(compact) : Number.NaN
}

interface DateLimit {
  readonly startMs: number
  /** True if the filter names a day, and false if it names a moment. */
  readonly isDay: boolean
}

const RELATIONS: Record<DateRelation, (timeMs: number, date: DateLimit) => boolean> = {
  before: (timeMs, { startMs }) => timeMs < startMs,
  after: (timeMs, { startMs, isDay }) => timeMs > startMs + (isDay ? LAST_SECOND_MS : 0),
  exact: (timeMs, { startMs, isDay }) =>
    isDay ? timeMs >= startMs && timeMs < startMs + DAY_MS : timeMs === startMs,
}

/** Returns a test that passes if one of the wanted dates matches. */
function listDate(relation: DateRelation, wanted: unknown): PropertyTest {
  const holds = RELATIONS[relation]
  const dates = listOf(wanted)
    .map((value) => parseDate(propertyText(value).trim()))
    .filter((date) => date !== null)
  return (value) => {
    const text = propertyText(value).trim()
    const time = parseDate(text) ?? parseDate(text.slice(0, 10))
    return time !== null && dates.some((date) => holds(time.startMs, date))
  }
}

/** Parses an ISO date or date-time, in UTC unless it contains an offset. Returns null for any other text. */
function parseDate(text: string): DateLimit | null {
  const match = DATE.exec(text)
  if (match === null) return null
  const { wall, hasTime, offsetMs } = dateParts(match)
  const [, , , hour, minute, second] = wall
  if (!isDayOfCalendar(wall) || hour > 24 || minute > 59 || second > 60) return null
  return { startMs: utcOf(wall) - (offsetMs ?? 0), isDay: !hasTime }
}
