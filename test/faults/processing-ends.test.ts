/**
 * Tests an event that ends the process whenever it is processed. Each start tries a smaller batch until that event is
 * alone. It then becomes a dead letter, and all other events are stored.
 *
 * @lane all
 */
import { spawnSync } from 'node:child_process'
import t from 'tap'
import { ENDS_ALONE_MAX } from '../../src/engine/processor/limits.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { EVENTS_TABLES } from '../../src/store/lmdb/keys.ts'
import { readDeadLetters } from '../../src/store/rejected/dead-letter-store.ts'
import { PersonLog, threadSettings } from '../fixtures/persons/person-log.ts'
import { SCRIPT_WORDS, sourceText } from '../fixtures/source-script.ts'

const EVENTS = 300
const POISON = 170
/** Each failed batch is followed by one an eighth as large, and batches grow again after each success. */
const ENDS_TOGETHER_MAX = 10

t.setTimeout(300_000)

t.test(
  'an event that ends the process becomes a dead letter, and all others are stored',
  async (t) => {
    const log = new PersonLog(t, t.testdir())
    const { dataDir } = log
    const names = Array.from({ length: EVENTS }, (_, index) => `event ${index}`)
    log.send(
      1,
      names.map((event) => ({ event, distinct_id: event, properties: {} })),
    )
    const script = `
    const { openProcessor } = await import(${sourceText('engine/processor/open-processor')})
    const { ProcessingAttempts } = await import(${sourceText('engine/processor/processing-attempts')})
    const { SegmentEncoder } = await import(${sourceText('store/events/format/segment-encoder')})
    const { encode } = SegmentEncoder.prototype
    SegmentEncoder.prototype.encode = function (...given) {
      if (given[2].names.values.includes('event ${POISON}')) process.kill(process.pid, 'SIGKILL')
      return encode.apply(this, given)
    }
    const settings = ${JSON.stringify(threadSettings(dataDir))}
    const attempts = new ProcessingAttempts(settings.dataDir)
    const processor = openProcessor(settings, (error) => { throw error }, { attempts })
    for (;;) {
      const { processed, last, failure } = processor.attempt(3_600_000)
      if (failure !== undefined) throw new Error(failure.reason)
      if (processed >= last) break
    }
    await processor.close()`
    let ends = 0
    for (; ends < 100; ends++) {
      const { signal, status, stderr } = spawnSync(process.execPath, [...SCRIPT_WORDS, script])
      if (signal === null) {
        t.equal(status, 0, stderr.toString())
        break
      }
    }
    t.ok(
      ends > ENDS_ALONE_MAX && ends <= ENDS_TOGETHER_MAX + ENDS_ALONE_MAX,
      `the process ended ${ends} times`,
    )
    await log.reopen()
    const { results } = log.reader.listEvents({ projectId: 1, limit: EVENTS })
    t.strictSame(
      results.map(({ event }) => event).reverse(),
      names.filter((_, index) => index !== POISON),
    )
    const environment = new Environment({ dataDir, name: 'events', tables: EVENTS_TABLES })
    t.match([...readDeadLetters(environment.tables.dead_letters)], [{ reason: /ended 8 times/ }])
    await environment.close()
  },
)
