/**
 * The entry of a pool thread: connects the calls that it carries out to the stores of a single machine. A thread loads
 * only the modules that its kind needs, because the start of the daemon waits for the writer thread, and because each
 * thread has its own heap.
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

/** Opens the log that several machines share. Returns null on a single machine. */
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
  // All processors of the thread share one record of processing attempts. If the file of the record cannot be opened,
  // the record is only in memory.
  const attempts = new ProcessingAttempts(settings.dataDir, shared === null)
  return {
    processor: (settings, damage) =>
      openProcessor(
        // A shared log is not on the disk of this machine. As with a deferred flush, the processor must then not
        // conclude from the state of the store which blocks of the log were flushed.
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
  const { EventReader } = await import('./store/events/read/event-reader.ts')
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

// pool.ts passes the settings to every thread when it starts.
const settings = workerData as ThreadSettings
if (settings.warehouse !== undefined && settings.kind !== 'writer') {
  const { openColumns } = await import('./clickhouse/fetched-columns.ts')
  openColumns(settings.warehouse)
}
export default taskRunner(settings, await wiringOf(settings))
