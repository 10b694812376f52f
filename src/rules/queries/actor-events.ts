/**
 * Assigns the events of a scan to actors: persons, or groups of one type. Actors get numbers without gaps, so that an
 * array indexed by actor has no unused entries.
 */
import { largestPerson } from '../analytics/actor-page.ts'
import type { EventColumns, ValueColumn, ValueRequest } from '../analytics/event-columns.ts'
import { propertyText } from '../filters/property-text.ts'
import type { QueryActors } from './query-kind.ts'

/** The events of a scan and the actor of each event, as parallel lists: entry i of each list belongs to event i. */
export interface ActorEvents {
  readonly count: number
  /** The number of each event's actor, counted from 1. 0 means that the event has no actor. */
  readonly actors: Uint32Array
  readonly timesMs: Float64Array
  /** The series that each event belongs to. Bit i is set if the event belongs to series i. */
  readonly seriesMasks: Uint32Array
}

/**
 * Assigns numbers to keys in the order of their first occurrence, from 1. A key is a person number or the number of a
 * text.
 */
export class ActorNumbers {
  readonly #numbers: Uint32Array
  readonly #keys: Uint32Array
  #count = 0

  /** `largestKey` is the largest key that may be added. */
  constructor(largestKey: number) {
    this.#numbers = new Uint32Array(largestKey + 1)
    this.#keys = new Uint32Array(largestKey + 1)
  }

  /** Assigns numbers to the keys of one list. The cost is linear in the list and in the largest key. */
  static of(keys: Uint32Array, count: number): { numbers: ActorNumbers; actors: Uint32Array } {
    const numbers = new ActorNumbers(largestPerson(keys, count))
    return { numbers, actors: numbers.add(keys, count) }
  }

  /** The number of different keys so far. */
  get count(): number {
    return this.#count
  }

  /**
   * Returns the number of each key in a list. A key that has no number yet gets the next free number. The key 0 stands
   * for nobody, and its number is 0.
   */
  add(keys: Uint32Array, count: number): Uint32Array {
    const numbers = this.#numbers
    const actors = new Uint32Array(count)
    for (let row = 0; row < count; row++) {
      const key = keys[row] ?? 0
      if (key === 0) continue
      let number = numbers[key] ?? 0
      if (number === 0) {
        number = ++this.#count
        numbers[key] = number
        this.#keys[number - 1] = key
      }
      actors[row] = number
    }
    return actors
  }

  /** Returns the number that was assigned to a key, or 0 for an unknown key. */
  numberOf(key: number): number {
    return this.#numbers[key] ?? 0
  }

  /** Returns the key to which a number was assigned. */
  keyOf(number: number): number {
    return this.#keys[number - 1] ?? 0
  }

  /** Removes all keys. The cost is linear in the number of keys. */
  clear(): void {
    for (let index = 0; index < this.#count; index++) this.#numbers[this.#keys[index] ?? 0] = 0
    this.#count = 0
  }
}

/** Assigns numbers to texts, from 1. The same text has the same number in all columns. */
export class TextNumbers {
  readonly #numbers = new Map<string, number>()
  readonly #texts: string[] = ['']

  /** Returns the text to which a number was assigned. */
  textOf(number: number): string {
    return this.#texts[number] ?? ''
  }

  /**
   * Returns, for each row of a column, the number of the text of its value. It is 0 if `textOf` returns null for the
   * value.
   */
  add(
    { ids, values }: ValueColumn,
    count: number,
    textOf: (value: unknown) => string | null,
  ): Uint32Array {
    const numberOfId = Uint32Array.from(values, (value) => this.#numberOf(textOf(value)))
    const numbers = new Uint32Array(count)
    for (let row = 0; row < count; row++) numbers[row] = numberOfId[ids[row] ?? 0] ?? 0
    return numbers
  }

  #numberOf(text: string | null): number {
    if (text === null) return 0
    const known = this.#numbers.get(text)
    if (known !== undefined) return known
    const number = this.#texts.push(text) - 1
    this.#numbers.set(text, number)
    return number
  }
}

/** Finds the actors of the events of one or more scans: persons by their numbers, or groups of a type by their keys. */
export class ActorKeys {
  readonly #groupTypeIndex: number | null
  readonly #names = new TextNumbers()

  /** `groupTypeIndex` is the number of the group type. Null means persons. */
  constructor(groupTypeIndex: number | null) {
    this.#groupTypeIndex = groupTypeIndex
  }

  /**
   * The values that each scan must request: the key of the group, or nothing for persons. Request these values first,
   * or pass their index in the scan's values to `keysOf` as `place`.
   */
  get values(): readonly ValueRequest[] {
    const typeIndex = this.#groupTypeIndex
    return typeIndex === null ? [] : [{ kind: 'group_key', typeIndex }]
  }

  /**
   * Returns the key of each event's actor: a person number, or the number of the group's key. It is 0 if the event has
   * no such actor. `place` is the index of the group key in the scan's values.
   */
  keysOf({ count, persons, values }: EventColumns, place = 0): Uint32Array {
    const column = values[place]
    if (this.#groupTypeIndex === null || column === undefined) return persons
    return this.#names.add(column, count, (value) => propertyText(value ?? '') || null)
  }

  /** Returns the actors that have these keys: persons by person number, or groups by the text of their key. */
  actors(keys: readonly number[]): QueryActors {
    const groupTypeIndex = this.#groupTypeIndex
    const isPersons = groupTypeIndex === null
    return {
      groupTypeIndex,
      persons: isPersons ? keys : [],
      groupKeys: isPersons ? [] : keys.map((key) => this.#names.textOf(key)),
    }
  }
}
