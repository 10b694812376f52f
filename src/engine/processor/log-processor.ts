/**
 * Understanding what was accepted: reads the log in order, once, and turns it into stored events. One
 * transaction of the environment `events` holds everything that a stretch of the log led to, and the
 * position behind it; a crash at any moment replays from the last position to the same state.
 *
 * An event that cannot be processed goes to the dead letters and never stops the stream.
 */
import { randomBytes } from 'node:crypto'
import { SYSTEM_CLOCK } from '../../base/clock.ts'
import { formatUuid } from '../../base/ids.ts'
import { isObject, type JsonObject } from '../../base/json.ts'
import { getOrAdd } from '../../base/maps.ts'
import type { LogExtent, LogReader } from '../../ports/log.ts'
import type { CopiedSegment, ErasedJob, WarehouseWriter } from '../../ports/warehouse.ts'
import { COOKIELESS_ID, isCookieless, withVisitor } from '../../rules/capture/cookieless.ts'
import type { DropReason, LossReason } from '../../rules/capture/drop-reasons.ts'
import { eventDistinctId, eventName } from '../../rules/capture/fields.ts'
import { EventRecogniser } from '../../rules/capture/kernel/recognise.ts'
import {
  eventBytes,
  eventStart,
  eventUuidOffset,
  hasClientUuid,
  type LogRecord,
  RECORD_COMMAND,
  RECORD_IP_ANONYMIZED,
  readBlock,
} from '../../rules/capture/log-block.ts'
import { normaliseEvent } from '../../rules/capture/normalise.ts'
import type {
  EventCells,
  EventOutcome,
  IngestionWarning,
  NormalisedEvent,
} from '../../rules/capture/types.ts'
import { applyEvent } from '../../rules/persons/apply-event.ts'
import { setGroupProperties } from '../../rules/persons/group-rules.ts'
import { PERSON_PROPERTIES_BYTES_MAX } from '../../rules/persons/limits.ts'
import { isAboutDeadLetters, readCommand } from '../../rules/persons/logged-command.ts'
import { FlagsVersion } from '../../store/catalog/organization-store.ts'
import { DamagedRecordError, type DamageListener } from '../../store/faults.ts'
import type { EventStoreWriter } from '../../store/warehouse/write/event-store.ts'
import { DailySalts } from '../front/daily-salts.ts'
import type { CommandOutcome, ProcessResult, ThreadSettings } from '../threads/tasks.ts'
import { CommandRunner } from './command-runner.ts'
import { originOf, runDeadLetterCommand } from './dead-letter-commands.ts'
import type { EventEnrichment } from './event-enrichment.ts'
import { type Fates, parseEvent, type RecordStep, reasonOf, recordStep } from './record-step.ts'

/**
 * Events gathered for one transaction while there is a backlog. A person is written once for each
 * transaction that changes it, so larger ones write less; this many take about a second.
 */
const COMMIT_EVENTS = 49_152
/** How many times as many events one transaction gathers at most, unless a single block holds more. */
const COMMIT_EXCESS = 4 / 3
/** How long merging may take after a commit beside a busy front: one step. */
const MAINTAIN_MS_BUSY = 50
/** Bytes of blocks after which a stretch is committed, however few events they hold. */
const COMMIT_BYTES = 64 * 1024 * 1024

const NO_EXTENT: LogExtent = { first: 0, last: 0 }
/** What processing works with; all of it is closed with the processor. */
export interface LogProcessorOptions {
  readonly settings: Pick<
    ThreadSettings,
    'dataDir' | 'propertiesBytesMax' | 'isFlushDeferred' | 'logReach'
  >
  readonly log: LogReader
  /** With the warehouse in which events rest. */
  readonly store: EventStoreWriter
  /** Told of stored records that had to be left alone. */
  readonly onDamage: DamageListener
  /** Events gathered for one transaction, and somewhat more to fill a segment. Default 49,152. */
  readonly commitEvents?: number | undefined
  /** How long secrets of days are kept for events that are processed again, milliseconds. Default 0. */
  readonly secretsKeptMs?: number | undefined
  /** What is added to events; null, the default: nothing. */
  readonly enrichment?: EventEnrichment | null | undefined
  /** False: every event is parsed, for tests that compare. */
  readonly isKernelUsed?: boolean
}

