/**
 * Writes the results of processing: events, persons, warnings and dead letters. The processing thread adds events one
 * by one. `commit` writes everything that was added since the last commit, together with the position in the log, in
 * one transaction of the environment `events`. So either all of it is stored, or nothing. `maintain` erases events and
 * merges segments while the store is idle. The key formats are in lmdb/keys.ts.
 *
 * After any method has thrown, the caller must close this object and open a new one, which continues after the last
 * commit. If a maintenance step has failed, the `StepGuard` prevents that it runs again immediately.
 */
import { SYSTEM_CLOCK } from '../../../base/clock.ts'
import type { DiskRoom } from '../../../base/disk-room.ts'
import { formatUuid } from '../../../base/ids.ts'
import { getOrAdd } from '../../../base/maps.ts'
import type { CachesOfThread } from '../../../base/memory/memory-board.ts'
import type { LogOrigin } from '../../../ports/log.ts'
import type { OutboxWriter } from '../../../ports/outbox.ts'
import type {
  Admission,
  CommitStats,
  EventIdentity,
  WarehouseWriter,
} from '../../../ports/warehouse.ts'
import { propertiesOfCells } from '../../../rules/capture/kernel/cells.ts'
import type { IngestionWarning, PersonMode } from '../../../rules/capture/types.ts'
import type { DeadLetter } from '../../../rules/events/dead-letter.ts'
import type { PersonEvent } from '../../../rules/persons/person-repository.ts'
import { ReferredTexts } from '../../catalog/referred-texts.ts'
import { NO_GUARD, type StepGuard } from '../../faults.ts'
import { DistinctIds } from '../../identity/distinct-ids.ts'
import { PersonStore } from '../../identity/person-store.ts'
import type { ProjectPersons } from '../../identity/project-persons.ts'
import { PropertyKeeper } from '../../identity/properties/property-keeper.ts'
import { Environment } from '../../lmdb/environment.ts'
import {
  readNumber,
  readStanding,
  readWitness,
  type Standing,
  storeNumber,
  storeStanding,
  storeWitness,
  type Witness,
} from '../../lmdb/event-state.ts'
import { FreePageRelease, type ReleaseNews } from '../../lmdb/free-page-release.ts'
import {
  EVENTS_ENVIRONMENT,
  EVENTS_TABLES,
  type EventsTable,
  type EventTables,
} from '../../lmdb/keys.ts'
import { storeOrigin } from '../../lmdb/shared-position.ts'
import { DeadLetters } from '../../rejected/dead-letter-store.ts'
import { DroppedWriter } from '../../rejected/dropped-events.ts'
import { WarningLog } from '../../rejected/warning-log.ts'
import {
  emptyCounters,
  loadAllCounters,
  type ProjectCounters,
  storeCounters,
} from '../format/event-projects.ts'
import { SegmentWriter, type SegmentWriterOptions } from './segment-writer.ts'

/** The options of the writer. Those that set sizes are for tests. */
export interface ProcessingWriterOptions
  extends Omit<SegmentWriterOptions, 'environment' | 'distinctIds' | 'countersOf' | 'projectIds'> {
  readonly dataDir: string
  readonly isFlushDeferred?: boolean
  readonly distinctIdCacheBytesMax?: number
  /** The largest number of bytes that the cached persons and groups may have. */
  readonly personCacheBytesMax?: number
  readonly warningLinesMax?: number
  /** The part of the store that stores events. Default: segments in the same environment. */
  readonly warehouse?: WarehouseWriter
  /** Receives what each commit has stored: events, persons and definitions. */
  readonly outbox?: OutboxWriter | undefined
  /** Has the same meaning as in `EnvironmentOptions`. */
  readonly diskRoom?: DiskRoom | undefined
  /** Has the same meaning as in `FreePageReleaseOptions`. */
  readonly lockDescriptor?: number | undefined
  readonly releasedBytesMin?: number | undefined
}

/** The number of events of a block that are already stored, and the number of those that were dropped. */
export type BlockPart = Pick<Standing, 'done' | 'dropped'>

const NO_PART: BlockPart = { done: 0, dropped: 0 }

/** An event to be stored. */
export interface EventInput extends EventIdentity {
  readonly createdAtMs: number
  readonly personMode: PersonMode
  readonly isHistorical: boolean
}

