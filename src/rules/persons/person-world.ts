/**
 * What the rules of persons and groups know about a project, and the port through which they read and
 * change it. Plain data and interfaces; whoever implements the port decides how it is stored.
 */
import type { JsonObject } from '../../base/json.ts'
import type { AutomaticValues } from './automatic-properties.ts'
import { PropertyTable } from './property-table.ts'

/** What the rules need of a normalised event: clean properties without derived entries. */
export interface PersonEvent {
  readonly name: string
  /** May be made only when it is asked for: worlds find the sender of an event without it. */
  readonly distinctId: string
  readonly timestampMs: number
  readonly properties: JsonObject
  /** What is copied to the person, of an event that was read into cells; else it is among `properties`. */
  readonly automatic?: AutomaticValues
  /** No person is made or changed. */
  readonly isPersonless: boolean
}

/** One person, changed in place by the rules. All are made by `personState`, so that they have one shape. */
export interface PersonState {
  /**
   * Under which the world keeps the person and all that belongs to it: from 1, per project, never given twice. A
   * merge may give the person that remains the number of the other one, which then had more distinct_ids.
   */
  number: number
  /** The integer id that the API shows: the number with which the person was made, for ever. */
  readonly id: number
  readonly uuid: string
  createdAtMs: number
  properties: PropertyTable
  isIdentified: boolean
  /** Only events of imports have made the person what it is: the first live one ends that. */
  isImported: boolean
  /** 0 when made; 1 more for each event that changes the person. */
  version: number
  /** For the world: changed since it was last stored. The rules neither read nor write it. */
  isUnsaved: boolean
  /** For the world: bytes of memory that it has counted for the person. */
  countedBytes: number
}

/** One group, changed in place by the rules. */
export interface GroupState {
  /** Index of its type, 0 to 4. */
  readonly typeIndex: number
  readonly key: string
  createdAtMs: number
  readonly properties: PropertyTable
  /** Only events of imports have made the group what it is: the first live one ends that. */
  isImported: boolean
  /** For the world: changed since it was last stored. The rules neither read nor write it. */
  isUnsaved: boolean
  /** For the world: bytes of memory that it has counted for the group. */
  countedBytes: number
}

/**
 * The persons and groups of one project as the rules see them. Calls take effect at once: what was
 * changed is what the next call tells. As long as a person or group is neither stored nor forgotten,
 * every call gives the same object for it. A call that throws must have changed nothing.
 */
export interface PersonWorld {
  /** The person that a distinct_id belongs to, or null. */
  personOf(distinctId: string): PersonState | null
  /** The person that the distinct_id of the event at hand belongs to, or null. */
  senderOf(event: PersonEvent): PersonState | null
  /**
   * Notes what the properties of an event do to its person, who is not read for it: the world applies that
   * when somebody asks for the person, as `updateProperties` does, one version more if it changes anything.
   * False: nothing was noted, because nobody owns the distinct_id, the person is at hand, or it is not certain
   * that its properties stay within `bytesMax`.
   */
  updateUnread?(event: PersonEvent, eventBytes: number, bytesMax: number): boolean
  /**
   * Whether a person has or had this uuid, the deterministic one of `distinctId`. Only true for a
   * distinct_id that was taken from its person by a deletion or a split.
   */
  isUuidTaken(uuid: string, distinctId: string): boolean
  /** The number for a new person. */
  nextPersonNumber(): number
  /** Adds a new person with its first distinct_id. */
  create(person: PersonState, distinctId: string): void
  /** Links a distinct_id that belongs to nobody. It comes behind the others of the person. */
  addDistinctId(person: PersonState, distinctId: string): void
  /** Says that the fields of a person have changed. May come several times for one event. */
  update(person: PersonState): void
  /**
   * Moves all distinct_ids of `from` behind those of `into` and deletes `from`, leaving its uuid taken.
   * Flag overrides of `from` go to `into` unless that has its own for the flag. `update(into)` follows.
   * Afterwards `into` has one of the two numbers.
   */
  merge(into: PersonState, from: PersonState): void
  /** Whether an event without a person has used a distinct_id that belonged to nobody. */
  wasUsedPersonless(distinctId: string): boolean
  notePersonless(distinctId: string): void
  /** The group types in order of their index; '' where one was deleted. */
  groupTypes(): readonly string[]
  /** The index that a new group type would get; -1: there is no room for one. */
  freeGroupType(): number
  /** Gives that index to a new group type. */
  addGroupType(type: string, typeIndex: number): void
  group(typeIndex: number, key: string): GroupState | null
  createGroup(group: GroupState): void
  /** Says that the fields of a group have changed. */
  updateGroup(group: GroupState): void
}

/** What is the same for all events of a request. */
export interface PersonContext {
  readonly projectId: number
  /** Arrival of the request, milliseconds. */
  readonly arrivedAtMs: number
  /** Bytes of JSON that the properties of a person or a group may have; 0 switches the limit off. */
  readonly propertiesBytesMax: number
  /** Events make no new group types. Default: false. */
  readonly areGroupTypesClosed?: boolean
  /** The events are old ones from another place: they do not change what live ones have said. Default: false. */
  readonly isHistorical?: boolean
}

/** A person as it is stored and made. The one place that fixes the shape of its object. */
export function personState(
  number: number,
  uuid: string,
  createdAtMs: number,
  properties: PropertyTable,
  isIdentified: boolean,
  version: number,
  id: number = number,
  isImported = false,
): PersonState {
  return {
    number,
    id,
    uuid,
    createdAtMs,
    properties,
    isIdentified,
    isImported,
    version,
    isUnsaved: false,
    countedBytes: 0,
  }
}

/** A group as it is stored and made. */
export function groupState(
  typeIndex: number,
  key: string,
  createdAtMs: number,
  properties = new PropertyTable(),
  isImported = false,
): GroupState {
  return { typeIndex, key, createdAtMs, properties, isImported, isUnsaved: false, countedBytes: 0 }
}
