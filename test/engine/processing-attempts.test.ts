/**
 * A batch of events that cannot be stored is retried in smaller batches. An event that fails alone becomes a dead
 * letter, and all other events are stored. A failed maintenance step changes no stored data and is paused. A shortage of
 * the machine is waited for. The tests use the real log, processor and store, and throw faults in the segment encoder.
 *
 * @lane all
 */
import t, { type Test } from 'tap'
import { ProcessingLoop, type ProcessingTrouble } from '../../src/engine/front/processing-loop.ts'
import { BoundedOutbox } from '../../src/engine/processor/bounded-outbox.ts'
import { ENDS_ALONE_MAX, STEP_PAUSE_MS_MIN } from '../../src/engine/processor/limits.ts'
import { LiveRows } from '../../src/engine/processor/live-rows.ts'
import type { LogProcessor } from '../../src/engine/processor/log-processor.ts'
import { openProcessor } from '../../src/engine/processor/open-processor.ts'
import { ProcessingAttempts } from '../../src/engine/processor/processing-attempts.ts'
import { PROCESS_CALLS } from '../../src/engine/threads/processing/process-calls.ts'
import type { ProcessResult, ProcessTask } from '../../src/engine/threads/tasks.ts'
import { LogBlockWriter, ParsedEvents } from '../../src/rules/capture/log-block.ts'
import type { SegmentBuilder } from '../../src/store/events/format/segment-builder.ts'
import { SegmentEncoder } from '../../src/store/events/format/segment-encoder.ts'
import { QUALITY_SMALL } from '../../src/store/events/format/segment-format.ts'
import { refuseDamage } from '../../src/store/faults.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { EVENTS_TABLES } from '../../src/store/lmdb/keys.ts'
import { LogAppender } from '../../src/store/log/event-log.ts'
import { readDeadLetters } from '../../src/store/rejected/dead-letter-store.ts'
import { threadSettings } from '../fixtures/persons/person-log.ts'
import { openReader, uuidOf } from '../fixtures/stored-events.ts'
import { eventually } from '../fixtures/timed-command.ts'

const AT_MS = Date.UTC(2024, 0, 15)
const TASK: ProcessTask = { budgetMs: 3_600_000, isDiskShort: false, lateInMs: 0, watches: [] }
const POISON = 'poison'

/** Called before a segment is encoded. An error that it throws is the fault. */
type Fault = (names: readonly unknown[], isMerge: boolean) => void

/** The stores of a processing thread, and the log that it reads. */
class Thread {
  readonly dataDir: string
  readonly attempts: ProcessingAttempts
  readonly outbox = new BoundedOutbox()
  readonly live = new LiveRows(this.outbox)
  nowMs = AT_MS
  readonly #appender: LogAppender
  #opened: LogProcessor | undefined
  #events = 0

  constructor(t: Test) {
    this.dataDir = t.testdir()
    this.#appender = new LogAppender({ dataDir: this.dataDir, processed: 0 })
    this.attempts = new ProcessingAttempts(this.dataDir, true, { now: () => this.nowMs })
    t.teardown(async () => {
      await this.#opened?.close()
      await this.#appender.close()
      this.attempts.close()
    })
  }

  get processor(): LogProcessor {
    const { attempts, outbox } = this
    this.#opened ??= openProcessor(threadSettings(this.dataDir), refuseDamage, { attempts, outbox })
    return this.#opened
  }

  async abandon(): Promise<void> {
    const opened = this.#opened
    this.#opened = undefined
    await opened?.close()
  }

