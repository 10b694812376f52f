/**
 * The flags of every project as decisions use them: flags, cohorts and group types together, compiled
 * once, and swapped as a whole when one of them has changed. Answers from memory.
 */
import { type CompiledFlags, compileFlags } from '../../rules/flags/compile.ts'
import type { Flag, FlagCohort, FlagSet } from '../../rules/flags/types.ts'
import type { FlagUsage } from './flag-usage.ts'

/** Where flags come from; a list stays the same object for as long as nothing in it changes. */
export interface FlagSource {
  /** Takes over what any process has changed. What it throws leaves it as it was. */
  refreshIfChanged(): boolean
  /** All flags of a project that are not deleted, in the order of their ids. */
  flagsOf(projectId: number): readonly Flag[]
}

/** Where projects come from. */
export interface ProjectSource {
  /** As that of flags. */
  refreshIfChanged(): boolean
  projects(): readonly { readonly id: number; readonly timezone: string }[]
}

/** Where cohorts and group types come from. */
export interface DefinitionSource {
  /** Lets the next read see what is committed. */
  refresh(): void
  cohorts(projectId: number): ReadonlyMap<number, FlagCohort>
  groupTypes(projectId: number): ReadonlyMap<number, string>
}

/** What snapshots are made from. */
export interface FlagSnapshotOptions {
  readonly flags: FlagSource
  readonly projects: ProjectSource
  readonly definitions: DefinitionSource
  /** Told when something cannot be read; decisions go on with what was known before. */
  readonly onDamage: (error: unknown) => void
  readonly usage: FlagUsage
}

/** The flags of one project at one moment. A new object after every change. */
export interface FlagSnapshot {
  /** No other snapshot of this process has the same. */
  readonly serial: number
  readonly set: FlagSet
  readonly compiled: CompiledFlags
  /** Keys of the active flags with experience continuity. */
  readonly continuityKeys: readonly string[]
  /** At least one active flag: what browsers ask before they fetch flags. */
  readonly hasActiveFlags: boolean
}

interface Definitions {
  readonly cohorts: ReadonlyMap<number, FlagCohort>
  readonly groupTypes: ReadonlyMap<number, string>
}

const NO_DEFINITIONS: Definitions = { cohorts: new Map(), groupTypes: new Map() }

/** The snapshots of all projects. For the main thread. */
export class FlagSnapshots {
  readonly #options: FlagSnapshotOptions
  readonly #snapshots = new Map<number, FlagSnapshot>()
  readonly #definitions = new Map<number, Definitions>()

  /** Reads and compiles everything that there is. */
  constructor(options: FlagSnapshotOptions) {
    this.#options = options
    this.#build()
  }

  /** The flags of a project; null for an unknown one. */
  of(projectId: number): FlagSnapshot | null {
    return this.#snapshots.get(projectId) ?? null
  }

  /** The flags of all projects. */
  *compiled(): Generator<CompiledFlags> {
    for (const { compiled } of this.#snapshots.values()) yield compiled
  }

  /**
   * Takes over what any process has changed of flags and projects. Call it after a write and before its
   * answer is sent: the next decision then sees it. Two reads when nothing changed; otherwise what has
   * changed, and a look at each flag of its project.
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

  /** Cohorts or group types of these projects were changed by processing. */
  definitionsChanged(projectIds: readonly number[]): void {
    if (projectIds.length === 0) return
    this.#options.definitions.refresh()
    for (const projectId of projectIds) this.#definitions.set(projectId, this.#read(projectId))
    this.#build()
  }

  /** Makes a new snapshot for each project of which something has changed. */
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
      // What is replaced takes its counts along.
      if (before !== undefined) this.#options.usage.collect([before.compiled])
      this.#snapshots.set(id, snapshotOf(set, before?.compiled))
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
