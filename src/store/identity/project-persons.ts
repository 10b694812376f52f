/**
 * The persons of one project in the processing thread, as the rules see them. What is read stays in memory for a
 * while; what is changed stays until the next commit, which writes each person once, however many events changed it.
 */

import { withRoom } from '../../rules/analytics/growing-arrays.ts'
import type { DeletionJob } from '../../rules/events/erasure-job.ts'
import type { ActivityView } from '../../rules/persons/person-queries.ts'
import type {
  GroupState,
  PersonEvent,
  PersonState,
  PersonWorld,
} from '../../rules/persons/person-world.ts'
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
import { ProjectGroups } from './group-store.ts'
import { mayWait } from './person-changes.ts'
import { PERSON_NUMBER_MAX, ProjectOwners } from './person-owners.ts'
import {
  foldRecord,
  INLINE_IDS_MAX,
  loadPersonCounters,
  loadUuid,
  loadWhole,
  type PersonCounters,
  withChanges,
} from './person-records.ts'
import { type Separation, storeSeparation } from './person-separations.ts'
import {
  type GonePerson,
  newEntry,
  type PersonEntry,
  PersonWrites,
  storedEntry,
  storedIds,
} from './person-writes.ts'

/** Persons of one project. For the one writing thread. */
export class ProjectPersons implements PersonWorld {
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
  #young = new Map<number, PersonEntry>()
  #old = new Map<number, PersonEntry>()
  /** By P: 1 for those in `#young` or `#old`. */
  #areCached = new Uint8Array(0)
  /** Changed since the last commit. */
  #unsaved: PersonEntry[] = []
  #gone: GonePerson[] = []
  /** Who got deltas since the last commit. */
  #unread: number[] = []
  /** uuids of persons made since the last commit. */
  readonly #newUuids = new Map<string, number>()
  #activity: (readonly [number: number, person: number, view: ActivityView])[] = []
  #separations: (readonly [number: number, separation: Separation])[] = []
  /** Jobs that are not stored yet, oldest first. */
  newJobs: readonly OpenJob[] = []
  readonly #writes: PersonWrites
  #areCountersChanged = false
  #hasNewGroupType = false

  /** `lastDistinctId` tells the newest D that is stored; `onDamage` as of `PersonChanges`. */
  constructor(
    projectId: number,
    tables: EventTables,
    distinctIds: DistinctIds,
    lastDistinctId: () => number,
    onDamage: DamageListener,
  ) {
    this.projectId = projectId
    this.#tables = tables
    this.#writes = new PersonWrites(projectId, tables, onDamage)
    this.ids = new SenderIds(projectId, distinctIds, lastDistinctId)
    this.counters = loadPersonCounters(tables.person_projects, projectId)
    this.owners = new ProjectOwners(tables, projectId, this.counters.owners)
    this.cohorts = new ProjectCohorts(projectId, tables)
    this.actions = new ProjectActions(projectId, tables.actions)
    this.overrides = new ProjectOverrides(projectId, tables.flag_overrides)
    this.retention = new ProjectRetention(projectId, tables.retention_rules)
    this.doneJobs = new DoneJobs(projectId, tables.deletion_jobs)
    this.#groups = new ProjectGroups(projectId, tables.groups)
  }

