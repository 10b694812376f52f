/**
 * Updates the stored names of projects (kept-names.ts). While the processing thread is idle, it reads the names of
 * segments that will not be merged again. Segments of older versions store no facts about names and are read
 * completely, once.
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

/**
 * The names of a project are stored again when the project has at least this number of new events in segments that will
 * not be merged again.
 */
const WORTH_ROWS = 8 * SEGMENT_ROWS_TARGET
/**
 * The minimum time, in milliseconds, between two complete rebuilds of names after erasures. If an erasure follows
 * sooner, the names are rebuilt later, when new events arrive.
 */
const ANEW_PERIOD_MS = 60_000

/**
 * Segments that will still be merged are small, and readers of names spend most of their time on them. So their names
 * are collected before the merge, but only if these segments together have at least this number of events.
 */
const TAIL_ROWS = 256
/**
 * The time, in milliseconds, that may be spent on small segments in each period. Small segments store no facts about
 * names and must be read completely, so the time is limited.
 */
const TAIL_MS = 50
const TAIL_PERIOD_MS = 10_000

/** A project whose names are to be stored. */
export interface NamedProject {
  readonly projectId: number
  readonly counters: { readonly rows: number }
  textOf(distinctId: number): string
}

/** What a `NameKeeper` needs. */
export interface NameKeeperOptions {
  readonly environment: Environment<EventsTable>
  readonly segments: SegmentTables
  readonly onDamage: DamageListener
  /**
   * Returns the texts that occur in the saved objects of a project, such as insights. If a project has too many names,
   * the names that occur among these texts are the last to be left out. Default: no texts.
   */
  readonly referredNames?: ((projectId: number) => ReadonlySet<string>) | undefined
  readonly clock?: Clock | undefined
}

/** The names of a project that are being collected now. */
interface Begun {
  readonly project: NamedProject
  readonly names: ProjectNames
  readonly erased: number
  /** The sequence number of the last event to read. */
  readonly through: number
  /** True if segments that will still be merged are read too. */
  readonly isTail: boolean
}

/** Thrown to interrupt the work when the time is over. The work continues when the thread is idle again. */
class NoTimeError extends Error {}

/** Updates the stored names of projects with new events. */
export class NameKeeper {
  readonly #options: NameKeeperOptions
  readonly #clock: Clock
  readonly #waiting = new Set<NamedProject>()
  /** The projects that have a segment which cannot be read. Their names are not updated any more. */
  readonly #damaged = new Set<NamedProject>()
  #begun: Begun | null = null
  /** The earliest time at which names may be rebuilt completely again. */
  #anewAtMs = Number.NEGATIVE_INFINITY

  /**
   * The end of the current period for small segments, and the time that was spent on them in this period, in
   * milliseconds.
   */
  #tailEndMs = Number.NEGATIVE_INFINITY
  #tailMs = 0

  constructor(options: NameKeeperOptions) {
    this.#options = options
    this.#clock = options.clock ?? SYSTEM_CLOCK
  }

  /** Marks a project whose names must be updated, because it has new events or events were erased. */
  note(project: NamedProject): void {
    if (!this.#damaged.has(project)) this.#waiting.add(project)
  }

  get hasWork(): boolean {
    return this.#waiting.size > 0
  }

  /** Updates the names of the waiting projects, until `isOver` returns true. */
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

  /** Updates the names of one project. Returns false if the time was not enough. */
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

  /**
   * Begins to update the names of a project. Returns the names that are already stored, and the last event to read.
   * Returns null if an update is not worthwhile now.
   */
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

  /** Returns the last sequence number of the small segments that may be read now, or `from` if none may be read. */
  #tailThrough(readable: number, from: number): number {
    const nowMs = this.#clock.monotonic()
    if (nowMs >= this.#tailEndMs) {
      this.#tailEndMs = nowMs + TAIL_PERIOD_MS
      this.#tailMs = 0
    }
    return readable - from < TAIL_ROWS || this.#tailMs >= TAIL_MS ? from : readable
  }

  /**
   * Returns two sequence numbers. No segment up to `settled` will be merged again. The names of all segments up to
   * `readable` can be read. The names of a segment cannot be read if its columns were moved to the warehouse and it
   * stores no facts about names.
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
