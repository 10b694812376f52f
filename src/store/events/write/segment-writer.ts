/**
 * Writes events as segments. It collects events in builders, encodes them as segments, updates the uuid index that
 * detects duplicates, and, while the store is idle, merges segments and erases events. Segments are stored in the
 * transaction of processing-writer.ts. The uuid index is written between two commits, in a transaction of its own.
 */
import { type Clock, SYSTEM_CLOCK } from '../../../base/clock.ts'
import { getOrAdd } from '../../../base/maps.ts'
import type { CachesOfThread } from '../../../base/memory/memory-board.ts'
import type {
  Admission,
  CommitStats,
  CopiedSegment,
  ErasedJob,
  ErasureJob,
  EventIdentity,
  WarehouseWriter,
} from '../../../ports/warehouse.ts'
import type { PersonMode } from '../../../rules/capture/types.ts'
import {
  attempt,
  type DamageListener,
  isBeyondRepair,
  isShortage,
  NO_GUARD,
  type StepGuard,
} from '../../faults.ts'
import type { DistinctIds } from '../../identity/distinct-ids.ts'
import type { OpenJob } from '../../identity/erasure-records.ts'
import type { Environment } from '../../lmdb/environment.ts'
import { openSeed } from '../../lmdb/event-state.ts'
import { type EventsTable, NUMBER_MAX } from '../../lmdb/keys.ts'
import { type ProjectCounters, storeCounters } from '../format/event-projects.ts'
import { modeByte, SEGMENT_BYTES_TARGET, SEGMENT_ROWS_TARGET } from '../format/segment-builder.ts'
import { SegmentEncoder } from '../format/segment-encoder.ts'
import { SegmentTables } from '../format/segment-tables.ts'
import { BUILDERS_MAX } from '../limits.ts'
import { NameKeeper } from '../names/name-keeper.ts'
import { UuidFingerprint } from '../uuid/uuid-fingerprint.ts'
import { UuidIndex, type UuidIndexOptions } from '../uuid/uuid-index.ts'
import { DuplicateCheck } from './duplicate-check.ts'
import { EventErasure } from './event-erasure.ts'
import { withoutCopied } from './give-away.ts'
import { OpenProject } from './open-project.ts'
import { replaceSegments, SegmentCompactor, storeSegment } from './segment-compactor.ts'

/** If the uuid index has more runs than this, some of them are merged even if the store is busy. */
const RUNS_URGENT = 24
const URGENT_BUDGET_MS = 20
/** The space that must be free for that. In this time, fewer bytes are written. */
const URGENT_BYTES = 8 * 1024 * 1024
/**
 * What a row is estimated to take in memory before it is encoded: `ROW_MEMORY_BYTES`, and `VALUE_MEMORY_FACTOR` times
 * the bytes of its JSON.
 */
const ROW_MEMORY_BYTES = 64
const VALUE_MEMORY_FACTOR = 3
/**
 * The number of bytes that must be free to write the table of the uuid index: for each entry, including its share of
 * the filter, and for the pages that even the smallest transaction rewrites.
 */
const INDEX_ENTRY_BYTES = 20
const INDEX_FIXED_BYTES = 256 * 1024
/**
 * After a transaction of the index found too little space, the estimated bytes for each entry grow by the factor
 * `INDEX_BYTES_RISE`, to at most `INDEX_BYTES_TIMES` times the first estimate. After a success they are that again.
 */
const INDEX_BYTES_RISE = 1.5
const INDEX_BYTES_TIMES = 4
/**
 * While the disk is short of space, the table of the uuid index is not written when it is full. At this many times its
 * usual size, it is written even if it takes space that is reserved for accepted events. At `INDEX_TIMES_LAST` times its
 * usual size, events wait until there is space for it.
 */
const INDEX_TIMES_URGENT = 2
const INDEX_TIMES_LAST = 4
/**
 * The longest time, in milliseconds, for which one call of `maintain` erases events. New events have to wait for it.
 */
const ERASURE_BUDGET_MS = 100

