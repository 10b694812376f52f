/** The entry of a thread of the pool: wires what it runs to the stores of one box. */
import { workerData } from 'node:worker_threads'
import { BoundedOutbox } from './engine/processor/bounded-outbox.ts'
import { openEnrichment } from './engine/processor/event-enrichment.ts'
import { openProcessor } from './engine/processor/open-processor.ts'
import { taskRunner } from './engine/threads/run-task.ts'
import type { ThreadSettings } from './engine/threads/tasks.ts'
import type { ThreadWiring } from './engine/threads/thread-stores.ts'
import { LogAppender, LogReader } from './store/log/event-log.ts'
import { readProcessedPosition } from './store/open-store.ts'
import { EventReader } from './store/warehouse/read/event-reader.ts'

const OUTBOX = new BoundedOutbox()

const EMBEDDED: ThreadWiring = {
  appender: (settings) =>
    new LogAppender({ ...settings, processed: readProcessedPosition(settings.dataDir) }),
  processor: (settings, damage) =>
    openProcessor(settings, (error) => damage.report(error), {
      outbox: OUTBOX,
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
  outbox: () => OUTBOX,
}

// pool.ts gives every thread its settings.
export default taskRunner(workerData as ThreadSettings, EMBEDDED)
