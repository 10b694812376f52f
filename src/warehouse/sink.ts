/** The thread that fills the warehouse: it sends, waits, and tells the daemon how far it has come. */
import { setPriority } from 'node:os'
import { setTimeout as wait } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'
import { parseWarehouse } from '../config/warehouse-address.ts'
import { StoredSegments } from '../store/warehouse/read/segment-texts.ts'
import { ClickHouse, WarehouseError } from './clickhouse.ts'
import { EventSink, type SinkState } from './event-sink.ts'
import { BATCH_WAIT_MS_MAX, RETRY_MS_MAX } from './limits.ts'

/** Behind whatever answers somebody. */
const NICENESS = 15
const RETRY_MS_MIN = RETRY_MS_MAX / 10

/** What the thread is told when it starts. */
export interface SinkThreadData {
  readonly dataDir: string
  readonly address: string
  /** How long events wait for others, milliseconds. */
  readonly waitMs?: number
}

/** What it tells. */
export interface SinkNews {
  readonly state: SinkState
  /** Why nothing is sent; null: nothing is in the way. */
  readonly trouble: string | null
}

function run({ dataDir, address: text, waitMs = BATCH_WAIT_MS_MAX }: SinkThreadData): void {
  const address = parseWarehouse(text)
  const port = parentPort
  if (address === null || port === null) throw new TypeError('not started as a thread of the sink')
  if (process.platform === 'linux') setPriority(0, NICENESS)
  const stopping = new AbortController()
  port.once('message', () => stopping.abort())
  const store = new StoredSegments(dataDir)
  const clickhouse = new ClickHouse(address, stopping.signal)
  const sink = new EventSink({ clickhouse, database: address.database, store })
  const pause = (ms: number) =>
    wait(ms, undefined, { signal: stopping.signal }).catch(() => undefined)
  const loop = async (): Promise<void> => {
    let retryMs = RETRY_MS_MIN
    while (!stopping.signal.aborted) {
      let isMore = false
      let trouble: string | null = null
      try {
        isMore = await sink.step()
        retryMs = RETRY_MS_MIN
      } catch (cause) {
        if (!(cause instanceof WarehouseError)) throw cause
        trouble = cause.message
      }
      port.postMessage({ state: sink.state(), trouble } satisfies SinkNews)
      if (trouble !== null) {
        await pause(retryMs)
        retryMs = Math.min(retryMs * 2, RETRY_MS_MAX)
      } else if (!isMore) await pause(waitMs)
    }
    await store.close()
    port.close()
  }
  // What is unforeseen ends the thread, and the daemon starts another one.
  void loop()
}

// warehouse-sink.ts gives the thread its data.
run(workerData as SinkThreadData)
