/**
 * Sends stored events to ClickHouse, for each project in the order of their sequence numbers. After a start, it
 * continues after the largest sequence number that ClickHouse has. But an interrupted insert may have stored its rows
 * in some month partitions and not in others. The rows of one insert span at most `BATCH_ROWS_MAX` sequence numbers, so
 * the events with the last `BATCH_ROWS_MAX` sequence numbers are sent again first. ClickHouse merges equal rows into
 * one, so an event that is sent twice is stored once.
 */

import type { SegmentTexts, StoredSegments } from '../store/events/read/segment-texts.ts'
import type { ClickHouse } from './clickhouse.ts'
import { createSchema, INSERT_ROWS, lastSequenceQuery, uuidsQuery } from './copy-schema.ts'
import { BATCH_BYTES_MAX, BATCH_ROWS_MAX, COPY_SETTLED_MS } from './limits.ts'
import { RowEncoder } from './row-encoder.ts'

/**
 * The number of rows that are compared to find out whether a copy was made from this store, and the bytes that
 * ClickHouse sends for each.
 */
const WITNESS_ROWS = 64
const WITNESS_BYTES = 24

/** What an `EventSink` needs: where to read and where to send. */
export interface EventSinkOptions {
  readonly clickhouse: ClickHouse
  readonly database: string
  readonly store: StoredSegments
}

/** The progress of the copy, as the thread reports it to the daemon. */
export interface SinkState {
  /** The number of events that ClickHouse has not confirmed yet. */
  readonly waitingEvents: number
  /**
   * The arrival time of the oldest event that is not confirmed, in milliseconds since 1970. Null if all are confirmed.
   */
  readonly waitingSinceMs: number | null
  /** The numbers of rows, bytes and inserts that ClickHouse has confirmed since the thread started. */
  readonly rows: number
  readonly bytes: number
  readonly inserts: number
  /** The projects of which ClickHouse has events that were not copied from this store. Nothing is sent for them. */
  readonly strangers: readonly number[]
}

/** Copies events to ClickHouse. There is one instance for each store. */
export class EventSink {
  readonly #options: EventSinkOptions
  readonly #encoder = new RowEncoder()
  readonly #confirmed = new Map<number, number>()
  readonly #strangers = new Set<number>()
  #settled: ReadonlyMap<number, number> = new Map()
  #noted = { atMs: 0, confirmed: new Map<number, number>() }
  #isOpen = false
  #rows = 0
  #bytes = 0
  #inserts = 0

  constructor(options: EventSinkOptions) {
    this.#options = options
  }

