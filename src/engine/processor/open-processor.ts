/** Processing as one box has it: the log in files, and events beside the persons. */
import { DiskRoom } from '../../base/disk-room.ts'
import type * as ports from '../../ports/log.ts'
import type { OutboxWriter } from '../../ports/outbox.ts'
import { type DamageListener, NO_GUARD } from '../../store/faults.ts'
import { LogReader } from '../../store/log/event-log.ts'
import { EventStoreWriter } from '../../store/warehouse/write/event-store.ts'
import type { ThreadSettings } from '../threads/tasks.ts'
import { LogProcessor, type LogProcessorOptions } from './log-processor.ts'

/** What may be chosen besides. */
export interface ProcessorChoices
  extends Pick<
    LogProcessorOptions,
    'attempts' | 'commitEvents' | 'enrichment' | 'gatheredBytesMax' | 'secretsKeptMs'
  > {
  /** Told of what is stored. */
  readonly outbox?: OutboxWriter
  /** Default: that of the data directory. */
  readonly log?: ports.LogReader
}

/** Opens log and store of a data directory. Throws `DamagedRecordError`. */
export function openProcessor(
  settings: LogProcessorOptions['settings'] &
    Pick<ThreadSettings, 'lockDescriptor' | 'warehouse' | 'plan'>,
  onDamage: DamageListener,
  { outbox, log = new LogReader(settings), ...choices }: ProcessorChoices = {},
): LogProcessor {
  const hasCopies = settings.warehouse !== undefined
  const { dataDir, plan, lockDescriptor } = settings
  const guard = choices.attempts ?? NO_GUARD
  const store = new EventStoreWriter({
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
