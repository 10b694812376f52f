/**
 * Computes the persons of a few distinct_ids again from their events. So the state that a person had at each of its
 * events need not be stored. Implements the interface `PersonRepository`, as the stored persons do, but without groups.
 */
import {
  type GroupState,
  type PersonEvent,
  type PersonRepository,
  type PersonState,
  personState,
} from '../../../rules/persons/person-repository.ts'
import { PropertyTable } from '../../../rules/persons/property-table.ts'

const NO_GROUP_TYPES: readonly string[] = Object.freeze([])

/** A person, together with its distinct_ids, in the replay. */
interface Holder {
  person: PersonState
  readonly ids: string[]
}

/** The persons of a replay, in memory. The rules for persons read and change them. */
export class ReplayedPersons implements PersonRepository {
  readonly #owners = new Map<string, Holder>()
  readonly #holders = new Map<PersonState, Holder>()
  #last = 0

  personOf(distinctId: string): PersonState | null {
    return this.#owners.get(distinctId)?.person ?? null
  }

  senderOf({ distinctId }: PersonEvent): PersonState | null {
    return this.personOf(distinctId)
  }

  /** Always returns false, because a replay does not use the uuids of persons. */
  isUuidTaken(): boolean {
    return false
  }

  nextPersonNumber(): number {
    return ++this.#last
  }

  create(person: PersonState, distinctId: string): void {
    this.#holders.set(person, { person, ids: [] })
    this.addDistinctId(person, distinctId)
  }

  addDistinctId(person: PersonState, distinctId: string): void {
    const holder = this.#holders.get(person)
    if (holder === undefined) throw new TypeError('a person is gone')
    this.#give(distinctId, holder)
  }

  update(): void {
    // Nothing to do: the persons are changed in place and are never stored.
  }

  /**
   * Merges two persons: `into` has the ids of both afterward. As in the store, the ids of the person with fewer ids are
   * moved. The result is the same either way.
   */
  merge(into: PersonState, from: PersonState): void {
    const target = this.#holders.get(into)
    const source = this.#holders.get(from)
    if (target === undefined || source === undefined) throw new TypeError('a person is gone')
    const isTargetLarger = target.ids.length >= source.ids.length
    const [larger, smaller] = isTargetLarger ? [target, source] : [source, target]
    for (const id of smaller.ids) this.#give(id, larger)
    larger.person = into
    this.#holders.delete(from)
    this.#holders.set(into, larger)
  }

  wasUsedPersonless(): boolean {
    return false
  }

  notePersonless(): void {
    // Nothing to do. Earlier events without a person matter only for the uuid of a new person, and a timeline shows no
    // uuids.
  }

  groupTypes(): readonly string[] {
    return NO_GROUP_TYPES
  }

  /** Returns -1: no group type is free. So the rules for persons ignore groups. */
  freeGroupType(): number {
    return -1
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

  #give(distinctId: string, holder: Holder): void {
    this.#owners.set(distinctId, holder)
    holder.ids.push(distinctId)
  }

  /** Replays a deletion: the ids have no owner afterward. */
  free(distinctIds: readonly string[]): void {
    for (const id of distinctIds) this.#owners.delete(id)
  }

  /**
   * Replays a split: the id `kept` keeps its person, and each other id gets a new person of its own without properties.
   * If `keepsProperties` is false, the person of `kept` loses its properties.
   */
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
    const holder = this.#owners.get(kept)
    if (holder === undefined) return
    const { person } = holder
    const left = { person, ids: [kept] }
    this.#holders.set(person, left)
    this.#owners.set(kept, left)
    if (keepsProperties) return
    for (const [name] of [...person.properties.entries()]) person.properties.remove(name)
  }
}
