/**
 * The persons of all projects in the processing thread: part of the one transaction that stores events
 * and the position in the log.
 */

import type { Environment } from '../lmdb/environment.ts'
import type { OpenJob } from '../warehouse/erase/erasure-jobs.ts'
import type { DistinctIds } from './distinct-ids.ts'
import { WRITER_PERSONS_MAX } from './limits.ts'
import type { PersonTables } from './person-writes.ts'
import { ProjectPersons } from './project-persons.ts'

/** The tables of persons in an environment. */
export function personTables(environment: Environment): PersonTables {
  const table = (name: string): PersonTables['persons'] => environment.table(name)
  return {
    projects: table('person_projects'),
    persons: table('persons'),
    changes: table('person_changes'),
    places: table('change_places'),
    owners: table('person_owners'),
    since: table('owner_since'),
    ids: table('person_ids'),
    uuids: table('person_uuids'),
    created: table('person_created'),
    emails: table('person_emails'),
    emailChunks: table('email_chunks'),
    separations: table('separations'),
    separated: table('separated'),
    groups: table('groups'),
    cohorts: table('cohorts'),
    actions: table('actions'),
    members: table('cohort_members'),
    activity: table('activity'),
    activityItems: table('activity_items'),
    jobs: table('deletion_jobs'),
    retention: table('retention_rules'),
    overrides: table('flag_overrides'),
  }
}

/** Persons of all projects. One per data directory, in the processing thread. */
export class PersonStore {
  readonly #tables: PersonTables
  readonly #distinctIds: DistinctIds
  readonly #lastDistinctId: (projectId: number) => number
  readonly #cachedMax: number
  readonly #projects = new Map<number, ProjectPersons>()
  /** Projects that were asked for since the last commit. */
  readonly #touched = new Set<ProjectPersons>()

  /** `lastDistinctId` tells the newest stored D of a project. */
  constructor(
    tables: PersonTables,
    distinctIds: DistinctIds,
    lastDistinctId: (projectId: number) => number,
    cachedMax: number = WRITER_PERSONS_MAX,
  ) {
    this.#tables = tables
    this.#distinctIds = distinctIds
    this.#lastDistinctId = lastDistinctId
    this.#cachedMax = cachedMax
  }

  /** The persons of a project. */
  project(projectId: number): ProjectPersons {
    let project = this.#projects.get(projectId)
    if (project === undefined) {
      const lastDistinctId = (): number => this.#lastDistinctId(projectId)
      project = new ProjectPersons(projectId, this.#tables, this.#distinctIds, lastDistinctId)
      this.#projects.set(projectId, project)
    }
    this.#touched.add(project)
    return project
  }

  /** Who was changed or removed since the last commit. */
  changed(): readonly { readonly projectId: number; readonly numbers: readonly number[] }[] {
    const all = [...this.#touched].map((project) => {
      return { projectId: project.projectId, numbers: project.changedPersons }
    })
    return all.filter(({ numbers }) => numbers.length > 0)
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
