/**
 * The data that analytic queries read: the relevant events of a time range as plain columns, with the current owner of
 * each event. This file contains mainly types. The store provides the data (store/events/scan/event-scan.ts), and the
 * algorithms of this folder compute the answers from it.
 */
import type { FilterGroup } from '../filters/filter-group.ts'
import type { DateRange } from './date-range.ts'

/** The condition for events of a series (a step or an entity). All given members must hold. */
export interface SeriesMatch {
  /** The event names, one of which must match. Null means every event. */
  readonly names: readonly string[] | null
  /** The filters of the series. Null means none. */
  readonly filter: FilterGroup | null
  /**
   * The steps of an action, of which at least one must match. If the list is empty, `names` and `filter` alone decide.
   */
  readonly steps: readonly ActionStepMatch[]
}

/** One step of an action. All given members must hold. */
export interface ActionStepMatch {
  readonly name: string | null
  readonly url: string | null
  readonly urlMatching: 'contains' | 'exact' | 'regex'
  /** The filters of the step, including element filters. */
  readonly filter: FilterGroup | null
}

/** A value to read from each event. */
export type ValueRequest =
  | { readonly kind: 'event_property'; readonly key: string }
  /** The current value of a property of the person that owns the event. */
  | { readonly kind: 'person_property'; readonly key: string }
  /** The current value of a property of the group of this type that the event was sent with. */
  | { readonly kind: 'group_property'; readonly typeIndex: number; readonly key: string }
  /** The key of the group of this type that the event was sent with. */
  | { readonly kind: 'group_key'; readonly typeIndex: number }
  | { readonly kind: 'event_name' }
  | { readonly kind: 'distinct_id' }
  /** The session of the event, as a number from 1 that is the same in all columns of a query. */
  | { readonly kind: 'session' }

/** The maximum number of series. Each series has one bit in the 32-bit numbers of `EventColumns.seriesMasks`. */
export const SERIES_MAX = 31

/** The events to scan. Times are milliseconds since 1970, both inclusive. */
export interface EventScanRequest {
  readonly projectId: number
  readonly fromMs: number
  readonly toMs: number
  /** The filter for all events. Null means no restriction. */
  readonly filter: FilterGroup | null
  /** The series. An event is found if it belongs to at least one of them. There are at most `SERIES_MAX`. */
  readonly series: readonly SeriesMatch[]
  readonly values: readonly ValueRequest[]
  /** The persons whose events are scanned. Null means all persons. */
  readonly persons: PersonSet | null
  /**
   * The sessions whose events are scanned: entry i is 1 if the events of session number i are scanned. If the list is
   * absent, all events are scanned, also events without a session.
   */
  readonly sessions?: Uint8Array
  /** The current time in milliseconds since 1970, for filters on relative dates. */
  readonly nowMs: number
  /**
   * The order in which the events are returned. `time` sorts them and is the default. `arrival` is the order of
   * `sequences`. `unsorted` allows any order. `any` also allows any order, and `sequences` may be left empty. Only
   * `time` costs a sort.
   */
  readonly order?: 'time' | 'arrival' | 'unsorted' | 'any'
  /**
   * Only for `scanChunks`: if true, the same value may be at different positions of `values` in different chunks. The
   * scan is then faster, because it need not look up the positions of values that an earlier chunk had.
   */
  readonly areValuesLocal?: boolean
  /** If true, the caller does not read `timesMs`, `sequences` and `seriesMasks`, so the scan may leave them empty. */
  readonly isPersonsOnly?: boolean
  /**
   * Only for `scanChunks`: returns which columns the caller reads from a chunk whose times are all in the range
   * `within`. The scan may leave the other columns empty. If `looksAt` is absent, `isPersonsOnly` decides.
   */
  readonly looksAt?: (within: DateRange) => LookedAt
  /** If true, events of deleted persons are found as well. They have no owner, and their person number is 0. */
  readonly keepsOwnerless?: boolean
  /** If true, only events of persons are found, and no events of a distinct_id without a person. */
  readonly hasProfile?: boolean
  /**
   * If true, `persons` contains the distinct ID number of each event instead of its owner, or 0 if the id was erased.
   * The result then stays valid when owners change. It must not be combined with `hasProfile` or with parts by persons.
   */
  readonly areIds?: boolean
  /** The part of the events to scan. If it is absent, all events are scanned. */
  readonly part?: EventPart
  /**
   * Event properties that the caller will read in a later scan. They are read now, because that is cheaper while a
   * segment is open.
   */
  readonly soon?: readonly string[]
}

/**
 * Says which columns of `EventColumns` a caller of `scanChunks` reads. `values` is always filled.
 * - `all`: every column.
 * - `persons`: `persons`, but not `timesMs`, `sequences` and `seriesMasks`.
 * - `times`: only `timesMs`.
 * - `count`: no column, only the number of events.
 */
export type LookedAt = 'all' | 'persons' | 'times' | 'count'

/**
 * One of `count` parts of the events of a project, numbered from 0. Together the parts contain every event exactly
 * once. The events are divided by segments, by their current owners or by sessions.
 */