  /** Whether cohorts or group types have changed since the last commit: flags refer to them. */
  get haveDefinitionsChanged(): boolean {
    return this.#hasNewGroupType || this.cohorts.haveDefinitionsChanged
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
   * Only for a person who is not in memory, and far from the limit: some dozens of such events and the person
   * have less than that.
   */
  updateUnread(event: PersonEvent, eventBytes: number, bytesMax: number): boolean {
    if (!mayWait(eventBytes, bytesMax)) return false
    const { properties, automatic } = event
    const number = this.owners.ownerOf(this.ids.ofEvent(event))
    if (number === 0 || this.#areCached[number] === 1) return false
    const { changes } = this.#writes
    // The index of e-mail addresses has to know the one before.
    if (!changes.hasRoom(number) || namesEmail(properties)) return false
    const delta = deltaOf(properties, automatic)
    if (delta === null) return true
    changes.append(number, delta)
    this.#unread.push(number)
    return true
  }

  isUuidTaken(uuid: string, distinctId: string): boolean {
    const id = this.ids.find(distinctId)
    if (id === 0 || !this.owners.wasSeparated(id)) return false
    return (
      this.#newUuids.has(uuid) || loadUuid(this.#tables.person_uuids, this.projectId, uuid) !== null
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
    if (person.isUnsaved) return
    person.isUnsaved = true
    this.#unsaved.push(this.#entry(person.number))
  }

  merge(into: PersonState, from: PersonState): void {
    const target = this.#entry(into.number)
    const source = this.#entry(from.number)
    const ids = this.#idsOf(source)
    this.overrides.merge(into.number, from.number)
    for (const id of ids) {
      this.owners.setOwner(id, into.number)
      this.#link(target, id)
    }
    for (const cohort of this.counters.staticCohorts) {
      if (!this.cohorts.isMember(cohort, from.number)) continue
      this.cohorts.setMember(cohort, from.number, false)
      this.cohorts.setMember(cohort, into.number, true)
    }
    this.#remove(source, Number.NaN)
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

  addGroupType(type: string): void {
    this.counters.groupTypes.push(type)
    this.#hasNewGroupType = true
    this.#areCountersChanged = true
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

  /** The living person with a number, or null. */
  personByNumber(number: number): PersonState | null {
    if (!Number.isInteger(number) || number < 1 || number > this.counters.lastPerson) return null
    const cached = this.#cached(number)
    if (cached === undefined && this.#gone.some((gone) => gone.number === number)) return null
    return (cached ?? this.#load(number))?.state ?? null
  }

  /** The living person with a uuid, or null. */
  personByUuid(uuid: string): PersonState | null {
    const known = this.#newUuids.get(uuid)
    const number = known ?? loadUuid(this.#tables.person_uuids, this.projectId, uuid)?.number
    if (number === undefined) return null
    const person = this.personByNumber(number)
    return person?.uuid === uuid ? person : null
  }

  /** D of all ids of a person in the order of their links. */
  idsOf(person: PersonState): readonly number[] {
    return this.#idsOf(this.#entry(person.number))
  }

  /** The person who owns a distinct_id, by text; 0 when nobody does. */
  ownerNumber(text: string): number {
    const id = this.ids.find(text)
    return id === 0 ? 0 : this.owners.ownerOf(id)
  }

  /** Gives one D of a person to a new person. */
  separate(person: PersonState, distinctId: number): void {
    this.owners.separate(distinctId, person.number)
    this.#create(person, distinctId)
  }

  /** Leaves a person with one of its ids; the others have been given to somebody else. */
  keepOnly(person: PersonState, distinctId: number): void {
    const entry = this.#entry(person.number)
    entry.firstIds = [distinctId]
    entry.addedIds = []
    entry.idCount = 1
    entry.rewritesIds = entry.storedIds > 0
    entry.areIdsChanged = true
    this.owners.separate(distinctId, person.number)
    this.update(person)
  }

  /** Deletes a person: its ids belong to nobody, its events up to `sequence` for ever. */
  deletePerson(person: PersonState, sequence: number, deletedAtMs: number): void {
    const entry = this.#entry(person.number)
    for (const id of this.#idsOf(entry)) this.owners.free(id, sequence)
    for (const cohort of this.counters.staticCohorts) {
      this.cohorts.setMember(cohort, person.number, false)
    }
    this.overrides.remove(person.number)
    this.counters.deletions++
    this.#remove(entry, deletedAtMs)
  }

  /** Adds an entry to the activity log. */
  addActivity(person: number, view: ActivityView): void {
    this.#areCountersChanged = true
    this.#activity.push([++this.counters.activity, person, view])
  }

  /** Notes a deletion or a split. */
  addSeparation(separation: Separation): void {
    this.#areCountersChanged = true
    this.#separations.push([++this.counters.separations, separation])
  }

  /** Adds a job that erases events; its number. */
  addJob(job: DeletionJob): number {
    this.#areCountersChanged = true
    const number = ++this.counters.jobs
    this.newJobs = [...this.newJobs, { projectId: this.projectId, number, job }]
    return this.counters.jobs
  }

  /** P of those who were changed or removed since the last commit. */
  get changedPersons(): readonly number[] {
    const known = [...this.#unsaved.map(({ state }) => state), ...this.#gone]
    return [...new Set([...known.map(({ number }) => number), ...this.#unread])]
  }

  /** Whether anybody got deltas since the last commit. */
  get hasNewDeltas(): boolean {
    return this.#unread.length > 0
  }

  /** The number of a new cohort. */
  nextCohort(isStatic: boolean): number {
    this.#areCountersChanged = true
    const id = ++this.counters.cohorts
    if (isStatic) this.counters.staticCohorts.push(id)
    return id
  }

  /** Notes that a person is to be stored as it is now, without deltas; false: there is none. It is not kept in memory. */
  fold(number: number): boolean {
    const entry = this.#cached(number) ?? this.#load(number, false)
    if (entry === null) return false
    entry.state.isUnsaved = true
    this.#unsaved.push(entry)
    return true
  }

  /** Stores what was changed. Only in a write transaction. */
  store(): void {
    const { projectId, counters, owners } = this
    const tables = this.#tables
    for (const [uuid, number] of this.#newUuids) this.#writes.addUuid(uuid, number)
    for (const gone of this.#gone) this.#writes.remove(gone)
    const unsaved = this.#unsaved.filter(({ state }) => state.isUnsaved)
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
    for (const [number, person, view] of this.#activity) {
      storeEntry(log, projectId, person, number, JSON.stringify(view))
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

  /** After a commit: everything is stored; the cache forgets when it holds more than `entriesMax`. */
  settle(entriesMax: number): void {
    this.#unsaved = []
    this.#gone = []
    this.#unread = []
    this.#activity = []
    this.#separations = []
    this.newJobs = []
    this.#newUuids.clear()
    this.#areCountersChanged = false
    this.#hasNewGroupType = false
    this.cohorts.haveDefinitionsChanged = false
    this.ids.setCurrent(null, 0)
    this.#groups.settle()
    this.#writes.settle()
    if (this.#young.size * 2 <= entriesMax) return
    for (const number of this.#old.keys()) {
      if (!this.#young.has(number)) this.#areCached[number] = 0
    }
    this.#old = this.#young
    this.#young = new Map()
  }

  #cache(number: number, entry: PersonEntry): void {
    this.#areCached = withRoom(this.#areCached, number)
    this.#areCached[number] = 1
    this.#young.set(number, entry)
  }

  #create(person: PersonState, distinctId: number): void {
    const entry = newEntry(person, [distinctId], 1)
    this.owners.setOwner(distinctId, person.number)
    this.#cache(person.number, entry)
    this.#newUuids.set(person.uuid, person.number)
    this.counters.lastPerson = person.number
    this.counters.persons++
    this.#areCountersChanged = true
    person.isUnsaved = true
    this.#unsaved.push(entry)
  }

  #link(entry: PersonEntry, distinctId: number): void {
    if (entry.idCount < INLINE_IDS_MAX) entry.firstIds.push(distinctId)
    else entry.addedIds.push(distinctId)
    entry.idCount++
    entry.areIdsChanged = true
    this.update(entry.state)
  }

  #idsOf(entry: PersonEntry): readonly number[] {
    // Whoever notes them keeps them, while the person goes on to get others.
    if (entry.idCount <= INLINE_IDS_MAX) return [...entry.firstIds]
    const stored = entry.rewritesIds
      ? []
      : storedIds(this.#tables.person_ids, this.projectId, entry)
    return [...entry.firstIds, ...stored, ...entry.addedIds]
  }

  #remove(entry: PersonEntry, deletedAtMs: number): void {
    const { number, uuid } = entry.state
    const { storedCreatedAtMs, storedEmail, storedIds } = entry
    entry.state.isUnsaved = false
    this.#young.delete(number)
    this.#old.delete(number)
    this.#areCached[number] = 0
    this.#gone.push({ number, uuid, storedCreatedAtMs, storedEmail, storedIds, deletedAtMs })
    this.counters.persons--
    this.#areCountersChanged = true
  }

  #cached(number: number): PersonEntry | undefined {
    const young = this.#young.get(number)
    if (young !== undefined) return young
    const old = this.#old.get(number)
    if (old !== undefined) this.#young.set(number, old)
    return old
  }

  /** A person that exists. */
  #entry(number: number): PersonEntry {
    const entry = this.#cached(number) ?? this.#load(number)
    if (entry === null) throw new Error(`person ${number} is missing`)
    return entry
  }

  #load(number: number, isKept = true): PersonEntry | null {
    const whole = loadWhole(this.#tables.persons, this.projectId, number)
    if (whole === null) return null
    const { changes } = this.#writes
    const changed = changes.load(number)
    const record = changed === null ? whole : withChanges(whole, changed)
    const delta = changes.takeDelta(number)
    const entry = storedEntry(whole, foldRecord(record, delta))
    if (isKept) this.#cache(number, entry)
    if (delta !== null) this.update(entry.state)
    return entry
  }
}
