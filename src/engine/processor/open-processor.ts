/** Processing as one box has it: the log in LMDB, and events beside the persons. */
import type { DamageListener } from '../../store/faults.ts'
import { LogReader } from '../../store/log/event-log.ts'
import { EventStoreWriter } from '../../store/warehouse/write/event-store.ts'
import { LogProcessor, type LogProcessorOptions } from './log-processor.ts'

/** Opens log and store of a data directory. Throws `DamagedRecordError`. */
export function openProcessor(
  settings: LogProcessorOptions['settings'],
  onDamage: DamageListener,
  commitEvents?: number,
): LogProcessor {
  const store = new EventStoreWriter({ dataDir: settings.dataDir, onDamage })
  return new LogProcessor({ settings, log: new LogReader(settings), store, onDamage, commitEvents })
}