export interface EventPart {
  readonly by: 'segments' | 'persons' | 'sessions'
  readonly index: number
  readonly count: number
  /**
   * For parts by sessions: the start times of all parts except the first, as `EventScanner.sessionBounds` returns them.
   * If the list is absent, there is only one part.
   */
  readonly bounds?: readonly number[]
  /**
   * True if this is a piece of a part that did not fit into memory as a whole. A thread computes the pieces one after
   * the other. Data that would only help a later query is then neither read nor cached.
   */
  readonly isPiece?: boolean
  /** Restricts the part to events whose sequence number is greater than `after` and at most `through`. */
  readonly sequences?: { readonly after: number; readonly through: number }
  /** Restricts the part to the events of some persons. The list contains 1 at the person number of each of them. */
  readonly among?: Uint8Array
  /**
   * Selects an earlier state of the owners, as a number of changes (see `KnownEvents.moves`). With 5, for example, each
   * event belongs to the owner that its distinct_id had after the first 5 changes. If `ownersAt` is absent, each event
   * belongs to its current owner.
   */
  readonly ownersAt?: number
}

/** The state of the stored events, which tells whether earlier results are still valid. */
export interface KnownEvents {
  /** The sequence number of the last event. 0 if there are no events. */
  readonly through: number
  /** A text that changes when earlier events may have changed or may have lost their owner. */
  readonly version: string
  /** The number of times that a distinct_id got another owner since the current `version` began. */
  readonly moves: number
}

/** A set of persons. */
export interface PersonSet {
  has(person: number): boolean
  /** Contains 1 at the person number of each person in the set. A number beyond the end is not in the set. */
  readonly marks: Uint8Array
}

/** Returns the set of persons whose person number has a 1 in `marks`. */
export function markedPersons(marks: Uint8Array): PersonSet {
  return { has: (person) => marks[person] === 1, marks }
}

/** Returns the set of the persons with these person numbers. */
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

/** The values of a column, without duplicates. */
export interface ValueColumn {
  /** For each event, the position in `values`. Position 0 is always `undefined`: the value is missing. */
  readonly ids: Uint32Array
  /** The JSON values as they are stored, without duplicates. */
  readonly values: readonly unknown[]
}

/**
 * The events that a scan found. They are ordered by time, and equal times by arrival, unless the request allows another
 * order. A distinct_id without a person counts as a person of its own. Events of a deleted person belong to nobody and
 * are left out, unless `keepsOwnerless` is true.
 */
export interface EventColumns {
  readonly count: number
  readonly timesMs: Float64Array
  /**
   * The person number of the current owner. A distinct_id without a person has a larger number than all persons. 0
   * stands for an event without an owner and occurs only with `keepsOwnerless`. With `areIds`, the column contains
   * distinct ID numbers instead.
   */
  readonly persons: Uint32Array
  /** The position in the project's order of arrival. */
  readonly sequences: Uint32Array
  /** The series that each event belongs to. Bit i is set if the event belongs to series i. */
  readonly seriesMasks: Uint32Array
  /** The columns of values, in the order of the request's `values`. */
  readonly values: readonly ValueColumn[]
  /**
   * The number of events that each row stands for. A scan sets it only if its caller counts events and reads no times.
   * If it is absent, each row is one event.
   */
  readonly weights?: Uint32Array | undefined
}

/**
 * Identifies the state of the store in which a project's events are read. Also contains the largest owner number and
 * the largest distinct ID number.
 */
export interface EventExtent {
  /** A text that identifies the state. Scans of the same state find the same events, in parts or completely. */
  readonly state: string
  /**
   * The largest owner number that exists. An owner is a person or a distinct_id without a person. 0 if there are no
   * owners.
   */
  readonly lastPerson: number
  /** The largest distinct ID number. */
  readonly lastDistinctId: number
}

/** The current owners of distinct ids. */
export interface DistinctIdOwners {
  /**
   * The owner of each distinct ID, indexed by distinct ID number. The bits `OWNER_BITS` of a word contain the owner,
   * numbered as in `EventColumns.persons`. The word is 0 if no distinct ID has this number.
   */
  readonly words: Uint32Array
  readonly lastPerson: number
  /**
   * The first number that is not a person number. This number and larger ones stand for distinct ids without a person.
   */
  readonly firstPersonless: number
}

/** The bits of `DistinctIdOwners.words` that contain the owner. */
export const OWNER_BITS = 0x7fff_ffff

/** The creation times of persons, as parallel lists. */
export interface CreatedPersons {
  /** The numbers of the persons. */
  readonly persons: Uint32Array
  /** The creation times, in milliseconds since 1970. */
  readonly timesMs: Float64Array
}

/** Receives one chunk of the found events. The times of all its events are in the range `within`. */
export type ChunkVisitor = (chunk: EventColumns, within: DateRange) => void

/**
 * The interface through which queries read stored events, on one snapshot. It is synchronous, because it is used in a
 * worker thread.
 */
