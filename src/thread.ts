/**
 * The entry of a thread of the pool: wires what it runs to the stores of one box. The thread of the log
 * loads no others: a start waits for it alone.
 */

import { workerData } from 'node:worker_threads'
import { type LogWiring, taskRunner } from './engine/threads/run-task.ts'
import type { ThreadSettings } from './engine/threads/tasks.ts'
import type { ThreadWiring } from './engine/threads/thread-stores.ts'
import { readProcessedPosition } from './store/directory/data-dir.ts'
import { LogAppender, LogReader } from './store/log/event-log.ts'

const LOG: LogWiring = {
  appender: (settings) =>
    new LogAppender({ ...settings, processed: readProcessedPosition(settings.dataDir) }),
}

async function storeWiring(): Promise<ThreadWiring> {
  const [{ BoundedOutbox }, { openEnrichment }, { openProcessor }, { EventReader }] =
    await Promise.all([
      import('./engine/processor/bounded-outbox.ts'),
      import('./engine/processor/event-enrichment.ts'),
      import('./engine/processor/open-processor.ts'),
      import('./store/warehouse/read/event-reader.ts'),
    ])
  const outbox = new BoundedOutbox()
  return {
    ...LOG,
    processor: (settings, damage) =>
      openProcessor(settings, (error) => damage.report(error), {
        outbox,
        enrichment: openEnrichment(settings),
      }),
    log: (settings) => new LogReader(settings),
    reader: ({ dataDir, analytics }, damage) =>
      new EventReader({
        dataDir,
        onDamage: (error) => damage.report(error),
        scanCacheBytesMax: analytics?.cacheBytesMax ?? 0,
      }),
    warehouse: (reader) => reader,
    outbox: () => outbox,
  }
}

// pool.ts gives every thread its settings.
const settings = workerData as ThreadSettings
const wiring = settings.isLogThread ? LOG : await storeWiring()
export default taskRunner(settings, wiring)
