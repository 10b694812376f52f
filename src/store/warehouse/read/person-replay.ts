/**
 * The persons of a few distinct_ids, told again from their events: what a person looked like at each of
 * its events need not be stored with them. Behind the same port as the real ones; without groups.
 */
import { GROUP_TYPES_MAX } from '../../../base/limits.ts'
import {
  type GroupState,
  type PersonEvent,
  type PersonState,
  type PersonWorld,
  personState,
} from '../../../rules/persons/person-world.ts'
import { PropertyTable } from '../../../rules/persons/property-table.ts'

// All indexes are taken, so that the rules leave groups alone.
const NO_GROUP_TYPES: readonly string[] = Object.freeze(
  Array.from({ length: GROUP_TYPES_MAX }, () => ''),
)

/** Persons in memory. */
export class ReplayedPersons implements PersonWorld {
  readonly #owners = new Map<string, PersonState>()
  readonly #ids = new Map<PersonState, string[]>()
  #last = 0

  personOf(distinctId: string): PersonState | null {
    return this.#owners.get(distinctId) ?? null
  }

  senderOf({ distinctId }: PersonEvent): PersonState | null {
    return this.personOf(distinctId)
  }

  /** Uuids do not matter here. */
  isUuidTaken(): boolean {
    return false
  }

  nextPersonNumber(): number {
    return ++this.#last
  }

  create(person: PersonState, distinctId: string): void {
    this.#ids.set(person, [])
    this.addDistinctId(person, distinctId)
  }

  addDistinctId(person: PersonState, distinctId: string): void {
    this.#owners.set(distinctId, person)
    this.#ids.get(person)?.push(distinctId)
  }

  update(): void {
    // Persons are changed in place.
  }

  merge(into: PersonState, from: PersonState): void {
    for (const id of this.#ids.get(from) ?? []) this.addDistinctId(into, id)
    this.#ids.delete(from)
  }

  wasUsedPersonless(): boolean {
    return false
  }

  notePersonless(): void {
    // Only uuids depend on it.
  }

  groupTypes(): readonly string[] {
    return NO_GROUP_TYPES
  }

  addGroupType(): void {
    throw new TypeError('there is no room for a group type')
  }

  group(): GroupState | null {
    return null
  }

  createGroup(): void {
    throw new TypeError('there are no groups')
  }

  updateGroup(): void {
    throw new TypeError('there are no groups')
  }

  /** Repeats a deletion: the ids belong to nobody. */
  free(distinctIds: readonly string[]): void {
    for (const id of distinctIds) this.#owners.delete(id)
  }

  /** Repeats a split: every id but one gets an empty person of its own. */
  split(
    distinctIds: readonly string[],
    kept: string,
    keepsProperties: boolean,
    atMs: number,
  ): void {
    for (const id of distinctIds) {
      if (id === kept) continue
      const number = this.nextPersonNumber()
      this.create(personState(number, '', atMs, new PropertyTable(), false, 0), id)
    }
    const person = this.#owners.get(kept)
    if (person === undefined) return
    this.#ids.set(person, [kept])
    if (keepsProperties) return
    for (const [name] of [...person.properties.entries()]) person.properties.remove(name)
  }
}
