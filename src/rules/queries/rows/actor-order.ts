/**
 * Yields the actors of an ActorsQuery in order and reads each actor only when it is needed. If there are few actors,
 * all of them are read and sorted. If there are many persons, the order comes from an index or from values of the query
 * in `source`, and only the persons that come first are read.
 */
import { ServiceError } from '../../../base/errors.ts'
import { DISTINCT_IDS_SHOWN_MAX } from '../../../base/limits.ts'
import { timeText } from '../../../base/time.ts'
import { largestPerson } from '../../analytics/actor-page.ts'
import type { FoundPerson } from '../actor-source.ts'
import { ACTORS_SORTED_MAX } from '../limits.ts'
import type { QueryActors, QueryShard } from '../query-kind.ts'
import { type ActorColumn, columnOrder, type FoundActor, sourceValue } from './actor-columns.ts'
import { compareDirected } from './row-order.ts'

/** The loops over actors check the time limit of the query once for this number of actors. */
const CHECK_EVERY = 128
/**
 * For an order by `created_at`: if `actors` contains more persons than this, they are read in the order of the index of
 * `created_at`. Otherwise all of them are read and sorted.
 */
const SORTED_BEFORE_WALK = 10_000
/**
 * The extra capacity of the list in `firstPlaces`. The capacity is twice the wanted number of actors plus this number.
 * When the list is full, it is sorted and cut to the wanted number.
 */
const GATHERED_MORE = 1024

/** A column that actors are ordered by. */
export interface ActorOrder {
  readonly column: ActorColumn
  readonly isDescending: boolean
}

/**
 * Yields actors in order, and null for an actor that no longer exists. If `actors` is null, all persons are used.
 * `countMax` is the number of actors that the caller needs. Throws 400 `query_too_large` if there are too many actors
 * to sort, and the same errors as `EventScanner.checkLimits`.
 */
export function* orderedActors(
  order: readonly ActorOrder[],
  actors: QueryActors | null,
  countMax: number,
  shard: QueryShard,
): Generator<FoundActor | null> {
  const { scanner } = shard
  const [first] = order
  const index = first === undefined ? null : indexOf(first.column)
  if (first !== undefined && index !== null && isWalked(index, actors)) {
    yield* walked(index, first.isDescending, actors, shard)
    return
  }
  const source = actors ?? { groupTypeIndex: null, persons: allNumbers(shard), groupKeys: [] }
  let read = 0
  for (const place of sortedPlaces(order, source, countMax, shard)) {
    if (read++ % CHECK_EVERY === 0) scanner.checkLimits()
    yield actorAt(place, source, shard)
  }
}

/** Returns the index that contains all persons in the order of a column, or null if there is none. */
function indexOf(column: ActorColumn): 'created_at' | 'id' | null {
  if (column.from === 'source' || column.member === 'property') return null
  return column.member === 'created_at' ? 'created_at' : 'id'
}

function isWalked(index: 'created_at' | 'id', actors: QueryActors | null): boolean {
  if (actors === null) return true
  return index === 'created_at' && actors.persons.length > SORTED_BEFORE_WALK
}

function* walked(
  index: 'created_at' | 'id',
  isDescending: boolean,
  actors: QueryActors | null,
  shard: QueryShard,
): Generator<FoundActor> {
  const { actorSource, scanner } = shard
  const numbers = Uint32Array.from(actors?.persons ?? [])
  const places = new Uint32Array(largestPerson(numbers, numbers.length) + 1)
  for (const [place, number] of numbers.entries()) places[number] = place + 1
  let seen = 0
  for (const number of actorSource.numbers(index, isDescending)) {
    if (seen++ % CHECK_EVERY === 0) scanner.checkLimits()
    const place = actors === null ? 0 : (places[number] ?? 0) - 1
    const person = actors !== null && place < 0 ? null : actorSource.person(number)
    if (person !== null) yield personActor(person, place)
  }
  if (actors === null) return
  yield* visitorsOf(actors, shard)
}

/** Returns the distinct ids without a person. They have no creation time, so they come last. */
function visitorsOf(actors: QueryActors, shard: QueryShard): readonly FoundActor[] {
  const firstPersonless = shard.scanner.firstPersonless(shard.context.projectId)
  const visitors: FoundActor[] = []
  for (const [place, number] of actors.persons.entries()) {
    if (place % CHECK_EVERY === 0) shard.scanner.checkLimits()
    if (number >= firstPersonless) visitors.push(visitorActor(number, place, shard))
  }
  return visitors.sort((left, right) => (left.id < right.id ? -1 : 1))
}

function allNumbers({ actorSource, scanner }: QueryShard): readonly number[] {
  const numbers: number[] = []
  for (const number of actorSource.numbers('created_at', true)) {
    numbers.push(number)
    if (numbers.length % CHECK_EVERY === 0) scanner.checkLimits()
    if (numbers.length > ACTORS_SORTED_MAX) throw tooManyToSort()
  }
  return numbers
}

