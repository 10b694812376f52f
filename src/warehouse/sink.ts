/** The thread that fills the warehouse: it sends, waits, and tells the daemon how far it has come. */
import { setPriority } from 'node:os'
import { setTimeout as wait } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'
import { parseWarehouse } from '../config/warehouse-address.ts'
import type { CopiedSegment, ErasedJob } from '../ports/warehouse.ts'
import { type SegmentTexts, StoredSegments } from '../store/warehouse/read/segment-texts.ts'
import { ClickHouse, WarehouseError } from './clickhouse.ts'
import { CopyCheck } from './copy-check.ts'
import { CopyErasure } from './copy-erasure.ts'
import { EventSink, type SinkState } from './event-sink.ts'
import { BATCH_WAIT_MS_MAX, RETRY_MS_MAX } from './limits.ts'

/** Behind whatever answers somebody. */
const NICENESS = 15
/** How often is looked whether an erasure is carried out. */
const ERASURE_LOOK_MS = 200
const RETRY_MS_MIN = RETRY_MS_MAX / 10

/** What the thread is told when it starts. */
export interface SinkThreadData {
  readonly dataDir: string
  readonly address: string
  /** Nobody else writes to the table. */
  readonly isAlone: boolean
  /** Days for which the store keeps events whole; null: for ever. */
  readonly keepDays: number | null
}

/** What it is asked: to end, or to erase the copies of what a job means. */
export type SinkOrder = 'stop' | ErasedJob

/** What it tells. */
export interface SinkNews {
  readonly state: SinkState
  /** Why nothing is sent; null: nothing is in the way. */
  readonly trouble: string | null
  /** What was erased there, too; null: nothing. */
  readonly erased: ErasedJob | null
  /** Its columns may leave the store; null: none. */
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
  /** The first job, if it is done there. */
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
        // Not while something is deleted there.
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
  // What is unforeseen ends the thread, and the daemon starts another one.
  void loop()
}

// event-copy.ts gives the thread its data.
run(workerData as SinkThreadData)
