/**
 * What analytic queries read: the events of a time range that matter, as plain columns, with the person
 * who owns each event now. Shapes only: the store fills them (store/warehouse/scan/event-scan.ts), the algorithms of
 * this folder compute on them.
 */
import type { FilterGroup } from '../filters/filter-group.ts'
import type { DateRange } from './date-range.ts'

/** Which events belong to a series (a step, an entity); everything that is given must hold. */
export interface SeriesMatch {
  /** Event names, joined by OR; null: every event. */
  readonly names: readonly string[] | null
  /** Filters of the series; null: none. */
  readonly filter: FilterGroup | null
  /** Alternatives, joined by OR: the steps of an action. Empty: none, `names` and `filter` decide. */
  readonly steps: readonly ActionStepMatch[]
}

/** One step of an action; everything that is given must hold. */
export interface ActionStepMatch {
  readonly name: string | null
  readonly url: string | null
  readonly urlMatching: 'contains' | 'exact' | 'regex'
  /** Filters on the step, element filters too. */
  readonly filter: FilterGroup | null
}

/** A value to be read of each event. */
export type ValueRequest =
  | { readonly kind: 'event_property'; readonly key: string }
  /** Latest value of the owner's property. */
  | { readonly kind: 'person_property'; readonly key: string }
  /** Latest value of the property of the group of that type that the event was sent with. */
  | { readonly kind: 'group_property'; readonly typeIndex: number; readonly key: string }
  /** Key of the group of that type that the event was sent with. */
  | { readonly kind: 'group_key'; readonly typeIndex: number }
  | { readonly kind: 'event_name' }
  | { readonly kind: 'distinct_id' }
  /** The session that the event belongs to: the same number, from 1, in all columns of a query. */
  | { readonly kind: 'session' }

/** Series at most; a mask of 32 bits tells which an event belongs to. */
export const SERIES_MAX = 31

/** What to scan. Times are milliseconds since 1970, both inclusive. */
export interface EventScanRequest {
  readonly projectId: number
  readonly fromMs: number
  readonly toMs: number
  /** Holds for every event that takes part; null: no restriction. */
  readonly filter: FilterGroup | null
  /** An event takes part when it belongs to at least one of these; at most `SERIES_MAX`. */
  readonly series: readonly SeriesMatch[]
  readonly values: readonly ValueRequest[]
  /** Only events of these persons (P); null: all. */
  readonly persons: PersonSet | null
  /** Only events of these sessions: 1 at the number of each. Absent: all, and events without one. */
  readonly sessions?: Uint8Array
  /** Milliseconds since 1970; for filters on relative dates. */
  readonly nowMs: number
  /**
   * `unsorted`: the events may come in any order. `any`: so they may, and `sequences` may be empty. `arrival`: in
   * that of `sequences`. All of them spare sorting. Absent means `time`.
   */
  readonly order?: 'time' | 'arrival' | 'unsorted' | 'any'
  /** `timesMs` and `seriesMasks` may be empty, too. */
  readonly isPersonsOnly?: boolean
  /**
   * Of pieces: what of events at times `within` is looked at, beside their values. `persons`: not their times
   * and series; `times`: nothing but these; `count`: none of all that. Absent: as `isPersonsOnly` says.
   */
  readonly looksAt?: (within: DateRange) => LookedAt
  /** Events that belong to nobody are found, too, with the person 0. */
  readonly keepsOwnerless?: boolean
  /** Only events of persons: a distinct_id without one is not found. */
  readonly hasProfile?: boolean
  /**
   * `persons` has the D of each event in place of its owner, 0 where that was erased: what is computed of them
   * does not depend on who owns what. Not with `hasProfile`, nor in parts by persons.
   */
  readonly areIds?: boolean
  /** Only a part of the events; absent: all. */
  readonly part?: EventPart
  /** Event properties that are read soon: cheaper when a segment is open anyhow. */
  readonly soon?: readonly string[]
}

/** Which lists of a piece are looked at, beside those of values; `count`: none. */
export type LookedAt = 'all' | 'persons' | 'times' | 'count'

/**
 * One of `count` parts of the events of a project, from 0: together they are all events, each once. Divided
 * by segments, by the persons who own the events now, or by sessions.
 */
