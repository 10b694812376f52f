/**
 * Names of events and of properties as definitions: what is known about each, which of them a question means,
 * in which order, and how they are shown. Source: docs/compatibility/definitions.md, "Names of events"
 * and "Names of properties".
 */
import { uuidV5 } from '../../base/ids.ts'
import { timeText } from '../../base/time.ts'

const NAMESPACE = '0b6a7a5e-9d0f-4f0a-8a35-5d2c1f6f8e21'
const FLAG_PREFIX = '$feature/'
const ISO_TIME =
  /^(\d{4}-\d{2}-\d{2})(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:Z|[+-]\d{2}(?::?\d{2})?)?)?$/
const DAY_MS = 24 * 60 * 60 * 1000

/** Properties of events that say what is done with the event, not what it is about. */
const UNLISTED: ReadonlySet<string> = new Set([
  ...['distinct_id', '$set', '$set_once', '$initial_referrer', '$initial_referring_domain'],
  ...['$groups', '$group_type', '$group_key', '$group_set'],
  ...['$group_0', '$group_1', '$group_2', '$group_3', '$group_4'],
])
/** Numbers that nobody does arithmetic with. */
const NO_NUMBERS: ReadonlySet<string> = new Set(['distinct_id', 'timestamp'])

/** What the values of a property are. `Duration`, in seconds, is for sessions alone. */
export type PropertyType = 'DateTime' | 'String' | 'Numeric' | 'Boolean' | 'Duration'

/** What is known about the events of one name. Times are milliseconds since 1970. */
export interface EventFacts {
  /** A UUID that is the same for ever. */
  readonly id: string
  readonly name: string
  readonly count: number
  /** By their timestamps. */
  readonly firstSeenMs: number
  readonly lastSeenMs: number
  readonly firstArrivalMs: number
  readonly lastArrivalMs: number
  /** S of the newest. */
  readonly lastSequence: number
}

/** A definition that counts as deleted until an event comes. */
export interface DeletedDefinition {
  readonly id: string
  /** S of the newest event of the project at that time. */
  readonly sequence: number
}

/** What is known about the properties of one name. */
export interface PropertyFacts {
  readonly name: string
  /** Of the first value that is not null; null while there is none. */
  readonly type: PropertyType | null
  /** How many events, persons or groups have it. Absent where nobody has counted. */
  readonly count?: number
  /** Of events, by their timestamps. */
  readonly firstSeenMs?: number
  readonly lastSeenMs?: number
}

/** Parts of a list of definitions that are alike. */
interface DefinitionQuery {
  readonly projectId: number
  /** In lower case; each must be contained in the name. */
  readonly words: readonly string[]
  readonly excluded: readonly string[]
}

/** The kinds of events that can be asked for. */
export const EVENT_TYPES = ['event', 'event_custom', 'event_posthog'] as const

/** What a list of events can be ordered by. */
const ORDERS = {
  name: (a: EventFacts, b: EventFacts) => compare(a.name, b.name),
  last_seen_at: (a: EventFacts, b: EventFacts) => a.lastSeenMs - b.lastSeenMs,
  'last_seen_at::date': (a: EventFacts, b: EventFacts) => dayOf(a) - dayOf(b),
} as const

/** Which names of events. */
export interface EventDefinitionQuery extends DefinitionQuery {
  readonly type: (typeof EVENT_TYPES)[number]
  /** Names of orders, with `-` in front for descending; what is no order is passed over. */
  readonly ordering: readonly string[]
}

/** Which names of properties. */
export interface PropertyDefinitionQuery extends DefinitionQuery {
  /** `group`: of the type with the number in `groupType`. */
  readonly of: 'event' | 'person' | 'group'
  readonly groupType: number
  /** Only these; null: all. */
  readonly names: readonly string[] | null
  readonly isNumerical: boolean
  /** Only those of flags, or only others; null: both. */
  readonly isFeatureFlag: boolean | null
  /** Events of which it is said whether they have the property; null: of none. */
  readonly eventNames: readonly string[] | null
  /** Only properties that one of these has. */
  readonly isSeenOnly: boolean
}

/** A property as a list shows it; `isSeen` null: nobody has asked. */
export interface SeenProperty<Facts extends PropertyFacts> {
  readonly facts: Facts
  readonly isSeen: boolean | null
}

/** The id of a definition. About 2 us. */
export function definitionId(projectId: number, kind: string, name: string): string {
  return uuidV5(NAMESPACE, `${projectId}:${kind}:${name}`)
}

/** The words of a search, which are split at spaces. */
export function searchWords(text: string): readonly string[] {
  return text
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '')
}

/** What a value says about its property; null for what is no value. */
export function propertyType(value: unknown): PropertyType | null {
  if (value === null || value === undefined) return null
  if (typeof value === 'number') return 'Numeric'
  if (typeof value === 'boolean') return 'Boolean'
  const day = typeof value === 'string' ? ISO_TIME.exec(value)?.[1] : undefined
  return day !== undefined && !Number.isNaN(Date.parse(day)) ? 'DateTime' : 'String'
}