/** The processing thread's work. One per data directory. */
export class LogProcessor {
  readonly #log: LogReader
  readonly #store: EventStoreWriter
  readonly #warehouse: WarehouseWriter
  readonly #propertiesBytesMax: number
  readonly #commitEvents: number
  /** Of the stretch that is gathered. */
  #gatheredBytes = 0
  readonly #commands: CommandRunner
  readonly #flags: FlagsVersion
  readonly #isFlushDeferred: boolean
  /** What the log held when it was opened. */
  readonly #extentAtStart: LogExtent | null
  /** A commit of this run was seen: with it everything before is on the disk, whoever wrote it. */
  #isLogFlushed = false
  #isDiskShort = false
  readonly #onDamage: DamageListener
  readonly #salts: DailySalts
  readonly #enrichment: EventEnrichment | null
  readonly #recogniser = new EventRecogniser(() => randomBytes(8).readBigUInt64LE())
  readonly #canRecognise: boolean
  /** Events of this run that were recognised. */
  #recognised = 0
  #position: number
  #outcomes: CommandOutcome[] = []
  /** The block that is processed, and the place of the next event of it that is dropped. */
  #block = 0
  #place = 0
  #fates = new Map<number, Fates>()

  constructor(options: LogProcessorOptions) {
    const { settings, log, store, onDamage, commitEvents = COMMIT_EVENTS } = options
    this.#commitEvents = commitEvents
    this.#enrichment = options.enrichment ?? null
    this.#onDamage = onDamage
    this.#log = log
    this.#store = store
    this.#warehouse = store.warehouse
    const isWanted = options.isKernelUsed !== false
    this.#canRecognise =
      isWanted && this.#enrichment === null && this.#warehouse.takesCells === true
    this.#propertiesBytesMax = settings.propertiesBytesMax
    this.#commands = new CommandRunner(this.#store, PERSON_PROPERTIES_BYTES_MAX)
    this.#flags = new FlagsVersion(settings.dataDir)
    this.#salts = new DailySalts(settings.dataDir, options.secretsKeptMs)
    this.#position = this.#store.readPosition()
    this.#isFlushDeferred = settings.isFlushDeferred
    this.#extentAtStart = this.#log.extent()
  }

