/**
 * The thread that copies events to ClickHouse. It sends events, waits for new ones, and reports its progress to the
 * daemon.
 */
import { setPriority } from 'node:os'
import { setTimeout as wait } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'
import { parseWarehouse } from '../config/warehouse-address.ts'
import type { CopiedSegment, ErasedJob } from '../ports/warehouse.ts'
import { type SegmentTexts, StoredSegments } from '../store/events/read/segment-texts.ts'
import { ClickHouse, WarehouseError } from './clickhouse.ts'
import { CopyCheck } from './copy-check.ts'
import { CopyErasure } from './copy-erasure.ts'
import { EventSink, type SinkState } from './event-sink.ts'
import { BATCH_WAIT_MS_MAX, RETRY_MS_MAX } from './limits.ts'

/**
 * The niceness of the thread. The operating system prefers the threads that answer requests, whose niceness is lower.
 */
const NICENESS = 15
/** The interval, in milliseconds, at which the thread checks whether ClickHouse has carried out an erasure. */
const ERASURE_LOOK_MS = 200
const RETRY_MS_MIN = RETRY_MS_MAX / 10

/** What the thread receives when it starts. */
export interface SinkThreadData {
  readonly dataDir: string
  readonly address: string
  /** True if no other machine writes to the table in ClickHouse. */
  readonly isAlone: boolean
  /**
   * The number of days for which the store keeps the columns of an event after it arrived. Null: they are never
   * removed.
   */
  readonly keepDays: number | null
}

/** A message from the daemon to the thread: an order to end, or a job whose events are to be erased in ClickHouse. */
export type SinkOrder = 'stop' | ErasedJob

/** A report of the thread to the daemon about the last step. */
export interface SinkNews {
  readonly state: SinkState
  /** The reason why the last step failed, or null. */
  readonly trouble: string | null
  /**
   * The job that was completed in this step: ClickHouse has none of its events any more. Null if no job was completed.
   */
  readonly erased: ErasedJob | null
  /** A segment whose columns may now be removed from the store, or null. */
  readonly copied: CopiedSegment | null
}

function run({ dataDir, address: text, isAlone, keepDays }: SinkThreadData): void {
  const address = parseWarehouse(text)
  const port = parentPort
  if (address === null || port === null) throw new TypeError('not started as a thread of the sink')
  if (process.platform === 'linux') setPriority(0, NICENESS)
  const stopping = new AbortController()
  const jobs: ErasedJob[] = []
  let wake = new AbortController()
  port.on('message', (order: SinkOrder) => {
    if (order === 'stop') stopping.abort()
    else jobs.push(order)
    wake.abort()
  })
  const store = new StoredSegments(dataDir)
  const clickhouse = new ClickHouse(address, stopping.signal)
  const options = { clickhouse, database: address.database, store, isAlone }
  const sink = new EventSink(options)
  const erasure = new CopyErasure(options)
  const resend = (segment: SegmentTexts): Promise<void> => sink.resend(segment)
  const check = keepDays === null ? null : new CopyCheck({ ...options, keepDays, resend })
  const pause = async (ms: number): Promise<void> => {
    await wait(ms, undefined, { signal: wake.signal }).catch(() => undefined)
    if (!stopping.signal.aborted) wake = new AbortController()
  }
  /** Erases the events of the first job in ClickHouse. Returns the job when all of them are erased, otherwise null. */
  const eraseNext = async (): Promise<ErasedJob | null> => {
    const [job] = jobs
    if (job === undefined || sink.state().strangers.includes(job.projectId)) return null
    if (!(await erasure.step(job))) return null
    jobs.shift()
    return job
  }
  const loop = async (): Promise<void> => {
    let retryMs = RETRY_MS_MIN
    while (!stopping.signal.aborted) {
      let isMore = false
      let trouble: string | null = null
      let erased: ErasedJob | null = null
      let copied: CopiedSegment | null = null
      try {
        isMore = await sink.step()
        erased = await eraseNext()
        // A deletion in ClickHouse can make a copy incomplete for a while. Copies are therefore compared only when no
        // erasure job is left.
        if (!isMore && jobs.length === 0) {
          copied = (await check?.next(Date.now(), sink.settled(Date.now()))) ?? null
        }
        retryMs = RETRY_MS_MIN
      } catch (cause) {
        if (!(cause instanceof WarehouseError)) throw cause
        trouble = cause.message
      }
      if (stopping.signal.aborted) break
      port.postMessage({ state: sink.state(), trouble, erased, copied } satisfies SinkNews)
      if (trouble !== null) {
        await pause(retryMs)
        retryMs = Math.min(retryMs * 2, RETRY_MS_MAX)
      } else if (erased === null && copied === null && !isMore) {
        await pause(jobs.length > 0 ? ERASURE_LOOK_MS : BATCH_WAIT_MS_MAX)
      }
    }
    await store.close()
    port.close()
  }
  // An unforeseen error ends the thread. The daemon then starts another one.
  void loop()
}

// event-copy.ts passes `workerData` when it starts the thread.
run(workerData as SinkThreadData)
