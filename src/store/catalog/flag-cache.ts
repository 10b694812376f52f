/**
 * Caches the flags of all projects, as of the last `refresh`. If a project has changed, only its changed flags are read
 * again. Used by readers (`FlagDirectory`) and by the writer (`FlagStore`).
 */

import type { Flag } from '../../rules/flags/types.ts'
import { unpack } from '../lmdb/codec.ts'
import type { Environment, Table } from '../lmdb/environment.ts'
import { keysOf, numberInKey, pairKey } from '../lmdb/keys.ts'
import { entriesOf, readCount, recordsOf } from '../lmdb/records.ts'
import { decodeFlag, loadCounters, loadFlag, type StoredFlag } from './flag-records.ts'
import { FLAG_CHANGES_READ_MAX } from './limits.ts'

/** The flags of one project in memory, as of the last refresh. */
export class ProjectFlags {
  readonly #all: Map<number, StoredFlag>
  #live: readonly Flag[] | null = null
  #byKey: Map<string, Flag> | null = null
  #filtersUnits: number | null = null

  constructor(all: Map<number, StoredFlag>) {
    this.#all = all
  }

  /** The flags that are not deleted, in the order of their numbers. */
  get flags(): readonly Flag[] {
    this.#live ??= [...this.#all.values()]
      .map(({ flag }) => flag)
      .filter(({ deleted }) => !deleted)
      .sort((a, b) => a.id - b.id)
    return this.#live
  }

  /** The number of flags, including deleted ones. */
  get size(): number {
    return this.#all.size
  }

  /** The total number of UTF-16 code units in the JSON of the filters of all flags. */
  get filtersUnits(): number {
    if (this.#filtersUnits === null) {
      let sum = 0
      for (const { filtersUnits } of this.#all.values()) sum += filtersUnits
      this.#filtersUnits = sum
    }
    return this.#filtersUnits
  }

  /** Returns a flag, deleted or not. */
  stored(id: number): StoredFlag | null {
    return this.#all.get(id) ?? null
  }

  /** Returns the flag with a key, if it is not deleted. */
  byKey(key: string): Flag | null {
    this.#byKey ??= new Map(this.flags.map((flag) => [flag.key, flag]))
    return this.#byKey.get(key) ?? null
  }

  /** Returns the deleted flags that have this key. Looks at every flag of the project. */
  deletedWithKey(key: string): readonly StoredFlag[] {
    return [...this.#all.values()].filter(({ flag }) => flag.deleted && flag.key === key)
  }

  /**
   * Replaces flags by their new state. Null as the new state removes the flag. Lists that `flags` returned earlier stay
   * unchanged, because the list is copied once for each call.
   */
  apply(changes: ReadonlyMap<number, StoredFlag | null>): void {
    if (changes.size > FLAG_CHANGES_READ_MAX) {
      this.#live = null
      this.#byKey = null
      this.#filtersUnits = null
    }
    const live = this.#live?.slice() ?? null
    const before = [...changes.keys()].map((id) => this.#all.get(id))
    for (const [id, stored] of changes) {
      if (stored === null) this.#all.delete(id)
      else this.#all.set(id, stored)
    }
    for (const stored of before) if (stored !== undefined) this.#forget(stored, live)
    for (const stored of changes.values()) if (stored !== null) this.#learn(stored, live)
    this.#live = live
  }

  /** Removes a flag from the lists, and subtracts it from the sums over all flags. */
  #forget({ flag, filtersUnits }: StoredFlag, live: Flag[] | null): void {
    if (this.#filtersUnits !== null) this.#filtersUnits -= filtersUnits
    if (flag.deleted) return
    this.#byKey?.delete(flag.key)
    if (live === null) return
    const place = placeOf(live, flag.id)
    if (live[place]?.id === flag.id) live.splice(place, 1)
  }

  #learn({ flag, filtersUnits }: StoredFlag, live: Flag[] | null): void {
    if (this.#filtersUnits !== null) this.#filtersUnits += filtersUnits
    if (flag.deleted) return
    this.#byKey?.set(flag.key, flag)
    live?.splice(placeOf(live, flag.id), 0, flag)
  }
}

/** Returns the index of the first flag with this id or a larger one. */
function placeOf(flags: readonly Flag[], id: number): number {
  let low = 0
  let high = flags.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((flags[middle]?.id ?? 0) < id) low = middle + 1
    else high = middle
  }
  return low
}

const NO_FLAGS = new ProjectFlags(new Map())

/** Caches the flags of all projects. */
export class FlagCache {
  readonly #environment: Environment
  readonly #projects = new Map<number, { readonly change: number; readonly flags: ProjectFlags }>()
  #version = -1

  constructor(environment: Environment) {
    this.#environment = environment
  }

  /** The version number of the environment at the last refresh. */
  get version(): number {
    return this.#version
  }

  /** Returns the flags of a project, or none for an unknown project. */
  project(projectId: number): ProjectFlags {
    return this.#projects.get(projectId)?.flags ?? NO_FLAGS
  }

  /** Returns the number of the last change of a project's flags, or 0 before the first one. */
  change(projectId: number): number {
    return this.#projects.get(projectId)?.change ?? 0
  }

  /**
   * Reads the changes that were committed since the last call. Within a write transaction, it also sees what this
   * transaction has written. Returns the projects whose flags changed. If it throws `DamagedRecordError`, the cached
   * flags stay as they were. Costs one read if nothing has changed.
   */
  refresh(): readonly number[] {
    const version = readCount(this.#table('state'), 'version')
    if (version === this.#version) return []
    const changed: number[] = []
    for (const key of this.#table('flag_projects').getKeys({})) {
      const projectId = numberInKey(key, 0)
      if (this.#refreshProject(projectId)) changed.push(projectId)
    }
    this.#version = version
    return changed
  }

  #refreshProject(projectId: number): boolean {
    const { change } = loadCounters(this.#table('flag_projects'), projectId)
    const known = this.#projects.get(projectId)
    if (known?.change === change) return false
    const flags = known?.flags ?? this.#readAll(projectId)
    if (known !== undefined) flags.apply(this.#changesBehind(projectId, known.change))
    this.#projects.set(projectId, { change, flags })
    return true
  }

  #readAll(projectId: number): ProjectFlags {
    const stored = [...recordsOf(this.#table('flags'), keysOf(projectId))].map(decodeFlag)
    return new ProjectFlags(new Map(stored.map((each) => [each.flag.id, each])))
  }

  /**
   * Returns the flags that have changed after the change with the number `change`, in their current state. A removed
   * flag is null.
   */
  #changesBehind(projectId: number, change: number): ReadonlyMap<number, StoredFlag | null> {
    const range = { ...keysOf(projectId), start: pairKey(projectId, change + 1) }
    const changes = new Map<number, StoredFlag | null>()
    for (const { value } of entriesOf(this.#table('flag_changes'), range)) {
      const id = Number(unpack(value))
      changes.set(id, loadFlag(this.#table('flags'), projectId, id))
    }
    return changes
  }

  #table(name: string): Table {
    return this.#environment.table(name)
  }
}