/** The events that a question means, in order. `deleted`: id -> the newest S that does not count. */
export function findEvents(
  events: Iterable<EventFacts>,
  deleted: ReadonlyMap<string, number>,
  { words, excluded, type, ordering }: EventDefinitionQuery,
): readonly EventFacts[] {
  const isLeftOut = nameTest(words, excluded)
  const found: EventFacts[] = []
  for (const event of events) {
    const { name } = event
    if (isDeleted(event, deleted) || isLeftOut(name)) continue
    if (type !== 'event' && name.startsWith('$') !== (type === 'event_posthog')) continue
    found.push(event)
  }
  const orders = ordering.flatMap(orderOf)
  if (orders.length === 0) orders.push((a, b) => dayOf(b) - dayOf(a))
  orders.push(ORDERS.name)
  return found.sort((a, b) => {
    for (const order of orders) {
      const difference = order(a, b)
      if (difference !== 0) return difference
    }
    return 0
  })
}

/** Whether the definition of an event was deleted, and no event has come since. */
export function isDeleted(event: EventFacts, deleted: ReadonlyMap<string, number>): boolean {
  return deleted.size > 0 && event.lastSequence <= (deleted.get(event.id) ?? 0)
}

/**
 * The properties that a question means, in order: those first that the events have. `isSeen` says so of
 * one; null: nobody has asked.
 */
export function findProperties<Facts extends PropertyFacts>(
  properties: Iterable<Facts>,
  isSeen: ((facts: Facts) => boolean) | null,
  query: Omit<PropertyDefinitionQuery, 'projectId' | 'groupType' | 'eventNames' | 'of'> & {
    readonly of: PropertyDefinitionQuery['of'] | 'session'
  },
): readonly SeenProperty<Facts>[] {
  const { of, words, excluded, isNumerical, isFeatureFlag, isSeenOnly } = query
  const isLeftOut = nameTest(words, excluded)
  const names = query.names === null ? null : new Set(query.names)
  const found: SeenProperty<Facts>[] = []
  for (const facts of properties) {
    const { name, type } = facts
    if ((of === 'event' && UNLISTED.has(name)) || isLeftOut(name)) continue
    if (names?.has(name) === false) continue
    if (isNumerical && (!isNumber(type) || NO_NUMBERS.has(name))) continue
    if (isFeatureFlag !== null && name.startsWith(FLAG_PREFIX) !== isFeatureFlag) continue
    const seen = isSeen === null ? null : isSeen(facts)
    if (!isSeenOnly || seen !== false) found.push({ facts, isSeen: seen })
  }
  return found.sort(
    (a, b) => Number(b.isSeen) - Number(a.isSeen) || compare(a.facts.name, b.facts.name),
  )
}

/** A definition of an event as the API has it; `count` and `first_seen_at` are ours. */
export function eventBody({ id, name, count, ...times }: EventFacts) {
  return {
    id,
    name,
    created_at: timeText(times.firstArrivalMs),
    last_seen_at: timeText(times.lastSeenMs),
    last_updated_at: timeText(times.lastArrivalMs),
    tags: [],
    is_action: false,
    action_id: null,
    is_calculating: false,
    last_calculated_at: null,
    created_by: null,
    post_to_slack: false,
    count,
    first_seen_at: timeText(times.firstSeenMs),
  }
}

/** A definition of a property as the API has it; `count` and the times are ours. */
export function propertyBody(id: string, { facts, isSeen }: SeenProperty<PropertyFacts>) {
  const { name, type, count, firstSeenMs, lastSeenMs } = facts
  return {
    id,
    name,
    is_numerical: isNumber(type),
    property_type: type,
    tags: [],
    is_seen_on_filtered_events: isSeen,
    ...(count === undefined ? {} : { count }),
    ...(firstSeenMs === undefined ? {} : { first_seen_at: timeText(firstSeenMs) }),
    ...(lastSeenMs === undefined ? {} : { last_seen_at: timeText(lastSeenMs) }),
  }
}

function isNumber(type: PropertyType | null): boolean {
  return type === 'Numeric' || type === 'Duration'
}

function nameTest(words: readonly string[], excluded: readonly string[]) {
  const names = new Set(excluded)
  return (name: string): boolean => {
    if (names.has(name)) return true
    if (words.length === 0) return false
    const folded = name.toLowerCase()
    return !words.every((word) => folded.includes(word))
  }
}

function orderOf(text: string): readonly ((a: EventFacts, b: EventFacts) => number)[] {
  const isDescending = text.startsWith('-')
  const name = isDescending ? text.slice(1) : text
  if (!Object.hasOwn(ORDERS, name)) return []
  const order = ORDERS[name as keyof typeof ORDERS]
  return [isDescending ? (a, b) => order(b, a) : order]
}

function dayOf({ lastSeenMs }: EventFacts): number {
  return Math.floor(lastSeenMs / DAY_MS)
}

function compare(a: string, b: string): number {
  if (a === b) return 0
  return a < b ? -1 : 1
}
