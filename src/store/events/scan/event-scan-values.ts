/**
 * Reads the values that queries request from events, over all segments. Equal values in different segments get the same
 * number.
 */

import { getOrAdd } from '../../../base/maps.ts'
import type { ValueColumn, ValueRequest } from '../../../rules/analytics/event-columns.ts'
import { withRoom } from '../../../rules/analytics/growing-arrays.ts'
import { type ColumnValues, idAt, type PlacedColumn, valueAt } from './event-scan-columns.ts'
import { type Candidates, groupColumn, type ScanFacts } from './event-scan-filter.ts'
import type { ScanSegment } from './event-scan-segment.ts'

/** Reads one value for each candidate, that is, for each row that the scan still examines. */
export interface ValueReader {
  /** Writes the number of the value of each candidate into `target`, from the index `start` on. */
  read(candidates: Candidates, target: Uint32Array, start: number): void
  /** Returns the column from which the value is read. Undefined if the value does not come from one column. */
  readonly columnOf?: (segment: ScanSegment) => PlacedColumn
  /** Returns the number of a value in the column of `columnOf`. Undefined if `columnOf` is undefined. */
  readonly numberOf?: (stored: unknown) => number
  /** The values, by number. The value with number 0 is always `undefined`. */
  readonly values: readonly unknown[]
}

/** Returns a reader for a requested value. `isLocal` is the member `areValuesLocal` of the scan's request. */
export function valueReader(request: ValueRequest, facts: ScanFacts, isLocal = false): ValueReader {
  switch (request.kind) {
    case 'event_name':
      return new ColumnReader((segment) => segment.names)
    case 'event_property': {
      const columnOf = (segment: ScanSegment): PlacedColumn =>
        segment.property(request.key, facts.textOf)
      return isLocal ? new LocalReader(columnOf) : new ColumnReader(columnOf)
    }
    case 'group_key':
      return new ColumnReader((segment) => groupColumn(segment, request.typeIndex, facts))
    case 'group_property': {
      const { typeIndex, key } = request
      const known = new Map<unknown, { readonly value: unknown }>()
      const read = (group: unknown) => ({
        value: typeof group === 'string' ? facts.groupProperty(typeIndex, group, key) : undefined,
      })
      return new ColumnReader(
        (segment) => groupColumn(segment, typeIndex, facts),
        (group) => getOrAdd(known, group, read).value,
      )
    }
    case 'person_property':
      return new NumberReader(
        ({ owners }, index) => owners[index] ?? 0,
        (person) => facts.personProperty(person, request.key),
      )
    case 'distinct_id':
      return new NumberReader(
        ({ segment, places }, index) => segment.distinctIds[places[index] ?? 0] ?? 0,
        facts.textOf,
      )
    case 'session':
      return new SessionReader(facts)
  }
}

/** Returns the column of a result, with `count` rows. */
export function valueColumn(ids: Uint32Array, count: number, reader: ValueReader): ValueColumn {
  return {
    ids: ids.subarray(0, count),
    // This is a getter, so that the texts of session ids are created only when they are read.
    get values() {
      return reader.values
    },
  }
}

/** Gives numbers to values. Values that are equal as JSON get the same number. */
class Dictionary {
  readonly values: unknown[] = [undefined]
  readonly #ids = new Map<unknown, number>()
  /** The numbers of values that are objects or arrays, by their JSON. */
  readonly #objectIds = new Map<string, number>()

  idOf(value: unknown): number {
    if (value === undefined) return 0
    if (typeof value === 'object' && value !== null) {
      return this.#numbered(this.#objectIds, JSON.stringify(value), value)
    }
    return this.#numbered(this.#ids, value, value)
  }

  #numbered<Key>(ids: Map<Key, number>, key: Key, value: unknown): number {
    return getOrAdd(ids, key, () => this.values.push(value) - 1)
  }
}

class ColumnReader implements ValueReader {
  readonly #dictionary = new Dictionary()
  readonly columnOf: (segment: ScanSegment) => PlacedColumn
  readonly #readValue: (stored: unknown) => unknown

