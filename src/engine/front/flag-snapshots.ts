/**
 * The flags of each project, compiled for decisions. The flags, cohorts and group types of a project are compiled
 * together, and replaced together when one of them changes. Lookups are answered from memory.
 */
import { type CompiledFlags, compileFlags } from '../../rules/flags/compile.ts'
import type { Flag, FlagCohort, FlagSet } from '../../rules/flags/types.ts'
import type { FlagUsage } from './flag-usage.ts'

/** Reads flags. The list of a project stays the same object as long as none of its flags changes. */
export interface FlagSource {
  /** Loads the changes that any process has made. If it throws, the state is unchanged. */
  refreshIfChanged(): boolean
  /** Returns all flags of a project that are not deleted, in the order of their ids. */
  flagsOf(projectId: number): readonly Flag[]
}

/** Reads projects. */
export interface ProjectSource {
  /** Loads the changes that any process has made. If it throws, the state is unchanged. */
  refreshIfChanged(): boolean
  projects(): readonly { readonly id: number; readonly timezone: string }[]
}

/** Reads cohorts and group types. */
export interface DefinitionSource {
  /** Makes the latest commit visible to the next read. */
  refresh(): void
  cohorts(projectId: number): ReadonlyMap<number, FlagCohort>
  groupTypes(projectId: number): ReadonlyMap<number, string>
}

/** The sources from which snapshots are made. */
export interface FlagSnapshotOptions {
  readonly flags: FlagSource
  readonly projects: ProjectSource
  readonly definitions: DefinitionSource
  /** Called if something cannot be read. Decisions then continue with the last state that was read. */
  readonly onDamage: (error: unknown) => void
  readonly usage: FlagUsage
  /**
   * Called when decisions begin to use new or changed flags of a project. Not called for the flags that exist at the
   * start.
   */
  readonly onChanged: (projectId: number) => void
}

/** The flags of one project at one moment. Each change creates a new object. */
export interface FlagSnapshot {
  /** A number that is different for each snapshot of this process. */
  readonly serial: number
  readonly set: FlagSet
  readonly compiled: CompiledFlags
  /** The keys of the active flags with experience continuity. */
  readonly continuityKeys: readonly string[]
  /** True if the project has an active flag. Browsers request this fact first, and request flags only if it is true. */
  readonly hasActiveFlags: boolean
}

interface Definitions {
  readonly cohorts: ReadonlyMap<number, FlagCohort>
  readonly groupTypes: ReadonlyMap<number, string>
}

const NO_DEFINITIONS: Definitions = { cohorts: new Map(), groupTypes: new Map() }

/** The snapshots of all projects, in the main thread. */
export class FlagSnapshots {
  readonly #options: FlagSnapshotOptions
  readonly #snapshots = new Map<number, FlagSnapshot>()
  readonly #definitions = new Map<number, Definitions>()
  #isStarted = false

  /** Reads and compiles all flags. */
  constructor(options: FlagSnapshotOptions) {
    this.#options = options
    this.#build()
    this.#isStarted = true
  }

  /** Returns the flags of a project, or null if the project is unknown. */
  of(projectId: number): FlagSnapshot | null {
    return this.#snapshots.get(projectId) ?? null
  }

  /** Yields the compiled flags of all projects. */
  *compiled(): Generator<CompiledFlags> {
    for (const { compiled } of this.#snapshots.values()) yield compiled
  }

  /**
   * Loads changes of flags and projects that any process has made. Call it after a write and before the write is
   * answered, so that the next decision uses the change. Costs two reads if nothing has changed. Otherwise costs a read
   * of the changes, and one step for each flag of each changed project.
   */
  refresh(): void {
    const { flags, projects, onDamage } = this.#options
    try {
      projects.refreshIfChanged()
      flags.refreshIfChanged()
    } catch (error) {
      onDamage(error)
    }
    this.#build()
  }

  /** Call it when processing has changed the cohorts or group types of these projects. */
  definitionsChanged(projectIds: readonly number[]): void {
    if (projectIds.length === 0) return
    this.#options.definitions.refresh()
    for (const projectId of projectIds) this.#definitions.set(projectId, this.#read(projectId))
    this.#build()
  }

  /** Creates a new snapshot for each project with a change. */
  #build(): void {
    const { flags, projects } = this.#options
    for (const { id, timezone } of projects.projects()) {
      const before = this.#snapshots.get(id)
      let definitions = this.#definitions.get(id)
      if (definitions === undefined) {
        definitions = this.#read(id)
        this.#definitions.set(id, definitions)
      }
      const list = flags.flagsOf(id)
      const isSame =
        before !== undefined &&
        before.set.flags === list &&
        before.set.cohorts === definitions.cohorts &&
        before.set.groupTypes === definitions.groupTypes &&
        before.set.timezone === timezone
      if (isSame) continue
      const set = { projectId: id, timezone, flags: list, ...definitions }
      // The old snapshot contains counts of decisions that were not collected yet. They are collected before it is
      // replaced.
      if (before !== undefined) this.#options.usage.collect([before.compiled])
      this.#snapshots.set(id, snapshotOf(set, before?.compiled))
      if (this.#isStarted) this.#options.onChanged(id)
    }
  }

  #read(projectId: number): Definitions {
    const { definitions, onDamage } = this.#options
    try {
      const cohorts = definitions.cohorts(projectId)
      return { cohorts, groupTypes: definitions.groupTypes(projectId) }
    } catch (error) {
      onDamage(error)
      return this.#definitions.get(projectId) ?? NO_DEFINITIONS
    }
  }
}

let lastSerial = 0

function snapshotOf(set: FlagSet, previous: CompiledFlags | undefined): FlagSnapshot {
  const compiled = compileFlags(set, previous)
  const continuityKeys: string[] = []
  for (const { flag } of compiled.active) {
    if (flag.ensureExperienceContinuity === true) continuityKeys.push(flag.key)
  }
  const hasActiveFlags = compiled.active.length > 0
  return { serial: ++lastSerial, set, compiled, continuityKeys, hasActiveFlags }
}
