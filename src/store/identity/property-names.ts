/** The names of the properties that persons or groups have now. */
import {
  type PropertyFacts,
  type PropertyType,
  propertyType,
} from '../../rules/events/definitions.ts'
import { type EventTables, numberInKey, pairKey } from '../lmdb/keys.ts'
import { allGroups } from './group-store.ts'
import { NAMED_ACTORS_MAX, PROPERTY_NAMES_UNITS_MAX } from './limits.ts'
import { loadPerson, propertiesOfRecord } from './person-records.ts'

/** Counts who has which property. */
class NameCounts {
  readonly #names = new Map<string, { count: number; type: PropertyType | null }>()
  #units = 0

  add(properties: Readonly<Record<string, unknown>>): void {
    for (const name in properties) {
      const type = propertyType(properties[name])
      const known = this.#names.get(name)
      if (known !== undefined) {
        known.count++
        known.type ??= type
      } else if (this.#units + name.length <= PROPERTY_NAMES_UNITS_MAX) {
        this.#units += name.length
        this.#names.set(name, { count: 1, type })
      }
    }
  }

  finish(): readonly (PropertyFacts & { readonly count: number })[] {
    return [...this.#names].map(([name, facts]) => ({ name, ...facts }))
  }
}

/**
 * What is known about the properties of persons, of the newest first. `check` is asked before each, and
 * throws to give up. Cost: some microseconds for each person.
 */
export function personProperties(tables: EventTables, projectId: number, check: () => void) {
  const names = new NameCounts()
  const start = pairKey(projectId, 2 ** 32 - 1)
  const range = { start, end: pairKey(projectId, 0), reverse: true, limit: NAMED_ACTORS_MAX }
  for (const { key } of tables.persons.getRange(range)) {
    check()
    const record = loadPerson(tables, projectId, numberInKey(key, 4))
    if (record !== null) names.add(propertiesOfRecord(record))
  }
  return names.finish()
}

/** The same of the groups of a type, in the order of their keys. */
export function groupProperties(
  tables: EventTables,
  projectId: number,
  typeIndex: number,
  check: () => void,
) {
  const names = new NameCounts()
  let count = 0
  for (const { properties } of allGroups(tables.groups, projectId, typeIndex)) {
    check()
    names.add(properties)
    if (++count >= NAMED_ACTORS_MAX) break
  }
  return names.finish()
}
