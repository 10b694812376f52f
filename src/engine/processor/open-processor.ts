/** Processing as one box has it: the log in files, and events beside the persons. */
import type * as ports from '../../ports/log.ts'
import type { OutboxWriter } from '../../ports/outbox.ts'
import type { DamageListener } from '../../store/faults.ts'
import { LogReader } from '../../store/log/event-log.ts'
import { EventStoreWriter } from '../../store/warehouse/write/event-store.ts'
import type { ThreadSettings } from '../threads/tasks.ts'
import { LogProcessor, type LogProcessorOptions } from './log-processor.ts'

/** What may be chosen besides. */
export interface ProcessorChoices
  extends Pick<LogProcessorOptions, 'commitEvents' | 'enrichment' | 'secretsKeptMs'> {
  /** Told of what is stored. */
  readonly outbox?: OutboxWriter
  /** Default: that of the data directory. */
  readonly log?: ports.LogReader
}

/** Opens log and store of a data directory. Throws `DamagedRecordError`. */
export function openProcessor(
  settings: LogProcessorOptions['settings'] & Pick<ThreadSettings, 'warehouse'>,
  onDamage: DamageListener,
  { outbox, log = new LogReader(settings), ...choices }: ProcessorChoices = {},
): LogProcessor {
  const hasCopies = settings.warehouse !== undefined
  const store = new EventStoreWriter({ dataDir: settings.dataDir, onDamage, outbox, hasCopies })
  return new LogProcessor({ settings, log, store, onDamage, ...choices })
}
