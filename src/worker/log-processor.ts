/**
 * Understanding what was accepted: reads the log in order, once, and turns it into stored events. One
 * transaction of the environment `events` holds everything that a stretch of the log led to, and the
 * position behind it; a crash at any moment replays from the last position to the same state.
 *
 * An event that cannot be processed goes to the dead letters and never stops the stream.
 */
import { isAscii } from 'node:buffer'
import { formatUuid } from '../base/ids.ts'
import {
  eventBytes,
  eventStart,
  eventUuidOffset,
  hasClientUuid,
  type LogRecord,
  RECORD_HISTORICAL,
  RECORD_INVALID_SENT_AT,
  RECORD_IP_ANONYMIZED,
  readBlock,
} from '../ingest/log-block.ts'
import { normaliseEvent } from '../ingest/normalise.ts'
import type { DropReason, EventContext, JsonObject } from '../ingest/types.ts'
import { LogReader } from '../store/event-log.ts'
import { EventStoreWriter } from '../store/event-store.ts'
import type { ProcessResult, ProjectFates, ThreadSettings } from './tasks.ts'

/** Events gathered for one transaction, unless a single block holds more. */
const COMMIT_EVENTS_MAX = 32_768

interface Fates {
  stored: number
  readonly drops: Partial<Record<DropReason, number>>
}

/** The processing thread's work. One per data directory. */
export class LogProcessor {
  readonly #log: LogReader
  readonly #store: EventStoreWriter
  readonly #propertiesBytesMax: number
  #position: number
  #fates = new Map<number, Fates>()

  /** `onDamage` is told of stored records that had to be left alone. */
  constructor(settings: ThreadSettings, onDamage: (error: Error) => void) {
    this.#store = new EventStoreWriter({ dataDir: settings.dataDir, onDamage })
    this.#log = new LogReader(settings)
    this.#propertiesBytesMax = settings.propertiesBytesMax
    this.#position = this.#store.readPosition()
  }

  /** Processes what the log holds, for about `budgetMs`; merges segments when there is time left. */
  run(budgetMs: number): ProcessResult {
    const deadline = performance.now() + budgetMs
    let eventCount = 0
    let commitMs = 0
    this.#fates = new Map()
    this.#log.refresh()
    let last = this.#log.extent()?.last ?? this.#position
    while (this.#position < last && performance.now() < deadline) {
      let sequence = this.#position
      let gathered = 0
      while (sequence < last && gathered < COMMIT_EVENTS_MAX) gathered += this.#addBlock(++sequence)
      const startedAt = performance.now()
      this.#store.commit(sequence)
      commitMs += performance.now() - startedAt
      this.#position = sequence
      eventCount += gathered
      this.#log.refresh()
      last = this.#log.extent()?.last ?? this.#position
    }
    const isIdle = this.#position >= last && !this.#store.maintain(deadline - performance.now())
    return {
      processed: this.#position,
      last,
      eventCount,
      fates: this.#takeFates(),
      commitMs,
      isIdle,
    }
  }

  async close(): Promise<void> {
    await this.#store.close()
    await this.#log.close()
  }

  /** Returns the number of events that the block held. */
  #addBlock(sequence: number): number {
    const block = this.#log.block(sequence)
    // A sequence without a block was trimmed after it had been processed, or never written.
    if (block === undefined) return 0
    let records: readonly LogRecord[]
    try {
      records = readBlock(block)
    } catch (cause) {
      this.#store.addDeadLetter({ projectId: 0, step: 'read', reason: reasonOf(cause), raw: block })
      return 0
    }
    let count = 0
    for (const record of records) {
      this.#addRecord(record)
      count += record.eventCount
    }
    return count
  }

  #addRecord(record: LogRecord): void {
    const fates = this.#fatesOf(record.projectId)
    const context: EventContext = {
      arrivedAtMs: record.arrivedAtMs,
      sentAtMs: Number.isNaN(record.sentAtMs) ? null : record.sentAtMs,
      isSentAtInvalid: (record.flags & RECORD_INVALID_SENT_AT) !== 0,
      ip: record.address,
      isIpAnonymized: (record.flags & RECORD_IP_ANONYMIZED) !== 0,
      isHistorical: (record.flags & RECORD_HISTORICAL) !== 0,
      propertiesBytesMax: this.#propertiesBytesMax,
    }
    for (let index = 0; index < record.eventCount; index++) {
      try {
        this.#addEvent(record, index, context, fates)
      } catch (cause) {
        const start = eventStart(record, index)
        countDrop(fates, 'dead_letter')
        this.#store.addDeadLetter({
          projectId: record.projectId,
          step: 'process',
          reason: reasonOf(cause),
          raw: record.bytes.subarray(start, start + eventBytes(record, index)),
        })
      }
    }
  }

  #addEvent(record: LogRecord, index: number, context: EventContext, fates: Fates): void {
    const start = eventStart(record, index)
    const length = eventBytes(record, index)
    const outcome = normaliseEvent(parseEvent(record.bytes, start, length), context, length)
    for (const warning of outcome.warnings) {
      const uuid = formatUuid(record.bytes, eventUuidOffset(record, index))
      const details = { uuid, ...warning.details }
      this.#store.addWarning(record.projectId, record.arrivedAtMs, { type: warning.type, details })
    }
    if (outcome.kind === 'drop') {
      countDrop(fates, outcome.reason)
      return
    }
    const isStored = this.#store.add({
      projectId: record.projectId,
      event: outcome.event,
      uuidBytes: record.bytes,
      uuidOffset: eventUuidOffset(record, index),
      hasClientUuid: hasClientUuid(record, index),
      createdAtMs: record.arrivedAtMs,
      personMode: outcome.event.isPersonless ? 'propertyless' : 'full',
      isHistorical: context.isHistorical,
    })
    if (isStored) fates.stored++
    else countDrop(fates, 'duplicate')
  }

  #fatesOf(projectId: number): Fates {
    let fates = this.#fates.get(projectId)
    if (fates === undefined) {
      fates = { stored: 0, drops: {} }
      this.#fates.set(projectId, fates)
    }
    return fates
  }

  #takeFates(): readonly ProjectFates[] {
    return [...this.#fates].map(([projectId, fates]) => ({ projectId, ...fates }))
  }
}

/** The JSON object at `start`. The log holds nothing else: it was proved when the event was accepted. */
function parseEvent(bytes: Buffer, start: number, length: number): JsonObject {
  const end = start + length
  // Reading ASCII as Latin-1 is several times faster than decoding UTF-8.
  const encoding = isAscii(bytes.subarray(start, end)) ? 'latin1' : 'utf8'
  return JSON.parse(bytes.toString(encoding, start, end)) as JsonObject
}

function countDrop(fates: Fates, reason: DropReason): void {
  fates.drops[reason] = (fates.drops[reason] ?? 0) + 1
}

function reasonOf(cause: unknown): string {
  return cause instanceof Error ? `${cause.name}: ${cause.message}` : String(cause)
}
