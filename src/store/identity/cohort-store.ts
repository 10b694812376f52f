/**
 * Stores the cohorts of a project: fixed lists of persons, trees of person filters that are evaluated for each query,
 * and trees with filters on behavior, whose members are calculated from time to time. Every record ends with a
 * checksum. Tables:
 *
 *   cohorts          project, cohort         -> JSON of `CohortRecord`
 *   cohort_members   project, cohort, person -> nothing, for fixed lists and calculated members
 *
 * Deleted cohorts stay in the table and are marked as deleted.
 */
import { getOrAdd } from '../../base/maps.ts'
import type { CohortLookup } from '../../rules/filters/person-filter.ts'
import {
  areMembersStored,
  type CohortCalculation,
  type CohortRecord,
  isCalculated,
} from '../../rules/persons/cohort-shapes.ts'
import type { Table } from '../lmdb/environment.ts'
import { type EventTables, keysOf, numberInKey, tripleKey } from '../lmdb/keys.ts'
import { loadNumbered, NumberedRecords } from '../lmdb/numbered-records.ts'
import { jsonOf, store } from '../lmdb/records.ts'

/** The tables that contain cohorts and their members. */
export type CohortTables = Pick<EventTables, 'cohorts' | 'cohort_members'>

/** The cohorts of one project, as the processing thread sees and changes them. */
export class ProjectCohorts extends NumberedRecords<CohortRecord> {
  readonly #members: Table
  /** True if the definition of a cohort has changed since the last commit. A change of its members does not count. */
  haveDefinitionsChanged = false
  /** The changes of members since the last commit: cohort -> person number -> whether the person is a member. */
  readonly #changes = new Map<number, Map<number, boolean>>()

  constructor(projectId: number, tables: CohortTables) {
    super(projectId, tables.cohorts)
    this.#members = tables.cohort_members
  }

  /** Returns a cohort, deleted or not, or null. */
  cohort(id: number): CohortRecord | null {
    return this.find(id)
  }

  put(cohort: CohortRecord): void {
    this.set(cohort.id, cohort)
    this.haveDefinitionsChanged = true
  }

  /**
   * Stores when and how the members of a cohort were calculated. This does not count as a change of the definition,
   * because flags do not depend on it. The cohort must exist.
   */
  setCalculation(id: number, calculation: CohortCalculation): void {
    const cohort = this.cohort(id)
    if (cohort !== null) this.set(id, { ...cohort, calculation })
  }

  isMember(id: number, number: number): boolean {
    const changed = this.#changes.get(id)?.get(number)
    return changed ?? isMember(this.#members, this.projectId, id, number)
  }

  /**
   * Adds a person to the stored members of a cohort, or removes it, depending on `isWanted`. Also updates the number of
   * members.
   */
  setMember(id: number, number: number, isWanted: boolean): void {
    if (this.isMember(id, number) === isWanted) return
    getOrAdd(this.#changes, id, () => new Map<number, boolean>()).set(number, isWanted)
    const cohort = this.cohort(id)
    if (cohort === null) return
    this.set(id, { ...cohort, count: cohort.count + (isWanted ? 1 : -1) })
  }

  override store(): void {
    super.store()
    for (const [id, changes] of this.#changes) {
      for (const [number, isWanted] of changes) {
        const key = tripleKey(this.projectId, id, number)
        if (isWanted) store(this.#members, key)
        else void this.#members.remove(key)
      }
    }
    this.#changes.clear()
  }
}

/** Returns a cohort that is not deleted, or null. Throws `DamagedRecordError`. */
export function loadCohort(table: Table, projectId: number, id: number): CohortRecord | null {
  const cohort = loadNumbered<CohortRecord>(table, projectId, id)
  return cohort?.isDeleted === true ? null : cohort
}

/** Returns all cohorts of a project that are not deleted, in order of creation. */
export function loadCohorts(table: Table, projectId: number): readonly CohortRecord[] {
  const cohorts = [...jsonOf<CohortRecord>(table, keysOf(projectId))].map(({ value }) => value)
  return cohorts.filter(({ isDeleted }) => !isDeleted)
}

/**
 * Returns whether a person is a stored member of a cohort: it is on the fixed list, or among the calculated members.
 */
export function isMember(table: Table, projectId: number, cohort: number, number: number): boolean {
  return table.doesExist(tripleKey(projectId, cohort, number))
}

/**
 * Returns an object that finds the cohorts of a project while persons are tested against filters. It does not find
 * deleted cohorts.
 */
export function cohortLookup(tables: CohortTables, projectId: number): CohortLookup {
  const members = tables.cohort_members
  return (id) => {
    const cohort = loadCohort(tables.cohorts, projectId, id)
    if (cohort === null) return null
    if (areMembersStored(cohort)) {
      return { kind: 'static', hasMember: (number) => isMember(members, projectId, id, number) }
    }
    return { kind: 'dynamic', filters: cohort.filters ?? { type: 'OR', values: [] } }
  }
}

/** A cohort whose members are calculated. */
export interface CalculatedCohort {
  readonly projectId: number
  readonly id: number
  readonly calculation: CohortCalculation
}

/**
 * Returns the cohorts of all projects whose members are calculated. Deleted cohorts are left out. Throws
 * `DamagedRecordError`.
 */
export function calculatedCohorts(table: Table): readonly CalculatedCohort[] {
  const found: CalculatedCohort[] = []
  for (const { key, value } of jsonOf<CohortRecord>(table)) {
    const { id, isDeleted, calculation } = value
    if (isDeleted || calculation === undefined || !isCalculated(value)) continue
    found.push({ projectId: numberInKey(key, 0), id, calculation })
  }
  return found
}

/** Returns the person numbers of all stored members of a cohort, ascending. */
export function* memberNumbers(table: Table, projectId: number, cohort: number): Generator<number> {
  for (const key of table.getKeys(keysOf(projectId, cohort))) yield numberInKey(key, 8)
}
