/**
 * Definitions of the names of events and properties: the facts about each name, the search, the order, and the form in
 * which clients receive them. Source: docs/compatibility/definitions.md, "Names of events" and "Names of properties".
 */
import { uuidV5 } from '../../base/ids.ts'
import { timeText } from '../../base/time.ts'

const NAMESPACE = '0b6a7a5e-9d0f-4f0a-8a35-5d2c1f6f8e21'
const FLAG_PREFIX = '$feature/'
const ISO_TIME =
  /^(\d{4}-\d{2}-\d{2})(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:Z|[+-]\d{2}(?::?\d{2})?)?)?$/
const DAY_MS = 24 * 60 * 60 * 1000

/** Event properties that control the processing of an event and do not describe it. Lists leave them out. */
const UNLISTED: ReadonlySet<string> = new Set([
  'distinct_id',
  '$set',
  '$set_once',
  '$initial_referrer',
  '$initial_referring_domain',
  '$groups',
  '$group_type',
  '$group_key',
  '$group_set',
  '$group_0',
  '$group_1',
  '$group_2',
  '$group_3',
  '$group_4',
])
/** Properties that a query for numeric properties leaves out, although their values may be numbers. */
const NO_NUMBERS: ReadonlySet<string> = new Set(['distinct_id', 'timestamp'])

/** The type of the values of a property. `Duration`, in seconds, is only for sessions. */
export type PropertyType = 'DateTime' | 'String' | 'Numeric' | 'Boolean' | 'Duration'

/** The facts about the events of one name. Times are milliseconds since 1970. */
export interface EventFacts {
  /** A UUID that never changes. */
  readonly id: string
  readonly name: string
  readonly count: number
  /** The timestamps of the earliest and of the latest event. */
  readonly firstSeenMs: number
  readonly lastSeenMs: number
  readonly firstArrivalMs: number
  readonly lastArrivalMs: number
  /** The sequence number of the newest event. */
  readonly lastSequence: number
}

/** A definition that a user has deleted. It is hidden until a new event with the name arrives. */
export interface DeletedDefinition {
  readonly id: string
  /** The sequence number of the newest event of the project at the time of the deletion. */
  readonly sequence: number
}

/** The facts about the properties of one name. */
export interface PropertyFacts {
  readonly name: string
  /** The type of the first value that is not null. Null as long as there is none. */
  readonly type: PropertyType | null
  /** The number of events, persons or groups that have the property. Absent if it was not counted. */
  readonly count?: number
  /** The timestamps of the earliest and of the latest event with the property. */
  readonly firstSeenMs?: number
  readonly lastSeenMs?: number
}

/** The parts that both queries of definitions share. */
interface DefinitionQuery {
  readonly projectId: number
  /** Words in lower case. The name must contain each of them. */
  readonly words: readonly string[]
  readonly excluded: readonly string[]
}

/** The kinds of events that a query can select. */
export const EVENT_TYPES = ['event', 'event_custom', 'event_posthog'] as const

/** The possible orders of a list of events. */
const ORDERS = {
  name: (a: EventFacts, b: EventFacts) => compare(a.name, b.name),
  last_seen_at: (a: EventFacts, b: EventFacts) => a.lastSeenMs - b.lastSeenMs,
  'last_seen_at::date': (a: EventFacts, b: EventFacts) => dayOf(a) - dayOf(b),
} as const

/** A query for names of events. */
export interface EventDefinitionQuery extends DefinitionQuery {
  readonly type: (typeof EVENT_TYPES)[number]
  /** The names of orders, with a leading `-` for descending. Unknown names are ignored. */
  readonly ordering: readonly string[]
}

/** A query for names of properties. */
export interface PropertyDefinitionQuery extends DefinitionQuery {
  /** The owner of the properties. `group` means groups of the type with the number `groupType`. */
  readonly of: 'event' | 'person' | 'group'
  readonly groupType: number
  /** The wanted names. Null means all names. */
  readonly names: readonly string[] | null
  readonly isNumerical: boolean
  /** True selects only flag properties, false only other properties. Null selects both. */
  readonly isFeatureFlag: boolean | null
  /**
   * The names of events. The answer says for each property whether these events have it. If null, the answer leaves
   * this out.
   */
  readonly eventNames: readonly string[] | null
  /** True to select only the properties that at least one of these events has. */
  readonly isSeenOnly: boolean
}

/** A property as a list shows it. `isSeen` is null if the query named no events. */
export interface SeenProperty<Facts extends PropertyFacts> {
  readonly facts: Facts
  readonly isSeen: boolean | null
}

/** Returns the id of a definition. It takes about 2 us. */
export function definitionId(projectId: number, kind: string, name: string): string {
  return uuidV5(NAMESPACE, `${projectId}:${kind}:${name}`)
}

/** Returns the words of a search, which are separated by spaces. */
export function searchWords(text: string): readonly string[] {
  return text
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '')
}

/** Returns the type that a value indicates, or null if the value is null or undefined. */
export function propertyType(value: unknown): PropertyType | null {
  if (value === null || value === undefined) return null
  if (typeof value === 'number') return 'Numeric'
  if (typeof value === 'boolean') return 'Boolean'
  const day = typeof value === 'string' ? ISO_TIME.exec(value)?.[1] : undefined
  return day !== undefined && !Number.isNaN(Date.parse(day)) ? 'DateTime' : 'String'
}

/**
 * Returns the events that a query selects, in order. `deleted` maps the id of each deleted definition to the newest
 * sequence number at the time of the deletion. The definition stays deleted until an event with a larger sequence
 * number arrives.
 */
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

/** Returns whether the definition of an event was deleted and no event has arrived since. */
export function isDeleted(event: EventFacts, deleted: ReadonlyMap<string, number>): boolean {
  return deleted.size > 0 && event.lastSequence <= (deleted.get(event.id) ?? 0)
}

/**
 * Returns the properties that a query selects, ordered by name. If the query names events, the properties found on
 * those events come first. `isSeen` returns whether a property was found on those events. `isSeen` is null if the query
 * names no events.
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

/** Returns the definition of an event in the form of the API. `count` and `first_seen_at` are additions of Tenrec. */
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

/** Returns the definition of a property in the form of the API. `count` and the times are additions of Tenrec. */
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
