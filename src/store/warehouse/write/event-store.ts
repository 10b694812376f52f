/**
 * The writing end of stored events. The processing thread adds events one by one; `commit` writes
 * everything gathered since the last one, together with the position in the log, in one transaction of
 * environment `events`: it is all there or not at all. `maintain` merges small segments and runs of
 * the uuid index when there is time. Key layouts: keys.ts; segments: segment-format.ts.
 *
 * After a failed commit this object must not be used again: the process ends and replays the log.
 */
import { type Clock, SYSTEM_CLOCK } from '../../../base/clock.ts'
import type { IngestionWarning, NormalisedEvent, PersonMode } from '../../../rules/capture/types.ts'
import type { DeadLetter } from '../../../rules/events/dead-letter.ts'
import { DeadLetters } from '../../aside/dead-letters.ts'
import { DroppedWriter } from '../../aside/dropped-writer.ts'
import { WarningLog } from '../../aside/warning-log.ts'
import { attempt, type DamageListener } from '../../faults.ts'
import { DistinctIds } from '../../identity/distinct-ids.ts'
import { PersonStore, personTables } from '../../identity/person-store.ts'
import type { ProjectPersons } from '../../identity/project-persons.ts'
import { Environment, type Table } from '../../lmdb/environment.ts'
import { EVENTS_ENVIRONMENT, EVENTS_TABLES, NUMBER_MAX } from '../../lmdb/keys.ts'
import { EventErasure } from '../erase/event-erasure.ts'
import { loadAllCounters, storeCounters } from '../format/event-projects.ts'
import { openSeed, readNumber, readWitness, storeNumber, storeWitness, type Witness } from '../format/event-state.ts'
import { modeByte, SEGMENT_BYTES_TARGET, SEGMENT_ROWS_TARGET } from '../format/segment-builder.ts'
import { SegmentEncoder } from '../format/segment-encoder.ts'
import { SegmentTables } from '../format/segment-view.ts'
import { UuidFingerprint } from '../uuid/uuid-fingerprint.ts'
import { UuidIndex, type UuidIndexOptions } from '../uuid/uuid-index.ts'
import { DuplicateCheck } from './duplicate-check.ts'
import { OpenProject } from './open-project.ts'
import { SegmentCompactor, storeSegment } from './segment-compactor.ts'

/** Projects whose builder keeps its memory between commits. */
const BUILDERS_MAX = 8
/** Runs of the uuid index at which a commit merges a slice even though there is no idle time. */
const RUNS_URGENT = 24
const URGENT_BUDGET_MS = 20
/** How long one `maintain` erases events: what arrives meanwhile waits. */
const ERASURE_BUDGET_MS = 100

/** How to open the store. The sizes are for tests. */
export interface EventStoreOptions extends UuidIndexOptions {
  readonly dataDir: string
  readonly isFlushDeferred?: boolean
  readonly clock?: Clock
  /** Rows of a full segment. */
  readonly segmentRowsTarget?: number
  readonly distinctIdCacheMax?: number
  readonly personCacheMax?: number
  readonly warningLinesMax?: number
  /** Told of damaged records that are left alone: of merging, and of opening the store. */
  readonly onDamage?: DamageListener
}

/** What tells an event from its duplicates. */
export interface EventIdentity {
  readonly projectId: number
  readonly event: NormalisedEvent
  /** 16 bytes of uuid begin at `uuidOffset`. They are copied. */
  readonly uuidBytes: Uint8Array
  readonly uuidOffset: number
  /** False: the server made the uuid, so that it cannot be a duplicate. */
  readonly hasClientUuid: boolean
}

/** An event to be stored. */
export interface EventInput extends EventIdentity {
  readonly createdAtMs: number
  readonly personMode: PersonMode
  readonly isHistorical: boolean
}

/** What a commit wrote. */
export interface CommitStats {
  readonly rows: number
  readonly segments: number
  readonly bytes: number
}

