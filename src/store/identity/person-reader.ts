/**
 * The reading end of persons: who owns an event, single persons, lists, values. Every method reads the
 * snapshot that its environment is at; `EventReader` moves it on.
 */
import { DISTINCT_IDS_LISTED_MAX, DISTINCT_IDS_SHOWN_MAX } from '../../base/limits.ts'
import { getOrAdd, RecentValues } from '../../base/maps.ts'
import type { Entries, Page } from '../../base/pages.ts'
import { timeText } from '../../base/time.ts'
import type { PersonSummary } from '../../rules/events/event-queries.ts'
import type { ActionView } from '../../rules/filters/actions.ts'
import { cohortTest } from '../../rules/filters/person-filter.ts'
import { valueText } from '../../rules/filters/property-text.ts'
import {
  type CohortRecord,
  type CohortView,
  cohortView,
} from '../../rules/persons/cohort-shapes.ts'
import type { GroupTypeView, GroupView } from '../../rules/persons/group-shapes.ts'
import { emailOf, isAnonymousId, personName } from '../../rules/persons/person-name.ts'
import type {
  ActivityPage,
  ActivityView,
  PersonListQuery,
  PersonPage,
  PersonReference,
  PersonView,
  ValueCount,
} from '../../rules/persons/person-queries.ts'
import { personUuid } from '../../rules/persons/person-uuid.ts'
import { countOfIds, personView } from '../../rules/persons/person-views.ts'
import { valueMemoryBytes } from '../../rules/persons/property-memory.ts'
import type { ActorSource } from '../../rules/queries/actor-source.ts'
import { listEntries } from '../lmdb/entry-log.ts'
import { type EventTables, keysOf, numberInKey, pairKey } from '../lmdb/keys.ts'
import { findAction, listActions } from './action-store.ts'
import { cohortLookup, loadCohort, loadCohorts } from './cohort-store.ts'
import { loadDistinctId, loadDistinctText } from './distinct-ids.ts'
import { findGroup, groupsAfter, listGroups } from './group-store.ts'
import {
  PERSON_SUMMARY_BYTES_MAX,
  SHOWN_VALUE_UNITS_MAX,
  SHOWN_VALUES_MAX,
  VALUE_PERSONS_MAX,
} from './limits.ts'
import { positionOf, rowsAt } from './linked-ids.ts'
import { loadPlaces } from './person-changes.ts'
import { loadOwner, loadOwnerNow, loadSince } from './person-owners.ts'
import {
  candidateOf,
  INLINE_IDS_MAX,
  loadPerson,
  loadPersonById,
  loadPersonCounters,
  loadUuid,
  NO_GROUP_TYPE_FACTS,
  type PersonRecord,
  propertiesOfRecord,
  storedJson,
} from './person-records.ts'
import { type FoundPersons, PersonSearch, passesAll } from './person-search.ts'
import { countedProperties } from './properties/kept-properties.ts'
import { StoredActors } from './stored-actors.ts'
import { Stretches } from './stretches.ts'

