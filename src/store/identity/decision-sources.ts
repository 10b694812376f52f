/**
 * Reads the data that decisions need from environment `events`: a person by distinct_id, a group, the members of fixed
 * lists, overrides, and the definitions to which flags refer. The main thread reads this data directly from mapped
 * memory. Each read consists of a few lookups that take some microseconds, and it never waits until a writer has
 * written to the disk. Iterating over all persons or groups blocks the thread, so only worker threads do it.
 *
 * Reading one property of a person or group costs the same, however many other properties there are. Large properties
 * are stored in pages, and only the pages with the requested names are read (properties/stored-properties.ts).
 *
 * Decoded persons are cached. After a commit, the version of the stored person shows whether the cached one is still
 * current. The owners of distinct_ids and the locations of stored changes are cached until the next commit. Reading a
 * person who is not cached then takes two small lookups and one read of the record.
 */
import type { JsonObject } from '../../base/json.ts'
import { GROUP_TYPES_MAX } from '../../base/limits.ts'
import { RecentValues } from '../../base/maps.ts'
import type { FlagCohort } from '../../rules/flags/types.ts'
import { areMembersStored } from '../../rules/persons/cohort-shapes.ts'
import { Environment } from '../lmdb/environment.ts'
import { readStanding } from '../lmdb/event-state.ts'
import {
  EVENTS_ENVIRONMENT,
  EVENTS_TABLES,
  type EventTables,
  keysOf,
  numberInKey,
  pairKey,
} from '../lmdb/keys.ts'
import { CachedRanges } from './cached-ranges.ts'
import { isMember, loadCohorts } from './cohort-store.ts'
import { loadDistinctId, loadDistinctText } from './distinct-ids.ts'
import { loadOverrides, type Overrides } from './flag-overrides.ts'
import { allGroups, type FoundGroup, groupCount, lookUpGroup } from './group-store.ts'
import {
  DECISION_GROUP_BYTES_MAX,
  DECISION_PERSON_BYTES_MAX,
  DECISION_SNAPSHOT_MS_MAX,
  DECISION_VALUES_UNITS_MAX,
} from './limits.ts'
import { loadPlaces } from './person-changes.ts'
import { loadOwners, ownerAmong } from './person-owners.ts'
import {
  loadPage,
  loadPerson,
  loadPersonCounters,
  loadUnpaged,
  type PersonRecord,
  propertiesOfRecord,
} from './person-records.ts'
import {
  PagedProperties,
  type StoredProperties,
  WholeProperties,
} from './properties/stored-properties.ts'

/** The person who owns a distinct_id, as far as decisions need it. */
export interface StoredPerson {
  /** The person number, or 0 if the distinct_id has no owner. */
  readonly number: number
  /** The version of the person: a number that changes with every change of the person. -1 if there is no person. */
  readonly version: number
  /**
   * The properties of the person. They are read from the store when they are first used, so use them before the next
   * commit, or read the person again.
   */
  readonly properties: StoredProperties | null
}

/** A person, as an iteration over all persons returns it. */
export interface ScannedPerson {
  readonly number: number
  /** The oldest distinct_id, or '' if there is none. */
  readonly distinctId: string
  readonly properties: JsonObject
}

/** A group, as an iteration over all groups returns it. */
export interface ScannedGroup {
  readonly key: string
  readonly properties: JsonObject
}

interface KnownPerson extends StoredPerson {
  /** The position in the log at which the person was last read or found to be unchanged. */
  position: number
  /**
   * The estimated size of the person in the cache, in UTF-16 code units: the length of the JSON of its properties or,
   * if they are paged, of the cached values.
   */
  readonly units: number
  /** The directory of the person's pages (property-pages.ts), or null if the properties are not paged. */
  readonly directory: Buffer | null
  /**
   * The number of folds (see `Standing`) when the person was read. To fold a person means to store it completely, with
   * its deltas applied.
   */
  folds: number
  /**
   * The stored version and the deltas (person-changes.ts) of the person. If both are the same as before, the person has
   * not changed.
   */
  readonly storedVersion: number
  readonly deltas: string
}

interface KnownGroup extends FoundGroup {
  /** The position in the log at which the group was read. The cached group is valid only for this position. */
  readonly position: number
}

const NOBODY: KnownPerson = {
  position: -1,
  number: 0,
  version: -1,
  properties: null,
  units: 0,
  directory: null,
  folds: -1,
  storedVersion: -1,
  deltas: '',
}
const NO_FILTERS: JsonObject = Object.freeze({})

