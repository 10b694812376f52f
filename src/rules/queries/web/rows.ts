/**
 * The events that tables of web analytics count. The events of a session are adjacent, so that a table needs only one
 * pass. Events without a session are grouped by person. The sessions of a person are adjacent as well. So code that
 * counts the persons of each value recognizes a person by comparing it with the last person of the value.
 */
import { largestPerson } from '../../analytics/actor-page.ts'
import { orderRows, rowsByActor } from '../../analytics/actor-rows.ts'
import type { EventColumns, EventScanner, ValueColumn } from '../../analytics/event-columns.ts'

/** The bytes of one row: four 32-bit numbers and one byte. */
const ROW_BYTES = 17

/**
 * Events as parallel lists, with one row for each event. The events of a session are ordered by time. The events of a
 * person without a session are ordered by time too.
 */
export interface WebRows {
  readonly count: number
  /** The number of the session. 0 means none. */
  readonly sessions: Uint32Array
  readonly persons: Uint32Array
  /** The series that each event belongs to. Bit i is set if the event belongs to series i. */
  readonly masks: Uint8Array
  /** The sequence numbers of all events, ascending. */
  readonly sequences: Uint32Array
  /** For each row, its position in `sequences`. */
  readonly arrivals: Uint32Array
  /** The number of bytes of memory that these lists use. */
  readonly bytes: number
}

/**
 * Returns the rows of the events for which `isKept` is 1, from a scan in the order of arrival. The cost is linear as
 * long as the times are nearly in order.
 */
export function rowsOf(
  columns: EventColumns,
  sessionOfEvent: Uint32Array,
  isKept: Uint8Array,
  limits: Pick<EventScanner, 'checkLimits'>,
): WebRows {
  const { count, persons } = columns
  const owners = new Uint32Array(count)
  // An owner is a session or, for events without a session, a person. The numbers of such persons follow the numbers of
  // all sessions, so that no two owners have the same number.
  const firstPerson = largestPerson(sessionOfEvent, count)
  for (let event = 0; event < count; event++) {
    if (isKept[event] !== 1) continue
    const session = sessionOfEvent[event] ?? 0
    owners[event] = session === 0 ? firstPerson + (persons[event] ?? 0) : session
  }
  const byOwner = rowsByActor(owners, count)
  orderRows(byOwner, columns, limits)
  const { starts, rows: events } = byOwner
  const ownerCount = byOwner.keys.length
  const personOfOwner = new Uint32Array(ownerCount)
  for (let owner = 0; owner < ownerCount; owner++) {
    personOfOwner[owner] = persons[events[starts[owner] ?? 0] ?? 0] ?? 0
  }
  const order = rowsByActor(personOfOwner, ownerCount).rows
  const placeOf = placesOf(isKept, count)
  const found = emptyRows(events.length)
  let row = 0
  for (let index = 0; index < order.length; index++) {
    const owner = order[index] ?? 0
    const end = starts[owner + 1] ?? 0
    for (let place = starts[owner] ?? 0; place < end; place++) {
      const event = events[place] ?? 0
      const arrival = placeOf[event] ?? 0
      found.sessions[row] = sessionOfEvent[event] ?? 0
      found.persons[row] = persons[event] ?? 0
      found.masks[row] = columns.seriesMasks[event] ?? 0
      found.sequences[arrival] = columns.sequences[event] ?? 0
      found.arrivals[row++] = arrival
    }
  }
  return { ...found, count: row, bytes: row * ROW_BYTES }
}

/**
 * Returns the value numbers of a column in the order of the rows. The entries of the column are in the order of
 * arrival. If the column has no values, all numbers are 0.
 */
export function idsByRow({ count, arrivals }: WebRows, { ids, values }: ValueColumn): Uint32Array {
  const byRow = new Uint32Array(count)
  if (values.length === 1) return byRow
  for (let row = 0; row < count; row++) byRow[row] = ids[arrivals[row] ?? 0] ?? 0
  return byRow
}

/**
 * Returns, for each row, the number that `ofSession` contains for the session of the row. The number is 0 for rows
 * without a session.
 */
export function idsOfSessions({ count, sessions }: WebRows, ofSession: Uint32Array): Uint32Array {
  const byRow = new Uint32Array(count)
  for (let row = 0; row < count; row++) {
    const session = sessions[row] ?? 0
    byRow[row] = session === 0 ? 0 : (ofSession[session] ?? 0)
  }
  return byRow
}

/** Returns, for each event, how many kept events come before it. */
function placesOf(isKept: Uint8Array, count: number): Uint32Array {
  const places = new Uint32Array(count)
  let place = 0
  for (let event = 0; event < count; event++) {
    places[event] = place
    place += isKept[event] ?? 0
  }
  return places
}

function emptyRows(count: number): Omit<WebRows, 'bytes' | 'count'> {
  return {
    sessions: new Uint32Array(count),
    persons: new Uint32Array(count),
    masks: new Uint8Array(count),
    sequences: new Uint32Array(count),
    arrivals: new Uint32Array(count),
  }
}