  /** `readValue` turns a value of the column into the value that the query requests. */
  constructor(
    columnOf: (segment: ScanSegment) => PlacedColumn,
    readValue: (stored: unknown) => unknown = (stored) => stored,
  ) {
    this.columnOf = columnOf
    this.#readValue = readValue
  }

  get values(): readonly unknown[] {
    return this.#dictionary.values
  }

  numberOf = (stored: unknown): number => this.#dictionary.idOf(this.#readValue(stored))

  read({ segment, places, count }: Candidates, target: Uint32Array, start: number): void {
    const { ids, first, values } = this.columnOf(segment)
    if (values.length === 1) {
      target.fill(this.numberOf(undefined), start, start + count)
      return
    }
    // For each value of the column: its number plus 1, or 0 if the number was not looked up yet.
    const numbers = new Uint32Array(values.length)
    for (let index = 0; index < count; index++) {
      const id = idAt(ids, first, places[index] ?? 0)
      let number = numbers[id] ?? 0
      if (number === 0) {
        number = this.numberOf(valueAt(values, id)) + 1
        numbers[id] = number
      }
      target[start + index] = number - 1
    }
  }
}

/**
 * Reads values without a common numbering for all segments: the number of a value is its index in the column of its
 * segment.
 */
class LocalReader implements ValueReader {
  readonly #columnOf: (segment: ScanSegment) => PlacedColumn
  #values: ColumnValues = []

  constructor(columnOf: (segment: ScanSegment) => PlacedColumn) {
    this.#columnOf = columnOf
  }

  get values(): readonly unknown[] {
    const values = this.#values
    if (!(values instanceof Float64Array)) return values
    const list: unknown[] = [undefined]
    for (let id = 1; id < values.length; id++) list.push(values[id])
    return list
  }

  read({ segment, places, count }: Candidates, target: Uint32Array, start: number): void {
    const { ids, first, values } = this.#columnOf(segment)
    this.#values = values
    for (let index = 0; index < count; index++) {
      target[start + index] = idAt(ids, first, places[index] ?? 0)
    }
  }
}

/** Reads a value that depends only on the owner or on the distinct ID number of a candidate. */
class NumberReader implements ValueReader {
  readonly #dictionary = new Dictionary()
  readonly #numberAt: (candidates: Candidates, index: number) => number
  readonly #readValue: (number: number) => unknown
  /** For each owner or distinct ID number: the number of its value plus 1, or 0 if it was not looked up yet. */
  #numbers = new Uint32Array(1024)

  constructor(
    numberAt: (candidates: Candidates, index: number) => number,
    readValue: (number: number) => unknown,
  ) {
    this.#numberAt = numberAt
    this.#readValue = readValue
  }

  get values(): readonly unknown[] {
    return this.#dictionary.values
  }

  read(candidates: Candidates, target: Uint32Array, start: number): void {
    for (let index = 0; index < candidates.count; index++) {
      const key = this.#numberAt(candidates, index)
      if (key >= this.#numbers.length) this.#numbers = withRoom(this.#numbers, key)
      let number = this.#numbers[key] ?? 0
      if (number === 0) {
        number = this.#dictionary.idOf(this.#readValue(key)) + 1
        this.#numbers[key] = number
      }
      target[start + index] = number - 1
    }
  }
}

class SessionReader implements ValueReader {
  readonly #facts: ScanFacts

  constructor(facts: ScanFacts) {
    this.#facts = facts
  }

  get values(): readonly unknown[] {
    return this.#facts.sessions.texts
  }

  read({ segment, places, count }: Candidates, target: Uint32Array, start: number): void {
    const { sessions, textOf } = this.#facts
    const { ids, numbers } = sessions.ofSegment(segment, textOf)
    for (let index = 0; index < count; index++) {
      target[start + index] = numbers[ids[places[index] ?? 0] ?? 0] ?? 0
    }
  }
}
