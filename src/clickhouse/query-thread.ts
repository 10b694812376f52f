/**
 * The thread behind `BlockingClient`. It sends statements to ClickHouse and receives the answers, while the thread that
 * needs them is blocked.
 */
import { workerData } from 'node:worker_threads'
import { parseWarehouse } from '../config/warehouse-address.ts'
import type { QueryThreadAnswer, QueryThreadData } from './blocking-client.ts'
import { ClickHouse } from './clickhouse.ts'

function serve({ address, port, flag }: QueryThreadData): void {
  const parsed = parseWarehouse(address)
  if (parsed === null) throw new TypeError('not started by a blocking client')
  const clickhouse = new ClickHouse(parsed)
  const answer = (given: QueryThreadAnswer): void => {
    port.postMessage(given, given.bytes === null ? [] : [given.bytes])
    Atomics.store(flag, 0, 1)
    Atomics.notify(flag, 0)
  }
  port.on('message', (sql: string) => {
    clickhouse.ask(sql).then(
      (bytes) => answer({ bytes: bytes.buffer as ArrayBuffer, trouble: '' }),
      (error: unknown) => answer({ bytes: null, trouble: String(error) }),
    )
  })
}

// The cast is right: blocking-client.ts passes this object as `workerData` when it starts the thread.
serve(workerData as QueryThreadData)
