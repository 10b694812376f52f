/**
 * The events of a scan by actor: persons, or groups of a type, numbered without gaps, so that what is kept
 * for each actor takes as little memory as there are actors.
 */
import { largestPerson } from '../analytics/actor-page.ts'
import type { EventColumns, ValueColumn, ValueRequest } from '../analytics/event-columns.ts'
import { propertyText } from '../filters/property-text.ts'
import type { QueryActors } from './query-kind.ts'

/** Events, and who did them. */
export interface ActorEvents {
  readonly count: number
  /** For each event the number of its actor, from 1; 0: nobody. */
  readonly actors: Uint32Array
  readonly timesMs: Float64Array
  /** Bit i: the event belongs to series i. */
  readonly seriesMasks: Uint32Array
}

/** Numbers of keys (P, or the number of a name) in the order in which they appear, from 1. */
export class ActorNumbers {
  readonly #numbers: Uint32Array
  readonly #keys: Uint32Array
  #count = 0

  /** `largestKey`: no larger key is added. */
  constructor(largestKey: number) {
    this.#numbers = new Uint32Array(largestKey + 1)
    this.#keys = new Uint32Array(largestKey + 1)
  }

  /** Those of one list of keys. Linear in the list and the largest key. */
  static of(keys: Uint32Array, count: number): { numbers: ActorNumbers; actors: Uint32Array } {
    const numbers = new ActorNumbers(largestPerson(keys, count))
    return { numbers, actors: numbers.add(keys, count) }
  }

  /** How many keys have a number. */
  get count(): number {
    return this.#count
  }

  /** The number of each key of a list; 0 for the key 0, which is nobody. */
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

  /** The number of a key; 0 when it has none. */
  numberOf(key: number): number {
    return this.#numbers[key] ?? 0
  }

  /** The key of a number. */
  keyOf(number: number): number {
    return this.#keys[number - 1] ?? 0
  }

  /** Forgets all keys. Linear in their count. */
  clear(): void {
    for (let index = 0; index < this.#count; index++) this.#numbers[this.#keys[index] ?? 0] = 0
    this.#count = 0
  }
}

/** Texts as numbers, from 1; the same text has the same number in all columns. */
export class TextNumbers {
  readonly #numbers = new Map<string, number>()
  readonly #texts: string[] = ['']

  /** The text of a number. */
  textOf(number: number): string {
    return this.#texts[number] ?? ''
  }

  /** The number of the text of each value of a column; 0 where the text is null. */
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

/** Who is counted in the events of one or more scans: persons by P, or groups of a type by their name. */
export class ActorKeys {
  readonly #groupTypeIndex: number | null
  readonly #names = new TextNumbers()

  /** `groupTypeIndex`: number of the group type; null: persons. */
  constructor(groupTypeIndex: number | null) {
    this.#groupTypeIndex = groupTypeIndex
  }

  /** What a scan has to bring along, as the first of its values. */
  get values(): readonly ValueRequest[] {
    const typeIndex = this.#groupTypeIndex
    return typeIndex === null ? [] : [{ kind: 'group_key', typeIndex }]
  }

  /** The key of the actor of each event; 0: it belongs to no group. `place`: where in the scan's values. */
  keysOf({ count, persons, values }: EventColumns, place = 0): Uint32Array {
    const column = values[place]
    if (this.#groupTypeIndex === null || column === undefined) return persons
    return this.#names.add(column, count, (value) => propertyText(value ?? '') || null)
  }

  /** The actors with these keys, as they are handed out. */
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