export interface EventPart {
  readonly by: 'segments' | 'persons' | 'sessions'
  readonly index: number
  readonly count: number
  /** Where parts by sessions begin, but the first, see `EventScanner.sessionBounds`; absent: there is one part. */
  readonly bounds?: readonly number[]
  /** Only events behind one place in the order of arrival, up to another one. */
  readonly sequences?: { readonly after: number; readonly through: number }
  /** Only events of these persons, 1 at the P of each. */
  readonly among?: Uint8Array
  /** Whose the events were behind so many changes, see `KnownEvents.moves`; absent: whose they are. */
  readonly ownersAt?: number
}

/** The events that there are, and whether they are what they were. */
export interface KnownEvents {
  /** The place of the last one in the order of arrival; 0: there is none. */
  readonly through: number
  /** Another text: some of those of before may have changed, or belong to nobody any more. */
  readonly version: string
  /** How often a distinct_id is known to have got another owner since the version began. */
  readonly moves: number
}

/** Some persons. */
export interface PersonSet {
  has(person: number): boolean
  /** For each P whether it is one of them; a P beyond the end is not. */
  readonly marks: Uint8Array
}

/** The persons whose entry in a list by P is 1. */
export function markedPersons(marks: Uint8Array): PersonSet {
  return { has: (person) => marks[person] === 1, marks }
}

/** The persons of a list of P. */
export function listedPersons(persons: Iterable<number>): PersonSet {
  let marks = new Uint8Array(1024)
  for (const person of persons) {
    if (person >= marks.length) {
      const larger = new Uint8Array(Math.max(person + 1, marks.length * 2))
      larger.set(marks)
      marks = larger
    }
    marks[person] = 1
  }
  return markedPersons(marks)
}

/** Values of a column: each different one once. */
export interface ValueColumn {
  /** For each event the position in `values`. Position 0 is always `undefined`: the value is missing. */
  readonly ids: Uint32Array
  /** JSON values as stored, each different one once. */
  readonly values: readonly unknown[]
}

/**
 * The events that were found, ordered by time, equal times by order of arrival, unless the request wants
 * `any` order. A distinct_id without a person counts as a person of its own. What belonged to a person who
 * was deleted belongs to nobody, and is left out, unless `keepsOwnerless`.
 */
export interface EventColumns {
  readonly count: number
  readonly timesMs: Float64Array
  /** P of the owner now, never 0; a distinct_id without a person has a larger number than all persons. */
  readonly persons: Uint32Array
  /** Position in the project's order of arrival. */
  readonly sequences: Uint32Array
  /** Bit i: the event belongs to series i. */
  readonly seriesMasks: Uint32Array
  /** In the order of the request's `values`. */
  readonly values: readonly ValueColumn[]
  /** How many events each row stands for: of pieces that are only counted; absent: each is one event. */
  readonly weights?: Uint32Array | undefined
}

/** In which state of the store the events of a project are seen, and whose they are. */
export interface EventExtent {
  /** Scans of the same state find the same, in parts or as a whole. */
  readonly state: string
  /** The largest P who owns anything, or number of a distinct_id without a person; 0: nobody does. */
  readonly lastPerson: number
  /** The largest D. */
  readonly lastDistinctId: number
}

/** Who owns what now. */
export interface DistinctIdOwners {
  /** For each D its owner, as in `EventColumns.persons`, in the bits of `OWNER_BITS`; 0: there is no such D. */
  readonly words: Uint32Array
  readonly lastPerson: number
  /** Numbers from this one on are no P, but those of distinct_ids without a person. */
  readonly firstPersonless: number
}

/** The bits of an owner in `DistinctIdOwners.words`. */
export const OWNER_BITS = 0x7fff_ffff

/** When persons were created, side by side. */
export interface CreatedPersons {
  /** P of each. */
  readonly persons: Uint32Array
  /** Milliseconds since 1970. */
  readonly timesMs: Float64Array
}

/** Sees a piece; the times of all its events are `within`. */
export type PieceVisitor = (piece: EventColumns, within: DateRange) => void