/** Stores events. One per data directory, in one thread. */
export class EventStoreWriter {
  readonly #environment: Environment
  readonly #clock: Clock
  readonly #state: Table
  readonly #projectsTable: Table
  readonly #segments: SegmentTables
  readonly #distinctIds: DistinctIds
  readonly #index: UuidIndex
  readonly #persons: PersonStore
  readonly #warnings: WarningLog
  readonly deadLetters: DeadLetters
  /** Events that are accepted and not stored; what is added waits for the next commit. */
  readonly dropped: DroppedWriter
  readonly #fingerprint: UuidFingerprint
  readonly #encoder = new SegmentEncoder()
  readonly #compactor: SegmentCompactor
  readonly #rowsTarget: number
  readonly #projects = new Map<number, OpenProject>()
  /** Projects with events that no run of the uuid index covers. */
  readonly #unindexed = new Set<OpenProject>()
  /** Projects whose cohorts or group types commits have changed; whoever reads it clears it. */
  readonly changedDefinitions = new Set<number>()
  /** Projects that got events since the last commit. */
  readonly #touched = new Set<OpenProject>()
  readonly #found: number[] = []
  readonly #duplicates: DuplicateCheck
  readonly #erasure: EventErasure
  #current: OpenProject | null = null
  /** What `admit` has found out for `append`. */
  #admittedId = 0
  #admittedName = 0
  #admittedHigh = 0
  #admittedLow = 0
  #position: number
  #witness: Witness

