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
import { outboxFolder, readProcessedPosition } from './store/directory/data-dir.ts'
import { LogAppender, LogReader } from './store/log/event-log.ts'

const APPENDING: AppendWiring = {
  appender: (settings, partition) => {
    if (settings.sharedLogChannel === undefined) {
      return new LogAppender({ ...settings, processed: readProcessedPosition(settings.dataDir) })
    }
    const { logReach, ...others } = settings
    const dataDir = outboxFolder(settings.dataDir, partition)
    return new LogAppender({ ...others, dataDir, processed: 0 })
  },
}

/** Opens the log that several machines share; null: this is one box. */
async function sharedLog({ sharedLogChannel: channel }: ThreadSettings) {
  if (channel === undefined) return null
  const { HandedLog } = await import('./cluster/handed-log.ts')
  return { open: () => new HandedLog(channel), secretsKeptMs: HandedLog.repeatedMsMax }
}

async function processing(settings: ThreadSettings): Promise<ProcessWiring> {
  const shared = await sharedLog(settings)
  const [{ BoundedOutbox }, { openEnrichment }, { openProcessor }, { ProcessingAttempts }] =
    await Promise.all([
      import('./engine/processor/bounded-outbox.ts'),
      import('./engine/processor/event-enrichment.ts'),
      import('./engine/processor/open-processor.ts'),
      import('./engine/processor/processing-attempts.ts'),
    ])
  const outbox = new BoundedOutbox()
  // One for the whole thread: if its file cannot be opened, the record lives in memory only.
  const attempts = new ProcessingAttempts(settings.dataDir, shared === null)
  return {
    processor: (settings, damage) =>
      openProcessor(
        // Of a log that is shared the store bears no witness: it is not on this disk.
        shared === null ? settings : { ...settings, isFlushDeferred: true },
        (error) => damage.report(error),
        {
          outbox,
          attempts,
          enrichment: openEnrichment(settings),
          ...(shared === null ? {} : { log: shared.open(), secretsKeptMs: shared.secretsKeptMs }),
        },
      ),
    outbox: () => outbox,
  }
}

async function reading(): Promise<ReadWiring> {
  const { EventReader } = await import('./store/warehouse/read/event-reader.ts')
  return {
    log: (settings) => new LogReader(settings),
    reader: ({ dataDir, analytics, plan }, damage) =>
      new EventReader({
        dataDir,
        segmentViewsBytesMax: plan?.segmentViewsBytes,
        namesBytesMax: plan?.namesBytes,
        onDamage: (error) => damage.report(error),
        scanCache: analytics?.cache ?? 0,
      }),
    warehouse: (reader) => reader,
  }
}

function wiringOf(settings: ThreadSettings): ThreadWiring | Promise<ThreadWiring> {
  if (settings.kind === 'writer') return APPENDING
  return settings.kind === 'processor' ? processing(settings) : reading()
}

// pool.ts gives every thread its settings.
const settings = workerData as ThreadSettings
if (settings.warehouse !== undefined && settings.kind !== 'writer') {
  const { openColumns } = await import('./warehouse/copied-columns.ts')
  openColumns(settings.warehouse)
}
export default taskRunner(settings, await wiringOf(settings))
