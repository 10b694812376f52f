/**
 * Finds the persons of a list. If an index fits one of the filters, only the persons that the index finds are read.
 * Otherwise all persons are read. The result contains only person numbers, so that persons with large properties are
 * not kept in memory until they are shown.
 */

import { cohortTest, type PersonTest, personTest } from '../../rules/filters/person-filter.ts'
import { areMembersStored } from '../../rules/persons/cohort-shapes.ts'
import type { PersonListQuery, PersonReference } from '../../rules/persons/person-queries.ts'
import { type EventTables, keysOf, numberInKey, pairKey } from '../lmdb/keys.ts'
import { cohortLookup, loadCohort, memberNumbers } from './cohort-store.ts'
import { loadDistinctId } from './distinct-ids.ts'
import { NAME_SEARCH_PERSONS_MAX } from './limits.ts'
import { searchEmails } from './person-email-chunks.ts'
import { loadOwnerNow } from './person-owners.ts'
import {
  candidateOf,
  createdStart,
  emailStart,
  isEmailCut,
  loadPerson,
  loadPersonCounters,
  numbersOf,
  type PersonRecord,
  propertiesOfRecord,
} from './person-records.ts'

/** Lists omit a person whose creation time is more than this many milliseconds in the future. */
const FUTURE_MS = 24 * 60 * 60 * 1000

/** The persons on a page of a list. */
export interface FoundPersons {
  /** The number of all persons that match, on all pages together. */
  readonly count: number
  /** The numbers of the persons on the page, in the order of the list. */
  readonly numbers: readonly number[]
}

interface PersonLookup {
  record(projectId: number, reference: PersonReference): PersonRecord | null
}

/** One search for persons, in the snapshot of a reader. */
export class PersonSearch {
  readonly #tables: EventTables
  readonly #persons: PersonLookup
  readonly #check: () => void

  /** `check` is called for every person that is read. To stop the search, it throws. */
  constructor(tables: EventTables, persons: PersonLookup, check: () => void = () => {}) {
    this.#tables = tables
    this.#persons = persons
    this.#check = check
  }

  /**
   * Returns the persons on a page. Most queries cost a few reads. A query with `search` also reads all e-mail addresses
   * and the newest persons. A query by properties reads all persons, or those that an index finds for another filter.
   */
  find(query: PersonListQuery): FoundPersons {
    const { projectId, offset, limit, nowMs } = query
    const isPlain = query.properties === undefined && query.cohortId === undefined
    const candidates = this.#candidates(query)
    const start = createdStart(projectId, nowMs + FUTURE_MS)
    const { end } = keysOf(projectId)
    const created = this.#tables.person_created
    if (candidates === null && isPlain) {
      const future = created.getKeysCount({ start: pairKey(projectId, 0), end: start })
      const count = loadPersonCounters(this.#tables.person_projects, projectId).persons - future
      return { count, numbers: [...numbersOf(created, { start, end, offset, limit })] }
    }
    const tests = this.#tests(query)
    const source =
      candidates === null
        ? numbersOf(created, { start, end })
        : this.#sorted(projectId, candidates, nowMs + FUTURE_MS)
    let count = 0
    const numbers: number[] = []
    for (const number of source) {
      this.#check()
      if (tests.length > 0) {
        const record = loadPerson(this.#tables, projectId, number)
        if (record === null || !passesAll(record, tests)) continue
      }
      if (count >= offset && numbers.length < limit) numbers.push(number)
      count++
    }
    return { count, numbers }
  }

  /**
   * Returns the numbers of the persons that an index finds for a query. They may include persons that do not match all
   * conditions. Returns null if no index fits the query.
   */
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
    const { cohortId = 0 } = query
    const cohort = cohortId === 0 ? null : loadCohort(this.#tables.cohorts, projectId, cohortId)
    if (cohort !== null && areMembersStored(cohort)) {
      restrict(memberNumbers(this.#tables.cohort_members, projectId, cohort.id))
    }
    return found
  }

  #byDistinctId(projectId: number, text: string): readonly number[] {
    const id = loadDistinctId(this.#tables, projectId, text)
    const number = id === 0 ? 0 : loadOwnerNow(this.#tables, projectId, id)
    return number === 0 ? [] : [number]
  }

  #byEmail(projectId: number, email: string): readonly number[] {
    if (email === '') return []
    const start = emailStart(projectId, email)
    const end = Buffer.concat([start, Buffer.alloc(5, 0xff)])
    const numbers: number[] = []
    for (const key of this.#tables.person_emails.getKeys({ start, end })) {
      // The range also contains the keys of longer addresses that begin with the wanted one. They are skipped.
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
    const record = this.#persons.record(projectId, search)
    if (record !== null) numbers.push(record.number)
    const wanted = search.toLowerCase()
    const { found, unsure } = searchEmails(this.#tables.email_chunks, projectId, wanted)
    for (const number of found) numbers.push(number)
    for (const number of unsure) {
      if (this.#emailOf(projectId, number)?.toLowerCase().includes(wanted) === true) {
        numbers.push(number)
      }
    }
    const newest = { ...keysOf(projectId), limit: NAME_SEARCH_PERSONS_MAX }
    for (const number of numbersOf(this.#tables.person_created, newest)) {
      this.#check()
      if (this.#textOf(projectId, number, 'name')?.toLowerCase().includes(wanted) === true) {
        numbers.push(number)
      }
    }
    return numbers
  }

  #emailOf(projectId: number, number: number): string | null {
    return this.#textOf(projectId, number, 'email')
  }

  #textOf(projectId: number, number: number, property: 'email' | 'name'): string | null {
    const record = loadPerson(this.#tables, projectId, number)
    const text = record === null ? null : propertiesOfRecord(record)[property]
    return typeof text === 'string' ? text : null
  }

  /**
   * Returns the numbers of persons in the order of lists: newest first. Persons that were created after `createdAtMax`
   * are left out.
   */
  #sorted(
    projectId: number,
    numbers: ReadonlySet<number>,
    createdAtMax: number,
  ): readonly number[] {
    const places: Pick<PersonRecord, 'number' | 'createdAtMs' | 'uuid'>[] = []
    for (const number of numbers) {
      this.#check()
      const record = loadPerson(this.#tables, projectId, number)
      if (record === null || record.createdAtMs > createdAtMax) continue
      places.push({ number, createdAtMs: record.createdAtMs, uuid: record.uuid })
    }
    places.sort((a, b) => b.createdAtMs - a.createdAtMs || (a.uuid < b.uuid ? 1 : -1))
    return places.map(({ number }) => number)
  }

  #tests({ projectId, properties, cohortId }: PersonListQuery): readonly PersonTest[] {
    const tests: PersonTest[] = []
    const lookup = cohortLookup(this.#tables, projectId)
    if (properties !== undefined) tests.push(personTest(properties, lookup))
    if (cohortId !== undefined) tests.push(cohortTest(cohortId, lookup))
    return tests
  }
}

/** Returns whether a person passes all tests. */
export function passesAll(record: PersonRecord, tests: readonly PersonTest[]): boolean {
  const candidate = candidateOf(record)
  return tests.every((test) => test(candidate))
}
