/**
 * The persons of one project in the processing thread, in the form that the rules expect. Persons that were read stay
 * cached for a while. Changed persons stay in memory until the next commit, which writes each of them once, however
 * many events changed it.
 *
 * A merge moves the distinct_ids of the person with fewer ids to the number of the person with more ids (union by
 * size). The person that remains is stored under that number, with its own id and uuid. The cost of n merges therefore
 * grows with n log n, whatever the order of the merges, and whichever person remains.
 *
 * Changed persons are *held*: they stay in memory until they are stored. `GatheredBytes` counts their memory, so that a
 * commit is made before they take too much. Persons that were only read may be evicted between any two events.
 */

import { withRoom } from '../../rules/analytics/growing-arrays.ts'
import type { DeletionJob } from '../../rules/events/erasure-job.ts'
import { freeGroupType } from '../../rules/persons/group-rules.ts'
import type { ActivityView } from '../../rules/persons/person-queries.ts'
import type {
  GroupState,
  PersonEvent,
  PersonRepository,
  PersonState,
} from '../../rules/persons/person-repository.ts'
import { deltaOf, namesEmail } from '../../rules/persons/property-deltas.ts'
import type { DamageListener } from '../faults.ts'
import { pack } from '../lmdb/codec.ts'
import { storeEntry } from '../lmdb/entry-log.ts'
import { type EventTables, numberKey } from '../lmdb/keys.ts'
import { store } from '../lmdb/records.ts'
import { ProjectActions } from './action-store.ts'
import { ProjectCohorts } from './cohort-store.ts'
import { type DistinctIds, SenderIds } from './distinct-ids.ts'
import { DoneJobs, type OpenJob, ProjectRetention, storeJob } from './erasure-records.ts'
import { ProjectOverrides } from './flag-overrides.ts'
import type { GatheredBytes } from './gathered-bytes.ts'
import { ProjectGroups } from './group-store.ts'
import { DELTA_UNITS_MAX } from './limits.ts'
import { LinkedIds } from './linked-ids.ts'
import { mayWait } from './person-changes.ts'
import { PERSON_NUMBER_MAX, ProjectOwners } from './person-owners.ts'
import {
  foldRecord,
  type GroupTypeFacts,
  loadHead,
  loadNumber,
  loadPersonCounters,
  loadUuid,
  NO_GROUP_TYPE_FACTS,
  type PersonCounters,
  withChanges,
  withPages,
} from './person-records.ts'
import { type Separation, storeSeparation } from './person-separations.ts'
import {
  type GonePerson,
  newEntry,
  type PersonEntry,
  PersonWrites,
  storedEntry,
} from './person-writes.ts'

/** The fraction of the cache that each of the two generations of persons may use. Groups use the rest. */
const GENERATION_PART = 3 / 8
const GROUPS_PART = 1 / 4
/** The number of bytes of memory that a person takes in addition to its properties. */
const PERSON_MEMORY_BYTES = 600
/** The estimated number of bytes that a removed person, a uuid, a delta or an entry of a log takes until the commit. */
const NOTE_MEMORY_BYTES = 200
/**
 * The estimated number of bytes that an id takes until the commit if a merge or a deletion moves it, including its
 * records.
 */
const MOVED_ID_MEMORY_BYTES = 100

