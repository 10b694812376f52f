/**
 * The facts about persons, groups and distinct_ids that scans need in addition to the segments. Owners and uuids are
 * needed so often that they are cached as arrays. Owners are read again after each commit that changes them. Uuids are
 * cached until the thread ends, because the uuid of a person never changes.
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

/** The limits of the query are checked after this number of reads. A read takes a few microseconds. */
const READS_BETWEEN_CHECKS = 128

type LimitCheck = () => void

/** A value computed from stored events, and the state of the events from which it was computed. */
interface KeptValue {
  readonly state: string
  readonly value: { readonly bytes: number }
}

/** The facts of one project in one snapshot. */
export class ProjectFacts implements ScanFacts {
  readonly projectId: number
  /** The position in the log up to which the snapshot contains events. */
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

  /** A text that changes when a group type is deleted. The group keys of earlier events then no longer count. */
  get groupTypesVersion(): string {
    return [0, 1, 2, 3, 4].map((index) => this.groupTypeSince(index)).join(' ')
  }

  /** Returns the uuid of an owner as text, or '' if there is no such owner. */
  uuidOf(number: number): string {
    const { firstPersonless, lastDistinctId } = this.owners
    const distinctId = number - firstPersonless
    if (distinctId > 0 && distinctId <= lastDistinctId)
      return personUuid(this.projectId, this.textOf(distinctId))
    return loadPerson(this.#tables, this.projectId, number)?.uuid ?? ''
  }

  /** Returns the owner number of the distinct_id without a person for which the API shows a uuid, or null. */
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
    // Cache nothing under the owner number of a distinct_id without a person, because that number can change.
    if (person > this.owners.firstPersonless) return prefixOfText(this.uuidOf(person))
    const known = this.#uuids.get(person)
    if (known !== undefined) return known
    this.#look(person)
    return this.#uuids.get(person) ?? 0
  }

  /** Returns the persons created at `fromMs` or later, but before `untilMs`, in milliseconds. */
  createdWithin(fromMs: number, untilMs: number): CreatedPersons {
    return this.#created.within(fromMs, untilMs, {
      tables: this.#tables,
      projectId: this.projectId,
      owners: this.owners,
      noteRead: () => this.#noteRead(),
    })
  }

  /**
   * Returns the cached result of an earlier call, or calls `make`. The result is cached as long as the events of the
   * project stay in this state. If all cached values together exceed `bytesMax`, those used least recently are evicted.
   */
  kept<Value extends { readonly bytes: number }>(
    name: string,
    state: string,
    bytesMax: number,
    make: () => Value,
  ): Value {
    const known = this.#kept.get(name)
    // The cast is right: a name is used by only one kind of call, so the value has the right type.
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

  /** Sets the function that throws when the current query must end. */
  limitBy(check: LimitCheck): void {
    this.#limits = check
  }

  checkLimits = (): void => this.#limits()

  /** Returns the cached value of a key, or the result of `read`. The cache is cleared when it is full. */
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

  /** Reads the uuid of one person. After many single reads, reads the uuids of all persons at once. */
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
    // Events without an owner (number 0), and those of a distinct_id without a person, have no person properties.
    if (person === 0 || person >= this.owners.firstPersonless) return NO_PERSON
    return this.#remembered(this.#candidates, person, SCAN_CANDIDATES_MAX, () => {
      this.#noteRead()
      const record = loadPerson(this.#tables, this.projectId, person)
      return record && candidateOf(record)
    })
  }
}

/** The prefix of a uuid and the prefix of its inverted form add up to this number. */
const INVERTED_END = 2 ** (8 * PREFIX_BYTES) - 1

/** The first 48 bits of the uuids of a project's persons, by person number. */
class UuidPrefixes {
  /** The prefixes plus one, or 0 where the prefix is unknown. */
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

/** The facts that stay valid while events are processed. */
interface LastingFacts {
  readonly uuids: UuidPrefixes
  readonly created: CreatedTimes
  readonly owners: StoredOwners
  readonly sessions: SessionNumbers
}

/** Caches the facts of a few projects between scans. */
export class FactCache {
  readonly #tables: EventTables
  readonly #facts = new Map<number, ProjectFacts>()
  readonly #lasting = new Map<number, LastingFacts>()

  constructor(tables: EventTables) {
    this.#tables = tables
  }

  /**
   * Discards the session numbers of a project, and the values that contain them. The next session gets number 1 again.
   */
  forgetSessions(projectId: number): void {
    this.#facts.delete(projectId)
    const lasting = this.#lasting.get(projectId)
    if (lasting !== undefined) {
      this.#lasting.set(projectId, { ...lasting, sessions: new SessionNumbers() })
    }
  }

  /** Evicts everything. Do not call it while a query uses the cache. */
  release(): void {
    this.#facts.clear()
    this.#lasting.clear()
  }

  /** Returns the facts of a project in the snapshot that the thread reads. */
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