  /**
   * Processes what the log holds, for about `budgetMs`; erases events and merges segments when there is
   * time left and the disk is not short. With `stretchEvents` it makes one commit of at least so many events,
   * which ends where segments are full enough, and merges hardly at all. `onBlock` is called behind each block.
   */
  run(
    budgetMs: number,
    isDiskShort = false,
    stretchEvents?: number,
    onBlock?: () => void,
  ): ProcessResult {
    const begunAt = performance.now()
    const isOneCommit = stretchEvents !== undefined
    const commitEvents = this.#commitEvents
    const eventsMin = Math.max(1, Math.min(stretchEvents ?? commitEvents, commitEvents))
    this.#isDiskShort = isDiskShort
    let eventCount = 0
    let commitMs = 0
    this.#fates = new Map()
    this.#outcomes = []
    this.#recognised = 0
    this.#enrichment?.refresh()
    let last = this.#lastBlock()
    // What it takes to look at the log does not count: each call makes a commit when there is one to make.
    const deadline = performance.now() + budgetMs
    while (this.#position < last && performance.now() < deadline) {
      let sequence = this.#position
      let gathered = 0
      this.#gatheredBytes = 0
      while (sequence < last && !this.#isEnough(gathered, eventsMin)) {
        gathered += this.#addBlock(++sequence)
        onBlock?.()
      }
      const startedAt = performance.now()
      this.#store.commit(sequence, this.#seen(sequence), this.#log.origin?.(sequence))
      commitMs += performance.now() - startedAt
      this.#position = sequence
      eventCount += gathered
      last = this.#lastBlock()
      if (isOneCommit) break
    }
    const elapsedMs = performance.now() - begunAt
    const changedDefinitions = this.#takeChangedDefinitions()
    // Only now: what still waited to be processed may have needed them.
    if (this.#position >= last) this.#salts.forget(SYSTEM_CLOCK.now())
    // Somebody waits for what was done; merging can wait for the next call.
    const isAwaited = this.#outcomes.length > 0 || changedDefinitions.length > 0
    const mayMaintain = !isAwaited && !isDiskShort && (isOneCommit || this.#position >= last)
    const isBusy = isOneCommit || eventCount > 0
    const maintainMs = isBusy ? MAINTAIN_MS_BUSY : deadline - performance.now()
    if (mayMaintain) this.#store.note(this.#seen(this.#position))
    const isIdle = mayMaintain && !this.#warehouse.maintain(maintainMs)
    return {
      processed: this.#position,
      last,
      eventCount,
      recognisedCount: this.#recognised,
      elapsedMs,
      fates: [...this.#fates].map(([projectId, fates]) => ({ projectId, ...fates })),
      commitMs,
      commands: this.#outcomes,
      changedDefinitions,
      deadLetters: this.#store.deadLetters.takeCounts(),
      erased: this.#warehouse.takeCarriedOut(),
      freeBytes: this.#store.freeBytes(),
      geoIp: this.#enrichment?.takeGeoIpCounts(),
      isIdle,
    }
  }

  /** Whether persons wait to be folded. */
  get mayFold(): boolean {
    return this.#store.mayFold
  }

  /** Folds some persons, for when there is nothing else to do; how many. */
  fold(): number {
    return this.#store.fold()
  }

  /** As `WarehouseWriter`. */
  giveAway(segments: readonly CopiedSegment[]): void {
    this.#warehouse.giveAway?.(segments)
  }

  /** As `WarehouseWriter`. */
  forgetCopies(jobs: readonly ErasedJob[]): void {
    this.#warehouse.forgetCopies?.(jobs)
  }

  /** Notes what changed last in environment `flags`, and closes. */
  async close(): Promise<void> {
    if (!this.#isDiskShort) this.#store.note(this.#seen(this.#position))
    await this.#store.close()
    await this.#log.close()
    await this.#flags.close()
  }

  /** The newest block of the log. */
  #lastBlock(): number {
    this.#log.refresh()
    const extent = this.#log.extent()
    const { first, last } = extent ?? NO_EXTENT
    const { first: firstAtStart, last: lastAtStart } = this.#extentAtStart ?? NO_EXTENT
    if (first !== firstAtStart || last !== lastAtStart) this.#isLogFlushed = !this.#isFlushDeferred
    return extent?.last ?? this.#position
  }

  /** What the other environments have while everything up to `sequence` is stored. */
  #seen(sequence: number): Parameters<EventStoreWriter['note']>[0] {
    return {
      logThrough: this.#isLogFlushed ? sequence : 0,
      flagsVersion: this.#flags.readIfSound(),
    }
  }

  /** Whether to commit now. What ends in a segment that is full enough need not be merged later. */
  #isEnough(gathered: number, eventsMin: number): boolean {
    if (this.#gatheredBytes >= COMMIT_BYTES) return true
    if (gathered < eventsMin) return false
    return gathered >= Math.floor(this.#commitEvents * COMMIT_EXCESS) || this.#warehouse.isFull
  }

  /** Returns the number of events that the block held. */
  #addBlock(sequence: number): number {
    this.#block = sequence
    this.#place = 0
    const block = this.#log.block(sequence)
    // A sequence without a block was trimmed after it had been processed, or never written.
    if (block === undefined) return 0
    this.#recogniser.beginBlock()
    this.#gatheredBytes += block.length
    let records: readonly LogRecord[]
    try {
      records = readBlock(block)
    } catch (cause) {
      this.#store.addDeadLetter({ projectId: 0, step: 'read', reason: reasonOf(cause), raw: block })
      return 0
    }
    this.#store.beginBlock(records.at(-1)?.arrivedAtMs)
    let count = 0
    for (const record of records) {
      this.#addRecord(record)
      count += record.eventCount
    }
    this.#store.endBlock()
    return count
  }

  #addRecord(record: LogRecord): void {
    if ((record.flags & RECORD_COMMAND) !== 0) {
      this.#runCommand(record)
      return
    }
    const noFates = (): Fates => ({ stored: 0, drops: {} })
    const fates = getOrAdd(this.#fates, record.projectId, noFates)
    const step = recordStep(record, this.#propertiesBytesMax, fates)
    for (let index = 0; index < record.eventCount; index++) {
      try {
        this.#addEvent(step, index)
      } catch (cause) {
        if (cause instanceof DamagedRecordError) this.#onDamage(cause)
        const start = eventStart(record, index)
        this.#countDrop(step, 'dead_letter')
        this.#store.addDeadLetter({
          projectId: record.projectId,
          step: 'process',
          reason: reasonOf(cause),
          raw: record.bytes.subarray(start, start + eventBytes(record, index)),
          origin: originOf(record, index),
        })
      }
    }
  }

  #addEvent(step: RecordStep, index: number): void {
    const { record, eventContext } = step
    const start = eventStart(record, index)
    const sentBytes = eventBytes(record, index)
    const recogniser = this.#canRecognise ? this.#recogniser : null
    const usual = recogniser?.recognise(record.bytes, start, sentBytes, eventContext) ?? null
    if (usual !== null) {
      this.#recognised++
      this.#storeEvent(step, index, usual, sentBytes, this.#recogniser.cells)
      return
    }
    const given = parseEvent(record.bytes, start, sentBytes)
    const enrichment = this.#enrichment
    // Both normalising and identifying take away what enrichment looks at.
    const address = enrichment?.addressOf(given, record.address)
    const normalised = normaliseEvent(given, eventContext, sentBytes)
    const isEnriched = enrichment !== null && normalised.kind === 'event'
    const length = sentBytes + (isEnriched ? enrichment.enrich(normalised.event, address) : 0)
    const outcome = this.#identify(normalised, record)
    if (outcome.warnings.length > 0) this.#warn(record, index, outcome.warnings)
    if (outcome.kind === 'drop') {
      this.#drop(record, index, given, outcome.reason)
      this.#countDrop(step, outcome.reason)
      return
    }
    this.#storeEvent(step, index, outcome.event, length, null)
  }

