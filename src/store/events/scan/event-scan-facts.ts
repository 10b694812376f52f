/**
 * The facts about persons, groups and distinct_ids that scans need in addition to the segments. Owners and uuids are
 * needed so often that they are cached as arrays. Owners are read again after a commit that has changed them. Uuids
 * stay cached until the thread ends, because the uuid of a person never changes.
 */

import { parseUuid } from '../../../base/ids.ts'
import { getOrAdd, keepNewest } from '../../../base/maps.ts'
import { type CreatedPersons, OWNER_BITS } from '../../../rules/analytics/event-columns.ts'
import { withRoom } from '../../../rules/analytics/growing-arrays.ts'
import {
  NO_PERSON,
  type PersonCandidate,
  personTest,
} from '../../../rules/filters/person-filter.ts'
import { personUuid } from '../../../rules/persons/person-uuid.ts'
import { cohortLookup } from '../../identity/cohort-store.ts'
import { loadDistinctText } from '../../identity/distinct-ids.ts'
import { loadGroup } from '../../identity/group-store.ts'
import { type OwnerTable, StoredOwners } from '../../identity/owner-table.ts'
import {
  candidateOf,
  loadPerson,
  loadPersonCounters,
  NUMBER_BYTES,
  type PersonCounters,
  parseProperties,
} from '../../identity/person-records.ts'
import { readNumber } from '../../lmdb/event-state.ts'
import { type EventTables, keysOf } from '../../lmdb/keys.ts'
import { entriesOf } from '../../lmdb/records.ts'
import { loadCounters } from '../format/event-projects.ts'
import {
  SCAN_CANDIDATES_MAX,
  SCAN_LOOKUPS_MAX,
  SCAN_PROJECTS_MAX,
  SCAN_SESSIONS_MAX,
  SCAN_VALUES_KEPT_MAX,
} from '../limits.ts'
import { CreatedTimes } from './created-times.ts'
import type { ScanFacts } from './event-scan-filter.ts'
import { SessionNumbers } from './event-scan-sessions.ts'

const PREFIX_BYTES = 6
const UUID_AT = 12

/** The number of reads after which the limits of the query are checked. A read takes a few microseconds. */
const READS_BETWEEN_CHECKS = 128

type LimitCheck = () => void

/** A value that was computed from stored events, and a text that describes the state of these events. */
interface KeptValue {
  readonly state: string
  readonly value: { readonly bytes: number }
}

/** What scans need to know about one project, in one snapshot. */
export class ProjectFacts implements ScanFacts {
  readonly projectId: number
  /** The number of the last block of the log whose events the snapshot contains. */
  readonly position: number
  readonly sessions: SessionNumbers
  readonly #tables: EventTables
  readonly #uuids: UuidPrefixes
  readonly #texts = new Map<number, string>()
  readonly #candidates = new Map<number, PersonCandidate | null>()
  readonly #storedOwners: StoredOwners
  #owners: OwnerTable | null = null
  #counters: PersonCounters | null = null
  readonly #created: CreatedTimes
  readonly #kept = new Map<string, KeptValue>()
  #limits: LimitCheck = () => undefined
  #singleLookups = 0
  #reads = 0

  constructor(tables: EventTables, projectId: number, position: number, known: LastingFacts) {
    this.projectId = projectId
    this.position = position
    this.#tables = tables
    this.#uuids = known.uuids
    this.#storedOwners = known.owners
    this.sessions = known.sessions
    this.#created = known.created
  }

  get owners(): OwnerTable {
    if (this.#owners === null) {
      const tables = this.#tables
      const lastDistinctId = loadCounters(tables.projects, this.projectId)?.distinctIds ?? 0
      const counters = loadPersonCounters(tables.person_projects, this.projectId)
      this.#owners = this.#storedOwners.current(tables, this.projectId, lastDistinctId, counters)
    }
    return this.#owners
  }

