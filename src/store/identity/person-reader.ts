/**
 * Reads persons: the owners of events, single persons, lists and property values. Every method reads the current
 * snapshot of the environment `events`, which `EventReader` refreshes.
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
  areMembersStored,
  type CohortRecord,
  type CohortView,
  cohortView,
  isCalculated,
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
import { CachedRanges } from './cached-ranges.ts'
import {
  type CalculatedCohort,
  calculatedCohorts,
  cohortLookup,
  loadCohort,
  loadCohorts,
  memberNumbers,
} from './cohort-store.ts'
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

/**
 * The name of the property with the e-mail address, as it appears in JSON. The address is the display name of a person.
 */
const EMAIL_NAME = '"email"'
/**
 * Matches the JSON of an object that has an e-mail address and no nested objects. In JSON, quotes inside a text are
 * escaped, so `"email":` can only be the name of a member.
 */
const FLAT_WITH_EMAIL = /^\{(?:[^{]*,)?"email":("[^"\\]*")[^{]*$/
const UUID = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/

/** The number of bytes of memory that a cached person takes in addition to its ids and properties. */
const SUMMARY_MEMORY_BYTES = 500

function parseEntry(json: string): ActivityView {
  // The cast is right: the processing thread wrote the entry, and its checksum matches.
  return JSON.parse(json) as ActivityView
}

/** Reads persons, groups, cohorts and actions from the current snapshot. */
export class PersonReader {
  readonly #tables: EventTables
  #summaries = new RecentValues<PersonSummary>(PERSON_SUMMARY_BYTES_MAX, summaryBytes)
  /** The uuids that were read since the last refresh, by project and person number. */
  readonly #uuids = new Map<string, string>()

  constructor(tables: EventTables) {
    this.#tables = tables
  }

  /** Drops everything that is cached from an older snapshot. */
  refresh(): void {
    this.#summaries = new RecentValues(PERSON_SUMMARY_BYTES_MAX, summaryBytes)
    this.#uuids.clear()
  }

  /** Returns the person number of the owner of an event, or 0. */
  ownerOf(projectId: number, distinctId: number, sequence: number): number {
    return loadOwner(this.#tables, projectId, distinctId, sequence)
  }

  /** Returns the person who owns an event, or null. */
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

  /**
   * Returns the uuid of the person to whom an event belongs. If the event has no person, returns the uuid that the API
   * shows for its distinct_id.
   */
  uuidOf(projectId: number, distinctId: number, sequence: number): string {
    const number = this.ownerOf(projectId, distinctId, sequence)
    const name = `${projectId} ${number}`
    const load = () => loadPerson(this.#tables, projectId, number)?.uuid ?? ''
    const uuid = number === 0 ? '' : getOrAdd(this.#uuids, name, load)
    return uuid === '' ? this.uuidWithoutOwner(projectId, distinctId) : uuid
  }

  /**
   * Returns the distinct ID numbers of the person with this uuid. Each number is mapped to the sequence number after
   * which its events belong to the person. Returns null if there is no such person.
   */
  idsOfUuid(projectId: number, uuid: string): ReadonlyMap<number, number> | null {
    const record = this.record(projectId, uuid.toLowerCase())
    if (record === null) return null
    const ids = this.ids(projectId, record)
    return new Map(ids.map((id) => [id, loadSince(this.#tables, projectId, id)]))
  }

  /** Returns the person with this id or uuid, or null. */
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

  /**
   * Returns the uuids of persons, each only once. A person may be given by its id, its uuid or one of its distinct_ids.
   */
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

  /**
   * Returns the distinct ID numbers of a person, in the order in which they were linked. The first `first` ids are
   * skipped, and at most `idsMax` ids are returned.
   */
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

  /**
   * Returns a person in the form in which the API shows a single person, or null. Its ids begin with the one at the
   * index `firstId`.
   */
  person(projectId: number, person: PersonReference, firstId = 0): PersonView | null {
    const record = this.record(projectId, person)
    if (record === null) return null
    const view = this.#view(projectId, record, true, DISTINCT_IDS_SHOWN_MAX)
    if (firstId === 0) return view
    const ids = this.#idTexts(projectId, record, DISTINCT_IDS_SHOWN_MAX, firstId)
    return { ...view, distinct_ids: ids, distinct_ids_count: record.idCount }
  }

  /** Returns a person in the form in which the API shows it in lists, or null. */
  listed(projectId: number, number: number): PersonView | null {
    const record = loadPerson(this.#tables, projectId, number)
    return record === null ? null : this.#view(projectId, record, false, DISTINCT_IDS_LISTED_MAX)
  }

  /**
   * Yields the JSON text of each person, in the form for lists (`personBody`). Persons that do not exist are left out.
   * Finish the iteration before the snapshot changes.
   */
  *listedTexts(projectId: number, numbers: readonly number[]): Generator<string> {
    // Persons with neighboring numbers have the locations of their changes in the same record, so the record is
    // cached.
    const places = new CachedRanges((...place) => loadPlaces(this.#tables, ...place))
    for (const number of numbers) {
      const record = loadPerson(this.#tables, projectId, number, places)
      if (record !== null) yield this.#listedText(projectId, record)
    }
  }

  /** Returns the stored record of a person, or null. */
  actorRecord(projectId: number, number: number): PersonRecord | null {
    return loadPerson(this.#tables, projectId, number)
  }

  /** Returns a person in the form for the results of queries, with only its first ids. */
  actor(projectId: number, record: PersonRecord): PersonView {
    return this.#view(projectId, record, false, DISTINCT_IDS_SHOWN_MAX)
  }

  /** Returns an object by which a query reads the persons and groups of a project. */
  actorSource(projectId: number): ActorSource {
    return new StoredActors(this.#tables, projectId, (...ids) => this.#idTexts(projectId, ...ids))
  }

  /** Returns the person numbers on a page of a list. `PersonSearch` explains `check` and the cost. */
  find(query: PersonListQuery, check?: () => void): FoundPersons {
    return new PersonSearch(this.#tables, this, check).find(query)
  }

  /** Returns a page of persons. It costs the same as `find`, and some reads for each person on the page. */
  list(query: PersonListQuery): PersonPage {
    const { count, numbers } = this.find(query)
    return {
      count,
      results: numbers.flatMap((number) => this.listed(query.projectId, number) ?? []),
    }
  }

  /**
   * Returns the most frequent values of a property as texts, at most `SHOWN_VALUES_MAX`. If `contains` is given, only
   * values that contain this text are returned. The counts come from the stored count (kept-properties.ts), or if there
   * is none, from the newest persons.
   */
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

  /** Returns the number of persons that have each value of a property. */
  #countValues(projectId: number, key: string, check: () => void): ReadonlyMap<string, number> {
    const counts = new Map<string, number>()
    const name = JSON.stringify(key)
    const start = pairKey(projectId, 2 ** 32 - 1)
    const end = pairKey(projectId, 0)
    const range = { start, end, reverse: true, limit: VALUE_PERSONS_MAX }
    for (const { key: personKey } of this.#tables.persons.getRange(range)) {
      check()
      const record = loadPerson(this.#tables, projectId, numberInKey(personKey, 4))
      // The text of the JSON is searched first. So the JSON of most persons without the property need not be parsed.
      if (record === null || !mayHave(record, name)) continue
      const properties = propertiesOfRecord(record)
      const text = Object.hasOwn(properties, key) ? valueText(properties[key]) : ''
      if (text === '' || text.length > SHOWN_VALUE_UNITS_MAX) continue
      counts.set(text, (counts.get(text) ?? 0) + 1)
    }
    return counts
  }

  /**
   * Returns a page of a person's activity, or of the activity of all persons if `person` is null. Returns null if there
   * is no such person.
   */
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

  /**
   * Returns the activity of a person, newest first: at most `limit` entries, after skipping the newest `offset`
   * entries. If `person` is null, the entries of all persons are returned. Entries are read during the iteration.
   * Returns null if there is no such person.
   */
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

  /**
   * Returns the group types of a project in the order that users have set. Types without such an order come last, by
   * index.
   */
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

  /** Returns a page of groups of one type, in the order of their keys; see `listGroups`. */
  groups(
    projectId: number,
    typeIndex: number,
    search: string | null,
    limit: number,
    cursor: string | null,
  ): { readonly results: readonly GroupView[]; readonly nextCursor: string | null } {
    return listGroups(this.#tables, projectId, typeIndex, search, limit, cursor)
  }

  /** Yields the groups of one type after a key. They are read during the iteration; see `groupsAfter`. */
  groupsAfter(
    projectId: number,
    typeIndex: number,
    search: string | null,
    cursor: string | null,
    check: () => void,
  ): Generator<GroupView> {
    return groupsAfter(this.#tables, projectId, typeIndex, search, cursor, check)
  }

  /** Returns a group, or null. */
  group(projectId: number, typeIndex: number, key: string): GroupView | null {
    return findGroup(this.#tables, projectId, typeIndex, key)
  }

  /** Returns a page of cohorts that are not deleted, in order of creation. */
  cohorts(projectId: number, limit: number, offset: number): Page<CohortView> {
    const all = loadCohorts(this.#tables.cohorts, projectId)
    const results = all.slice(offset, offset + limit).map((cohort) => cohortView(cohort, null))
    return { count: all.length, results }
  }

  /** Returns a cohort that is not deleted, with the number of its members, or null. */
  cohort(projectId: number, id: number, check: () => void = () => {}): CohortView | null {
    const cohort = loadCohort(this.#tables.cohorts, projectId, id)
    return cohort === null ? null : cohortView(cohort, this.#memberCount(projectId, cohort, check))
  }

  /** Returns the cohorts with calculated members, from all projects. */
  calculatedCohorts(): readonly CalculatedCohort[] {
    return calculatedCohorts(this.#tables.cohorts)
  }

  /** Returns a cohort if its members are calculated, otherwise null. */
  calculatedCohort(projectId: number, id: number): CohortRecord | null {
    const cohort = loadCohort(this.#tables.cohorts, projectId, id)
    return cohort !== null && isCalculated(cohort) ? cohort : null
  }

  /** Returns the person numbers of the stored members of a cohort, in ascending order. */
  storedMembers(projectId: number, id: number): Iterable<number> {
    return memberNumbers(this.#tables.cohort_members, projectId, id)
  }

  /** Returns the name of a cohort that is not deleted, or null. */
  cohortName(projectId: number, id: number): string | null {
    return loadCohort(this.#tables.cohorts, projectId, id)?.name ?? null
  }

  /** Returns a page of actions, in order of creation. */
  actions(projectId: number, limit: number, offset: number): Page<ActionView> {
    return listActions(this.#tables.actions, projectId, limit, offset)
  }

  /** Returns an action that is not deleted, or null. */
  action(projectId: number, id: number): ActionView | null {
    return findAction(this.#tables.actions, projectId, id)
  }

  /** Returns the cohorts to which a person belongs, or null if there is no such person. */
  cohortsOfPerson(projectId: number, person: PersonReference): readonly CohortView[] | null {
    const record = this.record(projectId, person)
    if (record === null) return null
    const candidate = candidateOf(record)
    return loadCohorts(this.#tables.cohorts, projectId)
      .filter(({ id }) => cohortTest(id, cohortLookup(this.#tables, projectId))(candidate))
      .map((cohort) => cohortView(cohort, null))
  }

  /** Returns the uuid that the API shows for events of a distinct_id without an owner. */
  uuidWithoutOwner(projectId: number, distinctId: number): string {
    return personUuid(projectId, loadDistinctText(this.#tables, projectId, distinctId))
  }

  #memberCount(projectId: number, cohort: CohortRecord, check: () => void): number {
    if (areMembersStored(cohort)) return cohort.count
    const test = cohortTest(cohort.id, cohortLookup(this.#tables, projectId))
    let count = 0
    for (const key of this.#tables.persons.getKeys(keysOf(projectId))) {
      check()
      const record = loadPerson(this.#tables, projectId, numberInKey(key, 4))
      if (record !== null && passesAll(record, [test])) count++
    }
    return count
  }

  /**
   * Returns the JSON text of a person in a list. It is the same text that `personBody` makes from the result of
   * `listed`, but it is made faster: no object is created, and in most cases, no JSON is parsed.
   */
  #listedText(projectId: number, record: PersonRecord): string {
    const { id, createdAtMs, uuid, idCount } = record
    const stored = storedJson(record)
    // Only one property is needed here: the e-mail address, for the display name. In most cases, it can be found in the
    // text without parsing.
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

  /**
   * Returns the first `idsMax` ids of a person. If all of them are anonymous, returns the first
   * `DISTINCT_IDS_SHOWN_MAX` ids, because one of the further ids may be the display name.
   */
  #namingIds(projectId: number, record: PersonRecord, idsMax: number): readonly string[] {
    const ids = this.#idTexts(projectId, record, idsMax)
    // Without further ids, the person would have another display name here than where more ids are shown.
    const isUnnamed = record.idCount > idsMax && ids.every(isAnonymousId)
    return isUnnamed ? this.#idTexts(projectId, record, DISTINCT_IDS_SHOWN_MAX) : ids
  }

  #idTexts(projectId: number, record: PersonRecord, idsMax: number, first = 0): readonly string[] {
    const ids = this.ids(projectId, record, idsMax, first)
    return ids.map((id) => loadDistinctText(this.#tables, projectId, id))
  }
}

/** Returns the number of bytes of memory of a person that is cached for a page of events. */
function summaryBytes({ properties, distinct_ids: ids }: PersonSummary): number {
  let bytes = SUMMARY_MEMORY_BYTES + valueMemoryBytes(properties)
  for (const id of ids) bytes += valueMemoryBytes(id)
  return bytes
}

/** Returns whether a person may have a property. `name` is the name of the property as JSON, with quotes. */
function mayHave({ json, changesJson, deltas }: PersonRecord, name: string): boolean {
  // Deltas do not contain the names of all properties that they change, so a person with deltas may have any property.
  if (deltas !== '') return true
  return json.includes(name) || changesJson?.includes(name) === true
}