  /** Stores an event of `bytes` bytes, with its properties in `cells` unless that is null. */
  #storeEvent(
    step: RecordStep,
    index: number,
    event: NormalisedEvent,
    bytes: number,
    cells: EventCells | null,
  ): void {
    const { record, identity } = step
    identity.event = event
    identity.cells = cells
    identity.uuidOffset = eventUuidOffset(record, index)
    identity.hasClientUuid = hasClientUuid(record, index)
    // A duplicate must not touch persons, so it is found out first.
    const admission = this.#store.admit(identity)
    if (admission === null) {
      this.#countDrop(step, 'duplicate')
      return
    }
    const world = this.#store.persons(record.projectId, event, admission)
    const applied = applyEvent(event, bytes, world, step.personContext)
    if (applied.warnings.length > 0) this.#warn(record, index, applied.warnings)
    if (applied.groupKeys.length > 0) {
      setGroupProperties(event.properties, applied.groupKeys, cells)
    }
    const { arrivedAtMs, isHistorical } = step.eventContext
    this.#store.append(identity, admission, arrivedAtMs, applied.personMode, isHistorical, bytes)
    step.fates.stored++
  }

  /** Keeps the beginning of an event that is not stored, as it was accepted. */
  #drop(record: LogRecord, index: number, given: JsonObject, reason: LossReason): void {
    const start = eventStart(record, index)
    const uuidOffset = eventUuidOffset(record, index)
    const properties = isObject(given['properties']) ? given['properties'] : {}
    const distinctId = eventDistinctId(given, properties)
    // As it was sent it may tell an address, which neither of them leaves in what is stored.
    const isPrivate =
      (record.flags & RECORD_IP_ANONYMIZED) !== 0 ||
      distinctId === COOKIELESS_ID ||
      properties['$cookieless_mode'] === true
    this.#store.dropped.add({
      projectId: record.projectId,
      block: this.#block,
      place: this.#place++,
      arrivedAtMs: record.arrivedAtMs,
      reason,
      uuid: record.bytes.subarray(uuidOffset, uuidOffset + 16),
      event: eventName(given),
      distinctId,
      json: record.bytes.subarray(start, start + (isPrivate ? 0 : eventBytes(record, index))),
    })
  }

  #countDrop({ record, fates }: RecordStep, reason: DropReason): void {
    fates.drops[reason] = (fates.drops[reason] ?? 0) + 1
    this.#store.dropped.count(record.projectId, record.arrivedAtMs, reason)
  }

  /** Gives the event of a visitor without cookies the id of that visitor. */
  #identify(outcome: EventOutcome, { projectId, address, arrivedAtMs }: LogRecord): EventOutcome {
    if (outcome.kind === 'drop' || !isCookieless(outcome.event)) return outcome
    const saltOf = (day: string): Uint8Array => this.#salts.saltOf(day)
    const visitor = withVisitor(outcome.event, { projectId, address, arrivedAtMs, saltOf })
    return { ...visitor, warnings: [...outcome.warnings, ...visitor.warnings] }
  }

  #warn(record: LogRecord, index: number, warnings: readonly IngestionWarning[]): void {
    const uuid = formatUuid(record.bytes, eventUuidOffset(record, index))
    for (const { type, details } of warnings) {
      const warning = { type, details: { uuid, ...details } }
      this.#store.addWarning(record.projectId, record.arrivedAtMs, warning)
    }
  }

  /** Commands come from people who wait: what cannot be carried out is told to them and left out. */
  #runCommand(record: LogRecord): void {
    const start = eventStart(record, 0)
    const bytes = record.bytes.subarray(start, start + eventBytes(record, 0))
    const uuidOffset = eventUuidOffset(record, 0)
    const uuid = formatUuid(record.bytes, uuidOffset)
    try {
      const command = readCommand(bytes)
      if (isAboutDeadLetters(command)) {
        const letters = runDeadLetterCommand(this.#store.deadLetters, command.command, (held) =>
          this.#addRecord(held),
        )
        this.#outcomes.push({ uuid, result: { kind: 'done', letters } })
        return
      }
      const uuidBytes = record.bytes.subarray(uuidOffset, uuidOffset + 16)
      const result = this.#commands.run(record.projectId, command, uuidBytes)
      this.#store.noteErasures(record.projectId)
      this.#outcomes.push({ uuid, result })
    } catch (cause) {
      if (cause instanceof DamagedRecordError) this.#onDamage(cause)
      const reason = reasonOf(cause)
      this.#store.addDeadLetter({
        projectId: record.projectId,
        step: 'command',
        reason,
        raw: bytes,
      })
      this.#outcomes.push({ uuid, result: null })
    }
  }

  #takeChangedDefinitions(): readonly number[] {
    const projects = [...this.#store.changedDefinitions]
    this.#store.changedDefinitions.clear()
    return projects
  }
}