/** Reads data for decisions, for one thread. Close it before the thread ends. */
export class DecisionSourceReader {
  readonly #environment: Environment
  readonly #tables: EventTables
  #position = -1
  #refreshedAtMs = Number.NEGATIVE_INFINITY
  readonly #persons = new RecentValues<KnownPerson>(DECISION_PERSON_BYTES_MAX, bytesOf)
  readonly #groups = new RecentValues<KnownGroup>(DECISION_GROUP_BYTES_MAX, bytesOf)
  /** The groups that decisions have used since `#settleGroups` was called. */
  #usedGroups: StoredProperties[] = []
  /**
   * The person that was read last, and its name in the cache. A decision may read its person several times. With these
   * fields, it is read from the store only once, even if it is too large for the cache.
   */
  #lastName = ''
  #last: KnownPerson | undefined
  readonly #owners: CachedRanges
  readonly #places: CachedRanges
  /**
   * The position in the log and the number of folds when the cached ranges were read. If either has changed, the ranges
   * are read again.
   */
  #cachedAt = -1
  #foldsAt = -1
  /**
   * The version that was assigned last to a person with deltas. The version of such a person is not stored. So it gets
   * a new negative number each time it is read.
   */
  #lastFolded = -1

  /** Opens the environment in `dataDir`. */
  constructor(dataDir: string) {
    this.#environment = new Environment({
      dataDir,
      name: EVENTS_ENVIRONMENT,
      tables: EVENTS_TABLES,
    })
    const tables: EventTables = this.#environment.tables
    this.#tables = tables
    this.#owners = new CachedRanges((projectId, id) => loadOwners(tables, projectId, id))
    this.#places = new CachedRanges((projectId, number) => loadPlaces(tables, projectId, number))
  }

  /** Makes all committed data visible to the next read. */
  refresh(): void {
    this.#environment.refresh()
    this.#refreshedAtMs = performance.now()
    this.#position = readStanding(this.#tables.state).position
  }

  /**
   * Must be called at the beginning of a decision. The data that is read afterward lacks at most the commits of the
   * last two milliseconds. Throws `DamagedRecordError`.
   */
  freshen(): void {
    this.#settleGroups()
    if (performance.now() - this.#refreshedAtMs > DECISION_SNAPSHOT_MS_MAX) this.refresh()
  }

  /** The position in the log at the last `freshen`. Everything that is read afterward is at least as new. */
  get position(): number {
    return this.#position
  }

  /** Returns the person who owns a distinct_id. Throws `DamagedRecordError`. */
  person(projectId: number, distinctId: string): StoredPerson {
    const name = `${projectId} ${distinctId}`
    const known = name === this.#lastName ? this.#last : this.#persons.get(name)
    if (known !== undefined && known.position === this.#position && !this.#isOutdated(known)) {
      this.#begin(name, known)
      return known
    }
    const person = this.#load(projectId, distinctId, known ?? NOBODY)
    person.position = this.#position
    person.folds = this.#foldsAt
    this.#persons.keep(name, person)
    this.#begin(name, person)
    return person
  }

  /**
   * Returns the properties of a group, or null if there is no such group. Use them before the next commit, because they
   * may be read from the store later. Throws `DamagedRecordError`.
   */
  groupProperties(projectId: number, typeIndex: number, key: string): StoredProperties | null {
    const { position } = readStanding(this.#tables.state)
    const name = `${projectId} ${typeIndex} ${key}`
    const known = this.#groups.get(name)
    if (known !== undefined && known.position === position) return this.#use(known.properties)
    const found = lookUpGroup(this.#tables, projectId, typeIndex, key)
    if (found === null) return null
    this.#groups.keep(name, { position, ...found })
    return this.#use(found.properties)
  }

  /**
   * Returns whether the owner of a distinct_id is a stored member of a cohort, that is, on its fixed list or among its
   * calculated members. Throws `DamagedRecordError`.
   */
  isInStaticCohort(projectId: number, distinctId: string, cohortId: number): boolean {
    const { number } = this.person(projectId, distinctId)
    return number !== 0 && this.isMember(projectId, cohortId, number)
  }

  /** Returns the overrides that keep a person's variants (flag-overrides.ts). Throws `DamagedRecordError`. */
  overrides(projectId: number, number: number): Overrides {
    return loadOverrides(this.#tables.flag_overrides, projectId, number)
  }

  /** Returns the cohorts of a project that are not deleted, by id. Throws `DamagedRecordError`. */
  cohorts(projectId: number): ReadonlyMap<number, FlagCohort> {
    const cohorts = new Map<number, FlagCohort>()
    for (const cohort of loadCohorts(this.#tables.cohorts, projectId)) {
      const { id, name, filters } = cohort
      const isStatic = areMembersStored(cohort)
      const tree = isStatic || filters === null ? NO_FILTERS : { properties: filters }
      cohorts.set(id, { id, name, isStatic, filters: tree })
    }
    return cohorts
  }

  /** Returns the names of the group types of a project by index. Throws `DamagedRecordError`. */
  groupTypes(projectId: number): ReadonlyMap<number, string> {
    const { groupTypes } = loadPersonCounters(this.#tables.person_projects, projectId)
    return new Map([...groupTypes.entries()].filter(([, type]) => type !== ''))
  }

  /** Returns the number of persons of a project. Reads the keys of all of them. */
  personCount(projectId: number): number {
    return this.#tables.persons.getKeysCount(keysOf(projectId))
  }

  /**
   * Returns the persons in the order of their numbers. If `every` is larger than 1, only every `every`-th person is
   * returned. To continue an earlier iteration, pass the number of the person that it returned last as `after`. Throws
   * `DamagedRecordError`.
   */
  *persons(projectId: number, every = 1, after: number | null = null): Generator<ScannedPerson> {
    let place = after === null ? 0 : 1
    const { start, end } = keysOf(projectId)
    const from = after === null ? start : pairKey(projectId, after + 1)
    for (const key of this.#tables.persons.getKeys({ start: from, end })) {
      if (place++ % every !== 0) continue
      const number = numberInKey(key, 4)
      const record = loadPerson(this.#tables, projectId, number)
      if (record === null) continue
      const id = record.firstIds[0]
      yield {
        number,
        distinctId: id === undefined ? '' : loadDistinctText(this.#tables, projectId, id),
        properties: propertiesOfRecord(record),
      }
    }
  }

  /** Returns the number of groups of one type. Reads the keys of all of them. */
  groupCount(projectId: number, typeIndex: number): number {
    return groupCount(this.#tables.groups, projectId, typeIndex)
  }

  /** Returns all groups of one type in the order of their keys, or those after a key. Throws `DamagedRecordError`. */
  groups(projectId: number, typeIndex: number, after?: string): Iterable<ScannedGroup> {
    return allGroups(this.#tables, projectId, typeIndex, after)
  }

  /** Returns whether a person is a stored member of a cohort. */
  isMember(projectId: number, cohortId: number, number: number): boolean {
    return isMember(this.#tables.cohort_members, projectId, cohortId, number)
  }

  close(): Promise<void> {
    return this.#environment.close()
  }

  /**
   * Returns whether the page directory of a cached person may be outdated, because a commit was made after the person
   * was read. Returns false for a person without pages.
   */
  #isOutdated(known: KnownPerson): boolean {
    if (known.directory === null) return false
    const { position, folds } = readStanding(this.#tables.state)
    return position !== this.#position || folds !== known.folds
  }

  #use(properties: StoredProperties): StoredProperties {
    if (this.#usedGroups.length >= GROUP_TYPES_MAX) this.#settleGroups()
    this.#usedGroups.push(properties)
    return properties
  }

  #settleGroups(): void {
    for (const properties of this.#usedGroups) properties.settle()
    this.#usedGroups = []
  }

  #begin(name: string, person: KnownPerson): void {
    if (this.#last !== person) this.#last?.properties?.settle()
    this.#lastName = name
    this.#last = person
  }

  /** Loads a person. Returns `known` itself if the person has not changed. */
  #load(projectId: number, distinctId: string, known: KnownPerson): KnownPerson {
    // LMDB moves to the newest state with each turn of the event loop, even between two calls of `freshen`. So the
    // cached ranges are cleared if a commit was made. `folds` is compared too, because folding moves the stored changes
    // of a person without changing the position.
    const { position, folds } = readStanding(this.#tables.state)
    if (position !== this.#cachedAt || folds !== this.#foldsAt) {
      this.#owners.clear()
      this.#places.clear()
      this.#cachedAt = position
      this.#foldsAt = folds
    }
    const id = loadDistinctId(this.#tables, projectId, distinctId)
    const number = id === 0 ? 0 : ownerAmong(this.#owners.of(projectId, id), id)
    const record = number === 0 ? null : loadUnpaged(this.#tables, projectId, number, this.#places)
    if (record === null) return { ...NOBODY, number }
    const { json, changesJson, deltas, directory } = record
    const hasSamePages =
      directory === null ? known.directory === null : known.directory?.equals(directory) === true
    const isSame = hasSamePages && known.storedVersion === record.version && known.deltas === deltas
    if (known.number === number && isSame) return known
    const pagedUnits = directory === null ? 0 : directory.length + DECISION_VALUES_UNITS_MAX
    const units = json.length + (changesJson?.length ?? 0) + deltas.length + pagedUnits
    const version = deltas === '' ? record.version : --this.#lastFolded
    const stored = { storedVersion: record.version, deltas, directory, folds: this.#foldsAt }
    const properties = this.#propertiesOf(projectId, record)
    return { position: 0, number, version, properties, units, ...stored }
  }

  #propertiesOf(projectId: number, record: PersonRecord): StoredProperties {
    const { number, directory, changesJson, deltas } = record
    if (directory === null) return new WholeProperties(() => propertiesOfRecord(record))
    const tables = this.#tables
    return new PagedProperties({
      directory,
      changesJson,
      deltas,
      readPage: (page) => loadPage(tables, projectId, number, page),
      readAll: () => {
        const whole = loadPerson(tables, projectId, number)
        return whole === null ? {} : propertiesOfRecord(whole)
      },
    })
  }
}

/** Returns the approximate number of bytes that a person or group with parsed properties takes in memory. */
function bytesOf({ units }: { readonly units: number }): number {
  return units * 3 + 200
}
