/**
 * Tests the outbox of one process against src/ports/outbox.ts, with a processor that stores events.
 *
 * @lane quick
 */
import t from 'tap'
import { BoundedOutbox } from '../../src/engine/processor/bounded-outbox.ts'
import { openProcessor } from '../../src/engine/processor/open-processor.ts'
import { LogBlockWriter, ParsedEvents } from '../../src/rules/capture/log-block.ts'
import { LogAppender } from '../../src/store/log/event-log.ts'
import { threadSettings } from '../fixtures/persons/person-log.ts'
import { outboxContract } from './outbox-contract.ts'

const EVERYTHING_MS = 60_000

outboxContract(t, 'embedded', (t) => {
  const dataDir = t.testdir()
  const outbox = new BoundedOutbox()
  const appender = new LogAppender({ dataDir, processed: 0 })
  const fail = (error: Error): never => {
    throw error
  }
  const processor = openProcessor(threadSettings(dataDir), fail, { outbox })
  t.teardown(async () => {
    await processor.close()
    await appender.close()
  })
  const store = (...names: readonly string[]): number => {
    const block = new LogBlockWriter(Buffer.allocUnsafe(4096))
    const events = names.map((event) =>
      JSON.stringify({ event, distinct_id: 'ann', properties: { $set: { last: event } } }),
    )
    const header = { projectId: 1, flags: 0, arrivedAtMs: Date.UTC(2024, 0, 10), address: '' }
    const uuids = names.map(() => null)
    block.add({ ...header, sentAtMs: Number.NaN }, new ParsedEvents(events, uuids))
    appender.append([block.finish()], 0)
    return processor.run(EVERYTHING_MS).processed
  }
  return { outbox, store }
})
