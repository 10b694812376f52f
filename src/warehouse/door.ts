/** The thread behind `WaitingDoor`: it asks ClickHouse while another thread is blocked until the answer arrives. */
import { workerData } from 'node:worker_threads'
import { parseWarehouse } from '../config/warehouse-address.ts'
import { ClickHouse } from './clickhouse.ts'
import type { DoorAnswer, DoorData } from './waiting-door.ts'

function serve({ address, port, flag }: DoorData): void {
  const parsed = parseWarehouse(address)
  if (parsed === null) throw new TypeError('not started by a waiting door')
  const clickhouse = new ClickHouse(parsed)
  const answer = (given: DoorAnswer): void => {
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

// waiting-door.ts passes the data to the thread.
serve(workerData as DoorData)
