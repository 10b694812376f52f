/**
 * Tests when processing works and when it waits. It works immediately if a caller waits, after a moment if all is
 * quiet, and rarely beside a busy front end, with large commits and a bounded lag. Log and processor are real. The test
 * sets the load of the front end and the time.
 *
 * @lane quick
 */
import t, { type Test } from 'tap'
import { parseUuid, uuidV7 } from '../../src/base/ids.ts'
import { FrontLoad } from '../../src/engine/front/front-load.ts'
import { YIELD_EVENTS_MAX, YIELD_MS_MAX } from '../../src/engine/front/limits.ts'
import { ProcessingLoop } from '../../src/engine/front/processing-loop.ts'
import { openProcessor } from '../../src/engine/processor/open-processor.ts'
import type { ProcessResult, ProcessTask } from '../../src/engine/threads/tasks.ts'
import type { LogAppender } from '../../src/ports/log.ts'
import { LogBlockWriter, ParsedEvents } from '../../src/rules/capture/log-block.ts'
import { LogAppender as EmbeddedLog } from '../../src/store/log/event-log.ts'
import { threadSettings } from '../fixtures/persons/person-log.ts'
import { eventually } from '../fixtures/timed-command.ts'

const HEADER = { projectId: 1, flags: 0, sentAtMs: Number.NaN, address: '' }
/** Large events that show how fast processing is. */
const WARMING = 20
/** Longer than any check for whether to continue waiting. */
const LOOKS_MS = 400

/** A log with its processor, the loop between them, and a front end that is as busy as `isBusy` says. */
class World {
  isBusy = false
  isExhausted = false
  /** The time of the loop. Its timers use the time of the machine. */
  nowMs = 0
  readonly results: ProcessResult[] = []
  /** The number of events that waited after each of these results. */
  readonly waiting: number[] = []
  readonly loop: ProcessingLoop
  readonly #appender: LogAppender
  #uuids = 0

  /** With `commitEvents`, each processing run makes one commit of about this number of events. */
  constructor(
    t: Test,
    lagMsMax = 10_000,
    begin = (_world: World): void => {},
    commitEvents?: number,
  ) {
    const dataDir = t.testdir()
    this.#appender = new EmbeddedLog({ dataDir, processed: 0 })
    begin(this)
    const onDamage = (error: Error): void => void t.error(error)
    const processor = openProcessor(threadSettings(dataDir), onDamage, { commitEvents })
    const run = async (_name: string, [task]: readonly [ProcessTask]): Promise<ProcessResult> =>
      processor.run(task.budgetMs, task.isDiskShort, commitEvents ?? task.commitEventsMin)
    const world = this
    this.loop = new ProcessingLoop({
      // The only method of the pool that the loop calls.
      pool: { run: run as never },
      clock: { now: () => Date.now(), monotonic: () => this.nowMs },
      disk: {
        get isExhausted() {
          return world.isExhausted
        },
        isBelowFloor: () => false,
      },
      front: {
        get isBusy() {
          return world.isBusy
        },
      },
      lagMsMax,
      onResult: (result) => {
        this.results.push(result)
        this.waiting.push(this.loop.waitingEvents)
      },
      onFailure: (cause) => t.error(cause),
    })
    t.teardown(async () => {
      await this.loop.finish(5000)
      await processor.close()
      await this.#appender.close()
    })
  }