/** The property that persons are called by, as its name stands in JSON. */
const EMAIL_NAME = '"email"'
/** An object without others in it: quotes in texts are escaped, so the name stands where a name does. */
const FLAT_WITH_EMAIL = /^\{(?:[^{]*,)?"email":("[^"\\]*")[^{]*$/
const UUID = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/

/** Memory of a person that is shown beside its ids and properties. */
const SUMMARY_MEMORY_BYTES = 500

function parseEntry(json: string): ActivityView {
  // Written by the processing thread; the checksum says that it is unchanged.
  return JSON.parse(json) as ActivityView
}

/** Reads persons. */
export class PersonReader {
  readonly #tables: EventTables
  #summaries = new RecentValues<PersonSummary>(PERSON_SUMMARY_BYTES_MAX, summaryBytes)
  /** By project and P; no more than were asked for since the last refresh. */
  readonly #uuids = new Map<string, string>()

  constructor(tables: EventTables) {
    this.#tables = tables
  }

  /** Forgets what was read from an older snapshot. */
  refresh(): void {
    this.#summaries = new RecentValues(PERSON_SUMMARY_BYTES_MAX, summaryBytes)
    this.#uuids.clear()
  }

  /** P of the person who owns the event S of distinct_id D, or 0. */
  ownerOf(projectId: number, distinctId: number, sequence: number): number {
    return loadOwner(this.#tables, projectId, distinctId, sequence)
  }

  /** The person who owns the event S of distinct_id D, or null. */
  summaryOf(projectId: number, distinctId: number, sequence: number): PersonSummary | null {
    const number = this.ownerOf(projectId, distinctId, sequence)
    if (number === 0) return null
    const name = `${projectId} ${number}`
    const known = this.#summaries.get(name)
    if (known !== undefined) return known
    const record = loadPerson(this.#tables, projectId, number)
    if (record === null) return null
    const summary: PersonSummary = {
      uuid: record.uuid,
      distinct_ids: this.#idTexts(projectId, record, DISTINCT_IDS_LISTED_MAX),
      ...countOfIds(record.idCount, DISTINCT_IDS_LISTED_MAX),
      properties: propertiesOfRecord(record),
      is_identified: record.isIdentified,
      created_at: timeText(record.createdAtMs),
    }
    this.#summaries.keep(name, summary)
    return summary
  }

  /** The uuid that the event S of distinct_id D carries: its person's, or that of D without one. */
  uuidOf(projectId: number, distinctId: number, sequence: number): string {
    const number = this.ownerOf(projectId, distinctId, sequence)
    const name = `${projectId} ${number}`
    const load = () => loadPerson(this.#tables, projectId, number)?.uuid ?? ''
    const uuid = number === 0 ? '' : getOrAdd(this.#uuids, name, load)
    return uuid === '' ? this.uuidWithoutOwner(projectId, distinctId) : uuid
  }

  /** D of all ids of the living person with a uuid, with the S behind which its events are; null: no such person. */
  idsOfUuid(projectId: number, uuid: string): ReadonlyMap<number, number> | null {
    const record = this.record(projectId, uuid.toLowerCase())
    if (record === null) return null
    const ids = this.ids(projectId, record)
    return new Map(ids.map((id) => [id, loadSince(this.#tables, projectId, id)]))
  }

  /** A living person by its id or uuid, or null. */
  record(projectId: number, person: PersonReference): PersonRecord | null {
    if (typeof person === 'number') {
      const isPossible = Number.isInteger(person) && person > 0 && person < 2 ** 32
      return isPossible ? loadPersonById(this.#tables, projectId, person) : null
    }
    const uuid = person.toLowerCase()
    if (!UUID.test(uuid)) return null
    const known = loadUuid(this.#tables.person_uuids, projectId, uuid)
    return known === null ? null : loadPerson(this.#tables, projectId, known.number)
  }

  /** The uuids of the living persons with one of these numbers, uuids or distinct_ids, each once. */
  uuidsOf(
    projectId: number,
    references: readonly PersonReference[],
    distinctIds: readonly string[],
  ): readonly string[] {
    const uuids = new Set<string>()
    for (const reference of references) {
      const record = this.record(projectId, reference)
      if (record !== null) uuids.add(record.uuid)
    }
    for (const text of distinctIds) {
      const id = loadDistinctId(this.#tables, projectId, text)
      const number = id === 0 ? 0 : loadOwnerNow(this.#tables, projectId, id)
      const record = number === 0 ? null : loadPerson(this.#tables, projectId, number)
      if (record !== null) uuids.add(record.uuid)
    }
    return [...uuids]
  }

  /** D of ids of a person in the order of their links: all, or `idsMax` from place `first` on. */
  ids(
    projectId: number,
    record: PersonRecord,
    idsMax = Number.POSITIVE_INFINITY,
    first = 0,
  ): readonly number[] {
    const { idCount, firstIds, firstPosition, number } = record
    const last = Math.min(idCount, first + idsMax)
    const ids = firstIds.slice(first, last)
    if (last <= INLINE_IDS_MAX) return ids
    const from = Math.max(first, INLINE_IDS_MAX)
    const start = positionOf(firstPosition, from)
    const rows = rowsAt(this.#tables.person_ids, projectId, number, start, Math.max(0, last - from))
    for (const id of rows) ids.push(id)
    return ids
  }

  /** A person as the API shows it alone, or null; with the ids from place `firstId` on. */
  person(projectId: number, person: PersonReference, firstId = 0): PersonView | null {
    const record = this.record(projectId, person)
    if (record === null) return null
    const view = this.#view(projectId, record, true, DISTINCT_IDS_SHOWN_MAX)
    if (firstId === 0) return view
    const ids = this.#idTexts(projectId, record, DISTINCT_IDS_SHOWN_MAX, firstId)
    return { ...view, distinct_ids: ids, distinct_ids_count: record.idCount }
  }

  /** A living person as lists show it, or null. */
  listed(projectId: number, number: number): PersonView | null {
    const record = loadPerson(this.#tables, projectId, number)
    return record === null ? null : this.#view(projectId, record, false, DISTINCT_IDS_LISTED_MAX)
  }

  /**
   * Some persons as lists show them, as JSON with the members and times of the API (`personBody`); who does
   * not live is left out. To be gone through at once, while the snapshot stays the same.
   */
  *listedTexts(projectId: number, numbers: readonly number[]): Generator<string> {
    // Neighbours share them.
    const places = new Stretches((...place) => loadPlaces(this.#tables, ...place))
    for (const number of numbers) {
      const record = loadPerson(this.#tables, projectId, number, places)
      if (record !== null) yield this.#listedText(projectId, record)
    }
  }

  /** What is stored of a living person, or null. */
  actorRecord(projectId: number, number: number): PersonRecord | null {
    return loadPerson(this.#tables, projectId, number)
  }

  /** A living person as analytic answers show it, with its first ids. */
  actor(projectId: number, record: PersonRecord): PersonView {
    return this.#view(projectId, record, false, DISTINCT_IDS_SHOWN_MAX)
  }

  /** The persons and groups of a project for one query. */
  actorSource(projectId: number): ActorSource {
    return new StoredActors(this.#tables, projectId, (...ids) => this.#idTexts(projectId, ...ids))
  }

  /** Numbers of the persons of a page; `check` as in `PersonSearch`. Cost: that of `PersonSearch.find`. */
  find(query: PersonListQuery, check?: () => void): FoundPersons {
    return new PersonSearch(this.#tables, this, check).find(query)
  }

  /** A page of persons. Cost: that of `find`, and some reads for each. */
  list(query: PersonListQuery): PersonPage {
    const { count, numbers } = this.find(query)
    return {
      count,
      results: numbers.flatMap((number) => this.listed(query.projectId, number) ?? []),
    }
  }

  /** How often values of a property occur among the newest persons: the 20 most frequent texts. */
  values(
    projectId: number,
    key: string,
    contains: string | null,
    check: () => void = () => {},
  ): readonly ValueCount[] {
    const wanted = contains?.toLowerCase() ?? null
    const kept = countedProperties(this.#tables, projectId)?.valuesOf(key) ?? null
    const counts = kept ?? this.#countValues(projectId, key, check)
    return [...counts]
      .filter(([text]) => wanted === null || text.toLowerCase().includes(wanted))
      .map(([name, count]) => ({ name, count }))
      .sort((a, b) => b.count - a.count || (a.name < b.name ? -1 : 1))
      .slice(0, SHOWN_VALUES_MAX)
  }

  /** How many persons have each value of a property. */
  #countValues(projectId: number, key: string, check: () => void): ReadonlyMap<string, number> {
    const counts = new Map<string, number>()
    const name = JSON.stringify(key)
    const start = pairKey(projectId, 2 ** 32 - 1)
    const end = pairKey(projectId, 0)
    const range = { start, end, reverse: true, limit: VALUE_PERSONS_MAX }
    for (const { key: personKey } of this.#tables.persons.getRange(range)) {
      check()
      const record = loadPerson(this.#tables, projectId, numberInKey(personKey, 4))
      // Most persons without the property are told apart before their JSON is parsed.
      if (record === null || !mayHave(record, name)) continue
      const properties = propertiesOfRecord(record)
      const text = Object.hasOwn(properties, key) ? valueText(properties[key]) : ''
      if (text === '' || text.length > SHOWN_VALUE_UNITS_MAX) continue
      counts.set(text, (counts.get(text) ?? 0) + 1)
    }
    return counts
  }

  /** A page of activity; null when there is no such person. */
  activity(
    projectId: number,
    person: PersonReference | null,
    page: number,
    limit: number,
  ): ActivityPage | null {
    const found = this.activityFrom(projectId, person, (page - 1) * limit, limit)
    return found === null
      ? null
      : { totalCount: found.totalCount, results: [...found.entries].map(parseEntry) }
  }

  /** Activity behind the newest `offset` entries, read as it is gone through; null: no such person. */
  activityFrom(
    projectId: number,
    person: PersonReference | null,
    offset: number,
    limit: number,
  ): Entries | null {
    const record = person === null ? null : this.record(projectId, person)
    if (person !== null && record === null) return null
    const tables = { entries: this.#tables.activity, items: this.#tables.activity_items }
    return listEntries(tables, projectId, record?.id ?? null, offset, limit)
  }

  /** The group types of a project in the order that somebody gave them, then in that of their index. */
  groupTypes(projectId: number): readonly GroupTypeView[] {
    const counters = loadPersonCounters(this.#tables.person_projects, projectId)
    const { groupTypes, groupTypeFacts } = counters
    const types = groupTypes.map((group_type, group_type_index) => {
      const { singular, plural, order } = groupTypeFacts[group_type_index] ?? NO_GROUP_TYPE_FACTS
      const names = { name_singular: singular, name_plural: plural, order }
      return { group_type, group_type_index, ...names }
    })
    const orderOf = ({ order }: GroupTypeView): number => order ?? Number.MAX_SAFE_INTEGER
    return types
      .filter(({ group_type: type }) => type !== '')
      .sort((a, b) => orderOf(a) - orderOf(b) || a.group_type_index - b.group_type_index)
  }

  /** A page of groups of one type, in the order of their keys; see `listGroups`. */
  groups(
    projectId: number,
    typeIndex: number,
    search: string | null,
    limit: number,
    cursor: string | null,
  ): { readonly results: readonly GroupView[]; readonly nextCursor: string | null } {
    return listGroups(this.#tables, projectId, typeIndex, search, limit, cursor)
  }

  /** The groups of one type behind a key, read as they are gone through; see `groupsAfter`. */
  groupsAfter(
    projectId: number,
    typeIndex: number,
    search: string | null,
    cursor: string | null,
    check: () => void,
  ): Generator<GroupView> {
    return groupsAfter(this.#tables, projectId, typeIndex, search, cursor, check)
  }

  /** A group, or null. */
  group(projectId: number, typeIndex: number, key: string): GroupView | null {
    return findGroup(this.#tables, projectId, typeIndex, key)
  }

  /** A page of cohorts that are not deleted, in order of creation. */
  cohorts(projectId: number, limit: number, offset: number): Page<CohortView> {
    const all = loadCohorts(this.#tables.cohorts, projectId)
    const results = all.slice(offset, offset + limit).map((cohort) => cohortView(cohort, null))
    return { count: all.length, results }
  }

  /** A cohort that is not deleted, with the number of its members; or null. */
  cohort(projectId: number, id: number, check: () => void = () => {}): CohortView | null {
    const cohort = loadCohort(this.#tables.cohorts, projectId, id)
    return cohort === null ? null : cohortView(cohort, this.#memberCount(projectId, cohort, check))
  }

  /** The name of a cohort that is not deleted; or null. */
  cohortName(projectId: number, id: number): string | null {
    return loadCohort(this.#tables.cohorts, projectId, id)?.name ?? null
  }

  /** A page of actions, in order of creation. */
  actions(projectId: number, limit: number, offset: number): Page<ActionView> {
    return listActions(this.#tables.actions, projectId, limit, offset)
  }

  /** An action that is not deleted, or null. */
  action(projectId: number, id: number): ActionView | null {
    return findAction(this.#tables.actions, projectId, id)
  }

  /** The cohorts that a person belongs to; null when there is no such person. */
  cohortsOfPerson(projectId: number, person: PersonReference): readonly CohortView[] | null {
    const record = this.record(projectId, person)
    if (record === null) return null
    const candidate = candidateOf(record)
    return loadCohorts(this.#tables.cohorts, projectId)
      .filter(({ id }) => cohortTest(id, cohortLookup(this.#tables, projectId))(candidate))
      .map((cohort) => cohortView(cohort, null))
  }

  /** The uuid that an event of D without an owner carries. */
  uuidWithoutOwner(projectId: number, distinctId: number): string {
    return personUuid(projectId, loadDistinctText(this.#tables, projectId, distinctId))
  }

  #memberCount(projectId: number, cohort: CohortRecord, check: () => void): number {
    if (cohort.isStatic) return cohort.count
    const test = cohortTest(cohort.id, cohortLookup(this.#tables, projectId))
    let count = 0
    for (const key of this.#tables.persons.getKeys(keysOf(projectId))) {
      check()
      const record = loadPerson(this.#tables, projectId, numberInKey(key, 4))
      if (record !== null && passesAll(record, [test])) count++
    }
    return count
  }

  /** What `personBody` makes of `listed`: here without an object of either, and mostly without parsing. */
  #listedText(projectId: number, record: PersonRecord): string {
    const { id, createdAtMs, uuid, idCount } = record
    const stored = storedJson(record)
    // Only the name asks for a property, and mostly it can be read where it stands.
    let properties: Readonly<Record<string, unknown>> = {}
    const email = FLAT_WITH_EMAIL.exec(stored ?? '')?.[1]
    if (email !== undefined) properties = { email: JSON.parse(email) as unknown }
    else if (stored?.includes(EMAIL_NAME) !== false) properties = propertiesOfRecord(record)
    const ids = this.#namingIds(projectId, record, DISTINCT_IDS_LISTED_MAX)
    const shown = JSON.stringify(ids.slice(0, DISTINCT_IDS_LISTED_MAX))
    const count = idCount > DISTINCT_IDS_LISTED_MAX ? `,"distinct_ids_count":${idCount}` : ''
    const name = JSON.stringify(personName(emailOf(properties), ids, id))
    const json = stored ?? JSON.stringify(properties)
    const head = `"id":${id},"name":${name},"distinct_ids":${shown}${count}`
    const end = `"created_at":"${timeText(createdAtMs)}","uuid":"${uuid}"`
    return `{${head},"properties":${json},${end}}`
  }

  #view(projectId: number, record: PersonRecord, isSingle: boolean, idsMax: number): PersonView {
    const distinctIds = this.#namingIds(projectId, record, idsMax)
    const properties = propertiesOfRecord(record)
    return personView({ ...record, properties, distinctIds }, isSingle, idsMax)
  }

  /** The ids that are shown, or more when none of those says how the person is called. */
  #namingIds(projectId: number, record: PersonRecord, idsMax: number): readonly string[] {
    const ids = this.#idTexts(projectId, record, idsMax)
    // The name is the same wherever a person is shown.
    const isUnnamed = record.idCount > idsMax && ids.every(isAnonymousId)
    return isUnnamed ? this.#idTexts(projectId, record, DISTINCT_IDS_SHOWN_MAX) : ids
  }

  #idTexts(projectId: number, record: PersonRecord, idsMax: number, first = 0): readonly string[] {
    const ids = this.ids(projectId, record, idsMax, first)
    return ids.map((id) => loadDistinctText(this.#tables, projectId, id))
  }
}

/** Memory of a person that is cached for a page of events. */
function summaryBytes({ properties, distinct_ids: ids }: PersonSummary): number {
  let bytes = SUMMARY_MEMORY_BYTES + valueMemoryBytes(properties)
  for (const id of ids) bytes += valueMemoryBytes(id)
  return bytes
}

/** Whether a person may have a property with that name, given as JSON. */
function mayHave({ json, changesJson, deltas }: PersonRecord, name: string): boolean {
  // These do not name all that they change.
  if (deltas !== '') return true
  return json.includes(name) || changesJson?.includes(name) === true
}