function tooManyToSort(): ServiceError {
  const detail = `More than ${ACTORS_SORTED_MAX} actors cannot be ordered by this column. Order by \`id\` or \`created_at\`.`
  return new ServiceError('query_too_large', detail)
}

/** Returns the positions of the actors in order: all of them, or the first `countMax`. */
function sortedPlaces(
  order: readonly ActorOrder[],
  actors: QueryActors,
  countMax: number,
  shard: QueryShard,
): Uint32Array {
  const { scanner } = shard
  const count = Math.max(actors.persons.length, actors.groupKeys.length)
  const isRead = order.some(({ column }) => indexOf(column) !== 'id' && column.from === 'actor')
  if (isRead && count > ACTORS_SORTED_MAX) throw tooManyToSort()
  const values: unknown[][] = order.map(() => [])
  for (let place = 0; place < count; place++) {
    if (place % CHECK_EVERY === 0) scanner.checkLimits()
    const found = isRead ? actorAt(place, actors, shard) : null
    for (const [index, { column }] of order.entries()) {
      values[index]?.push(
        found === null
          ? knownValue(column, place, actors, shard)
          : columnOrder(column, found, actors),
      )
    }
  }
  const compare = (left: number, right: number): number => {
    for (const [index, { isDescending }] of order.entries()) {
      const list = values[index] ?? []
      const compared = compareDirected(list[left], list[right], isDescending)
      if (compared !== 0) return compared
    }
    return left - right
  }
  return firstPlaces(count, countMax, compare)
}

/**
 * Returns the value by which an actor is ordered, without reading the actor. For the id of a person, the value is the
 * first bits of the person's uuid as a number.
 */
function knownValue(
  column: ActorColumn,
  place: number,
  actors: QueryActors,
  { scanner, context }: QueryShard,
): unknown {
  if (column.from === 'source') return sourceValue(column, place, actors)
  if (indexOf(column) !== 'id') return null
  const person = actors.persons[place]
  return person === undefined
    ? actors.groupKeys[place]
    : scanner.uuidPrefix(context.projectId, person)
}

/**
 * Returns the `countMax` positions that come first, in order. Positions that may be among the first ones are collected
 * in a list. When the list is full, it is sorted and all but the first `countMax` are dropped.
 */
function firstPlaces(
  count: number,
  countMax: number,
  compare: (left: number, right: number) => number,
): Uint32Array {
  const size = Math.min(count, countMax)
  const gathered = new Uint32Array(Math.min(count, 2 * size + GATHERED_MORE))
  let length = 0
  let last = -1
  for (let place = 0; place < count; place++) {
    if (last >= 0 && compare(place, last) > 0) continue
    gathered[length++] = place
    if (length < gathered.length || place === count - 1) continue
    gathered.sort(compare)
    length = size
    last = gathered[size - 1] ?? -1
  }
  return gathered.subarray(0, length).sort(compare).subarray(0, size)
}

function actorAt(
  place: number,
  { groupTypeIndex, persons, groupKeys }: QueryActors,
  shard: QueryShard,
): FoundActor | null {
  const { actorSource, scanner, context } = shard
  if (groupTypeIndex !== null)
    return groupActor(groupTypeIndex, groupKeys[place] ?? '', place, actorSource)
  const number = persons[place] ?? 0
  if (number >= scanner.firstPersonless(context.projectId))
    return visitorActor(number, place, shard)
  const person = actorSource.person(number)
  return person === null ? null : personActor(person, place)
}

/** Returns a visitor without a person. Only its ids are known. */
function visitorActor(number: number, place: number, { scanner, context }: QueryShard): FoundActor {
  const id = scanner.personUuid(context.projectId, number)
  const visitorId = scanner.personlessId(context.projectId, number)
  const nothing = { createdAtMs: null, person: null, properties: {} }
  return { place, id, visitorId, ...nothing, shown: () => ({ id }) }
}

function personActor(person: FoundPerson, place: number): FoundActor {
  const { uuid: id, createdAtMs, isIdentified: is_identified } = person
  const created_at = timeText(createdAtMs)
  return {
    place,
    id,
    createdAtMs,
    person,
    visitorId: null,
    get properties() {
      return person.properties
    },
    shown() {
      const distinct_ids = person.distinctIds(DISTINCT_IDS_SHOWN_MAX)
      return { id, properties: person.properties, is_identified, created_at, distinct_ids }
    },
  }
}

function groupActor(
  group_type_index: number,
  group_key: string,
  place: number,
  actorSource: QueryShard['actorSource'],
): FoundActor {
  const group = actorSource.group(group_type_index, group_key)
  const created_at = group?.created_at ?? null
  const properties = group?.group_properties ?? {}
  const createdAtMs = created_at === null ? null : Date.parse(created_at)
  const rest = { properties, group_properties: properties, created_at }
  return {
    place,
    id: group_key,
    createdAtMs,
    person: null,
    visitorId: null,
    properties,
    shown: () => ({ id: group_key, type: 'group', group_key, group_type_index, ...rest }),
  }
}