  /** Appends one block, and returns its sequence number and size. */
  async append(count: number, pad = ''): Promise<{ last: number; bytes: number }> {
    const writer = new LogBlockWriter(Buffer.allocUnsafeSlow(1024 * 1024))
    const nowMs = Date.now()
    const text = (index: number): string =>
      JSON.stringify({ event: 'seen', distinct_id: `user ${index % 9}`, properties: { pad } })
    const texts = Array.from({ length: count }, (_, index) => text(index))
    const uuids = texts.map(() => parseUuid(uuidV7(nowMs + this.#uuids++)))
    writer.add({ ...HEADER, arrivedAtMs: nowMs }, new ParsedEvents(texts, uuids))
    const block = writer.finish()
    return { last: await this.#appender.append([block], 0), bytes: block.length }
  }

  /** Appends one block and notifies the loop. */
  async send(count: number, pad = ''): Promise<void> {
    const { last, bytes } = await this.append(count, pad)
    this.loop.committed(last, bytes, count)
  }

  /** Sends such blocks one after another until events are stored. */
  async sendUntilStored(count: number): Promise<void> {
    await eventually(async () => {
      await this.send(count)
      return this.stored > 0
    })
  }

  get stored(): number {
    return this.results.reduce((sum, { eventCount }) => sum + eventCount, 0)
  }

  /** Lets enough events be processed to measure the speed of processing. */
  async warm(): Promise<void> {
    for (let block = 0; block < WARMING; block++) await this.send(1, 'x'.repeat(900_000))
    await this.until(WARMING)
  }

  /** The number of commits that stored events. */
  get commits(): number {
    return this.results.filter(({ eventCount }) => eventCount > 0).length
  }

  /** Waits at most a minute until a number of events is stored, and returns whether they are. */
  async until(count: number): Promise<boolean> {
    return await eventually(async () => this.stored >= count)
  }
}

const looks = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, LOOKS_MS))

async function started(t: Test, lagMsMax?: number): Promise<World> {
  const world = new World(t, lagMsMax)
  world.loop.start()
  await world.loop.caughtUp(5000)
  return world
}

t.test('an event can be read soon if the main thread is quiet', async (t) => {
  const world = await started(t)
  await world.send(1)
  t.ok(await world.until(1), 'the loop does not wait for time that only the test lets pass')
})

t.test('while the disk has no space, processing runs only now and then', async (t) => {
  const world = await started(t)
  const runs = world.results.length
  world.isExhausted = true
  await world.send(1)
  await looks()
  t.equal(world.results.length, runs)
  world.nowMs += 5000
  t.ok(await world.until(1), 'a run may erase events, and looks whether there is space')
})

t.test('while the main thread is busy, the events of a second are one commit', async (t) => {
  const world = await started(t)
  world.isBusy = true
  for (let block = 0; block < 20; block++) {
    await world.send(10)
    world.nowMs += 40
  }
  await looks()
  world.nowMs = YIELD_MS_MAX - 1
  await looks()
  t.equal(world.stored, 0, 'nothing is processed before')
  t.equal(world.loop.waitingEvents, 200)
  world.nowMs = YIELD_MS_MAX
  await world.until(200)
  t.equal(world.stored, 200)
  t.equal(world.commits, 1)
})

t.test('the loop does not wait when the main thread has become quiet', async (t) => {
  const world = await started(t)
  world.isBusy = true
  await world.send(1)
  await looks()
  t.equal(world.stored, 0)
  world.isBusy = false
  t.ok(await world.until(1), 'the loop does not wait for time that only the test lets pass')
})

t.test('many consecutive events are one commit while the main thread is quiet', async (t) => {
  const world = await started(t)
  const startMs = performance.now()
  // The time of the loop advances with each block, so that a check always sees new data.
  while (performance.now() - startMs < 2 * LOOKS_MS) {
    await world.send(world.loop.waitingEvents < 1000 ? 100 : 1)
    world.nowMs += 5
  }
  t.equal(world.stored, 0, 'events are gathered as long as they arrive')
  world.nowMs += YIELD_MS_MAX
  await world.until(1000)
  t.equal(world.commits, 1)
})

t.test('no more events are collected than make a commit cheaper', async (t) => {
  const world = await started(t)
  await world.sendUntilStored(2000)
  t.equal(world.nowMs, 0, 'the last ones have just arrived')
})

t.test('many events at once are processed without a further wait', async (t) => {
  const world = await started(t)
  await world.send(2000)
  world.nowMs += LOOKS_MS
  t.ok(await world.until(2000), 'the loop does not wait for time that only the test lets pass')
  t.ok(world.nowMs < YIELD_MS_MAX)
})

t.test('a slow series of events can be read soon', async (t) => {
  const world = await started(t)
  await world.sendUntilStored(1)
  t.equal(world.nowMs, 0, 'the last one has just arrived')
})

t.test('the loop does not wait for more events than one commit takes', async (t) => {
  const world = await started(t)
  world.isBusy = true
  const { last, bytes } = await world.append(1)
  world.loop.committed(last, bytes, YIELD_EVENTS_MAX + 1)
  t.ok(await world.until(1), 'the loop does not wait for time that only the test lets pass')
})

t.test('the loop does not wait while a caller waits for a change', async (t) => {
  const world = await started(t)
  world.isBusy = true
  await world.send(1)
  world.loop.hurry()
  t.ok(await world.until(1), 'the loop does not wait for time that only the test lets pass')
})

t.test('the loop does not wait when the daemon stops', async (t) => {
  const world = await started(t)
  world.isBusy = true
  await world.send(1)
  await world.loop.finish(5000)
  t.equal(world.stored, 1)
})

t.test('the wait is at most half of the lag limit', async (t) => {
  const world = await started(t, 1600)
  world.isBusy = true
  await world.send(1)
  world.nowMs = 799
  await looks()
  t.equal(world.stored, 0)
  world.nowMs = 800
  t.ok(await world.until(1), 'the loop does not wait for time that only the test lets pass')
  t.notOk(world.loop.isBehind)
})

t.test('while the main thread is busy, a commit ends where segments are full enough', async (t) => {
  const world = await started(t)
  world.isBusy = true
  for (let block = 0; block < 100; block++) {
    await world.send(103)
    world.nowMs += 8
  }
  world.nowMs += 300
  await world.until(10_300 - 4096)
  t.equal(world.commits, 1)
  t.equal(world.stored % 103, 0, 'the commit ends between two blocks')
  const lastSegment = world.stored % 8192
  t.ok(lastSegment === 0 || lastSegment >= 4096, `the last segment has ${lastSegment} rows`)
  world.isBusy = false
  await world.until(10_300)
  t.equal(world.stored, 10_300, 'the rest comes next')
})

t.test('beyond the lag limit processing is behind, until half of the limit', async (t) => {
  const world = await started(t, 2000)
  world.isBusy = true
  await world.send(1)
  t.notOk(world.loop.isBehind)
  world.nowMs += 2100
  await world.send(1)
  t.ok(world.loop.isBehind)
  t.ok(world.loop.lagMs > 2000)
  await world.until(2)
  t.notOk(world.loop.isBehind)
  t.equal(world.loop.lagMs, 0)
})

t.test('a backlog that cannot be processed in time counts as lag before it is old', async (t) => {
  const world = await started(t, 2000)
  await world.warm()
  world.isBusy = true
  await world.send(3000, 'x'.repeat(500))
  world.nowMs += 1000
  await world.until(WARMING + 3000)
  const [result] = world.results.filter(({ eventCount }) => eventCount === 3000)
  const bytesPerMs = (3000 * 600) / (result?.elapsedMs ?? 0)
  t.notOk(world.loop.isBehind)
  const { last } = await world.append(1)
  world.loop.committed(last, bytesPerMs * 20_000, 1)
  t.ok(world.loop.isBehind, 'twenty seconds of work are too many for two')
  t.equal(world.loop.oldestAgeMs, 0, 'no event is old yet')
  world.nowMs += 1000
  await world.until(WARMING + 3001)
  t.notOk(world.loop.isBehind)
})

t.test(
  'the speed of the first events does not count, because their code is not compiled yet',
  async (t) => {
    const world = await started(t, 2000)
    world.isBusy = true
    await world.send(3000, 'x'.repeat(500))
    world.nowMs += 1000
    await world.until(3000)
    const { last } = await world.append(1)
    world.loop.committed(last, Number.MAX_SAFE_INTEGER, 1)
    t.equal(world.loop.lagMs, 0)
    t.notOk(world.loop.isBehind)
    world.nowMs += 2100
    t.ok(world.loop.lagMs > 2000, 'age counts from the first event on')
    await world.until(3001)
  },
)

t.test('blocks of an earlier run are processed immediately, and refuse no request', async (t) => {
  const world = new World(t, 1000, (before) => void before.append(50))
  world.isBusy = true
  world.loop.start()
  await world.send(1)
  world.nowMs += 5000
  await world.send(1)
  t.notOk(world.loop.isBehind)
  t.ok(await world.until(52), 'the loop does not wait for time that only the test lets pass')
})

t.test('events of an earlier run wait until they are processed', async (t) => {
  const begin = (before: World): void => {
    for (let block = 0; block < 8; block++) void before.append(25)
  }
  const world = new World(t, 1000, begin, 50)
  world.nowMs = 3000
  world.loop.start(200)
  await world.send(1)
  t.equal(world.loop.waitingEvents, 201)
  world.nowMs = 7000
  t.equal(world.loop.waitingAgeMs, 4000, 'they are at least as old as this run')
  t.ok(await world.until(201))
  let left = 201
  const expected = world.results.map(({ eventCount }) => {
    left -= eventCount
    return left
  })
  t.same(world.waiting, expected, 'each commit makes them fewer')
  t.ok(world.commits > 1)
  t.equal(world.loop.waitingEvents, 0)
  t.equal(world.loop.waitingAgeMs, 0)
})

t.test('the main thread is busy if many requests share each commit', async (t) => {
  const times = { active: 0, idle: 0 }
  const load = new FrontLoad(() => ({ ...times }))
  const rest = (): void => {
    times.idle += 100
  }
  rest()
  t.notOk(load.isBusy, 'without requests')
  for (let commit = 0; commit < 100; commit++) load.committed(2)
  rest()
  t.notOk(load.isBusy, 'each alone')
  load.committed(30)
  rest()
  t.notOk(load.isBusy, 'some at once')
  for (let commit = 0; commit < 100; commit++) load.committed(20)
  t.notOk(load.isBusy, 'a look just after the one before sees nothing new')
  rest()
  t.ok(load.isBusy)
  t.ok(load.isBusy, 'this commit is not busy, either')
  rest()
  t.notOk(load.isBusy, 'over')
})

t.test('the main thread is busy if it is rarely idle', async (t) => {
  const times = { active: 0, idle: 0 }
  const load = new FrontLoad(() => ({ ...times }))
  times.active += 40
  times.idle += 60
  t.notOk(load.isBusy)
  times.active += 60
  times.idle += 40
  t.ok(load.isBusy)
})

t.test('times are those of the thread that reported them', async (t) => {
  const load = new FrontLoad()
  const { active } = performance.eventLoopUtilization()
  while (performance.eventLoopUtilization().active < active + 100);
  t.ok(load.isBusy, 'the thread has only worked')
})
