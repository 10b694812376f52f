/**
 * The reading end of persons: who owns an event, single persons, lists, values. Every method reads the
 * snapshot that its environment is at; `EventReader` moves it on.
 */
import { personUuid } from '../persons/person-uuid.ts'
import type { ActionView } from '../query/actions.ts'
import type { PersonSummary } from '../query/events.ts'
import { cohortTest, type PersonTest, personTest } from '../query/person-filter.ts'
import type {
  ActivityPage,
  CohortView,
  GroupView,
  PersonListQuery,
  PersonPage,
  PersonReference,
  PersonView,
  ValueCount,
} from '../query/persons.ts'
import { valueText } from '../query/value-text.ts'
import { findAction, listActions } from './action-store.ts'
import { listActivity } from './activity-log.ts'
import {
  type CohortRecord,
  cohortLookup,
  cohortView,
  loadCohort,
  loadCohorts,
  memberNumbers,
} from './cohort-store.ts'
import { loadDistinctId, loadDistinctText } from './distinct-ids.ts'
import type { Table } from './environment.ts'
import { findGroup, listGroups } from './group-store.ts'
import { numberInKey, pairKey, tripleKey } from './keys.ts'
import { searchEmails } from './person-email-chunks.ts'
import { loadOwner, loadOwnerNow, loadSince } from './person-owners.ts'
import {
  candidateOf,
  createdStart,
  emailStart,
  INLINE_IDS_MAX,
  isEmailCut,
  loadPerson,
  loadPersonCounters,
  loadUuid,
  numberOfValue,
  type PersonRecord,
  propertiesOfRecord,
} from './person-records.ts'
import { isoTime, personView } from './person-views.ts'
import type { PersonTables } from './person-writes.ts'

/** Ids of a person that an event or an analytic answer shows. */
const SUMMARY_IDS_MAX = 1000
/** Persons are left out of lists when they were made later than this after now. */
const FUTURE_MS = 24 * 60 * 60 * 1000
/** Persons that `personValues` looks at, newest numbers first. */
const VALUES_PERSONS_MAX = 100_000
const VALUES_MAX = 20
/** Views kept during one page of events. */
const SUMMARIES_MAX = 1000
const UUID = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/

/** What the reader works with. */
export interface PersonReaderTables extends PersonTables {
  readonly distinctIds: Table
  readonly distinctTexts: Table
}

/** Reads persons. */
export class PersonReader {
  readonly #tables: PersonReaderTables
  #summaries = new Map<string, PersonSummary>()

  constructor(tables: PersonReaderTables) {
    this.#tables = tables
  }

  /** Forgets what was read from an older snapshot. */
  refresh(): void {
    this.#summaries.clear()
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
      distinct_ids: this.#idTexts(projectId, record, SUMMARY_IDS_MAX),
      properties: propertiesOfRecord(record),
      is_identified: record.isIdentified,
      created_at: isoTime(record.createdAtMs),
    }
    if (this.#summaries.size >= SUMMARIES_MAX) this.#summaries.clear()
    this.#summaries.set(name, summary)
    return summary
  }

