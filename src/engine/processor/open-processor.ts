/** Opens processing on a single machine. The log consists of files, and one store contains both events and persons. */
import { DiskRoom } from '../../base/disk-room.ts'
import type * as ports from '../../ports/log.ts'
import type { OutboxWriter } from '../../ports/outbox.ts'
import { ProcessingWriter } from '../../store/events/write/processing-writer.ts'
import { type DamageListener, NO_GUARD } from '../../store/faults.ts'
import { LogReader } from '../../store/log/event-log.ts'
import type { ThreadSettings } from '../threads/tasks.ts'
import { LogProcessor, type LogProcessorOptions } from './log-processor.ts'

/** The parts of a processor that a caller may choose. */
export interface ProcessorChoices
  extends Pick<
    LogProcessorOptions,
    'attempts' | 'commitEvents' | 'enrichment' | 'gatheredBytesMax' | 'secretsKeptMs'
  > {
  /** Receives the stored events. */
  readonly outbox?: OutboxWriter
  /** The log. Default: the log of the data directory. */
  readonly log?: ports.LogReader
}

/** Opens the log and the store of a data directory for processing. Throws `DamagedRecordError`. */
export function openProcessor(
  settings: LogProcessorOptions['settings'] &
    Pick<ThreadSettings, 'lockDescriptor' | 'warehouse' | 'plan'>,
  onDamage: DamageListener,
  { outbox, log = new LogReader(settings), ...choices }: ProcessorChoices = {},
): LogProcessor {
  const hasCopies = settings.warehouse !== undefined
  const { dataDir, plan, lockDescriptor } = settings
  const guard = choices.attempts ?? NO_GUARD
  const store = new ProcessingWriter({
    dataDir,
    onDamage,
    outbox,
    hasCopies,
    guard,
    lockDescriptor,
    diskRoom: new DiskRoom(settings.diskRoom),
    ...(plan === undefined
      ? {}
      : {
          personCacheBytesMax: plan.personsBytes,
          distinctIdCacheBytesMax: plan.distinctIdsBytes,
          tableEntriesMax: plan.uuidTableEntries,
        }),
  })
  const commitBytes = plan?.commitBytes
  const limits = { commitBytes, gatheredBytesMax: commitBytes }
  return new LogProcessor({ settings, log, store, onDamage, ...limits, ...choices })
}