/** Stores events, persons, warnings and dead letters. A data directory has one writer, in one thread. */
export class ProcessingWriter {
  readonly #environment: Environment<EventsTable>
  readonly #tables: EventTables
  readonly #distinctIds: DistinctIds
  readonly #persons: PersonStore
  readonly #properties: PropertyKeeper
  readonly #warnings: WarningLog
  readonly #referred: ReferredTexts
  readonly deadLetters: DeadLetters
  /** Records the events that were accepted but are not stored. The next commit writes these records. */
  readonly dropped: DroppedWriter
  /** The part of the store that stores events (ports/warehouse.ts). */
  readonly warehouse: WarehouseWriter
  readonly #outbox: OutboxWriter | undefined
  readonly #freePages: FreePageRelease
  readonly #guard: StepGuard
  readonly #counters: Map<number, ProjectCounters>
  /** The projects in which commits have changed cohorts or group types. Clear the set after reading it. */
  readonly changedDefinitions = new Set<number>()
  /** The projects that had events or commands since the last commit. */
  readonly #touched = new Set<number>()
  #current = 0
  /** Returns the largest stored distinct ID number of the project `#current`. */
  readonly #lastDistinctId = (): number => this.#countersOf(this.#current).distinctIds
  #standing: Standing
  /**
   * The time of the log, in milliseconds: the time at which the newest record that was read from the log had arrived.
   * It does not depend on the clock of this machine, so processing the same log again gives the same times.
   */
  #logTimeMs: number
  #witness: Witness