export interface EventScanner {
  /**
   * Returns the events that match a request. Throws `ServiceError` `query_too_large` or `query_timeout` if a limit is
   * reached.
   */
  scan(request: EventScanRequest): EventColumns
  /**
   * Passes the events that `scan` would return to `visit`, chunk by chunk. `order` must be `unsorted` or `any`. The
   * chunks usually come in the order of arrival. A caller may use this order to be faster or to need less memory, but
   * its result must not depend on the order. A value has the same position in the `values` of all chunks, except with
   * `areValuesLocal`. A chunk is valid until `visit` returns. A scan by chunks needs no memory for all events at once,
   * and the data of a chunk is in the CPU cache while it is processed. Throws the same errors as `scan`.
   */
  scanChunks(request: EventScanRequest, visit: ChunkVisitor): void
  /**
   * Returns the state of the store. The call is cheap unless owners changed since the last call. Then the owners are
   * read again.
   */
  extent(projectId: number): EventExtent
  /** Returns the owners of all distinct ids. It costs as much as `extent`. */
  owners(projectId: number): DistinctIdOwners
  /**
   * Returns an upper bound for the number of events that a scan of a range reads. It takes a few ns for each segment.
   */
  eventsWithin(projectId: number, range: DateRange): number
  /**
   * Returns the times at which to divide the sessions with events in a range into `count` parts with about the same
   * number of events. The start time of a session is taken from its id. This time may be wrong, but then only the sizes
   * of the parts differ. An event without a session belongs to the part of the events that arrived together with it.
   * The call costs as much as `eventsWithin`.
   */
  sessionBounds(projectId: number, range: DateRange, count: number): readonly number[]
  /**
   * Returns the requested values of the events with the given sequence numbers, which must ascend. An event that does
   * not exist has no values. `person_property` is not supported. The cost is linear in the sequence numbers and in the
   * segments that contain them.
   */
  valuesAt(
    projectId: number,
    sequences: Uint32Array,
    values: readonly ValueRequest[],
  ): readonly ValueColumn[]
  /**
   * Returns the result of `make`. `make` may read only stored events and their owners, because the result may be cached
   * under `name` and is then computed again only after the events or the owners changed. The caller must not change the
   * result.
   */
  remembered<Value extends { readonly bytes: number }>(
    projectId: number,
    name: string,
    make: () => Value,
  ): Value
  /**
   * Returns the values that tell whether a cached result is still valid: the last event, and the changes of owners.
   * After a commit, the first call compares the owners of all distinct_ids with the owners at the previous call.
   * Further calls are cheap.
   */
  known(projectId: number): KnownEvents
  /**
   * Returns the owners that lost or gained a distinct_id after the first `moves` changes of owners (see
   * `KnownEvents.moves`). The owners are numbered as in `EventColumns.persons`. The list may contain duplicates. Call
   * `known` on the same snapshot first.
   */
  movedBehind(projectId: number, moves: number): Uint32Array
  /**
   * True if a scan has read more than events and their owners, such as properties of persons. The result of the scan
   * may then become wrong although no event was added.
   */
  readonly looksAtPersons: boolean
  /**
   * Releases the results of earlier scans, whose memory the next scans reuse. The caller must not use these results any
   * more.
   */
  releaseResults(): void
  /**
   * Releases everything that was read on this snapshot, so that its memory can be reused. It is absent if there is no
   * memory to release.
   */
  startOver?(projectId: number): void
  /**
   * Returns the timestamp of the project's first event at or after `sinceMs`, in milliseconds, or null if there is
   * none. Without `sinceMs`, it returns the timestamp of the first event.
   */
  firstEventMs(projectId: number, sinceMs?: number): number | null
  /**
   * Returns the uuid of the person with this number. For a distinct_id without a person, it returns the uuid that the
   * API shows for it.
   */
  personUuid(projectId: number, person: number): string
  /**
   * Returns the number of the distinct_id without a person for which the API shows this uuid (lower case), or null if
   * there is none. It takes about 4 us for each distinct_id without a person.
   */
  personlessOf(projectId: number, uuid: string): number | null
  /**
   * Returns the first number that is not a person number. Numbers from it on belong to distinct ids without a person.
   */
  firstPersonless(projectId: number): number
  /** Returns the distinct_id with this number. The number must stand for a distinct_id without a person. */
  personlessId(projectId: number, number: number): string
  /**
   * Returns the first 48 bits of the uuid that `personUuid` returns, as a number. Most persons can be put in the order
   * of their uuids by this number alone, without the text of the uuid. If the numbers of two persons are equal, compare
   * the whole uuids. The result for a person number never changes. It takes about 5 us for a distinct_id without a
   * person, and far less for a person.
   */
  uuidPrefix(projectId: number, person: number): number
  /**
   * Returns the persons whose `created_at` is at or after `fromMs` and before `untilMs`, in milliseconds, in any order.
   * The cost is linear in their number.
   */
  createdWithin(projectId: number, fromMs: number, untilMs: number): CreatedPersons
  /**
   * Throws the same errors as `scan` if the time limit is reached or if the client no longer waits for the answer.
   * Scans check this themselves. All other long-running code must call this function, for example once for every few
   * thousand rows. It is cheap.
   */
  checkLimits(): void
}