  /** Appends one block of events with these names. Returns the sequence number of the block. */
  send(...names: readonly string[]): number {
    const text = (event: string): string =>
      JSON.stringify({ event, distinct_id: event, properties: { $set: { event } } })
    const writer = new LogBlockWriter(Buffer.allocUnsafe(1024 * 1024))
    const uuids = names.map(() => uuidOf(this.#events++))
    const header = { projectId: 1, flags: 0, sentAtMs: Number.NaN, address: '' }
    writer.add({ ...header, arrivedAtMs: AT_MS }, new ParsedEvents(names.map(text), uuids))
    return this.#appender.append([writer.finish()], 0)
  }

  run(task: Partial<ProcessTask> = {}): Promise<ProcessResult> {
    return Promise.resolve(PROCESS_CALLS.process.run(this, { ...TASK, ...task }))
  }

  /** Runs until everything is processed. Returns the results that had a failure. */
  async finish(): Promise<readonly ProcessResult[]> {
    const failed: ProcessResult[] = []
    for (let runs = 0; runs < 200; runs++) {
      const result = await this.run()
      if (result.failure !== undefined) failed.push(result)
      else if (result.isIdle) return failed
    }
    throw new Error('it does not come to an end')
  }

  /** Names of the stored events, in their order. */
  async stored(t: Test): Promise<readonly string[]> {
    const { results } = openReader(t, this.dataDir).listEvents({ projectId: 1, limit: 10_000 })
    // All have the same time, so pages begin with the event that arrived last.
    return results.map(({ event }) => event).reverse()
  }

  async letters(): Promise<readonly { readonly reason: string; readonly step: string }[]> {
    await this.abandon()
    const environment = new Environment({
      dataDir: this.dataDir,
      name: 'events',
      tables: EVENTS_TABLES,
    })
    const letters = [...readDeadLetters(environment.tables.dead_letters)]
    await environment.close()
    return letters.map(({ reason, step }) => ({ reason, step }))
  }
}

/** Before a segment is encoded, `fault` may throw. */
function breakEncoder(t: Test, fault: Fault): void {
  const { encode } = SegmentEncoder.prototype
  t.capture(
    SegmentEncoder.prototype,
    'encode',
    function (this: SegmentEncoder, ...given: Parameters<SegmentEncoder['encode']>) {
      const [, , builder, quality] = given
      fault((builder as SegmentBuilder).names.values, quality === QUALITY_SMALL)
      return encode.apply(this, given)
    },
  )
}

const names = (prefix: string, count: number): readonly string[] =>
  Array.from({ length: count }, (_, index) => `${prefix}${index}`)

t.test(
  'an event that cannot be stored becomes a dead letter, and all others are stored',
  async (t) => {
    const thread = new Thread(t)
    breakEncoder(t, (gathered) => {
      if (gathered.includes(POISON)) throw new RangeError('Invalid string length')
    })
    thread.send(...names('a', 100))
    thread.send(...names('b', 40), POISON, ...names('c', 60))
    thread.send(...names('d', 100))
    const failed = await thread.finish()
    t.ok(failed.length <= 8, `${failed.length} attempts failed`)
    t.ok(failed.every(({ failure }) => failure?.kind === 'events'))
    t.match(await thread.letters(), [
      { step: 'process', reason: 'RangeError: Invalid string length' },
    ])
    const sent = [names('a', 100), names('b', 40), names('c', 60), names('d', 100)].flat()
    t.strictSame(await thread.stored(t), sent, 'each once, in order')
  },
)

t.test('events that only fail together are all stored', async (t) => {
  const thread = new Thread(t)
  breakEncoder(t, (gathered) => {
    if (gathered.length > 10) throw new RangeError('Array buffer allocation failed')
  })
  thread.send(...names('a', 150))
  thread.send(...names('b', 150))
  await thread.finish()
  t.strictSame(await thread.letters(), [])
  t.strictSame(await thread.stored(t), [...names('a', 150), ...names('b', 150)])
})

t.test(
  'a block that is stored in several transactions has the same events, even if the store is reopened between them',
  async (t) => {
    const thread = new Thread(t)
    const all = [...names('a', 40), 'a1', 'a1', ...names('b', 40)]
    thread.send(...all)
    breakEncoder(t, (gathered) => {
      if (gathered.length > 7) throw new RangeError('too many')
    })
    let runs = 0
    for (let last = 1, processed = 0; processed < last; runs++) {
      const result = await thread.run({ commitEventsMin: 1 })
      last = result.last
      processed = result.processed
      await thread.abandon()
    }
    t.ok(runs > 10, `there were ${runs} runs`)
    t.strictSame(await thread.stored(t), all)
  },
)

t.test('a shortage is waited for, and no event becomes a dead letter because of it', async (t) => {
  const thread = new Thread(t)
  let left = 20
  breakEncoder(t, () => {
    if (left-- <= 0) return
    throw Object.assign(new Error('EMFILE: too many open files, open'), { code: 'EMFILE' })
  })
  thread.send(POISON)
  const failed = await thread.finish()
  t.equal(failed.length, 20)
  t.ok(failed.every(({ failure }) => failure?.shortage === 'files'))
  t.strictSame(await thread.letters(), [])
  t.strictSame(await thread.stored(t), [POISON])
})

t.test('a failed merge changes no segment and is retried later', async (t) => {
  const thread = new Thread(t)
  let isBroken = true
  breakEncoder(t, (_, isMerge) => {
    if (isMerge && isBroken) throw new RangeError('Invalid string length')
  })
  const sent = names('a', 20)
  for (const name of sent) {
    thread.send(name)
    await thread.run({ isDiskShort: true })
  }
  const failed = await thread.finish()
  t.ok(failed.length > 0 && failed.length < 20, `${failed.length} attempts failed`)
  t.ok(failed.every(({ failure }) => failure?.kind === 'maintenance'))
  t.strictSame((await thread.run()).pausedSteps, ['merge'])
  t.strictSame(await thread.stored(t), sent)
  isBroken = false
  await thread.abandon()
  await thread.finish()
  t.equal(await segmentsOf(thread), 20, 'the merge is not retried yet')
  thread.nowMs += STEP_PAUSE_MS_MIN
  await thread.abandon()
  await thread.finish()
  t.ok((await segmentsOf(thread)) < 20)
  t.strictSame((await thread.run()).pausedSteps, [])
  t.strictSame(await thread.stored(t), sent)
})

async function segmentsOf(thread: Thread): Promise<number> {
  await thread.abandon()
  const environment = new Environment({
    dataDir: thread.dataDir,
    name: 'events',
    tables: EVENTS_TABLES,
  })
  const count = environment.tables.segment_headers.getKeysCount({})
  await environment.close()
  return count
}

t.test(
  '/_health reports failures as long as they last, and processing continues afterward',
  async (t) => {
    const thread = new Thread(t)
    let isBroken = true
    breakEncoder(t, () => {
      if (isBroken)
        throw Object.assign(new Error('EMFILE: too many open files, open'), { code: 'EMFILE' })
    })
    const troubles: ProcessingTrouble[] = []
    const results: ProcessResult[] = []
    const loop = new ProcessingLoop({
      // The only method of the pool that the loop calls.
      pool: { run: ((_name: string, [task]: [ProcessTask]) => thread.run(task)) as never },
      clock: { now: () => Date.now(), monotonic: () => performance.now() },
      disk: { isExhausted: false, isBelowFloor: () => false },
      front: { isBusy: false },
      lagMsMax: 60_000,
      onResult: (result) => results.push(result),
      onTrouble: (trouble) => troubles.push(trouble),
      onFailure: (cause) => t.error(cause),
    })
    t.teardown(() => loop.finish(5000))
    loop.start()
    loop.committed(thread.send('a'), 100, 1)
    t.ok(await eventually(async () => troubles.length > 2))
    t.match(loop.troubles, [/cannot open more files/])
    t.match(troubles[2], { kind: 'shortage', failures: 3, reason: /EMFILE/ })
    isBroken = false
    t.ok(await eventually(async () => results.at(-1)?.processed === 1))
    t.strictSame(loop.troubles, [])
  },
)

t.test(
  'an attempt counts if the process ended, and the eighth one makes the event a dead letter',
  (t) => {
    const dataDir = t.testdir()
    const place = { position: 7, done: 3 }
    const end = (count: number): void => {
      const attempts = new ProcessingAttempts(dataDir)
      attempts.begin(place, 0)
      attempts.grow(count)
      attempts.close()
    }
    const plan = (mayGiveUp = true) => {
      const attempts = new ProcessingAttempts(dataDir, mayGiveUp)
      const made = attempts.plan(place)
      attempts.close()
      return made
    }
    t.strictSame(plan(), { eventsMax: Number.POSITIVE_INFINITY, setAside: null })
    end(1000)
    t.strictSame(plan(), { eventsMax: 128, setAside: null })
    end(128)
    t.strictSame(plan(), { eventsMax: 16, setAside: null })
    for (let ends = 1; ends < ENDS_ALONE_MAX; ends++) {
      end(1)
      t.strictSame(plan(), { eventsMax: 1, setAside: null })
    }
    end(1)
    t.match(plan(), { eventsMax: 1, setAside: /ended 8 times/ })
    t.match(plan(false), { eventsMax: 1, setAside: null }, 'another replica may have enough memory')
    const attempts = new ProcessingAttempts(dataDir)
    attempts.begin(place, 1)
    attempts.succeeded()
    t.match(attempts.plan({ position: 7, done: 4 }), { eventsMax: 2 }, 'the pause grows each time')
    for (let success = 0; success < 20; success++) attempts.succeeded()
    t.match(attempts.plan({ position: 8, done: 0 }), { eventsMax: Number.POSITIVE_INFINITY })
    attempts.close()
    t.end()
  },
)

t.test('a maintenance step is paused if the process ended during it twice in a row', (t) => {
  const dataDir = t.testdir()
  // The record opened within a step is the one that a process which ended there would leave.
  const endWithin = (): ProcessingAttempts => {
    const ended = openAt(dataDir, AT_MS)
    const next = ended.run('merge', () => openAt(dataDir, AT_MS), 4, 9)
    ended.close()
    return next
  }
  const once = endWithin()
  t.notOk(once.isPaused('merge', 4, 9), 'a single end may have had another reason')
  once.run('merge', () => undefined, 4, 9)
  once.close()
  const again = endWithin()
  t.notOk(again.isPaused('merge', 4, 9), 'the step succeeded in between')
  again.close()
  const twice = endWithin()
  t.ok(twice.isPaused('merge', 4, 9))
  t.notOk(twice.isPaused('merge', 4, 10))
  t.notOk(twice.isPaused('erase'))
  twice.close()
  const later = openAt(dataDir, AT_MS + 2 * STEP_PAUSE_MS_MIN)
  t.notOk(later.isPaused('merge', 4, 9))
  later.close()
  t.end()
})

t.test('a maintenance step that met a shortage is not paused', (t) => {
  const attempts = openAt(t.testdir(), AT_MS)
  t.throws(() => attempts.run('merge', fail(new RangeError('too large')), 4, 9))
  const shortage = Object.assign(new Error('EMFILE: too many open files, open'), { code: 'EMFILE' })
  t.throws(() => attempts.run('erase', fail(shortage)), shortage)
  t.notOk(attempts.isPaused('erase'))
  t.ok(attempts.isPaused('merge', 4, 9), 'an earlier failure still counts')
  attempts.close()
  t.end()
})

function fail(error: Error): () => never {
  return () => {
    throw error
  }
}

function openAt(dataDir: string, nowMs: number): ProcessingAttempts {
  return new ProcessingAttempts(dataDir, true, { now: () => nowMs })
}
