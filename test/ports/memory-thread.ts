/**
 * The entry point of a daemon's threads with log and warehouse in memory. The test that starts the daemon passes the
 * memory: `setEnvironmentData(MEMORY, ...)`.
 */
import { getEnvironmentData, workerData } from 'node:worker_threads'
import { BoundedOutbox } from '../../src/engine/processor/bounded-outbox.ts'
import { LogProcessor } from '../../src/engine/processor/log-processor.ts'
import { taskRunner } from '../../src/engine/threads/run-task.ts'
import type { ThreadSettings } from '../../src/engine/threads/tasks.ts'
import { EventReader } from '../../src/store/events/read/event-reader.ts'
import { ProcessingWriter } from '../../src/store/events/write/processing-writer.ts'
import { MemoryLog, SharedBlocks } from './memory-log.ts'
import { MemoryWarehouse, MemoryWarehouseWriter } from './memory-warehouse.ts'

/** Name of the environment data that holds the memory. */
export const MEMORY = 'tenrec test memory'

/** The memory that all threads share. */
export interface SharedMemory {
  readonly log: SharedArrayBuffer
  readonly events: SharedArrayBuffer
}

// Set by the test.
const memory = getEnvironmentData(MEMORY) as SharedMemory
const outbox = new BoundedOutbox()
let warehouse: MemoryWarehouse | undefined

export default taskRunner(workerData as ThreadSettings, {
  appender: () => new MemoryLog(memory.log),
  processor: (settings, damage) => {
    const onDamage = (error: Error): void => damage.report(error)
    const events = new MemoryWarehouseWriter(new SharedBlocks(memory.events))
    const { dataDir } = settings
    const store = new ProcessingWriter({ dataDir, onDamage, warehouse: events, outbox })
    return new LogProcessor({ settings, log: new MemoryLog(memory.log), store, onDamage })
  },
  log: () => new MemoryLog(memory.log),
  outbox: () => outbox,
  reader: ({ dataDir }) => new EventReader({ dataDir }),
  warehouse: (reader) => {
    warehouse ??= new MemoryWarehouse(new SharedBlocks(memory.events), reader)
    return warehouse
  },
})