/** The persons of one project, for the one writing thread. */
export class ProjectPersons implements PersonRepository {
  readonly projectId: number
  readonly counters: PersonCounters
  readonly owners: ProjectOwners
  readonly ids: SenderIds
  readonly cohorts: ProjectCohorts
  readonly actions: ProjectActions
  readonly overrides: ProjectOverrides
  readonly retention: ProjectRetention
  readonly doneJobs: DoneJobs
  readonly #tables: EventTables
  readonly #groups: ProjectGroups
  readonly #gathered: GatheredBytes
  #young = new Map<number, PersonEntry>()
  #old = new Map<number, PersonEntry>()
  /** The number of bytes of those persons in `#young` that may be evicted. */
  #youngBytes = 0
  /** The number of bytes of the persons in `#old`, at the time when they became the older generation. */
  #oldBytes = 0
  /** The largest number of bytes that each of the two generations may take. */
  #generationBytesMax: number
  /** For each person number: 1 if the person is in memory, otherwise 0. */
  #areCached = new Uint8Array(0)
  /** The persons that must not be evicted before the next commit, because they have changed or a command uses them. */
  #held = new Map<number, PersonEntry>()
  #gone = new Map<number, GonePerson>()
  /** The persons that got deltas (person-changes.ts) since the last commit. They were not read. */
  #unread: number[] = []
  /** The uuids of persons that are new or got another number since the last commit. */
  readonly #uuids = new Map<string, number>()
  /**
   * The changes of table `moved_persons` since the last commit: id of a person -> person number. Null: the number
   * equals the id again, or there is no such person any more.
   */
  readonly #moved = new Map<number, number | null>()
  #activity: (readonly [number: number, personId: number, view: ActivityView])[] = []
  #separations: (readonly [number: number, separation: Separation])[] = []
  /** The new erasure jobs, which are not stored yet, oldest first. */
  newJobs: readonly OpenJob[] = []
  readonly #writes: PersonWrites
  #areCountersChanged = false
  #haveGroupTypesChanged = false

  /**
   * `lastDistinctId` returns the largest stored distinct ID number. `PersonChanges` explains `onDamage`. `gathered`
   * counts the memory of the changes that wait for the next commit.
   */
  constructor(
    projectId: number,
    tables: EventTables,
    distinctIds: DistinctIds,
    lastDistinctId: () => number,
    onDamage: DamageListener,
    gathered: GatheredBytes,
    cacheBytesMax: number,
  ) {
    this.projectId = projectId
    this.#tables = tables
    this.#gathered = gathered
    this.#generationBytesMax = cacheBytesMax * GENERATION_PART
    this.#writes = new PersonWrites(projectId, tables, onDamage)
    this.ids = new SenderIds(projectId, distinctIds, lastDistinctId)
    this.counters = loadPersonCounters(tables.person_projects, projectId)
    this.owners = new ProjectOwners(tables, projectId, this.counters.owners)
    this.cohorts = new ProjectCohorts(projectId, tables)
    this.actions = new ProjectActions(projectId, tables.actions)
    this.overrides = new ProjectOverrides(projectId, tables.flag_overrides)
    this.retention = new ProjectRetention(projectId, tables.retention_rules)
    this.doneJobs = new DoneJobs(projectId, tables.deletion_jobs)
    this.#groups = new ProjectGroups(projectId, tables, gathered, cacheBytesMax * GROUPS_PART)
  }

  /** True if cohorts or group types have changed since the last commit. Flags may refer to them. */
  get haveDefinitionsChanged(): boolean {
    return this.#haveGroupTypesChanged || this.cohorts.haveDefinitionsChanged
  }