  /** Opens the environment, or creates it. Throws `DamagedRecordError`. It takes about 0.2 s for 10 million events. */
  constructor(options: ProcessingWriterOptions) {
    this.#environment = new Environment({
      dataDir: options.dataDir,
      name: EVENTS_ENVIRONMENT,
      tables: EVENTS_TABLES,
      isFlushDeferred: options.isFlushDeferred === true,
      diskRoom: options.diskRoom,
    })
    const { tables } = this.#environment
    this.#tables = tables
    this.#freePages = new FreePageRelease({
      environment: this.#environment,
      lockDescriptor: options.isFlushDeferred === true ? undefined : options.lockDescriptor,
      clock: options.clock ?? SYSTEM_CLOCK,
      bytesMin: options.releasedBytesMin,
    })
    this.#referred = new ReferredTexts(options.dataDir, tables, false)
    this.#distinctIds = new DistinctIds(tables, options.distinctIdCacheBytesMax)
    this.#persons = new PersonStore(
      tables,
      this.#distinctIds,
      (projectId) => this.#countersOf(projectId).distinctIds,
      options.onDamage ?? (() => undefined),
      options.personCacheBytesMax,
    )
    this.#warnings = new WarningLog(tables.warnings, options.warningLinesMax)
    this.deadLetters = new DeadLetters(tables.dead_letters, tables.state)
    this.dropped = new DroppedWriter(tables, options.onDamage ?? (() => undefined))
    this.#guard = options.guard ?? NO_GUARD
    this.#standing = readStanding(tables.state)
    this.#logTimeMs = readNumber(tables.state, 'log_time') ?? 0
    this.#witness = readWitness(tables.state)
    this.#outbox = options.outbox
    this.#counters = loadAllCounters(tables.projects)
    const onDamage = options.onDamage ?? (() => undefined)
    this.#properties = new PropertyKeeper(tables, this.#counters.keys(), onDamage)
    this.warehouse =
      options.warehouse ??
      new SegmentWriter({
        ...options,
        environment: this.#environment,
        distinctIds: this.#distinctIds,
        countersOf: (projectId) => this.#countersOf(projectId),
        projectIds: [...this.#counters.keys()],
        referredNames: (projectId) => this.#referred.of(projectId),
      })
  }

  /** Returns the number of the last block of the log whose events are all stored. */
  readPosition(): number {
    return this.#standing.position
  }

  /** How much of the block after `readPosition` is already stored. */
  get part(): BlockPart {
    return this.#standing
  }

  /**
   * Adds an event. Returns false if it is a duplicate: an event with the same project, uuid, name and distinct_id.
   * Readers see the event after `commit`. If the method throws, nothing was added. Source:
   * docs/compatibility/events.md, "Duplicates".
   */
  add(input: EventInput): boolean {
    const admission = this.admit(input)
    if (admission === null) return false
    const { createdAtMs, personMode, isHistorical } = input
    this.append(input, admission, createdAtMs, personMode, isHistorical, 0)
    return true
  }

  /**
   * The first step of `add`: checks whether the event is a duplicate, and returns null if it is. Otherwise `append`,
   * the second step, can add the event.
   */
  admit(input: EventIdentity): Admission | null {
    const { event, projectId, cells } = input
    this.#touch(projectId)
    const ids = this.#distinctIds
    const lastId = this.#lastDistinctId
    const distinctId = cells
      ? ids.idOfEvent(projectId, event, cells, lastId)
      : ids.idOf(projectId, event.distinctId, lastId)
    return this.warehouse.admit(input, distinctId, ids.wasAdded)
  }

  /** The second step of `add`: adds an event that was admitted; see `WarehouseWriter.append`. */
  append(
    input: EventIdentity,
    admission: Admission,
    createdAtMs: number,
    personMode: PersonMode,
    isHistorical: boolean,
    bytes: number,
  ): void {
    this.warehouse.append(input, admission, createdAtMs, personMode, isHistorical, bytes)
    if (this.#outbox?.isWanted === true)
      this.#tell(input, admission, createdAtMs, personMode, isHistorical)
  }

  /** Passes an event to the outbox, if there is an outbox and one of its subscribers wants the event. */
  #tell(
    { projectId, event, cells, uuidBytes, uuidOffset }: EventIdentity,
    admission: Admission,
    createdAtMs: number,
    personMode: PersonMode,
    isHistorical: boolean,
  ): void {
    if (!this.#outbox?.wants(projectId, event)) return
    const sequence = this.warehouse.lastSequence(projectId)
    const uuid = formatUuid(uuidBytes, uuidOffset)
    const { distinctId: distinctIdNumber } = admission
    // Copy everything, because the cells (`EventIdentity.cells`) are overwritten when the next event is read.
    const { name, timestampMs, elementsChain, isPersonless } = event
    const own = cells
      ? {
          name,
          distinctId: event.distinctId,
          timestampMs,
          elementsChain,
          isPersonless,
          properties: propertiesOfCells(cells),
        }
      : event
    this.#outbox.add({
      projectId,
      sequence,
      uuid,
      event: own,
      distinctIdNumber,
      createdAtMs,
      personMode,
      isHistorical,
    })
  }

  /**
   * Returns the persons of a project. Their changes are stored by the next commit. With `admission`, the distinct ID
   * number of an event that was admitted need not be looked up again.
   */
  persons(projectId: number, event?: PersonEvent, admission?: Admission): ProjectPersons {
    this.#touch(projectId)
    const persons = this.#persons.project(projectId)
    persons.beginEvent(event ?? null, admission?.distinctId ?? 0)
    return persons
  }

  /** Adds a warning. The next commit stores it. */
  addWarning(projectId: number, arrivedAtMs: number, warning: IngestionWarning): void {
    this.#warnings.add(projectId, arrivedAtMs, warning)
  }

  /** Adds a dead letter, with the time of the log. The next commit stores it. The bytes in `raw` are copied. */
  addDeadLetter(letter: DeadLetter): void {
    this.deadLetters.add(letter, this.#logTimeMs)
  }

  /**
   * Begins a block of the log. `atMs` is the time at which its last record arrived. Until the next block begins, `atMs`
   * is the time of the log.
   */
  beginBlock(atMs = this.#logTimeMs): void {
    this.#logTimeMs = atMs
  }

  /** Ends a block, and removes those records of dropped events that are too old at the time of the log. */
  endBlock(): void {
    this.dropped.expire(this.#logTimeMs)
  }

  /**
   * Applies the erasures that commands have ordered for a project. From now on, all earlier events that these erasures
   * apply to count as erased, even if they are still stored.
   */
  noteErasures(projectId: number): void {
    const persons = this.persons(projectId)
    this.dropped.erase(projectId, persons)
    for (const job of persons.newJobs) this.warehouse.order(job)
  }

  /**
   * The estimated memory of everything that was added since the last commit, in bytes. A commit, which is possible
   * between any two events, releases this memory. Reading the number costs a few additions.
   */
  get gatheredBytes(): number {
    return (
      this.#persons.gatheredBytes +
      this.#distinctIds.gatheredBytes +
      this.#warnings.gatheredBytes +
      this.deadLetters.gatheredBytes +
      this.dropped.gatheredBytes +
      (this.warehouse.gatheredBytes ?? 0)
    )
  }

  /** The estimated number of bytes of the cached persons and groups. Looks at every cached person. */
  get cachedBytes(): number {
    return this.#persons.cachedBytes
  }

  /**
   * Stores, in one transaction: everything that was added, the `position` in the log, the position in the shared log of
   * a cluster (`origin`), and the states of the log and of the environment `flags` that were last seen (`seen`). `part`
   * says how much of the block after `position` is stored too. Throws the errors of LMDB.
   */
  commit(
    position: number,
    seen?: Witness,
    origin?: LogOrigin,
    part: BlockPart = NO_PART,
  ): CommitStats {
    const standing = this.#standingAt(position, part)
    this.warehouse.prepare()
    const stats = this.#environment.write(() => {
      this.#distinctIds.store()
      this.#persons.store()
      const stored = this.warehouse.store()
      for (const projectId of this.#touched) {
        const counters = this.#countersOf(projectId)
        counters.rows = this.warehouse.lastSequence(projectId)
        counters.distinctIds = this.#distinctIds.lastOf(projectId) ?? counters.distinctIds
        storeCounters(this.#tables.projects, projectId, counters)
      }
      this.#warnings.store()
      this.deadLetters.store()
      this.dropped.store()
      storeStanding(this.#tables.state, standing)
      storeNumber(this.#tables.state, 'log_time', this.#logTimeMs)
      if (origin !== undefined) storeOrigin(this.#tables.shared_log, origin)
      if (seen !== undefined) this.#witness = storeWitness(this.#tables.state, this.#witness, seen)
      return stored
    })
    this.#standing = standing
    this.#distinctIds.settle()
    const isWanted = this.#outbox?.isWanted === true
    const persons = isWanted ? this.#persons.changed() : []
    const changed = new Set<number>()
    this.warehouse.settle(this.#persons.settle(changed))
    for (const projectId of changed) this.changedDefinitions.add(projectId)
    for (const projectId of this.#touched) this.#properties.note(projectId)
    if (isWanted) this.#outbox?.publish({ position, persons, definitions: [...changed] })
    this.#touched.clear()
    this.#current = 0
    return stats
  }

  /**
   * Stores the states of the log and of the environment `flags` that were last seen, if they are newer than the stored
   * ones. Used when there is nothing to commit.
   */
  note(seen: Witness): void {
    const { logThrough, flagsVersion } = this.#witness
    if (seen.logThrough <= logThrough && seen.flagsVersion <= flagsVersion) return
    this.#environment.rearrange(() => {
      this.#witness = storeWitness(this.#tables.state, this.#witness, seen)
    })
  }

  /** True if `fold` has something to do. */
  get mayFold(): boolean {
    return (this.#persons.mayFold || this.#properties.hasWork) && !this.#guard.isPaused('fold')
  }

  /**
   * Folds some persons in a transaction of its own: applies their waiting changes (*deltas*) to their records. If no
   * person has deltas, updates the stored counts of the properties of some persons instead. Returns the number of
   * folded persons, or 1 if properties were counted, or 0 if there was nothing to do. Do not call it between `add` and
   * `commit`.
   */
  fold(): number {
    if (this.#guard.isPaused('fold')) return 0
    return this.#guard.run('fold', () => this.#fold())
  }

  #fold(): number {
    const folded = this.#persons.fold((store) =>
      this.#environment.write(() => {
        store()
        const { folds } = this.#standing
        this.#standing = { ...this.#standing, folds: folds + 1 }
        storeStanding(this.#tables.state, this.#standing)
      }),
    )
    if (folded > 0 || this.#persons.mayFold) return folded
    return this.#properties.step((store) => this.#environment.write(store)) ? 1 : 0
  }

  get caches(): CachesOfThread {
    return { distinct_ids: this.#distinctIds.cached, ...this.warehouse.caches }
  }

  /**
   * Evicts everything that is only cached. Does nothing between `add` and `commit`, because what was added is not
   * stored yet.
   */
  release(): void {
    if (this.#touched.size > 0) return
    this.#distinctIds.release()
    this.#persons.release()
    this.warehouse.release?.()
  }

  /** Returns the same as `Environment.reusableBytes`. */
  reusableBytes(): number {
    return this.#environment.reusableBytes()
  }

  /** Releases free pages; see `FreePageRelease.run`. Do not call it between `add` and `commit`. */
  releaseFreePages(deadlineMs: number, isBusy = false): boolean {
    return this.#touched.size === 0 && this.#freePages.run(deadlineMs, isBusy)
  }

  /** Returns the same as `FreePageRelease.takeNews`. */
  takeReleaseNews(): ReleaseNews | null {
    return this.#freePages.takeNews()
  }

  /** Returns the same as `Environment.room`. */
  room(): ReturnType<Environment['room']> {
    return this.#environment.room()
  }

  /** Closes the environment. What was added but not committed is lost. */
  async close(): Promise<void> {
    this.#outbox?.discard()
    await this.#referred.close()
    await this.#environment.close()
  }

  #countersOf(projectId: number): ProjectCounters {
    return getOrAdd(this.#counters, projectId, emptyCounters)
  }

  /**
   * Returns the progress to store with a commit. Readers compare `position` and `folds` to find out whether their
   * cached persons are still right, so each commit must change at least one of the two.
   */
  #standingAt(position: number, { done, dropped }: BlockPart): Standing {
    const isSame = position === this.#standing.position
    return { position, folds: this.#standing.folds + (isSame ? 1 : 0), done, dropped }
  }

  #touch(projectId: number): void {
    if (projectId === this.#current) return
    this.#current = projectId
    this.#touched.add(projectId)
  }
}
