/** Who has which properties, counted: how many persons or groups have each, its type, and its values if they are few. */
import {
  type PropertyFacts,
  type PropertyType,
  propertyType,
} from '../../../rules/events/definitions.ts'
import { valueText } from '../../../rules/filters/property-text.ts'
import {
  ACTOR_PROPERTY_NAME_UNITS_MAX,
  COUNTED_UNITS_MAX,
  COUNTED_VALUES_MAX,
  PROPERTY_NAMES_UNITS_MAX,
  SHOWN_VALUE_UNITS_MAX,
} from '../limits.ts'

/** What is known of a property. */
export type CountedFacts = PropertyFacts & { readonly count: number }

interface Counted {
  readonly name: string
  count: number
  type: PropertyType | null
  /** How many have each text; null: they are not counted, or too many. */
  values: Map<string, number> | null
}

/** Counts as they are kept. */
export type PackedCounts = readonly (readonly [
  name: string,
  count: number,
  type: PropertyType | null,
  values: readonly (readonly [text: string, count: number])[] | null,
])[]

/** What a name counts besides its characters, so that short ones are not too many either. */
const NAME_UNITS = 40
/** Of the room for names and values: what is filled when the names that fewest have were left out. */
const FILLED_SHARE = 1 / 2

/** Counts persons or groups by their properties. */
export class PropertyCounts {
  #all = new Map<string, Counted>()
  readonly #countsValues: boolean
  readonly #unitsMax: number
  /** UTF-16 units of names and values. */
  #units = 0

  constructor(countsValues = false) {
    this.#countsValues = countsValues
    this.#unitsMax = countsValues ? COUNTED_UNITS_MAX : PROPERTY_NAMES_UNITS_MAX
  }

  /** Makes what was packed. */
  static restored(packed: PackedCounts): PropertyCounts {
    const counts = new PropertyCounts(true)
    for (const [name, count, type, values] of packed) {
      const counted: Counted = { name, count, type, values: values && new Map(values) }
      counts.#all.set(name, counted)
      counts.#units += unitsOf(counted)
    }
    return counts
  }

  /** What `restored` takes. */
  pack(): PackedCounts {
    return [...this.#all.values()].map(({ name, count, type, values }) => {
      return [name, count, type, values && [...values]] as const
    })
  }

  /** Counts one who has these properties. */
  add(properties: Readonly<Record<string, unknown>>): void {
    for (const name in properties) this.#add(name, properties[name])
  }

  /** The same, but only of properties that are not among those that are known. */
  addNew(properties: Readonly<Record<string, unknown>>, known: PropertyCounts): void {
    for (const name in properties) if (!known.#all.has(name)) this.#add(name, properties[name])
  }

  /** Adds what others have counted, but no values. */
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

  /** How many have each value of a property, as a text; null: that was not counted. */
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
    const values = this.#countsValues ? new Map<string, number>() : null
    const counted: Counted = { name, count: 0, type: null, values }
    this.#all.set(name, counted)
    return counted
  }

  /** The names that most have stay, of equal ones those that were counted first. */
  #makeRoom(): void {
    const chosen = new Set<Counted>()
    let units = 0
    for (const counted of [...this.#all.values()].sort((a, b) => b.count - a.count)) {
      const own = unitsOf(counted)
      if (units + own > this.#unitsMax * FILLED_SHARE) continue
      chosen.add(counted)
      units += own
    }
    this.#all = new Map([...this.#all].filter(([, counted]) => chosen.has(counted)))
    this.#units = units
  }
}

function unitsOf({ name, values }: Counted): number {
  let units = name.length + NAME_UNITS
  for (const text of values?.keys() ?? []) units += text.length
  return units
}
