/**
 * The persons of all projects in the processing thread. They are stored in the transaction that also stores the events
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
import { type PersonRange, personsWithDeltas } from './person-changes.ts'
import { ProjectPersons } from './project-persons.ts'

/** A key that comes before all other keys. A search that starts here covers the whole table. */
const FIRST_KEY = Buffer.alloc(0)

/** The persons of all projects. A data directory has one, in the processing thread. */
export class PersonStore {
  readonly #tables: EventTables
  readonly #distinctIds: DistinctIds
  readonly #lastDistinctId: (projectId: number) => number
  readonly #cacheBytesMax: number
  readonly #gathered = new GatheredBytes()
  readonly #onDamage: DamageListener
  readonly #projects = new Map<number, ProjectPersons>()
  /** The projects whose persons were used since the last commit. */
  readonly #touched = new Set<ProjectPersons>()
  /**
   * The key of table `change_places` at which the next search for persons with deltas starts. Null: no search is needed
   * before new deltas are stored.
   */
  #foldFrom: Buffer | null = FIRST_KEY

  /**
   * `lastDistinctId` returns the largest stored distinct ID number of a project. `PersonChanges` explains `onDamage`.
   */
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

  /** Returns the persons of a project. */
  project(projectId: number): ProjectPersons {
    const project = this.#projects.get(projectId) ?? this.#open(projectId)
    this.#touched.add(project)
    return project
  }

  /** The estimated number of bytes of memory of the changes since the last commit. */
  get gatheredBytes(): number {
    return this.#gathered.bytes
  }

  /** The estimated number of bytes of the cached persons and groups. Looks at every cached person. */
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
    // All projects share the memory for the cache, so a new project leaves less for the other projects. Evicting
    // persons is safe here, because no event is being processed.
    const bytesMax = this.#cacheBytesMax / this.#projects.size
    for (const other of this.#projects.values()) other.limitCache(bytesMax)
    return project
  }

  /** Returns the persons that were changed or removed since the last commit. */
  changed(): readonly { readonly projectId: number; readonly numbers: readonly number[] }[] {
    return [...this.#touched].flatMap(({ projectId, changedPersons: numbers }) =>
      numbers.length > 0 ? { projectId, numbers } : [],
    )
  }

  /** Stores the changes. Call it only within a write transaction. */
  store(): void {
    for (const project of this.#touched) project.store()
  }

  /**
   * Must be called after a commit. Returns the new erasure jobs that the commit has stored. Adds the projects whose
   * cohorts or group types have changed to `changedDefinitions`.
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

  /** Evicts all cached persons. Must not be called between a change and its commit. */
  release(): void {
    if (this.#touched.size > 0)
      throw new Error('release was called between a change and its commit')
    // Each cache has two generations, so it is empty only after the second `settle`.
    for (const project of this.#projects.values()) {
      project.settle(0)
      project.settle(0)
    }
  }

  /** True if there may be persons with deltas (person-changes.ts), so that `fold` has something to do. */
  get mayFold(): boolean {
    return this.#foldFrom !== null
  }

  /**
   * Folds some of the persons that have deltas: stores each of them completely, with the deltas applied. This does not
   * change the properties of a person. Returns the number of persons that were folded. `write` runs its argument in a
   * transaction; it is not called if no person has deltas. Must not be called while there are unsaved changes.
   */
  fold(write: (store: () => void) => void): number {
    if (this.#touched.size > 0) throw new Error('fold was called between a change and its commit')
    if (this.#foldFrom === null) return 0
    const deadline = performance.now() + FOLD_MS_MAX
    const isOver = (): boolean => performance.now() >= deadline
    const from = this.#foldFrom
    // If a damaged record ends the search, there is no next position. The next search begins when there are new deltas.
    this.#foldFrom = null
    const ranges = attempt(() => this.#withDeltas(from, isOver), this.#onDamage) ?? []
    const found = ranges.flatMap(({ numbers, ...place }) =>
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

  /**
   * Returns the ranges of persons from the key `from` on, until they contain enough persons with deltas or the time is
   * over. Sets `#foldFrom` to the key of the first range that is left for the next search.
   */
  #withDeltas(from: Buffer, isOver: () => boolean): readonly PersonRange[] {
    const found: PersonRange[] = []
    let left = FOLDED_PERSONS_MAX
    for (const range of personsWithDeltas(this.#tables, from)) {
      left -= range.numbers.length
      if (left < 0 || isOver()) {
        this.#foldFrom = range.key
        break
      }
      found.push(range)
    }
    return found
  }
}
