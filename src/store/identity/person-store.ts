/**
 * The persons of all projects in the processing thread: part of the one transaction that stores events
 * and the position in the log.
 */

import { attempt, type DamageListener } from '../faults.ts'
import type { EventTables } from '../lmdb/keys.ts'
import type { DistinctIds } from './distinct-ids.ts'
import type { OpenJob } from './erasure-records.ts'
import { GatheredBytes } from './gathered-bytes.ts'
import {
  FOLD_BYTES_MAX,
  FOLD_MS_MAX,
  FOLDED_PERSONS_MAX,
  WRITER_CACHE_BYTES_MAX,
} from './limits.ts'
import { type PersonsOfStretch, personsWithDeltas } from './person-changes.ts'
import { ProjectPersons } from './project-persons.ts'

/** Before all keys. */
const FIRST_KEY = Buffer.alloc(0)

/** Persons of all projects. One per data directory, in the processing thread. */
export class PersonStore {
  readonly #tables: EventTables
  readonly #distinctIds: DistinctIds
  readonly #lastDistinctId: (projectId: number) => number
  readonly #cacheBytesMax: number
  readonly #gathered = new GatheredBytes()
  readonly #onDamage: DamageListener
  readonly #projects = new Map<number, ProjectPersons>()
  /** Projects that were asked for since the last commit. */
  readonly #touched = new Set<ProjectPersons>()
  /** Where to look for who has deltas: a key of table `change_places`; null: nobody has any. */
  #foldFrom: Buffer | null = FIRST_KEY

  /** `lastDistinctId` tells the newest stored D of a project; `onDamage` as of `PersonChanges`. */
  constructor(
    tables: EventTables,
    distinctIds: DistinctIds,
    lastDistinctId: (projectId: number) => number,
    onDamage: DamageListener,
    cacheBytesMax: number = WRITER_CACHE_BYTES_MAX,
  ) {
    this.#tables = tables
    this.#distinctIds = distinctIds
    this.#lastDistinctId = lastDistinctId
    this.#cacheBytesMax = cacheBytesMax
    this.#onDamage = onDamage
  }

  /** The persons of a project. */
  project(projectId: number): ProjectPersons {
    const project = this.#projects.get(projectId) ?? this.#open(projectId)
    this.#touched.add(project)
    return project
  }

  /** Bytes of memory, estimated, of what was gathered since the last commit. */
  get gatheredBytes(): number {
    return this.#gathered.bytes
  }

  /** Bytes of memory, estimated, of what is only cached. Cost: the persons that are cached. */
  get cachedBytes(): number {
    let bytes = 0
    for (const project of this.#projects.values()) bytes += project.cachedBytes
    return bytes
  }

  #open(projectId: number): ProjectPersons {
    const lastDistinctId = (): number => this.#lastDistinctId(projectId)
    const project = new ProjectPersons(
      projectId,
      this.#tables,
      this.#distinctIds,
      lastDistinctId,
      this.#onDamage,
      this.#gathered,
      this.#cacheBytesMax / (this.#projects.size + 1),
    )
    this.#projects.set(projectId, project)
    // The others make room for it: none of them is in the middle of an event.
    const bytesMax = this.#cacheBytesMax / this.#projects.size
    for (const other of this.#projects.values()) other.limitCache(bytesMax)
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
    const cacheBytesMax = this.#cacheBytesMax / Math.max(1, this.#projects.size)
    this.#gathered.bytes = 0
    for (const project of this.#touched) {
      jobs.push(...project.newJobs)
      if (project.hasNewDeltas) this.#foldFrom = FIRST_KEY
      if (project.haveDefinitionsChanged) changedDefinitions.add(project.projectId)
      project.settle(cacheBytesMax)
    }
    this.#touched.clear()
    return jobs
  }

  /** Forgets whom it has read. Not between a change and its commit. */
  release(): void {
    if (this.#touched.size > 0)
      throw new Error('release was called between a change and its commit')
    // Twice: the cache of each has two generations.
    for (const project of this.#projects.values()) {
      project.settle(0)
      project.settle(0)
    }
  }

  /** Whether somebody may have deltas. */
  get mayFold(): boolean {
    return this.#foldFrom !== null
  }

  /**
   * Stores some of those who have deltas without them: what they are stays the same. `write` runs what it is given
   * in a transaction; without such persons it is not called. Returns how many. Not while something is unsaved.
   */
  fold(write: (store: () => void) => void): number {
    if (this.#touched.size > 0) throw new Error('fold was called between a change and its commit')
    if (this.#foldFrom === null) return 0
    const deadline = performance.now() + FOLD_MS_MAX
    const isOver = (): boolean => performance.now() >= deadline
    const from = this.#foldFrom
    // Behind a damaged record nobody is looked for until there are new deltas.
    this.#foldFrom = null
    const stretches = attempt(() => this.#withDeltas(from, isOver), this.#onDamage) ?? []
    const found = stretches.flatMap(({ numbers, ...place }) =>
      numbers.map((number) => ({ ...place, number })),
    )
    if (found.length === 0) return 0
    let count = 0
    write(() => {
      for (const { key, projectId, number } of found) {
        if (attempt(() => this.project(projectId).fold(number), this.#onDamage) === true) count++
        if (!isOver() && this.#gathered.bytes < FOLD_BYTES_MAX) continue
        this.#foldFrom = key
        break
      }
      this.store()
    })
    this.settle(new Set())
    return count
  }

  /** Stretches from a key on, until there are enough persons with deltas in them; notes where to go on. */
  #withDeltas(from: Buffer, isOver: () => boolean): readonly PersonsOfStretch[] {
    const found: PersonsOfStretch[] = []
    let left = FOLDED_PERSONS_MAX
    for (const stretch of personsWithDeltas(this.#tables, from)) {
      left -= stretch.numbers.length
      if (left < 0 || isOver()) {
        this.#foldFrom = stretch.key
        break
      }
      found.push(stretch)
    }
    return found
  }
}