/** The port to stored events, on one snapshot. Synchronous: it is used in a thread of the pool. */
export interface EventScanner {
  /** Throws `ServiceError` `query_too_large` or `query_timeout` when a limit is reached. */
  scan(request: EventScanRequest): EventColumns
  /**
   * The same events, in an order that is `unsorted` or `any`, piece by piece: `visit` sees each piece until
   * it returns. Pieces mostly come as they arrived, which nothing but speed may depend on. A value has the same
   * position in all pieces, whose lists of values grow. Needs no memory for all events, and what is computed of a
   * piece finds it in the cache of the processor. Throws as `scan`.
   */
  scanPieces(request: EventScanRequest, visit: PieceVisitor): void
  /** Cheap, but for owners that have changed, which are read again. */
  extent(projectId: number): EventExtent
  /** As costly as `extent`. */
  owners(projectId: number): DistinctIdOwners
  /** Events that a scan of a range looks at, at most. Cost: some ns for each segment. */
  eventsWithin(projectId: number, range: DateRange): number
  /**
   * Times that divide the sessions with events in a range into `count` parts of about as many events: an id of a
   * session begins with the time when it began, which need not be true. An event without a session is in the
   * part of others that arrived with it. Cost: as `eventsWithin`.
   */
  sessionBounds(projectId: number, range: DateRange, count: number): readonly number[]
  /**
   * Values of the events at places in the order of arrival, which ascend; none for an event that is not
   * there. Not of `person_property`. Cost: linear in the places and in the segments that hold them.
   */
  valuesAt(
    projectId: number,
    sequences: Uint32Array,
    values: readonly ValueRequest[],
  ): readonly ValueColumn[]
  /**
   * What `make` answers from stored events and their owners. It may be kept under its name, and is not
   * made again as long as neither has changed; whoever gets it must not change what it says.
   */
  remembered<Value extends { readonly bytes: number }>(
    projectId: number,
    name: string,
    make: () => Value,
  ): Value
  /** All events. Cost: one comparison of the owners after each commit. */
  known(projectId: number): KnownEvents
  /**
   * Who lost or got a distinct_id behind the first `moves` changes of this version, as numbers in
   * `EventColumns.persons`; some of them twice. Only behind `known` on the same snapshot.
   */
  movedBehind(projectId: number, moves: number): Uint32Array
  /** Whether a scan so far has looked at more than events and whom they belong to: at what may change. */
  readonly looksAtPersons: boolean
  /** Nobody looks any more at what earlier scans have found: their memory serves the next ones. */
  giveBack(): void
  /**
   * Nobody looks any more at anything that was found on this snapshot: all memory that it took serves what comes.
   * Absent: there is none to speak of.
   */
  startOver?(projectId: number): void
  /**
   * Timestamp of the project's first event at or after `sinceMs`, in milliseconds; null when there is none. Without
   * `sinceMs`: of its first event.
   */
  firstEventMs(projectId: number, sinceMs?: number): number | null
  /** UUID of the person P, or that which a distinct_id without a person stands for. */
  personUuid(projectId: number, person: number): string
  /**
   * The number of the distinct_id without a person that stands for a UUID (lower case); null: none does. Cost:
   * some 4 us for each such distinct_id.
   */
  personlessOf(projectId: number, uuid: string): number | null
  /** Numbers from this one on are no P, but those of distinct_ids without a person. */
  firstPersonless(projectId: number): number
  /** The distinct_id without a person that has such a number. */
  personlessId(projectId: number, number: number): string
  /**
   * The first 48 bits of `personUuid` as a number: smaller for a smaller UUID, equal numbers leave it open.
   * Asked for every person who may be on a page, so it has to be cheap; it never changes for a P. Some 5 us for
   * a distinct_id without a person.
   */
  uuidPrefix(projectId: number, person: number): number
  /**
   * The persons, in any order, whose `created_at` is `fromMs` or later, but before `untilMs`; milliseconds.
   * Cost: linear in their number.
   */
  createdWithin(projectId: number, fromMs: number, untilMs: number): CreatedPersons
  /**
   * Throws as `scan` when the time is over or nobody waits. Cheap enough for every few thousand rows:
   * whatever runs for long besides scans asks it.
   */
  checkLimits(): void
}