/** The options of the segment writer. */
export interface SegmentWriterOptions extends UuidIndexOptions {
  readonly environment: Environment<EventsTable>
  readonly distinctIds: DistinctIds
  /**
   * Returns the counters of a project. This class changes those counters that are about segments. The caller stores
   * them.
   */
  readonly countersOf: (projectId: number) => ProjectCounters
  /** The projects that have counters. */
  readonly projectIds: Iterable<number>
  readonly clock?: Clock
  /** The number of rows of a full segment. */
  readonly segmentRowsTarget?: number
  /** True if ClickHouse has copies of the events, from which they must be erased too. Default: false. */
  readonly hasCopies?: boolean | undefined
  /** Receives an error for each damaged record that is skipped by a merge or when the store is opened. */
  readonly onDamage?: DamageListener
  /** Pauses maintenance steps that have failed. Default: no step is paused. */
  readonly guard?: StepGuard
  /** Has the same meaning as in `NameKeeperOptions`. */
  readonly referredNames?: ((projectId: number) => ReadonlySet<string>) | undefined
}

interface RowAdmission extends Admission {
  distinctId: number
  nameId: number
  high: number
  low: number
}

/** Stores events as segments. A data directory has one writer, in one thread. */
export class SegmentWriter implements WarehouseWriter {
  readonly takesCells = true
  readonly #environment: Environment<EventsTable>
  readonly #distinctIds: DistinctIds
  readonly #countersOf: (projectId: number) => ProjectCounters
  readonly #clock: Clock
  readonly #segments: SegmentTables
  readonly #index: UuidIndex
  readonly #fingerprint: UuidFingerprint
  readonly #encoder = new SegmentEncoder()
  readonly #compactor: SegmentCompactor
  readonly #names: NameKeeper
  readonly #rowsTarget: number
  readonly #onDamage: DamageListener
  readonly #guard: StepGuard
  readonly #projects = new Map<number, OpenProject>()
  /** The projects that have events which are in no run of the uuid index yet. */
  readonly #unindexed = new Set<OpenProject>()
  #indexEntryBytes = INDEX_ENTRY_BYTES
  /** The projects that got events since the last commit. */
  readonly #touched = new Set<OpenProject>()
  /** The estimated number of bytes of the rows in builders, and of the encoded segments that wait for the commit. */
  #builderBytes = 0
  #encodedBytes = 0
  readonly #found: number[] = []
  readonly #duplicates: DuplicateCheck
  readonly #erasure: EventErasure
  #current: OpenProject | null = null
  /** The object that `admit` returns. One object is reused, because a new one for each event would be expensive. */
  readonly #admission: RowAdmission = { distinctId: 0, nameId: 0, high: 0, low: 0 }