  /** D of all ids of the living person with a uuid, with the S behind which its events are; null: no such person. */
  idsOfUuid(projectId: number, uuid: string): ReadonlyMap<number, number> | null {
    const record = this.record(projectId, uuid.toLowerCase())
    if (record === null) return null
    const ids = new Map<number, number>()
    for (const id of this.ids(projectId, record)) {
      ids.set(id, loadSince(this.#tables.since, projectId, id))
    }
    return ids
  }

  /** A living person, or null. */
  record(projectId: number, person: PersonReference): PersonRecord | null {
    const { uuids } = this.#tables
    if (typeof person === 'number') {
      const isPossible = Number.isInteger(person) && person > 0 && person < 2 ** 32
      return isPossible ? loadPerson(this.#tables, projectId, person) : null
    }
    const uuid = person.toLowerCase()
    if (!UUID.test(uuid)) return null
    const known = loadUuid(uuids, projectId, uuid)
    return known === null ? null : loadPerson(this.#tables, projectId, known.number)
  }

  /** D of all ids of a person in the order of their links. */
  ids(
    projectId: number,
    record: PersonRecord,
    idsMax = Number.POSITIVE_INFINITY,
  ): readonly number[] {
    const { idCount, firstIds, number } = record
    if (idCount <= INLINE_IDS_MAX) return firstIds
    const ids = [...firstIds]
    const start = tripleKey(projectId, number, INLINE_IDS_MAX)
    const end = tripleKey(projectId, number, Math.min(idCount, idsMax))
    for (const { key, value } of this.#tables.ids.getRange({ start, end })) {
      ids.push(numberOfValue('person_ids', key, value))
    }
    return ids
  }

  /** A person as the API shows it, or null. */
  person(projectId: number, person: PersonReference): PersonView | null {
    const record = this.record(projectId, person)
    return record === null ? null : this.#view(projectId, record, true)
  }

  /** What is stored of a living person, or null. */
  actorRecord(projectId: number, number: number): PersonRecord | null {
    return loadPerson(this.#tables, projectId, number)
  }

  /** A living person as analytic answers show it, with its first ids. */
  actor(projectId: number, record: PersonRecord): PersonView {
    const distinctIds = this.#idTexts(projectId, record, SUMMARY_IDS_MAX)
    return personView({ ...record, properties: propertiesOfRecord(record), distinctIds }, false)
  }

  /** A page of persons: a few reads, a scan of all e-mails for `search`, of all persons for properties. */
  list(query: PersonListQuery): PersonPage {
    const { projectId, offset, limit, nowMs } = query
    const isPlain = query.properties === undefined && query.cohortId === undefined
    const candidates = this.#candidates(query)
    const start = createdStart(projectId, nowMs + FUTURE_MS)
    const end = pairKey(projectId + 1, 0)
    const { created } = this.#tables
    if (candidates === null && isPlain) {
      const futureRange = { start: pairKey(projectId, 0), end: start }
      const future = created.getKeysCount(futureRange)
      const count = loadPersonCounters(this.#tables.projects, projectId).persons - future
      const range = created.getRange({ start, end, offset, limit })
      const records = this.#records(projectId, range)
      return { count, results: [...records].map((record) => this.#view(projectId, record, false)) }
    }
    const tests = this.#tests(query)
    const source =
      candidates === null
        ? this.#records(projectId, created.getRange({ start, end }))
        : this.#sorted(projectId, candidates, nowMs + FUTURE_MS)
    let count = 0
    const page: PersonRecord[] = []
    for (const record of source) {
      if (!passes(record, tests)) continue
      if (count >= offset && page.length < limit) page.push(record)
      count++
    }
    return { count, results: page.map((record) => this.#view(projectId, record, false)) }
  }

  /** How often values of a property occur among the newest persons: the 20 most frequent texts. */
  values(projectId: number, key: string, contains: string | null): readonly ValueCount[] {
    const counts = new Map<string, number>()
    const name = JSON.stringify(key)
    const wanted = contains?.toLowerCase() ?? null
    const start = pairKey(projectId, 2 ** 32 - 1)
    const end = pairKey(projectId, 0)
    const range = { start, end, reverse: true, limit: VALUES_PERSONS_MAX }
    for (const { key: personKey } of this.#tables.persons.getRange(range)) {
      const record = loadPerson(this.#tables, projectId, numberInKey(personKey, 4))
      // Most persons without the property are told apart before their JSON is parsed.
      if (record === null || !mayHave(record, name)) continue
      const properties = propertiesOfRecord(record)
      const text = Object.hasOwn(properties, key) ? valueText(properties[key]) : ''
      if (text === '' || (wanted !== null && !text.toLowerCase().includes(wanted))) continue
      counts.set(text, (counts.get(text) ?? 0) + 1)
    }
    return [...counts]
      .map(([name, count]) => ({ name, count }))
      .sort((a, b) => b.count - a.count || (a.name < b.name ? -1 : 1))
      .slice(0, VALUES_MAX)
  }

  /** A page of activity; null when there is no such person. */
  activity(
    projectId: number,
    person: PersonReference | null,
    page: number,
    limit: number,
  ): ActivityPage | null {
    if (person === null) return listActivity(this.#tables, projectId, null, page, limit)
    const record = this.record(projectId, person)
    if (record === null) return null
    return listActivity(this.#tables, projectId, record.number, page, limit)
  }

  /** The group types of a project in the order of their index. */
  groupTypes(projectId: number): readonly { group_type: string; group_type_index: number }[] {
    const { groupTypes } = loadPersonCounters(this.#tables.projects, projectId)
    return groupTypes.map((type, index) => ({ group_type: type, group_type_index: index }))
  }

  /** A page of groups of one type, in the order of their keys; see `listGroups`. */
  groups(
    projectId: number,
    typeIndex: number,
    search: string | null,
    limit: number,
    cursor: string | null,
  ): { readonly results: readonly GroupView[]; readonly nextCursor: string | null } {
    return listGroups(this.#tables.groups, projectId, typeIndex, search, limit, cursor)
  }

  /** A group, or null. */
  group(projectId: number, typeIndex: number, key: string): GroupView | null {
    return findGroup(this.#tables.groups, projectId, typeIndex, key)
  }

  /** A page of cohorts that are not deleted, in order of creation. */
  cohorts(
    projectId: number,
    limit: number,
    offset: number,
  ): { readonly count: number; readonly results: readonly CohortView[] } {
    const all = loadCohorts(this.#tables.cohorts, projectId)
    const results = all.slice(offset, offset + limit).map((cohort) => cohortView(cohort, null))
    return { count: all.length, results }
  }

  /** A cohort that is not deleted, with the number of its members; or null. */
  cohort(projectId: number, id: number): CohortView | null {
    const cohort = this.#cohort(projectId, id)
    return cohort === null ? null : cohortView(cohort, this.#memberCount(projectId, cohort))
  }

  /** A page of actions, in order of creation. */
  actions(
    projectId: number,
    limit: number,
    offset: number,
  ): { readonly count: number; readonly results: readonly ActionView[] } {
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
    return personUuid(projectId, loadDistinctText(this.#distinctTables(), projectId, distinctId))
  }

  /** P of the persons that a query with an index names; null when it names none. */
  #candidates(query: PersonListQuery): ReadonlySet<number> | null {
    const { projectId, distinctId, email, search } = query
    let found: ReadonlySet<number> | null = null
    const restrict = (numbers: Iterable<number>): void => {
      const before = found
      const all = new Set(numbers)
      found = before === null ? all : new Set([...all].filter((number) => before.has(number)))
    }
    if (distinctId !== undefined) restrict(this.#byDistinctId(projectId, distinctId))
    if (email !== undefined) restrict(this.#byEmail(projectId, email))
    if (search !== undefined && search !== '') restrict(this.#bySearch(projectId, search))
    const cohort = query.cohortId === undefined ? null : this.#cohort(projectId, query.cohortId)
    if (cohort?.isStatic === true) {
      restrict(memberNumbers(this.#tables.members, projectId, cohort.id))
    }
    return found
  }

  #byDistinctId(projectId: number, text: string): readonly number[] {
    const id = loadDistinctId(this.#distinctTables(), projectId, text)
    const number = id === 0 ? 0 : loadOwnerNow(this.#tables, projectId, id)
    return number === 0 ? [] : [number]
  }

  #byEmail(projectId: number, email: string): readonly number[] {
    if (email === '') return []
    const start = emailStart(projectId, email)
    const end = Buffer.concat([start, Buffer.alloc(5, 0xff)])
    const numbers: number[] = []
    for (const key of this.#tables.emails.getKeys({ start, end })) {
      // Longer addresses that begin with this one lie between.
      if (key.length !== start.length + 4) continue
      const number = numberInKey(key, key.length - 4)
      if (!isEmailCut(key.length) || this.#emailOf(projectId, number) === email) {
        numbers.push(number)
      }
    }
    return numbers
  }

  #bySearch(projectId: number, search: string): readonly number[] {
    const numbers = [...this.#byDistinctId(projectId, search)]
    const record = this.record(projectId, search)
    if (record !== null) numbers.push(record.number)
    const wanted = search.toLowerCase()
    const { found, unsure } = searchEmails(this.#tables.emailChunks, projectId, wanted)
    for (const number of found) numbers.push(number)
    for (const number of unsure) {
      if (this.#emailOf(projectId, number)?.toLowerCase().includes(wanted) === true) {
        numbers.push(number)
      }
    }
    return numbers
  }

  #emailOf(projectId: number, number: number): string | null {
    const record = loadPerson(this.#tables, projectId, number)
    const email = record === null ? null : propertiesOfRecord(record)['email']
    return typeof email === 'string' ? email : null
  }

  /** The persons of entries of the index by creation. */
  *#records(
    projectId: number,
    entries: Iterable<{ readonly key: Uint8Array; readonly value: Buffer }>,
  ): Generator<PersonRecord> {
    for (const { key, value } of entries) {
      const number = numberOfValue('person_created', key, value)
      const record = loadPerson(this.#tables, projectId, number)
      if (record !== null) yield record
    }
  }

  /** Some persons in the order of lists; those of the far future are left out. */
  #sorted(
    projectId: number,
    numbers: ReadonlySet<number>,
    createdAtMax: number,
  ): readonly PersonRecord[] {
    const records: PersonRecord[] = []
    for (const number of numbers) {
      const record = loadPerson(this.#tables, projectId, number)
      if (record !== null && record.createdAtMs <= createdAtMax) records.push(record)
    }
    return records.sort((a, b) => b.createdAtMs - a.createdAtMs || (a.uuid < b.uuid ? 1 : -1))
  }

  #tests({ projectId, properties, cohortId }: PersonListQuery): readonly PersonTest[] {
    const tests: PersonTest[] = []
    const lookup = cohortLookup(this.#tables, projectId)
    if (properties !== undefined) tests.push(personTest(properties, lookup))
    if (cohortId !== undefined) tests.push(cohortTest(cohortId, lookup))
    return tests
  }

  #cohort(projectId: number, id: number): CohortRecord | null {
    const cohort = loadCohort(this.#tables.cohorts, projectId, id)
    return cohort === null || cohort.isDeleted ? null : cohort
  }

  #memberCount(projectId: number, cohort: CohortRecord): number {
    if (cohort.isStatic) return cohort.count
    const test = cohortTest(cohort.id, cohortLookup(this.#tables, projectId))
    const range = { start: pairKey(projectId, 0), end: pairKey(projectId + 1, 0) }
    let count = 0
    for (const key of this.#tables.persons.getKeys(range)) {
      const record = loadPerson(this.#tables, projectId, numberInKey(key, 4))
      if (record !== null && passes(record, [test])) count++
    }
    return count
  }

  #view(projectId: number, record: PersonRecord, isSingle: boolean): PersonView {
    const distinctIds = this.#idTexts(projectId, record)
    const properties = propertiesOfRecord(record)
    return personView({ ...record, properties, distinctIds }, isSingle)
  }

  #idTexts(projectId: number, record: PersonRecord, idsMax?: number): readonly string[] {
    const tables = this.#distinctTables()
    return this.ids(projectId, record, idsMax).map((id) => loadDistinctText(tables, projectId, id))
  }

  #distinctTables(): { readonly ids: Table; readonly texts: Table } {
    return { ids: this.#tables.distinctIds, texts: this.#tables.distinctTexts }
  }
}

function passes(record: PersonRecord, tests: readonly PersonTest[]): boolean {
  const candidate = candidateOf(record)
  return tests.every((test) => test(candidate))
}

/** Whether a person may have a property with that name, given as JSON. */
function mayHave({ json, changesJson }: PersonRecord, name: string): boolean {
  return json.includes(name) || changesJson?.includes(name) === true
}
