/**
 * The persons of all projects in the processing thread: part of the one transaction that stores events
 * and the position in the log.
 */

import { getOrAdd } from '../../base/maps.ts'
import type { DamageListener } from '../faults.ts'
import type { EventTables } from '../lmdb/keys.ts'
import type { DistinctIds } from './distinct-ids.ts'
import type { OpenJob } from './erasure-records.ts'
import { WRITER_PERSONS_MAX } from './limits.ts'
import { ProjectPersons } from './project-persons.ts'

/** Persons of all projects. One per data directory, in the processing thread. */
export class PersonStore {
  readonly #tables: EventTables
  readonly #distinctIds: DistinctIds
  readonly #lastDistinctId: (projectId: number) => number
  readonly #cachedMax: number
  readonly #onDamage: DamageListener
  readonly #projects = new Map<number, ProjectPersons>()
  /** Projects that were asked for since the last commit. */
  readonly #touched = new Set<ProjectPersons>()

  /** `lastDistinctId` tells the newest stored D of a project; `onDamage` as of `PersonChanges`. */
  constructor(
    tables: EventTables,
    distinctIds: DistinctIds,
    lastDistinctId: (projectId: number) => number,
    onDamage: DamageListener,
    cachedMax: number = WRITER_PERSONS_MAX,
  ) {
    this.#tables = tables
    this.#distinctIds = distinctIds
    this.#lastDistinctId = lastDistinctId
    this.#cachedMax = cachedMax
    this.#onDamage = onDamage
  }

  /** The persons of a project. */
  project(projectId: number): ProjectPersons {
    const project = getOrAdd(this.#projects, projectId, () => {
      const lastDistinctId = (): number => this.#lastDistinctId(projectId)
      const known = [this.#tables, this.#distinctIds, lastDistinctId, this.#onDamage] as const
      return new ProjectPersons(projectId, ...known)
    })
    this.#touched.add(project)
    return project
  }

  /** Who was changed or removed since the last commit. */
  changed(): readonly { readonly projectId: number; readonly numbers: readonly number[] }[] {
    return [...this.#touched].flatMap(({ projectId, changedPersons: numbers }) =>
      numbers.length > 0 ? { projectId, numbers } : [],
    )
  }

  /** Stores what was changed. Only in a write transaction. */
  store(): void {
    for (const project of this.#touched) project.store()
  }

  /**
   * After a commit; the deletion jobs that came with it. Adds the projects whose cohorts or group types
   * it changed to `changedDefinitions`.
   */
  settle(changedDefinitions: Set<number>): readonly OpenJob[] {
    const jobs: OpenJob[] = []
    const entriesMax = this.#cachedMax / Math.max(1, this.#projects.size)
    for (const project of this.#touched) {
      jobs.push(...project.takeJobs())
      if (project.haveDefinitionsChanged) changedDefinitions.add(project.projectId)
      project.settle(entriesMax)
    }
    this.#touched.clear()
    return jobs
  }
}
