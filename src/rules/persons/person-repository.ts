/**
 * The interface through which the rules for persons and groups read and change a project (the repository), and the data
 * that is passed through it. The implementation of the interface decides how the data is stored.
 */
import type { JsonObject } from '../../base/json.ts'
import type { AutomaticValues } from './automatic-properties.ts'
import { PropertyTable } from './property-table.ts'

/**
 * The parts of a normalized event that the rules need. `properties` contains no values that are derived from other
 * properties.
 */
export interface PersonEvent {
  readonly name: string
  /**
   * The distinct_id. Its text may be created only when this member is read, so a repository should find the person of
   * an event without reading it.
   */
  readonly distinctId: string
  readonly timestampMs: number
  readonly properties: JsonObject
  /**
   * The values that are copied to the person automatically. Present if the kernel has read the event into cells
   * (rules/capture/kernel). Otherwise the values are among `properties`.
   */
  readonly automatic?: AutomaticValues
  /** True if the event must not create or change a person. */
  readonly isPersonless: boolean
}

/**
 * One person, which the rules change in place. `personState` creates all of these objects, so that they have one shape.
 */
export interface PersonState {
  /**
   * The number under which the repository stores the person and its data. Numbers begin at 1 for each project and are
   * never reused. A merge may give the remaining person the number of the deleted person, if the deleted person had
   * more distinct ids.
   */
  number: number
  /** The integer id that the API shows: the number that the person was created with. It never changes. */
  readonly id: number
  readonly uuid: string
  createdAtMs: number
  properties: PropertyTable
  isIdentified: boolean
  /** True if only events of imports have changed the person. The first live event sets it to false. */
  isImported: boolean
  /**
   * The version of the person. It is 0 at the creation and increases by one with each event that changes the person.
   */
  version: number
  /** True if the person has changed since it was last stored. Only the repository reads and writes this member. */
  isUnsaved: boolean
  /** The bytes of memory that the repository has counted for the person. Only the repository uses this member. */
  countedBytes: number
}

/** One group, which the rules change in place. */
export interface GroupState {
  /** The index of its type, from 0 to 4. */
  readonly typeIndex: number
  readonly key: string
  createdAtMs: number
  readonly properties: PropertyTable
  /** True if only events of imports have changed the group. The first live event sets it to false. */
  isImported: boolean
  /** True if the group has changed since it was last stored. Only the repository reads and writes this member. */
  isUnsaved: boolean
  /** The bytes of memory that the repository has counted for the group. Only the repository uses this member. */
  countedBytes: number
}

/**
 * The persons and groups of one project, as the rules see them. Calls take effect immediately: the next call returns
 * the changed data. As long as a person or group is neither stored nor evicted, every call returns the same object for
 * it. A call that throws must not have changed anything.
 */
export interface PersonRepository {
  /** Returns the person that a distinct_id belongs to, or null. */
  personOf(distinctId: string): PersonState | null
  /** Returns the person that the distinct_id of the current event belongs to, or null. */
  senderOf(event: PersonEvent): PersonState | null
  /**
   * Records the updates of an event without reading the person. When the person is read, the repository applies them
   * like `updateProperties`, and raises the version of the person by one if any property changes. Returns false and
   * records nothing if the distinct_id has no person, if the person is already in memory, or if the properties of the
   * person might exceed `bytesMax` bytes.
   */
  updateUnread?(event: PersonEvent, eventBytes: number, bytesMax: number): boolean
  /**
   * Returns whether a person has or had `uuid`, which must be computed from `distinctId`. The result can only be true
   * if a deletion or a split separated the distinct_id from the person that was created with this uuid.
   */
  isUuidTaken(uuid: string, distinctId: string): boolean
  /** Returns the number that a new person gets. */
  nextPersonNumber(): number
  /** Adds a new person with its first distinct_id. */
  create(person: PersonState, distinctId: string): void
  /** Links a distinct_id without an owner to a person. It becomes the last id of the person. */
  addDistinctId(person: PersonState, distinctId: string): void
  /** Marks a person as changed. It may be called several times for one event. */
  update(person: PersonState): void
  /**
   * Merges two persons: appends the distinct ids of `from` to the distinct ids of `into`, and deletes `from`. The uuid
   * of `from` is never used again. The flag overrides of `from` go to `into`, except for flags for which `into` has an
   * override. The call may set `into.number` to the number of `from`. The caller must then call `update(into)`.
   */
  merge(into: PersonState, from: PersonState): void
  /**
   * Returns whether an event that creates no person was sent with this distinct_id while the distinct_id had no person.
   */
  wasUsedPersonless(distinctId: string): boolean
  notePersonless(distinctId: string): void
  /** Returns the group types in the order of their index. A deleted type is ''. */
  groupTypes(): readonly string[]
  /** Returns the index that a new group type would get, or -1 if there is no free one. */
  freeGroupType(): number
  /** Assigns the index that `freeGroupType` returned to a new group type. */
  addGroupType(type: string, typeIndex: number): void
  group(typeIndex: number, key: string): GroupState | null
  createGroup(group: GroupState): void
  /** Marks a group as changed. */
  updateGroup(group: GroupState): void
}

/** The context that all events of a request share. */
export interface PersonContext {
  readonly projectId: number
  /** The time at which the request arrived, in milliseconds since 1970. */
  readonly arrivedAtMs: number
  /** The maximum number of JSON bytes of the properties of a person or a group. 0 switches the limit off. */
  readonly propertiesBytesMax: number
  /** True if events create no new group types. The default is false. */
  readonly areGroupTypesClosed?: boolean
  /** True if the events are imported. Imported events do not change values from live events. The default is false. */
  readonly isHistorical?: boolean
}

/** Creates the object of a stored or new person. Only this function defines the shape of the object. */
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

/** Creates the object of a stored or new group. */
export function groupState(
  typeIndex: number,
  key: string,
  createdAtMs: number,
  properties = new PropertyTable(),
  isImported = false,
): GroupState {
  return { typeIndex, key, createdAtMs, properties, isImported, isUnsaved: false, countedBytes: 0 }
}