  /**
   * Sends at most one insert. Returns true if further events wait. Throws `DamagedRecordError` and `WarehouseError`.
   * After a `WarehouseError`, it is unknown whether the rows were stored.
   */
  async step(): Promise<boolean> {
    const { clickhouse, store, database } = this.#options
    if (!this.#isOpen) await createSchema(clickhouse, database)
    this.#isOpen = true
    const reached = new Map<number, number>()
    this.#encoder.reset()
    for (const [projectId, last] of store.projects()) {
      if (this.#encoder.isFull) break
      if (!this.#confirmed.has(projectId)) await this.#open(projectId, last)
      const confirmed = this.#confirmed.get(projectId)
      if (confirmed === undefined || confirmed >= last) continue
      reached.set(projectId, this.#gather(projectId, confirmed, last))
    }
    if (this.#encoder.rows > 0) await this.#send()
    for (const [projectId, through] of reached) this.#confirmed.set(projectId, through)
    return reached.size > 0 && this.state().waitingEvents > 0
  }

  /**
   * Returns, for each project, the sequence number up to which ClickHouse confirmed the events at least COPY_SETTLED_MS
   * ago. By then, the kernel of the machine with ClickHouse has written them to its disk, so they survive a power cut.
   * The result is empty until the first events are that old.
   */
  settled(nowMs: number): ReadonlyMap<number, number> {
    if (nowMs >= this.#noted.atMs + COPY_SETTLED_MS) {
      this.#settled = this.#noted.confirmed
      this.#noted = { atMs: nowMs, confirmed: new Map(this.#confirmed) }
    }
    return this.#settled
  }

  /** Sends the events of a segment again. Throws the errors of `step`. */
  async resend(segment: SegmentTexts): Promise<void> {
    const { firstSequence, rows } = segment.view.summary
    const last = firstSequence + rows - 1
    for (let through = firstSequence - 1; through < last; ) {
      this.#encoder.reset()
      through = this.#encoder.add(segment, through, last)
      if (this.#encoder.rows > 0) await this.#send()
    }
  }

  /** Returns the current progress. Throws `DamagedRecordError`. */
  state(): SinkState {
    let waitingEvents = 0
    let waitingSinceMs: number | null = null
    for (const [projectId, last] of this.#options.store.projects()) {
      const confirmed = this.#confirmed.get(projectId) ?? 0
      if (this.#strangers.has(projectId) || confirmed >= last) continue
      waitingEvents += last - confirmed
      const { view } = this.#options.store.segmentOf(projectId, confirmed + 1)
      const arrival = view.arrivals[confirmed + 1 - view.summary.firstSequence] ?? 0
      waitingSinceMs = Math.min(waitingSinceMs ?? arrival, arrival)
    }
    const counts = { rows: this.#rows, bytes: this.#bytes, inserts: this.#inserts }
    return { waitingEvents, waitingSinceMs, ...counts, strangers: [...this.#strangers] }
  }

  /** Adds the rows of a project to the next insert. Returns the sequence number up to which they were added. */
  #gather(projectId: number, confirmed: number, last: number): number {
    // An insert may span at most this many sequence numbers, because after an interrupted insert, exactly this many are
    // sent again.
    const end = Math.min(last, confirmed + BATCH_ROWS_MAX)
    let through = confirmed
    let bytes = 0
    // A segment that would not fit is left for the next insert, because preparing a part of a segment costs as much as
    // preparing all of it.
    const isRoom = (): boolean =>
      !this.#encoder.isFull && this.#encoder.bytes + bytes < BATCH_BYTES_MAX
    while (through < end && isRoom()) {
      const before = this.#encoder.bytes
      const segment = this.#options.store.segmentOf(projectId, through + 1)
      const { isAway, firstSequence, rows } = segment.view.summary
      // If columns of the segment were removed from the store, its events are not sent: they are in ClickHouse and were
      // compared.
      if (isAway) through = Math.min(end, firstSequence + rows - 1)
      else through = this.#encoder.add(segment, through, end)
      bytes = Math.max(bytes, this.#encoder.bytes - before)
    }
    return through
  }

  async #send(): Promise<void> {
    const { rows, bytes } = this.#encoder
    await this.#options.clickhouse.insert(INSERT_ROWS, this.#encoder.view())
    this.#rows += rows
    this.#bytes += bytes
    this.#inserts++
  }

  /** Finds out after which sequence number the events of a project are to be sent. */
  async #open(projectId: number, last: number): Promise<void> {
    if (this.#strangers.has(projectId)) return
    const answer = await this.#options.clickhouse.ask(lastSequenceQuery(projectId))
    const there = Number(answer.readBigUInt64LE())
    if (there > last || !(await this.#isOurs(projectId, there))) this.#strangers.add(projectId)
    else this.#confirmed.set(projectId, Math.max(0, there - BATCH_ROWS_MAX))
  }

  /**
   * Returns true if the newest rows in ClickHouse are events of this store. Returns false if the rows come from another
   * store, or from this store before it was restored from a backup.
   */
  async #isOurs(projectId: number, there: number): Promise<boolean> {
    const after = Math.max(0, there - WITNESS_ROWS)
    const answer = await this.#options.clickhouse.ask(uuidsQuery(projectId, after))
    const stored = Buffer.alloc(16)
    for (let at = 0; at < answer.length; at += WITNESS_BYTES) {
      const sequence = Number(answer.readBigUInt64LE(at))
      const { view } = this.#options.store.segmentOf(projectId, sequence)
      const row = sequence - view.summary.firstSequence
      if (view.distinctIds[row] === 0) continue
      view.copyUuid(row, stored, 0)
      const isSame =
        answer.readBigUInt64LE(at + 8) === stored.readBigUInt64BE() &&
        answer.readBigUInt64LE(at + 16) === stored.readBigUInt64BE(8)
      if (!isSame) return false
    }
    return true
  }
}