  /** Throws `DamagedRecordError`. Takes about 0.2 s for 10 million events. */
  constructor(options: SegmentWriterOptions) {
    const { environment, onDamage = () => undefined, guard = NO_GUARD } = options
    this.#environment = environment
    this.#onDamage = onDamage
    this.#guard = guard
    this.#distinctIds = options.distinctIds
    this.#countersOf = options.countersOf
    this.#clock = options.clock ?? SYSTEM_CLOCK
    this.#rowsTarget = options.segmentRowsTarget ?? SEGMENT_ROWS_TARGET
    const { tables } = environment
    this.#segments = new SegmentTables(tables)
    this.#index = new UuidIndex(tables, { ...options, onDamage })
    this.#fingerprint = new UuidFingerprint(openSeed(environment, tables.state))
    const shared = { environment, segments: this.#segments, encoder: this.#encoder, onDamage }
    this.#compactor = new SegmentCompactor({ ...shared, rowsTarget: this.#rowsTarget, guard })
    this.#names = new NameKeeper({
      environment,
      segments: this.#segments,
      onDamage,
      referredNames: options.referredNames,
      clock: this.#clock,
    })
    this.#erasure = new EventErasure({
      ...shared,
      hasCopies: options.hasCopies === true,
      projectOf: (projectId) => this.#openProject(projectId),
    })
    this.#duplicates = new DuplicateCheck(this.#segments, (...event) =>
      this.#erasure.isOrdered(...event),
    )
    for (const projectId of options.projectIds) {
      const project = this.#openProject(projectId)
      this.#compactor.note(project)
      this.#names.note(project)
      this.#indexTail(project, onDamage)
    }
  }

  admit(input: EventIdentity, distinctId: number, isNew: boolean): RowAdmission | null {
    const { event, projectId, uuidBytes, uuidOffset } = input
    const project = this.#project(projectId)
    const { builder } = project
    const nameId = builder.names.idOf(event.name)
    project.nameHashes[nameId] ??= this.#fingerprint.hashName(event.name)
    const nameHash = project.nameHashes[nameId] ?? 0
    const fingerprint = this.#fingerprint
    fingerprint.compute(projectId, uuidBytes, uuidOffset, distinctId, nameHash)
    const { high, low } = fingerprint
    if (input.hasClientUuid && !isNew) {
      const found = this.#found
      found.length = 0
      this.#index.find(high, low, found)
      if (found.length > 0) {
        const row = { uuidBytes, uuidOffset, name: event.name, distinctId }
        if (this.#duplicates.isAmong(found, project, row)) return null
      }
    }
    const admission = this.#admission
    admission.distinctId = distinctId
    admission.nameId = nameId
    admission.high = high
    admission.low = low
    return admission
  }

  append(
    input: EventIdentity,
    admission: RowAdmission,
    createdAtMs: number,
    personMode: PersonMode,
    isHistorical: boolean,
    bytes: number,
  ): void {
    const { event, uuidBytes, uuidOffset } = input
    const project = this.#project(input.projectId)
    const { builder } = project
    if (project.rows >= NUMBER_MAX) throw new RangeError('the project has too many events')
    const row = builder.beginRow(
      admission.distinctId,
      event.timestampMs,
      createdAtMs,
      modeByte(personMode, isHistorical),
      uuidBytes,
      uuidOffset,
    )
    try {
      const { cells } = input
      if (cells === undefined || cells === null) builder.putEvent(row, event)
      else builder.putCells(row, event, cells)
    } catch (cause) {
      builder.abandonRow()
      throw cause
    }
    builder.setName(row, admission.nameId)
    project.rows++
    this.#index.add(admission.high, admission.low, project.rows)
    builder.bytes += bytes
    this.#builderBytes += ROW_MEMORY_BYTES + bytes * VALUE_MEMORY_FACTOR
    const isFull = builder.rows >= this.#rowsTarget || builder.bytes >= SEGMENT_BYTES_TARGET
    if (isFull) this.#encode(project)
  }

  lastSequence(projectId: number): number {
    return this.#openProject(projectId).rows
  }

  /** True if every builder with rows is at least half full. Looks at every project that got events. */
  get isFull(): boolean {
    for (const { builder } of this.#touched) {
      if (builder.rows > 0 && builder.rows * 2 < this.#rowsTarget) return false
    }
    return true
  }

  prepare(): void {
    for (const project of this.#touched) {
      if (project.builder.rows > 0) this.#encode(project)
    }
  }

  get gatheredBytes(): number {
    return this.#builderBytes + this.#encodedBytes
  }

  #encode(project: OpenProject): void {
    const { rows, bytes } = project.builder
    this.#builderBytes -= rows * ROW_MEMORY_BYTES + bytes * VALUE_MEMORY_FACTOR
    this.#encodedBytes += project.encode(this.#encoder) + rows * ROW_MEMORY_BYTES
  }

  store(): CommitStats {
    const stats = { rows: 0, segments: 0, bytes: 0 }
    for (const project of this.#touched) {
      for (const segment of project.takePending()) {
        stats.rows += segment.rows
        stats.segments++
        stats.bytes += segment.bytes
        storeSegment(this.#segments, segment)
      }
      this.#compactor.note(project)
      this.#names.note(project)
      this.#unindexed.add(project)
    }
    return stats
  }

  order(job: ErasureJob): void {
    this.#erasure.order(job)
  }

  takeCarriedOut(): readonly ErasedJob[] {
    return this.#erasure.takeCarriedOut()
  }

  forgetCopies(jobs: readonly ErasedJob[]): void {
    this.#erasure.forgetCopies(jobs)
  }

  settle(jobs: readonly OpenJob[]): void {
    this.#erasure.add(jobs)
    const projects = [...this.#touched]
    for (const project of projects.slice(0, -BUILDERS_MAX)) project.releaseBuilder()
    this.#touched.clear()
    this.#builderBytes = 0
    this.#encodedBytes = 0
    this.#current = null
  }

  /**
   * Writes the table of the uuid index if it is full. It has a transaction of its own, because it may be many times as
   * large as the commit of the events. If the disk has too little space for it, the table grows in memory instead. If
   * the index has very many runs, some of them are merged first, because each run makes looking for duplicates slower.
   */
  writeIndex(): number {
    const isUrgent = this.#index.runCount > RUNS_URGENT
    if (isUrgent && this.#environment.hasSpare(URGENT_BYTES)) this.#maintainIndex(URGENT_BUDGET_MS)
    const bytes = this.#indexBytes
    if (!this.#index.isFull || !this.#mayWriteIndex(bytes)) return 0
    const { projects } = this.#environment.tables
    try {
      this.#index.flush((write) =>
        this.#environment.rearrange(() => {
          write()
          for (const { projectId, counters } of this.#unindexed) {
            storeCounters(projects, projectId, { ...counters, indexedRows: counters.rows })
          }
        }),
      )
    } catch (cause) {
      if (isBeyondRepair(cause) || isShortage(cause) !== 'disk') throw cause
      const risen = this.#indexEntryBytes * INDEX_BYTES_RISE
      this.#indexEntryBytes = Math.min(risen, INDEX_ENTRY_BYTES * INDEX_BYTES_TIMES)
      return 0
    }
    this.#indexEntryBytes = INDEX_ENTRY_BYTES
    for (const { counters } of this.#unindexed) counters.indexedRows = counters.rows
    this.#unindexed.clear()
    return bytes
  }

  #mayWriteIndex(bytes: number): boolean {
    const { tableEntries, tableEntriesMax } = this.#index
    if (this.#environment.hasSpare(bytes)) return true
    const isUrgent = tableEntries >= tableEntriesMax * INDEX_TIMES_URGENT
    return isUrgent && this.#environment.hasRoom(bytes)
  }

  get #indexBytes(): number {
    return INDEX_FIXED_BYTES + this.#index.tableEntries * this.#indexEntryBytes
  }

  get indexBytesDue(): number {
    const { tableEntries, tableEntriesMax } = this.#index
    return tableEntries >= tableEntriesMax * INDEX_TIMES_LAST ? this.#indexBytes : 0
  }

  giveAway(segments: readonly CopiedSegment[]): void {
    const { projects } = this.#environment.tables
    for (const copied of segments) {
      const reduced = attempt(() => withoutCopied(this.#segments, copied), this.#onDamage)
      if (reduced === null) continue
      const project = this.#openProject(copied.projectId)
      this.#environment.write(() =>
        replaceSegments(this.#segments, projects, project, [reduced.view], reduced.segment),
      )
    }
    this.#duplicates.forget()
  }

  /**
   * Does maintenance in steps for about `budgetMs` milliseconds, and returns whether work is left. A step does not
   * disturb readers. It takes up to 50 ms, or about 0.2 s if it erases events of a large segment. A step that is paused
   * after a failure is skipped.
   */
  maintain(budgetMs: number, isErasingOnly = false): boolean {
    if (this.#touched.size > 0) throw new Error('maintain was called between add and commit')
    const guard = this.#guard
    const deadline = this.#clock.monotonic() + budgetMs
    const erasureEnd = this.#clock.monotonic() + Math.min(budgetMs, ERASURE_BUDGET_MS)
    while (this.#mayErase && this.#clock.monotonic() < erasureEnd) {
      if (!guard.run('erase', () => this.#erasure.step())) continue
      this.#duplicates.forget()
      for (const project of this.#projects.values()) this.#names.note(project)
    }
    if (isErasingOnly) return this.#mayErase
    while (this.#compactor.hasWork && this.#clock.monotonic() < deadline) {
      if (this.#compactor.step()) this.#duplicates.forget()
    }
    if (this.#mayIndex) this.#maintainIndex(deadline - this.#clock.monotonic())
    const hasWork = this.#mayErase || this.#compactor.hasWork || this.#mayIndex
    const mayName = !guard.isPaused('names')
    // Names are collected only when there is nothing left to merge or erase, because merges and erasures change
    // segments again.
    if (!hasWork && mayName && this.#names.hasWork) {
      guard.run('names', () => this.#names.run(() => this.#clock.monotonic() >= deadline))
    }
    return hasWork || (mayName && this.#names.hasWork)
  }

  get #mayErase(): boolean {
    return this.#erasure.hasWork && !this.#guard.isPaused('erase')
  }

  get #mayIndex(): boolean {
    return this.#index.hasWork && !this.#guard.isPaused('index')
  }

  get caches(): CachesOfThread {
    return { uuid_index: this.#index.memory }
  }

  release(): void {
    this.#duplicates.forget()
    for (const project of this.#projects.values()) project.releaseBuilder()
    this.#encoder.release()
  }

  #maintainIndex(budgetMs: number): void {
    const deadline = this.#clock.monotonic() + budgetMs
    const isOver = (): boolean => this.#clock.monotonic() >= deadline
    while (this.#mayIndex && !isOver()) {
      this.#guard.run('index', () =>
        this.#environment.rearrange(() => this.#index.maintain(isOver)),
      )
    }
  }

  #openProject(projectId: number): OpenProject {
    const open = () => new OpenProject(projectId, this.#countersOf(projectId), this.#distinctIds)
    return getOrAdd(this.#projects, projectId, open)
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

  /** Adds those events of a project that are in no run yet to the table of the uuid index. */
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
