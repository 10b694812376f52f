/**
 * Cohorts of a project: fixed lists of persons, and trees of person filters that are evaluated when they
 * are asked for. Table `cohorts`: project, cohort -> JSON of `CohortRecord`. Table `cohort_members`:
 * project, cohort, P -> nothing, for fixed lists. All sealed. Deleted cohorts stay, marked.
 */

import type { CohortLookup } from '../../rules/filters/person-filter.ts'
import type { CohortRecord } from '../../rules/persons/cohort-shapes.ts'
import { emptyValue } from '../lmdb/codec.ts'
import type { Table } from '../lmdb/environment.ts'
import { NUMBER_MAX, numberInKey, pairKey, tripleKey } from '../lmdb/keys.ts'
import { getJson, parseRecord, putJson } from '../lmdb/records.ts'

const COHORTS = 'cohorts'

/** The cohorts of one project in the processing thread. */
export class ProjectCohorts {
  readonly #projectId: number
  readonly #cohorts: Table
  readonly #members: Table
  readonly #changed = new Map<number, CohortRecord>()
  /** Whether what a cohort says has changed since the last commit; counting members does not matter. */
  haveDefinitionsChanged = false
  /** Changes of members since the last commit: key as text -> whether it is one. */
  readonly #changes = new Map<number, Map<number, boolean>>()

  constructor(projectId: number, tables: { readonly cohorts: Table; readonly members: Table }) {
    this.#projectId = projectId
    this.#cohorts = tables.cohorts
    this.#members = tables.members
  }

  /** A cohort, deleted or not, or null. */
  cohort(id: number): CohortRecord | null {
    return this.#changed.get(id) ?? loadCohort(this.#cohorts, this.#projectId, id)
  }

  put(cohort: CohortRecord): void {
    this.#changed.set(cohort.id, cohort)
    this.haveDefinitionsChanged = true
  }

  isMember(id: number, number: number): boolean {
    const changed = this.#changes.get(id)?.get(number)
    return changed ?? isMember(this.#members, this.#projectId, id, number)
  }

  /** Adds or removes a member of a fixed list, and counts. */
  setMember(id: number, number: number, isWanted: boolean): void {
    if (this.isMember(id, number) === isWanted) return
    let changes = this.#changes.get(id)
    if (changes === undefined) {
      changes = new Map()
      this.#changes.set(id, changes)
    }
    changes.set(number, isWanted)
    const cohort = this.cohort(id)
    if (cohort === null) return
    this.#changed.set(id, { ...cohort, count: cohort.count + (isWanted ? 1 : -1) })
  }

  /** Stores what was changed. Only in a write transaction. */
  store(): void {
    for (const [id, cohort] of this.#changed) {
      putJson(this.#cohorts, pairKey(this.#projectId, id), cohort)
    }
    for (const [id, changes] of this.#changes) {
      for (const [number, isWanted] of changes) {
        const key = tripleKey(this.#projectId, id, number)
        if (isWanted) void this.#members.put(key, emptyValue(key))
        else void this.#members.remove(key)
      }
    }
    this.#changed.clear()
    this.#changes.clear()
  }
}

/** A cohort, deleted or not, or null. Throws `DamagedRecordError`. */
export function loadCohort(table: Table, projectId: number, id: number): CohortRecord | null {
  if (id > NUMBER_MAX) return null
  return getJson<CohortRecord>(table, COHORTS, pairKey(projectId, id))
}

/** All cohorts of a project that are not deleted, in order of creation. */
export function loadCohorts(table: Table, projectId: number): readonly CohortRecord[] {
  const range = { start: pairKey(projectId, 0), end: pairKey(projectId + 1, 0) }
  const cohorts: CohortRecord[] = []
  for (const { key, value } of table.getRange(range)) {
    const cohort = parseRecord<CohortRecord>(COHORTS, key, value)
    if (!cohort.isDeleted) cohorts.push(cohort)
  }
  return cohorts
}

/** Whether a person is on the fixed list of a cohort. */
export function isMember(table: Table, projectId: number, cohort: number, number: number): boolean {
  return table.doesExist(tripleKey(projectId, cohort, number))
}

/** The cohorts of a project for tests on persons; those that are deleted do not exist. */
export function cohortLookup(
  tables: { readonly cohorts: Table; readonly members: Table },
  projectId: number,
): CohortLookup {
  return (id) => {
    const cohort = loadCohort(tables.cohorts, projectId, id)
    if (cohort === null || cohort.isDeleted) return null
    if (cohort.isStatic) {
      const hasMember = (number: number): boolean => isMember(tables.members, projectId, id, number)
      return { kind: 'static', hasMember }
    }
    return { kind: 'dynamic', filters: cohort.filters ?? { type: 'OR', values: [] } }
  }
}

/** P of all members of a fixed list, ascending. */
export function* memberNumbers(table: Table, projectId: number, cohort: number): Generator<number> {
  const range = { start: tripleKey(projectId, cohort, 0), end: tripleKey(projectId, cohort + 1, 0) }
  for (const key of table.getKeys(range)) yield numberInKey(key, 8)
}
