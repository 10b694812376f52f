/**
 * Keeps the names of projects put together (kept-names.ts): the processing thread goes through settled segments
 * when it has nothing else to do. Those of older versions, which carry nothing about names, are read as a whole
 * for it, once.
 */
import { type Clock, SYSTEM_CLOCK } from '../../../base/clock.ts'
import { attempt, type DamageListener } from '../../faults.ts'
import { erasedRows } from '../../identity/erasure-records.ts'
import type { Environment } from '../../lmdb/environment.ts'
import type { EventsTable } from '../../lmdb/keys.ts'
import { SEGMENT_ROWS_TARGET } from '../format/segment-builder.ts'
import type { SegmentTables } from '../format/segment-tables.ts'
import { type KeptNames, loadKeptNames, storeKeptNames } from './kept-names.ts'
import { gatherNames } from './name-reader.ts'
import { ProjectNames } from './project-names.ts'

/** Events behind what is kept that are worth another record. */
const WORTH_ROWS = 8 * SEGMENT_ROWS_TARGET
/** After an erasure all is gathered anew, but not more often, milliseconds: of further ones with the next events. */
const ANEW_PERIOD_MS = 60_000

/** Events of segments that will be merged are worth one, too: small ones are what takes longest to read. */
const TAIL_ROWS = 256
/** But only for so long in each period, milliseconds: they are read as a whole. */
const TAIL_MS = 50
const TAIL_PERIOD_MS = 10_000

/** A project whose names are kept. */
export interface NamedProject {
  readonly projectId: number
  readonly counters: { readonly rows: number }
  textOf(distinctId: number): string
}

/** What the keeper works with. */
export interface NameKeeperOptions {
  readonly environment: Environment<EventsTable>
  readonly segments: SegmentTables
  readonly onDamage: DamageListener
  /** The texts that saved things of a project consist of; names among them are the last to give way. Default: none. */
  readonly referredNames?: ((projectId: number) => ReadonlySet<string>) | undefined
  readonly clock?: Clock | undefined
}

/** Names that are being gathered. */
interface Begun {
  readonly project: NamedProject
  readonly names: ProjectNames
  readonly erased: number
  /** S to which it goes. */
  readonly through: number
  /** It goes beyond the segments that stay. */
  readonly isTail: boolean
}

/** Stops until there is time again. */
class NoTimeError extends Error {}

/** Keeps names of projects that have new events. */
export class NameKeeper {
  readonly #options: NameKeeperOptions
  readonly #clock: Clock
  readonly #waiting = new Set<NamedProject>()
  /** Some of their segments cannot be read. */
  readonly #damaged = new Set<NamedProject>()
  #begun: Begun | null = null
  /** When names may be gathered anew again. */
  #anewAtMs = Number.NEGATIVE_INFINITY

  /** When the period for segments that will be merged ends, and how long it was used. */
  #tailEndMs = Number.NEGATIVE_INFINITY
  #tailMs = 0

  constructor(options: NameKeeperOptions) {
    this.#options = options
    this.#clock = options.clock ?? SYSTEM_CLOCK
  }

  /** Notes that a project has new events, or lost some. */
  note(project: NamedProject): void {
    if (!this.#damaged.has(project)) this.#waiting.add(project)
  }

  get hasWork(): boolean {
    return this.#waiting.size > 0
  }

  /** Looks at the projects that wait, until `isOver`. */
  run(isOver: () => boolean): void {
    for (const project of this.#waiting) {
      if (isOver()) return
      const isDone = attempt(
        () => this.#keep(project, isOver),
        (error) => {
          this.#begun = null
          this.#damaged.add(project)
          this.#options.onDamage(error)
        },
      )
      if (isDone === false) return
      this.#waiting.delete(project)
    }
  }

  /** False: there was no time for all of it. */
  #keep(project: NamedProject, isOver: () => boolean): boolean {
    const { environment, segments } = this.#options
    const { projectId } = project
    const { deletion_jobs, kept_names } = environment.tables
    const erased = erasedRows(deletion_jobs, projectId)
    const isGoingOn = this.#begun?.project === project && this.#begun.erased === erased
    this.#begun = isGoingOn ? this.#begun : this.#begin(project, erased)
    if (this.#begun === null) return true
    const { names, through, isTail } = this.#begun
    const startedAtMs = this.#clock.monotonic()
    try {
      gatherNames(names, segments, projectId, through, () => {
        if (isOver()) throw new NoTimeError()
      })
      environment.rearrange(() => storeKeptNames(kept_names, projectId, names, erased))
    } catch (error) {
      if (error instanceof NoTimeError) return false
      throw error
    } finally {
      if (isTail) this.#tailMs += this.#clock.monotonic() - startedAtMs
    }
    this.#begun = null
    return true
  }

  /** Where to begin and to end; null when it is not worth it. */
  #begin(project: NamedProject, erased: number): Begun | null {
    const { projectId } = project
    const { referredNames = () => new Set<string>() } = this.#options
    const kept = loadKeptNames(this.#options.environment.tables.kept_names, projectId)
    const isCurrent = kept?.erased === erased
    const from = isCurrent ? kept.through : 0
    const { settled, readable } = this.#reachOf(project, from)
    const isTail = settled - from < WORTH_ROWS
    const through = isTail ? this.#tailThrough(readable, from) : settled
    if (through === from || !this.#mayBeginAnew(kept, isCurrent)) return null
    const textOf = (id: number): string => project.textOf(id)
    const names = new ProjectNames(projectId, textOf, () => referredNames(projectId))
    if (isCurrent) kept.restore(names)
    return { project, names, erased, through, isTail }
  }

  #mayBeginAnew(kept: KeptNames | null, isCurrent: boolean): boolean {
    if (isCurrent || kept === null) return true
    const nowMs = this.#clock.monotonic()
    if (nowMs < this.#anewAtMs) return false
    this.#anewAtMs = nowMs + ANEW_PERIOD_MS
    return true
  }

  /** S of the newest event, if it is time for those that will be merged; else `from`. */
  #tailThrough(readable: number, from: number): number {
    const nowMs = this.#clock.monotonic()
    if (nowMs >= this.#tailEndMs) {
      this.#tailEndMs = nowMs + TAIL_PERIOD_MS
      this.#tailMs = 0
    }
    return readable - from < TAIL_ROWS || this.#tailMs >= TAIL_MS ? from : readable
  }

  /**
   * S of the last event of the last segment that stays as it is, and of the last one whose names can be read here:
   * one that has given its columns away may carry nothing.
   */
  #reachOf({ projectId, counters }: NamedProject, from: number) {
    const { segments } = this.#options
    const first = segments.firstSequenceOf(projectId, from + 1)
    let [settled, readable] = [from, from]
    for (const summary of segments.summaries(projectId, first, counters.rows)) {
      const { firstSequence, rows, isAway } = summary
      if (isAway && segments.segmentAt(projectId, firstSequence).facts === null) break
      readable = firstSequence + rows - 1
      if (rows * 2 >= SEGMENT_ROWS_TARGET) settled = readable
    }
    return { settled, readable }
  }
}