  textOf = (distinctId: number): string => {
    return this.#remembered(this.#texts, distinctId, SCAN_CANDIDATES_MAX, () => {
      this.#noteRead()
      return loadDistinctText(this.#tables, this.projectId, distinctId)
    })
  }

  personTest: ScanFacts['personTest'] = (tree) => {
    const test = personTest(tree, cohortLookup(this.#tables, this.projectId))
    return (person) => {
      const candidate = this.#candidate(person)
      return candidate !== null && test(candidate)
    }
  }

  personProperty: ScanFacts['personProperty'] = (person, key) =>
    this.#candidate(person)?.property(key)

  groupTypeSince: ScanFacts['groupTypeSince'] = (typeIndex) => {
    this.#counters ??= loadPersonCounters(this.#tables.person_projects, this.projectId)
    const { groupTypes, groupTypeFacts } = this.#counters
    if (groupTypes[typeIndex] === '') return Number.POSITIVE_INFINITY
    return groupTypeFacts[typeIndex]?.since ?? 0
  }

  groupProperty: ScanFacts['groupProperty'] = (typeIndex, groupKey, key) => {
    this.#noteRead()
    const record = loadGroup(this.#tables, this.projectId, typeIndex, groupKey)
    if (record === null) return undefined
    const properties = parseProperties(record.json)
    return Object.hasOwn(properties, key) ? properties[key] : undefined
  }

  /**
   * A text that changes when a group type is deleted. Earlier results are then wrong, because the group keys in earlier
   * events belong to a type that no longer exists.
   */
  get groupTypesVersion(): string {
    return [0, 1, 2, 3, 4].map((index) => this.groupTypeSince(index)).join(' ')
  }

  /** Returns the uuid of the owner with this number (owner-table.ts) as text, or '' if there is no such owner. */
  uuidOf(number: number): string {
    const { firstPersonless, lastDistinctId } = this.owners
    const distinctId = number - firstPersonless
    if (distinctId > 0 && distinctId <= lastDistinctId)
      return personUuid(this.projectId, this.textOf(distinctId))
    return loadPerson(this.#tables, this.projectId, number)?.uuid ?? ''
  }

  /**
   * Returns the owner number (owner-table.ts) of the distinct_id without a person for which the API shows this uuid.
   * Returns null if there is none.
   */
  personlessOf(uuid: string): number | null {
    const { words, firstPersonless, lastDistinctId } = this.owners
    for (let distinctId = 1; distinctId <= lastDistinctId; distinctId++) {
      const number = (words[distinctId] ?? 0) & OWNER_BITS
      if (number < firstPersonless) continue
      this.#noteRead()
      const text = loadDistinctText(this.#tables, this.projectId, distinctId)
      if (personUuid(this.projectId, text) === uuid) return number
    }
    return null
  }

  /** Returns the first 48 bits of the uuid of an owner as a number, or 0 if there is no such owner. */
  uuidPrefix(person: number): number {
    // The owner number (owner-table.ts) of a distinct_id without a person can change, so nothing is cached under it.
    if (person > this.owners.firstPersonless) return prefixOfText(this.uuidOf(person))
    const known = this.#uuids.get(person)
    if (known !== undefined) return known
    this.#look(person)
    return this.#uuids.get(person) ?? 0
  }

  /** Returns the persons that were created at `fromMs` or later, but before `untilMs`, both in milliseconds. */
  createdWithin(fromMs: number, untilMs: number): CreatedPersons {
    return this.#created.within(fromMs, untilMs, {
      tables: this.#tables,
      projectId: this.projectId,
      owners: this.owners,
      noteRead: () => this.#noteRead(),
    })
  }

  /**
   * Returns the value that an earlier call with this name has cached. If there is none, or if the events of the project
   * have another state now, calls `make` and caches its result. If all cached values together have more than `bytesMax`
   * bytes, those that were not used for the longest time are evicted.
   */
  kept<Value extends { readonly bytes: number }>(
    name: string,
    state: string,
    bytesMax: number,
    make: () => Value,
  ): Value {
    const known = this.#kept.get(name)
    // The cast is right: all calls with the same name store values of the same type.
    if (known?.state === state) {
      keepNewest(this.#kept, name, known, SCAN_VALUES_KEPT_MAX)
      return known.value as Value
    }
    this.#kept.delete(name)
    const value = make()
    let bytes = value.bytes
    for (const { value: other } of this.#kept.values()) bytes += other.bytes
    for (const [oldest, { value: other }] of this.#kept) {
      if (bytes <= bytesMax) break
      bytes -= other.bytes
      this.#kept.delete(oldest)
    }
    if (bytes <= bytesMax) keepNewest(this.#kept, name, { state, value }, SCAN_VALUES_KEPT_MAX)
    return value
  }

  /** Sets the function that throws if the current query must end. */
  limitBy(check: LimitCheck): void {
    this.#limits = check
  }

  checkLimits = (): void => this.#limits()

  /**
   * Returns the value that is cached for a key, or else the result of `read`, which is then cached. When the cache is
   * full, it is cleared.
   */
  #remembered<Key, Value>(
    known: Map<Key, Value>,
    key: Key,
    entriesMax: number,
    read: () => Value,
  ): Value {
    return getOrAdd(known, key, () => {
      const value = read()
      if (known.size >= entriesMax) known.clear()
      return value
    })
  }

  #noteRead(): void {
    if (++this.#reads % READS_BETWEEN_CHECKS === 0) this.#limits()
  }

  /** Reads the uuid of one person. If many persons were read singly before, reads the uuids of all persons at once. */
  #look(person: number): void {
    if (this.#singleLookups++ === SCAN_LOOKUPS_MAX) this.#lookAtAll()
    if (this.#singleLookups > SCAN_LOOKUPS_MAX) return
    const record = loadPerson(this.#tables, this.projectId, person)
    if (record === null) return
    this.#uuids.set(person, prefixOfText(record.uuid))
  }

  #lookAtAll(): void {
    const range = keysOf(this.projectId)
    for (const { key, value } of entriesOf(this.#tables.person_created, range, NUMBER_BYTES)) {
      this.#uuids.set(value.readUInt32LE(), INVERTED_END - prefixOf(key, UUID_AT))
      this.#noteRead()
    }
  }

  #candidate(person: number): PersonCandidate | null {
    // 0 stands for an event without an owner, and the numbers from `firstPersonless` on for distinct_ids without a
    // person. Neither has person properties.
    if (person === 0 || person >= this.owners.firstPersonless) return NO_PERSON
    return this.#remembered(this.#candidates, person, SCAN_CANDIDATES_MAX, () => {
      this.#noteRead()
      const record = loadPerson(this.#tables, this.projectId, person)
      return record && candidateOf(record)
    })
  }
}

/**
 * The index by creation time contains each uuid with all its bits inverted. A prefix and its inverted form add up to
 * this number.
 */
const INVERTED_END = 2 ** (8 * PREFIX_BYTES) - 1

/** The first 48 bits of the uuids of a project's persons, as numbers, by person number. */
class UuidPrefixes {
  /** The prefixes, each plus 1. 0 means that the prefix was not read yet. */
  #prefixes = new Float64Array(1024)

  get(person: number): number | undefined {
    const prefix = this.#prefixes[person] ?? 0
    return prefix === 0 ? undefined : prefix - 1
  }

  set(person: number, prefix: number): void {
    this.#prefixes = withRoom(this.#prefixes, person)
    this.#prefixes[person] = prefix + 1
  }
}

/** The facts of a project that can be used again after a commit. */
interface LastingFacts {
  readonly uuids: UuidPrefixes
  readonly created: CreatedTimes
  readonly owners: StoredOwners
  readonly sessions: SessionNumbers
}

/** Caches the facts of a few projects from query to query. */
export class FactCache {
  readonly #tables: EventTables
  readonly #facts = new Map<number, ProjectFacts>()
  readonly #lasting = new Map<number, LastingFacts>()

  constructor(tables: EventTables) {
    this.#tables = tables
  }

  /**
   * Discards the session numbers of a project, and the cached values that contain them. The next session gets the
   * number 1 again.
   */
  forgetSessions(projectId: number): void {
    this.#facts.delete(projectId)
    const lasting = this.#lasting.get(projectId)
    if (lasting !== undefined) {
      this.#lasting.set(projectId, { ...lasting, sessions: new SessionNumbers() })
    }
  }

  /** Evicts all facts. Do not call it while a query uses them. */
  release(): void {
    this.#facts.clear()
    this.#lasting.clear()
  }

  /** Returns the facts of a project in the snapshot that the thread reads now. */
  facts(projectId: number): ProjectFacts {
    const position = readNumber(this.#tables.state, 'position') ?? 0
    const known = this.#facts.get(projectId)
    if (known?.position === position) return known
    let lasting = this.#lasting.get(projectId)
    if (lasting === undefined || lasting.sessions.count > SCAN_SESSIONS_MAX) {
      const { uuids = new UuidPrefixes(), created = new CreatedTimes() } = lasting ?? {}
      const { owners = new StoredOwners() } = lasting ?? {}
      lasting = { uuids, created, owners, sessions: new SessionNumbers() }
    }
    const facts = new ProjectFacts(this.#tables, projectId, position, lasting)
    keepNewest(this.#lasting, projectId, lasting, SCAN_PROJECTS_MAX)
    keepNewest(this.#facts, projectId, facts, SCAN_PROJECTS_MAX)
    return facts
  }
}

function prefixOfText(uuid: string): number {
  const bytes = parseUuid(uuid)
  return bytes === null ? 0 : prefixOf(bytes, 0)
}

function prefixOf(bytes: Uint8Array, offset: number): number {
  let prefix = 0
  for (let index = 0; index < PREFIX_BYTES; index++) {
    prefix = prefix * 256 + (bytes[offset + index] ?? 0)
  }
  return prefix
}
