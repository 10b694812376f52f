/**
 * The entry of a thread of the pool: wires what it runs to the stores of one box. A thread loads what its kind
 * works with and nothing else: a start waits for the thread of the log, and each has a heap of its own.
 */

import { workerData } from 'node:worker_threads'
import { taskRunner } from './engine/threads/run-task.ts'
import type { ThreadSettings } from './engine/threads/tasks.ts'
import type {
  AppendWiring,
  ProcessWiring,
  ReadWiring,
  ThreadWiring,
} from './engine/threads/thread-stores.ts'
import { readProcessedPosition } from './store/directory/data-dir.ts'
import { LogAppender, LogReader } from './store/log/event-log.ts'

const APPENDING: AppendWiring = {
  appender: (settings) =>
    new LogAppender({ ...settings, processed: readProcessedPosition(settings.dataDir) }),
}

async function processing(): Promise<ProcessWiring> {
  const [{ BoundedOutbox }, { openEnrichment }, { openProcessor }] = await Promise.all([
    import('./engine/processor/bounded-outbox.ts'),
    import('./engine/processor/event-enrichment.ts'),
    import('./engine/processor/open-processor.ts'),
  ])
  const outbox = new BoundedOutbox()
  return {
    processor: (settings, damage) =>
      openProcessor(settings, (error) => damage.report(error), {
        outbox,
        enrichment: openEnrichment(settings),
      }),
    outbox: () => outbox,
  }
}

async function reading(): Promise<ReadWiring> {
  const { EventReader } = await import('./store/warehouse/read/event-reader.ts')
  return {
    log: (settings) => new LogReader(settings),
    reader: ({ dataDir, analytics }, damage) =>
      new EventReader({
        dataDir,
        onDamage: (error) => damage.report(error),
        scanCacheBytesMax: analytics?.cacheBytesMax ?? 0,
      }),
    warehouse: (reader) => reader,
  }
}

function wiringOf({ kind }: ThreadSettings): ThreadWiring | Promise<ThreadWiring> {
  if (kind === 'writer') return APPENDING
  return kind === 'processor' ? processing() : reading()
}

// pool.ts gives every thread its settings.
const settings = workerData as ThreadSettings
export default taskRunner(settings, await wiringOf(settings))