  /**
   * Must be called before each event. `distinctId` is the distinct ID number of the event, or 0 if it is unknown.
   * `event` is null if there is no event. The call may evict persons. Afterward, the caller may use a person that it
   * got earlier only if the person is held.
   */
  beginEvent(event: PersonEvent | null, distinctId: number): void {
    this.ids.setCurrent(event, distinctId)
    if (this.#youngBytes > this.#generationBytesMax) this.#rotate()
    this.#groups.evict()
  }

  personOf(distinctId: string): PersonState | null {
    const number = this.ownerNumber(distinctId)
    return number === 0 ? null : this.#entry(number).state
  }

  senderOf(event: PersonEvent): PersonState | null {
    const number = this.owners.ownerOf(this.ids.ofEvent(event))
    return number === 0 ? null : this.#entry(number).state
  }

  /**
   * Changes the person of an event without reading it, by a delta (person-changes.ts). Returns true if that was done or
   * nothing had to change. Returns false if the caller must change the person in memory instead, for example because it
   * is cached, may not get another delta, or is so large that the limit for its properties must be checked.
   */
  updateUnread(event: PersonEvent, eventBytes: number, bytesMax: number): boolean {
    if (!mayWait(eventBytes, bytesMax)) return false
    const { properties, automatic } = event
    const number = this.owners.ownerOf(this.ids.ofEvent(event))
    if (number === 0 || this.#areCached[number] === 1) return false
    const { changes } = this.#writes
    // An e-mail address also changes the index of addresses. That needs the previous address, so the person must be
    // read.
    if (!changes.hasRoom(number) || namesEmail(properties)) return false
    const delta = deltaOf(properties, automatic)
    if (delta === null) return true
    // Each decision about the person parses all of its deltas, so a delta must be short.
    if (delta.length > DELTA_UNITS_MAX) return false
    changes.append(number, delta)
    this.#unread.push(number)
    this.#gathered.bytes += NOTE_MEMORY_BYTES + delta.length * 2
    return true
  }

  isUuidTaken(uuid: string, distinctId: string): boolean {
    const id = this.ids.find(distinctId)
    if (id === 0 || !this.owners.wasSeparated(id)) return false
    return (
      this.#uuids.has(uuid) || loadUuid(this.#tables.person_uuids, this.projectId, uuid) !== null
    )
  }

  nextPersonNumber(): number {
    const number = this.counters.lastPerson + 1
    if (number > PERSON_NUMBER_MAX) throw new RangeError('a project has too many persons')
    return number
  }

  create(person: PersonState, distinctId: string): void {
    this.#create(person, this.ids.idOf(distinctId))
  }

  addDistinctId(person: PersonState, distinctId: string): void {
    const [id, entry] = [this.ids.idOf(distinctId), this.#entry(person.number)]
    this.owners.setOwner(id, person.number)
    this.#link(entry, id)
  }

  update(person: PersonState): void {
    if (!person.isUnsaved) {
      person.isUnsaved = true
      this.#hold(this.#entry(person.number))
    }
    this.#countHeld(person)
  }

  merge(into: PersonState, from: PersonState): void {
    const target = this.#entry(into.number)
    const source = this.#entry(from.number)
    const isTargetLarger = target.ids.count >= source.ids.count
    const [larger, smaller] = isTargetLarger ? [target, source] : [source, target]
    const { number } = larger.state
    // The pages under the number of this person are removed before the merged person is stored.
    smaller.state.properties.readAll()
    const moved = this.#idsOf(smaller)
    this.overrides.merge(into.number, from.number, number)
    for (const id of moved) this.owners.setOwner(id, number)
    if (isTargetLarger) for (const id of moved) larger.ids.append(id)
    else larger.ids.prepend(moved)
    this.#gathered.bytes += moved.length * MOVED_ID_MEMORY_BYTES
    for (const cohort of this.counters.staticCohorts) {
      if (!this.cohorts.isMember(cohort, smaller.state.number)) continue
      this.cohorts.setMember(cohort, smaller.state.number, false)
      this.cohorts.setMember(cohort, number, true)
    }
    this.#remove(smaller, Number.NaN)
    if (!isTargetLarger) this.#move(into, larger)
    this.update(into)
  }

  wasUsedPersonless(distinctId: string): boolean {
    const id = this.ids.find(distinctId)
    return id !== 0 && this.owners.wasUsedPersonless(id)
  }

  notePersonless(distinctId: string): void {
    this.owners.notePersonless(this.ids.idOf(distinctId))
  }

  groupTypes(): readonly string[] {
    return this.counters.groupTypes
  }

  freeGroupType(): number {
    return freeGroupType(this.counters.groupTypes)
  }

  addGroupType(type: string, typeIndex: number): void {
    this.counters.groupTypes[typeIndex] = type
    this.#haveGroupTypesChanged = true
    this.#areCountersChanged = true
  }

  /** Changes the facts about a group type. Facts that are not given stay the same. */
  describeGroupType(typeIndex: number, facts: Partial<GroupTypeFacts>): void {
    const { groupTypeFacts } = this.counters
    while (groupTypeFacts.length <= typeIndex) groupTypeFacts.push(null)
    groupTypeFacts[typeIndex] = {
      ...NO_GROUP_TYPE_FACTS,
      ...groupTypeFacts[typeIndex],
      ...facts,
    }
    this.#areCountersChanged = true
  }

  /**
   * Deletes a group type with all its groups. Another type may then get its index. In events up to the sequence number
   * `lastSequence`, the index still stands for the deleted type.
   */
  deleteGroupType(typeIndex: number, lastSequence: number): void {
    this.counters.groupTypes[typeIndex] = ''
    this.describeGroupType(typeIndex, { ...NO_GROUP_TYPE_FACTS, since: lastSequence })
    this.#groups.removeType(typeIndex)
    this.#haveGroupTypesChanged = true
  }

  group(typeIndex: number, key: string): GroupState | null {
    return this.#groups.group(typeIndex, key)
  }

  createGroup(group: GroupState): void {
    this.#groups.create(group)
  }

  updateGroup(group: GroupState): void {
    this.#groups.update(group)
  }

  /** Returns the person with an id, or null. The person is held until the next commit. */
  personById(id: number): PersonState | null {
    if (!Number.isInteger(id) || id < 1 || id > this.counters.lastPerson) return null
    const moved = this.#moved.get(id)
    const number =
      moved === undefined
        ? loadNumber(this.#tables.moved_persons, this.projectId, id)
        : (moved ?? id)
    const person = this.#livingPerson(number)
    return person?.id === id ? person : null
  }

  /** Returns the person with a uuid, or null. The person is held until the next commit. */
  personByUuid(uuid: string): PersonState | null {
    const known = this.#uuids.get(uuid)
    const number = known ?? loadUuid(this.#tables.person_uuids, this.projectId, uuid)?.number
    if (number === undefined) return null
    const person = this.#livingPerson(number)
    return person?.uuid === uuid ? person : null
  }

  /** Returns the distinct ID numbers of a person, in the order in which they were linked. */
  idsOf(person: PersonState): readonly number[] {
    return this.#idsOf(this.#entry(person.number))
  }

  /**
   * Returns the same ids as `idsOf`, one by one, for callers that may need only the first ones. No id may be added to
   * the person during the iteration.
   */
  idsInOrder({ number }: PersonState): Iterable<number> {
    return this.#entry(number).ids.inOrder(this.#tables.person_ids, this.projectId, number)
  }

  /** Returns the number of ids of a person. */
  idCountOf(person: PersonState): number {
    return this.#entry(person.number).ids.count
  }

  /** Returns the number of the person who owns a distinct_id, or 0. */
  ownerNumber(text: string): number {
    const id = this.ids.find(text)
    return id === 0 ? 0 : this.owners.ownerOf(id)
  }

  /** Creates `person` with a distinct_id that is taken from another person. */
  separate(person: PersonState, distinctId: number): void {
    this.owners.separate(distinctId, person.number)
    this.#create(person, distinctId)
  }

  /** Removes all ids of a person except one. The other ids must already belong to other persons. */
  keepOnly(person: PersonState, distinctId: number): void {
    this.#entry(person.number).ids.keepOnly(distinctId)
    this.owners.separate(distinctId, person.number)
    this.update(person)
  }

  /**
   * Deletes a person. Its ids have no owner afterward, and its events up to `sequence` will never have an owner again.
   */
  deletePerson(person: PersonState, sequence: number, deletedAtMs: number): void {
    const entry = this.#entry(person.number)
    const ids = this.#idsOf(entry)
    for (const id of ids) this.owners.free(id, sequence)
    this.#gathered.bytes += ids.length * MOVED_ID_MEMORY_BYTES
    for (const cohort of this.counters.staticCohorts) {
      this.cohorts.setMember(cohort, person.number, false)
    }
    this.overrides.remove(person.number)
    this.counters.deletions++
    this.#remove(entry, deletedAtMs)
  }

  /** Adds an entry to the activity log of a person, given by its id. */
  addActivity(id: number, view: ActivityView): void {
    this.#areCountersChanged = true
    this.#activity.push([++this.counters.activity, id, view])
    this.#gathered.bytes += NOTE_MEMORY_BYTES
  }

  /** Adds the record of a deletion or a split. */
  addSeparation(separation: Separation): void {
    this.#areCountersChanged = true
    this.#separations.push([++this.counters.separations, separation])
    this.#gathered.bytes += NOTE_MEMORY_BYTES * (1 + separation.ids.length)
  }

  /** Adds a job that erases events, and returns its number. */
  addJob(job: DeletionJob): number {
    this.#areCountersChanged = true
    const number = ++this.counters.jobs
    this.newJobs = [...this.newJobs, { projectId: this.projectId, number, job }]
    this.#gathered.bytes += NOTE_MEMORY_BYTES
    return this.counters.jobs
  }

  /** The numbers of the persons that were changed or removed since the last commit, each only once. */
  get changedPersons(): readonly number[] {
    return [...new Set([...this.#held.keys(), ...this.#gone.keys(), ...this.#unread])]
  }

  /** True if any person got deltas (person-changes.ts) since the last commit. */
  get hasNewDeltas(): boolean {
    return this.#unread.length > 0
  }

  /** Returns a number for a new cohort. */
  nextCohort(): number {
    this.#areCountersChanged = true
    return ++this.counters.cohorts
  }

  /** Records that a cohort has stored members. From then on, a merge or a deletion of a person updates them. */
  storeMembers(cohort: number): void {
    const { staticCohorts } = this.counters
    if (staticCohorts.includes(cohort)) return
    this.#areCountersChanged = true
    staticCohorts.push(cohort)
  }

  /**
   * Makes the next commit store a person completely, with its deltas applied. Returns false if there is no such person.
   * If the person was not cached before, it is not cached afterward.
   */
  fold(number: number): boolean {
    const entry = this.#cached(number) ?? this.#load(number, false)
    if (entry === null) return false
    entry.state.isUnsaved = true
    this.#hold(entry)
    this.#countHeld(entry.state)
    return true
  }

  /** Stores all changes. Call it only within a write transaction. */
  store(): void {
    const { projectId, counters, owners } = this
    const tables = this.#tables
    for (const [uuid, number] of this.#uuids) this.#writes.addUuid(uuid, number)
    for (const [id, number] of this.#moved) this.#writes.setNumber(id, number)
    for (const gone of this.#gone.values()) this.#writes.remove(gone)
    const unsaved = [...this.#held.values()].filter(({ state }) => state.isUnsaved)
    unsaved.sort((a, b) => a.state.number - b.state.number)
    for (const entry of unsaved) this.#writes.store(entry)
    this.#writes.finish()
    owners.store()
    this.#groups.store()
    this.cohorts.store()
    this.actions.store()
    this.overrides.store()
    this.retention.store()
    const log = { entries: tables.activity, items: tables.activity_items }
    for (const [number, personId, view] of this.#activity) {
      storeEntry(log, projectId, personId, number, JSON.stringify(view))
    }
    for (const [number, separation] of this.#separations) {
      storeSeparation(tables, projectId, number, separation)
    }
    for (const job of this.newJobs) storeJob(tables.deletion_jobs, job)
    this.doneJobs.store()
    const haveOwnersChanged = owners.changeCount !== counters.owners.count
    if (haveOwnersChanged) counters.owners = owners.changes
    if (!this.#areCountersChanged && !haveOwnersChanged) return
    store(tables.person_projects, numberKey(projectId), pack(counters))
  }

  /**
   * Must be called after a commit: all changes count as stored from then on. Also sets the largest number of bytes that
   * the cache may take.
   */
  settle(cacheBytesMax: number): void {
    const held = this.#held
    this.#held = new Map()
    this.#gone = new Map()
    this.#unread = []
    this.#activity = []
    this.#separations = []
    this.newJobs = []
    this.#uuids.clear()
    this.#moved.clear()
    this.#areCountersChanged = false
    this.#haveGroupTypesChanged = false
    this.cohorts.haveDefinitionsChanged = false
    this.#groups.settle()
    this.#writes.settle()
    const cached = [...held.values()].filter(({ state }) => this.#areCached[state.number] === 1)
    this.limitCache(cacheBytesMax)
    this.beginEvent(null, 0)
    for (const entry of cached) this.#keep(entry)
  }

  /**
   * Sets the largest number of bytes that the cache may take, and evicts persons if it takes more. Must not be called
   * while an event is being processed.
   */
  limitCache(bytesMax: number): void {
    this.#generationBytesMax = bytesMax * GENERATION_PART
    this.#groups.limitCache(bytesMax * GROUPS_PART)
    const isAbove = Math.max(this.#youngBytes, this.#oldBytes) > this.#generationBytesMax
    if (isAbove) this.#rotate()
    if (this.#oldBytes > this.#generationBytesMax) this.#rotate()
  }

  /** The estimated number of bytes of the persons and groups that are only cached and not held. */
  get cachedBytes(): number {
    let oldBytes = 0
    for (const [number, { state }] of this.#old) {
      if (!this.#held.has(number) && !this.#young.has(number)) oldBytes += state.countedBytes
    }
    return this.#youngBytes + oldBytes + this.#groups.cachedBytes
  }

  #livingPerson(number: number): PersonState | null {
    const cached = this.#cached(number)
    if (cached === undefined && this.#gone.has(number)) return null
    const entry = cached ?? this.#load(number)
    if (entry === null) return null
    this.#hold(entry)
    this.#countHeld(entry.state)
    return entry.state
  }

  /** Holds a person: it stays in memory until the next commit. */
  #hold(entry: PersonEntry): void {
    const { state } = entry
    if (this.#held.has(state.number)) return
    if (this.#young.get(state.number) === entry) this.#youngBytes -= state.countedBytes
    state.countedBytes = 0
    this.#held.set(state.number, entry)
  }

  /** Updates the counted memory of a held person, whose size may have changed. */
  #countHeld(state: PersonState): void {
    const bytes = PERSON_MEMORY_BYTES + state.properties.memoryBytes
    this.#gathered.bytes += bytes - state.countedBytes
    state.countedBytes = bytes
  }

  /** After a commit, puts a person that was held back into the cache. */
  #keep(entry: PersonEntry): void {
    const { state } = entry
    const { number } = state
    const bytes = PERSON_MEMORY_BYTES + state.properties.memoryBytes
    if (bytes > this.#generationBytesMax) {
      this.#forget(number)
      return
    }
    if (this.#youngBytes + bytes > this.#generationBytesMax) this.#rotate()
    state.countedBytes = bytes
    this.#areCached[number] = 1
    this.#young.set(number, entry)
    this.#youngBytes += bytes
  }

  /**
   * Turns the younger generation into the older one. The persons of the former older generation are evicted, unless
   * they are held or in the younger generation too.
   */
  #rotate(): void {
    for (const number of this.#old.keys()) {
      if (!this.#young.has(number) && !this.#held.has(number)) this.#areCached[number] = 0
    }
    this.#old = this.#young
    this.#oldBytes = this.#youngBytes
    this.#young = new Map()
    this.#youngBytes = 0
  }

  /** Puts a person that was just read or created into the cache. */
  #cache(number: number, entry: PersonEntry): void {
    this.#areCached = withRoom(this.#areCached, number)
    this.#areCached[number] = 1
    this.#young.set(number, entry)
    const { state } = entry
    state.countedBytes = PERSON_MEMORY_BYTES + state.properties.memoryBytes
    this.#youngBytes += state.countedBytes
  }

  #create(person: PersonState, distinctId: number): void {
    const entry = newEntry(person, new LinkedIds([distinctId]))
    this.owners.setOwner(distinctId, person.number)
    this.#cache(person.number, entry)
    this.#setUuid(person)
    this.counters.lastPerson = person.number
    this.counters.persons++
    this.#areCountersChanged = true
    this.update(person)
  }

  #setUuid({ uuid, number }: Pick<PersonState, 'uuid' | 'number'>): void {
    this.#uuids.set(uuid, number)
    this.#gathered.bytes += NOTE_MEMORY_BYTES
  }

  #link(entry: PersonEntry, distinctId: number): void {
    const { pendingBytes } = entry.ids
    entry.ids.append(distinctId)
    this.#gathered.bytes += entry.ids.pendingBytes - pendingBytes
    this.update(entry.state)
  }

  /**
   * Returns all distinct ID numbers of a person in a new array, which does not change when the person gets further ids.
   */
  #idsOf({ ids, state }: PersonEntry): readonly number[] {
    return ids.all(this.#tables.person_ids, this.projectId, state.number)
  }

  #remove(entry: PersonEntry, deletedAtMs: number): void {
    const { state, storedCreatedAtMs, storedUuid, storedEmail, storedBytes, ids } = entry
    const { number, uuid, id } = state
    this.#release(number)
    if (id !== number) this.#moved.set(id, null)
    const { rows } = ids
    const stored = { storedCreatedAtMs, storedUuid, storedEmail, storedBytes, rows }
    this.#gone.set(number, { number, uuid, deletedAtMs, ...stored })
    this.#gathered.bytes += NOTE_MEMORY_BYTES
    this.counters.persons--
    this.#areCountersChanged = true
  }

  /** Removes a person from memory. */
  #release(number: number): void {
    const entry = this.#cached(number)
    if (entry === undefined) return
    const { state } = entry
    if (this.#held.delete(number)) this.#gathered.bytes -= state.countedBytes
    else this.#youngBytes -= state.countedBytes
    state.countedBytes = 0
    state.isUnsaved = false
    this.#forget(number)
  }

  #forget(number: number): void {
    this.#young.delete(number)
    this.#old.delete(number)
    this.#areCached[number] = 0
  }

  /**
   * The last step of a merge into a person with fewer ids: `person` replaces the merged person in `entry` and gets its
   * person number.
   */
  #move(person: PersonState, entry: PersonEntry): void {
    const { state: former } = entry
    const { number } = former
    this.#hold(entry)
    this.#gathered.bytes -= former.countedBytes
    if (former.id !== number) this.#moved.set(former.id, null)
    this.#moved.set(person.id, person.id === number ? null : number)
    // The record of the merged person's uuid contains the number that `person` has now. The uuid must no longer lead to
    // a person, so its record gets the former number of `person`, which no person has any more.
    this.#setUuid({ uuid: former.uuid, number: person.number })
    person.number = number
    person.isUnsaved = true
    person.countedBytes = 0
    entry.state = person
    this.#setUuid(person)
  }

  #cached(number: number): PersonEntry | undefined {
    if (this.#areCached[number] !== 1) return undefined
    const young = this.#young.get(number)
    if (young !== undefined) return young
    const held = this.#held.get(number)
    const entry = held ?? this.#old.get(number)
    if (entry === undefined) return undefined
    this.#young.set(number, entry)
    if (held === undefined) this.#youngBytes += entry.state.countedBytes
    return entry
  }

  /** Returns the entry of a person that must exist. */
  #entry(number: number): PersonEntry {
    const entry = this.#cached(number) ?? this.#load(number)
    if (entry === null) throw new Error(`person ${number} is missing`)
    return entry
  }

  #load(number: number, isKept = true): PersonEntry | null {
    const head = loadHead(this.#tables.persons, this.projectId, number)
    if (head === null) return null
    const unread = this.#writes.unreadOf(head)
    const whole = unread === null ? withPages(this.#tables, this.projectId, head) : head
    const { changes } = this.#writes
    const changed = changes.load(number)
    const record = changed === null ? whole : withChanges(whole, changed)
    const delta = changes.takeDelta(number)
    const entry = storedEntry(whole, foldRecord(record, delta, unread))
    if (isKept) this.#cache(number, entry)
    if (delta !== null) this.update(entry.state)
    return entry
  }
}
