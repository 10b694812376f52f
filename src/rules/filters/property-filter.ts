/**
 * Property filters of events and persons as pure tests on one value. Both sides are compared as text;
 * a missing property is the empty text. Source: docs/COMPATIBILITY.md, "Property filters".
 *
 * Release conditions of feature flags have rules of their own and do not use this file.
 */
import { compilePattern, PatternBudget } from '../../base/pattern/pattern.ts'
import type { PropertyFilter } from './filter-group.ts'

/** A filter as clients write it: `negation` swaps the operator with its opposite. */
export interface NegatableFilter extends PropertyFilter {
  readonly negation?: boolean
}

/** Whether a value passes; `undefined` stands for a missing property. */
export type PropertyTest = (value: unknown) => boolean

/** Lists are read in worker threads, where a pattern may take its time: each search is limited, not all. */
const NO_BUDGET = new PatternBudget(Number.POSITIVE_INFINITY)
const DAY_MS = 24 * 60 * 60 * 1000
const LAST_SECOND_MS = DAY_MS - 1000
const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i
const DATE =
  /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?\s?(Z|[+-]\d{2}(?::?\d{2})?)?)?$/i

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

/**
 * The test of a filter, or null when it cannot be built (no key, no value, unknown operator): such
 * filters are left out, not refused.
 */
export function propertyTest(filter: NegatableFilter): PropertyTest | null {
  if (filter.key === '') return null
  const given = filter.operator ?? 'exact'
  const operator = filter.negation === true ? (OPPOSITES.get(given) ?? given) : given
  if (operator === 'is_set') return (value) => value !== undefined
  if (operator === 'is_not_set') return (value) => value === undefined
  const { value } = filter
  if (value === undefined || value === null) return null
  const list: readonly unknown[] = Array.isArray(value) ? value : [value]
  return valueTest(operator, list.map(propertyText))
}

/** A test of a property's text against the texts of a filter; true when one of them fits. */
function valueTest(operator: string, wanted: readonly string[]): PropertyTest | null {
  switch (operator) {
    case 'exact':
      return (value) => wanted.includes(propertyText(value))
    case 'is_not':
      return (value) => !wanted.includes(propertyText(value))
    case 'icontains':
      return containsTest(wanted)
    case 'not_icontains': {
      const contains = containsTest(wanted)
      return (value) => !contains(value)
    }
    case 'regex':
      return patternTest(wanted, true)
    case 'not_regex':
      return patternTest(wanted, false)
    case 'gt':
      return numberTest(wanted, (value, limit) => value > limit)
    case 'gte':
      return numberTest(wanted, (value, limit) => value >= limit)
    case 'lt':
      return numberTest(wanted, (value, limit) => value < limit)
    case 'lte':
      return numberTest(wanted, (value, limit) => value <= limit)
    case 'is_date_before':
      return dateTest(wanted, (time, { startMs }) => time < startMs)
    case 'is_date_after':
      return dateTest(
        wanted,
        (time, date) => time > date.startMs + (date.isDay ? LAST_SECOND_MS : 0),
      )
    case 'is_date_exact':
      return dateTest(wanted, (time, { startMs, isDay }) =>
        isDay ? time >= startMs && time < startMs + DAY_MS : time === startMs,
      )
    default:
      return null
  }
}

/** A property as the text that filters compare; missing is ''. */
export function propertyText(value: unknown): string {
  if (typeof value === 'string') return value
  if (value === undefined) return ''
  return JSON.stringify(value) ?? ''
}

function containsTest(wanted: readonly string[]): PropertyTest {
  const lower = wanted.map((text) => text.toLowerCase())
  return (value) => {
    const text = propertyText(value).toLowerCase()
    return lower.some((part) => text.includes(part))
  }
}

/** The number that a text is, spaces aside; NaN for any other text. */
export function numberOf(text: string): number {
  const compact = text.replaceAll(' ', '')
  return NUMBER.test(compact) ? Number(compact) : Number.NaN
}

function numberTest(
  wanted: readonly string[],
  compare: (value: number, limit: number) => boolean,
): PropertyTest {
  // NaN compares as false with everything.
  const limits = wanted.map(numberOf)
  return (value) => {
    const number = numberOf(propertyText(value))
    return limits.some((limit) => compare(number, limit))
  }
}

interface DateLimit {
  readonly startMs: number
  /** It names a day, not a moment. */
  readonly isDay: boolean
}

function dateTest(
  wanted: readonly string[],
  compare: (timeMs: number, date: DateLimit) => boolean,
): PropertyTest {
  const dates = wanted
    .map((text) => parseDate(text.trim()))
    .filter((date): date is DateLimit => date !== null)
  return (value) => {
    const text = propertyText(value).trim()
    const time = parseDate(text) ?? parseDate(text.slice(0, 10))
    return time !== null && dates.some((date) => compare(time.startMs, date))
  }
}

/** An ISO date or date-time, UTC unless it names an offset; null for anything else. */
function parseDate(text: string): DateLimit | null {
  const match = DATE.exec(text)
  if (match === null) return null
  const field = (index: number): number => Number(match[index] ?? '0')
  const month = field(2) - 1
  const dayMs = Date.UTC(field(1), month, field(3))
  const day = new Date(dayMs)
  // 30 February rolls over to March; such a text is no date.
  if (day.getUTCMonth() !== month || day.getUTCDate() !== field(3)) return null
  if (match[4] === undefined) return { startMs: dayMs, isDay: true }
  if (field(4) > 24 || field(5) > 59 || field(6) > 60) return null
  const fraction = Number((match[7] ?? '').padEnd(3, '0').slice(0, 3))
  const timeMs = ((field(4) * 60 + field(5)) * 60 + field(6)) * 1000 + fraction
  return { startMs: dayMs + timeMs - offsetMs(match[8] ?? 'Z'), isDay: false }
}

function offsetMs(zone: string): number {
  if (zone === 'Z' || zone === 'z') return 0
  const digits = zone.slice(1).replace(':', '').padEnd(4, '0')
  const minutes = Number(digits.slice(0, 2)) * 60 + Number(digits.slice(2))
  return (zone.startsWith('-') ? -minutes : minutes) * 60_000
}

/** A pattern that is invalid matches nothing, also when negated. */
function patternTest(wanted: readonly string[], isMatchWanted: boolean): PropertyTest {
  const patterns = wanted
    .map((source) => compilePattern(source, 'ascii'))
    .filter((pattern) => pattern !== null)
  if (patterns.length < wanted.length && !isMatchWanted) return () => false
  return (value) => {
    const text = propertyText(value)
    return patterns.some((pattern) => pattern.isFoundIn(text, NO_BUDGET)) === isMatchWanted
  }
}
