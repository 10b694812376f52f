/**
 * Cohorts and group types (the *definitions*) of projects that other machines store. Flag decisions need them. This
 * machine fetches them when another machine reports a change, and also periodically, because a report may be lost. It
 * saves them beside the outbox, so that it can start when no other machine answers.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { writeDurably } from '../base/durable-file.ts'
import { getOrAdd } from '../base/maps.ts'
import type { DefinitionSource } from '../engine/front/flag-snapshots.ts'
import { EvaluationFailure } from '../rules/flags/evaluation-failure.ts'
import type { FlagCohort } from '../rules/flags/types.ts'
import type { DecisionSourceReader } from '../store/identity/decision-sources.ts'

const FILE = 'definitions'
const LOOK_MS = 1000
const REFRESH_MS = 10_000
const PROJECTS_AT_ONCE = 100

interface Definitions {
  readonly cohorts: ReadonlyMap<number, FlagCohort>
  readonly groupTypes: ReadonlyMap<number, string>
}

/** The definitions of several projects, in the form in which machines send them to each other. */
export type ProjectDefinitions = readonly (readonly [
  projectId: number,
  cohorts: readonly FlagCohort[],
  groupTypes: readonly (readonly [number, string])[],
])[]

/** Returns the stored definitions of some projects. Throws `DamagedRecordError`. */
export function definitionsOf(
  stored: DecisionSourceReader,
  projects: readonly number[],
): ProjectDefinitions {
  stored.refresh()
  return projects.map((id) => [
    id,
    [...stored.cohorts(id).values()],
    [...stored.groupTypes(id).entries()],
  ])
}

/**
 * Stands for the group types of a project while they are unknown. A flag that needs group types then fails with an
 * error, instead of being off.
 */
class UnknownGroupTypes extends Map<number, string> {
  override get(): never {
    throw new EvaluationFailure('group_unavailable')
  }
}

const UNKNOWN: Definitions = { cohorts: new Map(), groupTypes: new UnknownGroupTypes() }

/** What `EdgeDefinitions` needs from the edge. */
export interface EdgeDefinitionsOptions {
  /** The folder in which the definitions are saved. */
  readonly folder: string
  /** Asks a machine that stores a partition for the definitions of some of its projects. */
  readonly fetch: (partition: number, projects: readonly number[]) => Promise<ProjectDefinitions>
  readonly partitionOf: (projectId: number) => number
  /**
   * Returns true while some partition has no replica that answers. Definitions are then fetched more often: the first
   * successful fetch shows that a replica can be reached again.
   */
  readonly isDoubtful: () => boolean
  /** Called with the projects whose definitions have changed. */
  readonly onChange: (projects: readonly number[]) => void
}

/** The definitions of all projects that other machines store. */
export class EdgeDefinitions implements DefinitionSource {
  readonly #path: string
  readonly #options: EdgeDefinitionsOptions
  readonly #known = new Map<number, { readonly text: string; readonly definitions: Definitions }>()
  /** The projects whose definitions the flag snapshots have asked for (engine/front/flag-snapshots.ts). */
  readonly #projects = new Set<number>()
  #wanted = new Set<number>()
  #refreshedAtMs = 0
  #isFetching = false
  #fetched: Promise<void> = Promise.resolve()
  readonly #timer: NodeJS.Timeout

  constructor(options: EdgeDefinitionsOptions) {
    this.#options = options
    this.#path = join(options.folder, FILE)
    this.#take(readKept(this.#path))
    this.#timer = setInterval(() => void this.#look(), LOOK_MS)
  }

  refresh(): void {}

  cohorts(projectId: number): ReadonlyMap<number, FlagCohort> {
    return this.#of(projectId).cohorts
  }

  groupTypes(projectId: number): ReadonlyMap<number, string> {
    return this.#of(projectId).groupTypes
  }

  /** Fetches the definitions of some projects of a partition. If that fails, it is retried later. */
  fetch(partition: number, projects: readonly number[]): Promise<void> {
    for (const project of projects) this.#wanted.add(project)
    // Requests are sent one after the other, so that an older answer cannot replace a newer one.
    this.#fetched = this.#fetched.then(() => this.#fetchNow(partition, projects))
    return this.#fetched
  }

  close(): void {
    clearInterval(this.#timer)
  }

  async #fetchNow(partition: number, projects: readonly number[]): Promise<void> {
    try {
      const changed = this.#take(await this.#options.fetch(partition, projects))
      for (const project of projects) this.#wanted.delete(project)
      if (changed.length === 0) return
      writeDurably(this.#path, `[${[...this.#known.values()].map(({ text }) => text).join()}]`)
      this.#options.onChange(changed.filter((project) => this.#projects.has(project)))
    } catch {
      // Nothing to do: the projects stay in `#wanted` and are fetched again later.
    }
  }

  #of(projectId: number): Definitions {
    if (!this.#projects.has(projectId)) {
      this.#projects.add(projectId)
      this.#wanted.add(projectId)
    }
    return this.#known.get(projectId)?.definitions ?? UNKNOWN
  }

  async #look(): Promise<void> {
    if (this.#isFetching) return
    this.#isFetching = true
    const now = performance.now()
    if (now - this.#refreshedAtMs > REFRESH_MS || this.#options.isDoubtful()) {
      this.#refreshedAtMs = now
      this.#wanted = new Set(this.#projects)
    }
    const byPartition = new Map<number, number[]>()
    // Skip projects that other machines have reported but that nobody has used on this machine.
    for (const project of [...this.#projects].filter((one) => this.#wanted.has(one))) {
      getOrAdd(byPartition, this.#options.partitionOf(project), () => []).push(project)
    }
    for (const [partition, projects] of byPartition) {
      for (let first = 0; first < projects.length; first += PROJECTS_AT_ONCE) {
        await this.fetch(partition, projects.slice(first, first + PROJECTS_AT_ONCE))
      }
    }
    this.#isFetching = false
  }

  /** Takes over definitions from a file or another machine, and returns the projects whose definitions have changed. */
  #take(all: ProjectDefinitions): readonly number[] {
    const changed: number[] = []
    for (const one of all) {
      const [projectId, cohorts, groupTypes] = one
      const text = JSON.stringify(one)
      if (this.#known.get(projectId)?.text === text) continue
      const byId = new Map(cohorts.map((cohort) => [cohort.id, cohort]))
      const definitions = { cohorts: byId, groupTypes: new Map(groupTypes) }
      this.#known.set(projectId, { text, definitions })
      changed.push(projectId)
    }
    return changed
  }
}

function readKept(path: string): ProjectDefinitions {
  try {
    // The cast is right: `fetch` wrote this file.
    return JSON.parse(readFileSync(path, 'utf8')) as ProjectDefinitions
  } catch {
    return []
  }
}