  /** Opens or creates the environment. Throws `DamagedRecordError`; about 0.2 s for 10 million events. */
  constructor(options: EventStoreOptions) {
    this.#clock = options.clock ?? SYSTEM_CLOCK
    this.#rowsTarget = options.segmentRowsTarget ?? SEGMENT_ROWS_TARGET
    this.#environment = new Environment({
      dataDir: options.dataDir,
      name: EVENTS_ENVIRONMENT,
      tables: EVENTS_TABLES,
      isFlushDeferred: options.isFlushDeferred === true,
    })
    const table = (name: (typeof EVENTS_TABLES)[number]): Table => this.#environment.table(name)
    this.#state = table('state')
    this.#projectsTable = table('projects')
    this.#segments = new SegmentTables({
      headers: table('segment_headers'),
      groups: table('segment_groups'),
    })
    this.#duplicates = new DuplicateCheck(this.#segments)
    const distinctIdTables = { ids: table('distinct_ids'), texts: table('distinct_texts') }
    this.#distinctIds = new DistinctIds(distinctIdTables, options.distinctIdCacheMax)
    this.#persons = new PersonStore(
      personTables(this.#environment),
      this.#distinctIds,
      options.personCacheMax,
    )
    const onDamage = options.onDamage ?? (() => undefined)
    const uuidTables = { runs: table('uuid_runs'), chunks: table('uuid_chunks') }
    this.#index = new UuidIndex(uuidTables, { ...options, onDamage })
    this.#warnings = new WarningLog(table('warnings'), options.warningLinesMax)
    this.deadLetters = new DeadLetters(table('dead_letters'))
    this.dropped = new DroppedWriter(table, onDamage)
    this.#fingerprint = new UuidFingerprint(openSeed(this.#environment, this.#state))
    this.#position = readNumber(this.#state, 'position') ?? 0
    this.#witness = readWitness(this.#state)
    for (const [projectId, counters] of loadAllCounters(this.#projectsTable)) {
      this.#projects.set(projectId, new OpenProject(projectId, counters, this.#distinctIds))
    }
    this.#compactor = new SegmentCompactor({
      environment: this.#environment,
      tables: this.#segments,
      projects: this.#projectsTable,
      encoder: this.#encoder,
      rowsTarget: this.#rowsTarget,
      onDamage,
    })
    this.#erasure = new EventErasure({
      environment: this.#environment,
      segments: this.#segments,
      projects: this.#projectsTable,
      jobs: table('deletion_jobs'),
      encoder: this.#encoder,
      projectOf: (projectId) => this.#openProject(projectId),
      now: () => this.#clock.now(),
      onDamage,
    })
    for (const project of this.#projects.values()) {
      this.#compactor.note(project)
      this.#indexTail(project, onDamage)
    }
  }

  /** The position in the log up to which everything is stored. */
  readPosition(): number {
    return this.#position
  }

  /**
   * Adds an event; false when it is a duplicate: same project, uuid, name and distinct_id. Visible to
   * nobody before `commit`. Throws, and then has added nothing.
   * Source: docs/COMPATIBILITY.md, "Duplicates".
   */
  add(input: EventInput): boolean {
    if (!this.admit(input)) return false
    this.append(input, input.createdAtMs, input.personMode, input.isHistorical)
    return true
  }

  /**
   * The first half of `add`: false when the event is a duplicate. Nothing is added yet; the persons of
   * the project know the event's distinct_id from here on without looking it up.
   */
  admit(input: EventIdentity): boolean {
    const { event, projectId, uuidBytes, uuidOffset } = input
    const project = this.#project(projectId)
    const { builder } = project
    const distinctId = this.#distinctIds.idOf(projectId, event.distinctId, project.lastDistinctId)
    const isNewDistinctId = this.#distinctIds.wasAdded
    const nameId = builder.names.idOf(event.name)
    let nameHash = project.nameHashes[nameId]
    if (nameHash === undefined) {
      nameHash = this.#fingerprint.hashName(event.name)
      project.nameHashes[nameId] = nameHash
    }
    const fingerprint = this.#fingerprint
    fingerprint.compute(projectId, uuidBytes, uuidOffset, distinctId, nameHash)
    const { high, low } = fingerprint
    if (input.hasClientUuid && !isNewDistinctId) {
      const found = this.#found
      found.length = 0
      this.#index.find(high, low, found)
      if (found.length > 0) {
        const row = { uuidBytes, uuidOffset, name: event.name, distinctId }
        if (this.#duplicates.isAmong(found, project, row)) return false
      }
    }
    this.#admittedId = distinctId
    this.#admittedName = nameId
    this.#admittedHigh = high
    this.#admittedLow = low
    return true
  }

  /**
   * The second half of `add`, for the event that was admitted last. Throws, and then has added nothing.
   * The fields come one by one: an object made for each event by copying another costs microseconds. `bytes`:
   * those of the event's JSON, which fill a segment as rows do.
   */
  append(
    input: EventIdentity,
    createdAtMs: number,
    personMode: PersonMode,
    isHistorical: boolean,
    bytes = 0,
  ): void {
    const { event, uuidBytes, uuidOffset } = input
    const project = this.#project(input.projectId)
    const { builder } = project
    if (project.rows >= NUMBER_MAX) throw new RangeError('the project has too many events')
    const row = builder.beginRow(
      this.#admittedId,
      event.timestampMs,
      createdAtMs,
      modeByte(personMode, isHistorical),
      uuidBytes,
      uuidOffset,
    )
    try {
      builder.putEvent(row, event)
    } catch (cause) {
      builder.abandonRow()
      throw cause
    }
    builder.setName(row, this.#admittedName)
    project.rows++
    this.#index.add(this.#admittedHigh, this.#admittedLow, project.rows)
    builder.bytes += bytes
    const isFull = builder.rows >= this.#rowsTarget || builder.bytes >= SEGMENT_BYTES_TARGET
    if (isFull) project.encode(this.#encoder)
  }

  /** Whether a commit now would leave no segment behind that waits for a merge. Cost: the projects. */
  get areSegmentsFull(): boolean {
    for (const { builder } of this.#touched) {
      if (builder.rows > 0 && builder.rows * 2 < this.#rowsTarget) return false
    }
    return true
  }

  /** The persons of a project; changes are stored with the next commit. */
  persons(projectId: number): ProjectPersons {
    const project = this.#project(projectId)
    return this.#persons.project(projectId, project.lastDistinctId)
  }

  /** The persons of the project of the event that was admitted last, its distinct_id being known. */
  admittedPersons(event: NormalisedEvent, projectId: number): ProjectPersons {
    const persons = this.persons(projectId)
    persons.setCurrent(event.distinctId, this.#admittedId)
    return persons
  }

  /** S of the newest event of a project, committed or not. */
  lastSequence(projectId: number): number {
    return this.#project(projectId).rows
  }

  /** Notes a warning for the next commit. */
  addWarning(projectId: number, arrivedAtMs: number, warning: IngestionWarning): void {
    this.#warnings.add(projectId, arrivedAtMs, warning)
  }

  /** Notes a dead letter for the next commit; `raw` is copied. */
  addDeadLetter(letter: DeadLetter): void {
    this.deadLetters.add(letter, this.#clock.now())
  }

  /**
   * Stores everything gathered, the position behind it, and what was seen of the other environments, in
   * one transaction. Throws what LMDB throws.
   */
  commit(position: number, seen?: Witness): CommitStats {
    const stats = { rows: 0, segments: 0, bytes: 0 }
    for (const project of this.#touched) {
      if (project.builder.rows > 0) project.encode(this.#encoder)
    }
    this.#environment.write(() => {
      this.#distinctIds.store()
      this.#persons.store()
      for (const project of this.#touched) {
        for (const segment of project.takePending()) {
          stats.rows += segment.rows
          stats.segments++
          stats.bytes += segment.bytes
          storeSegment(this.#segments, segment)
        }
        this.#compactor.note(project)
        this.#unindexed.add(project)
      }
      const changed = new Set(this.#touched)
      if (this.#index.isFull) {
        this.#index.flush()
        for (const project of this.#unindexed) {
          project.counters.indexedRows = project.counters.rows
          changed.add(project)
        }
        this.#unindexed.clear()
      }
      for (const { projectId, counters } of changed) {
        storeCounters(this.#projectsTable, projectId, counters)
      }
      this.#warnings.store()
      this.deadLetters.store()
      this.dropped.store(this.#clock.now())
      storeNumber(this.#state, 'position', position)
      if (seen !== undefined) this.#witness = storeWitness(this.#state, this.#witness, seen)
    })
    this.#position = position
    this.#settle()
    if (this.#index.runCount > RUNS_URGENT) this.#maintainIndex(URGENT_BUDGET_MS)
    return stats
  }

  /** Stores what was seen of the other environments, unless it is known. For when nothing is committed. */
  note(seen: Witness): void {
    const { logThrough, flagsVersion } = this.#witness
    if (seen.logThrough <= logThrough && seen.flagsVersion <= flagsVersion) return
    this.#environment.write(() => {
      this.#witness = storeWitness(this.#state, this.#witness, seen)
    })
  }

  /**
   * Erases events that are to be erased, and merges segments and runs, for about `budgetMs` (one step takes
   * up to 50 ms); true when there is more to do. Call it when nothing waits; readers are not disturbed. Not while events are gathered.
   */
  maintain(budgetMs: number): boolean {
    if (this.#touched.size > 0) throw new Error('maintain was called between add and commit')
    const deadline = this.#clock.monotonic() + budgetMs
    const erasureEnd = this.#clock.monotonic() + Math.min(budgetMs, ERASURE_BUDGET_MS)
    while (this.#erasure.hasWork && this.#clock.monotonic() < erasureEnd) {
      if (this.#erasure.step()) this.#duplicates.forget()
    }
    while (this.#compactor.hasWork && this.#clock.monotonic() < deadline) {
      if (this.#compactor.step()) this.#duplicates.forget()
    }
    if (this.#index.hasWork) this.#maintainIndex(deadline - this.#clock.monotonic())
    return this.#erasure.hasWork || this.#compactor.hasWork || this.#index.hasWork
  }

  /** As `Environment.freeBytes`. */
  freeBytes(): number {
    return this.#environment.freeBytes()
  }

  /** Closes the environment; what was not committed is forgotten. */
  close(): Promise<void> {
    return this.#environment.close()
  }

  #maintainIndex(budgetMs: number): void {
    const deadline = this.#clock.monotonic() + budgetMs
    const isOver = (): boolean => this.#clock.monotonic() >= deadline
    while (this.#index.hasWork && !isOver()) {
      this.#environment.write(() => this.#index.maintain(isOver))
    }
  }

  #openProject(projectId: number): OpenProject {
    let project = this.#projects.get(projectId)
    if (project === undefined) {
      project = new OpenProject(projectId, null, this.#distinctIds)
      this.#projects.set(projectId, project)
    }
    return project
  }

  #project(projectId: number): OpenProject {
    let project = this.#current
    if (project === null || project.projectId !== projectId) {
      project = this.#openProject(projectId)
      this.#current = project
      this.#touched.add(project)
    }
    return project
  }

  #settle(): void {
    this.#distinctIds.settle()
    this.#erasure.add(this.#persons.settle(this.changedDefinitions))
    const projects = [...this.#touched]
    for (const project of projects.slice(0, -BUILDERS_MAX)) project.releaseBuilder()
    this.#touched.clear()
    this.#current = null
  }

  /** Enters the events behind the last run into the table of the index. */
  #indexTail(project: OpenProject, onDamage: DamageListener): void {
    const { projectId, counters } = project
    if (counters.indexedRows >= counters.rows) return
    this.#unindexed.add(project)
    const next = counters.indexedRows + 1
    const start = this.#segments.firstSequenceOf(projectId, next)
    const segments = this.#segments.summaries(projectId, start, counters.rows, onDamage)
    for (const { firstSequence } of segments) {
      const firstRow = Math.max(0, next - firstSequence)
      attempt(() => {
        const view = this.#segments.segmentAt(projectId, firstSequence)
        this.#index.addRows(view, firstRow, this.#fingerprint)
      }, onDamage)
    }
  }
}
