/**
 * Counts properties: for each one, the number of persons or groups that have it, and its type. On request, it also
 * counts the persons or groups for each value, unless the property has too many values.
 */
import { getOrAdd } from '../../../base/maps.ts'
import {
  type PropertyFacts,
  type PropertyType,
  propertyType,
} from '../../../rules/events/event-definitions.ts'
import { valueText } from '../../../rules/filters/property-text.ts'
import {
  ACTOR_PROPERTY_NAME_UNITS_MAX,
  COUNTED_UNITS_MAX,
  COUNTED_VALUES_MAX,
  PROPERTY_NAMES_UNITS_MAX,
  SHOWN_VALUE_UNITS_MAX,
} from '../limits.ts'
import { visitMembers } from './property-pages.ts'

/** A property, and the number of persons or groups that have it. */
export type CountedFacts = PropertyFacts & { readonly count: number }

interface Counted {
  readonly name: string
  count: number
  type: PropertyType | null
  /**
   * For each value, as text, the number of persons or groups that have it. Null if the values are not counted, or if
   * there are too many.
   */
  values: Map<string, number> | null
}

/** The form in which counts are stored: one entry for each property. */
export type PackedCounts = readonly (readonly [
  name: string,
  count: number,
  type: PropertyType | null,
  values: readonly (readonly [text: string, count: number])[] | null,
])[]

/**
 * Added to the length of each name when all names and values together are compared with their limit. Otherwise, very
 * short names would count almost nothing, and there could be too many of them.
 */
const NAME_UNITS = 40
/**
 * When the limit for names and values is reached, the rarest names are removed until this fraction of the limit is
 * left.
 */
const FILLED_SHARE = 1 / 2

/** Counts persons or groups by their properties. */
export class PropertyCounts {
  readonly #all = new Map<string, Counted>()
  /** True if the values are counted, too. */
  readonly countsValues: boolean
  readonly #unitsMax: number
  /** The number of UTF-16 code units of all names and values, as they count toward the limit. */
  #units = 0

  constructor(countsValues = false) {
    this.countsValues = countsValues
    this.#unitsMax = countsValues ? COUNTED_UNITS_MAX : PROPERTY_NAMES_UNITS_MAX
  }

  /** Returns counts from the form in which `pack` has returned them. */
  static restored(packed: PackedCounts): PropertyCounts {
    const counts = new PropertyCounts(true)
    for (const [name, count, type, values] of packed) {
      const counted: Counted = { name, count, type, values: values && new Map(values) }
      counts.#all.set(name, counted)
      counts.#units += unitsOf(counted)
    }
    return counts
  }

  /** Returns the counts in the form in which they are stored; see `restored`. */
  pack(): PackedCounts {
    return [...this.#all.values()].map(({ name, count, type, values }) => {
      return [name, count, type, values && [...values]] as const
    })
  }

  /** Returns whether a property is counted. */
  has(name: string): boolean {
    return this.#all.has(name)
  }

  /** Counts one person or group with these properties. */
  add(properties: Readonly<Record<string, unknown>>): void {
    for (const name in properties) this.#add(name, properties[name])
  }

  /** Counts one person or group, but leaves out the properties that `known` already counts. */
  addNew(properties: Readonly<Record<string, unknown>>, known: PropertyCounts): void {
    for (const name in properties) if (!known.has(name)) this.#add(name, properties[name])
  }

  /**
   * Counts one person or group by the compact JSON of its properties. The values are not counted. If `known` is given,
   * properties that it already counts are left out. The JSON is not parsed as a whole, because creating an object with
   * thousands of properties costs more than searching for their names.
   */
  addNames(json: string, known: PropertyCounts | null = null): void {
    visitMembers(json, (name, _start, valueStart, end) => {
      if (known?.has(name) === true) return
      const counted = this.#all.get(name) ?? this.#of(copyOf(name))
      if (counted === null) return
      counted.count++
      if (counted.type !== null || json.startsWith('null', valueStart)) return
      counted.type = propertyType(JSON.parse(json.slice(valueStart, end)))
    })
  }

  /** Adds the counts of properties in another object to this one. The counts of values are not added. */
  merge({ facts }: PropertyCounts): void {
    for (const { name, count, type } of facts) {
      const isNew = !this.#all.has(name)
      const counted = this.#of(name)
      if (counted === null) continue
      if (isNew) counted.values = null
      counted.count += count
      counted.type ??= type
    }
  }

  get facts(): readonly CountedFacts[] {
    return [...this.#all.values()].map(({ name, count, type }) => ({ name, count, type }))
  }

  /**
   * Returns, for each value of a property as text, the number of persons or groups that have it. Returns null if the
   * values were not counted or are too many.
   */
  valuesOf(name: string): ReadonlyMap<string, number> | null {
    const counted = this.#all.get(name)
    return counted === undefined ? new Map<string, number>() : counted.values
  }

  #add(name: string, value: unknown): void {
    const counted = this.#of(name)
    if (counted === null) return
    counted.count++
    counted.type ??= propertyType(value)
    if (counted.values === null) return
    const text = valueText(value)
    if (text === '' || text.length > SHOWN_VALUE_UNITS_MAX) return
    const known = counted.values.get(text)
    if (known === undefined) this.#units += text.length
    if (counted.values.size >= COUNTED_VALUES_MAX && known === undefined) counted.values = null
    else counted.values.set(text, (known ?? 0) + 1)
  }

  #of(name: string): Counted | null {
    const known = this.#all.get(name)
    if (known !== undefined) return known
    if (name.length > ACTOR_PROPERTY_NAME_UNITS_MAX) return null
    if (this.#units + name.length + NAME_UNITS > this.#unitsMax) this.#makeRoom()
    this.#units += name.length + NAME_UNITS
    const values = this.countsValues ? new Map<string, number>() : null
    const counted: Counted = { name, count: 0, type: null, values }
    this.#all.set(name, counted)
    return counted
  }

  /**
   * Keeps the most frequent names and drops the others. If names are equally frequent, those that were counted first
   * are kept.
   */
  #makeRoom(): void {
    // Grouping by count is much faster than sorting all names. That matters, because a person with many names can make
    // this function run several times.
    const byCount = new Map<number, Counted[]>()
    for (const counted of this.#all.values()) {
      getOrAdd(byCount, counted.count, (): Counted[] => []).push(counted)
    }
    let units = 0
    for (const count of [...byCount.keys()].sort((a, b) => b - a)) {
      for (const counted of byCount.get(count) ?? []) {
        const own = unitsOf(counted)
        if (units + own > this.#unitsMax * FILLED_SHARE) this.#all.delete(counted.name)
        else units += own
      }
    }
    this.#units = units
  }
}

/** Returns the same text in memory of its own. A slice of a text would keep all of that text in memory. */
function copyOf(slice: string): string {
  return JSON.parse(JSON.stringify(slice)) as string
}

function unitsOf({ name, values }: Counted): number {
  let units = name.length + NAME_UNITS
  for (const text of values?.keys() ?? []) units += text.length
  return units
}
