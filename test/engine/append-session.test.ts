/**
 * Tests append sessions with a thread and a log of files. Every append that is reported as durable is in the log once
 * and in order, and every caller is notified of every end.
 *
 * @lane quick
 */
import { setTimeout } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { SLAB_BYTES_MAX } from '../../src/base/limits.ts'
import { AppendSessions } from '../../src/engine/threads/appending/append-session.ts'
import { APPEND_SESSION_IDLE_MS_MAX } from '../../src/engine/threads/limits.ts'
import type { AppendResult, AppendTask } from '../../src/engine/threads/tasks.ts'
import { ThreadEndedError, ThreadGroup } from '../../src/engine/threads/thread-group.ts'
import { LogReader } from '../../src/store/log/event-log.ts'
import { Differences } from '../fixtures/differences.ts'
import { threadSettings } from '../fixtures/persons/person-log.ts'

const ENTRY = new URL('../fixtures/faults/failing-appender.js', import.meta.url)
/** The bytes before the content of a block: mark and checksum. */
const SEAL_BYTES = 8

t.setTimeout(300_000)

/** A log, its thread and the sessions with it. */
class World {
  readonly dataDir: string
  readonly sessions: AppendSessions
  readonly deaths: unknown[] = []
  /** Calls of the thread. */
  readonly counts = { append: 0, serve: 0 }
  /** The shared words of the session that began last. */
  words: Int32Array = new Int32Array()

  constructor(t: Test) {
    this.dataDir = t.testdir()
    const group = new ThreadGroup({
      kind: 'writer',
      settings: threadSettings(this.dataDir),
      entry: ENTRY,
      threadsMin: 1,
      threadsMax: 1,
      pool: { atomics: 'sync' },
      onDeath: ({ isReplaced }) => this.deaths.push(isReplaced),
    })
    t.teardown(() => group.close())
    this.sessions = new AppendSessions({
      append: (task) => {
        this.counts.append++
        return group.run({ call: 'append', values: [task] }) as Promise<AppendResult>
      },
      serve: (session) => {
        this.counts.serve++
        this.words = session.words
        return group.run({ call: 'serveAppends', values: [session] }) as Promise<void>
      },
    })
  }

  append(text: string, memory = new SharedArrayBuffer(1024)): Promise<AppendResult> {
    return this.sessions.append(task(text, memory))
  }

  /** Appends until an append has opened a session. An open session ends first, because appends would keep it open. */
  async open(memory?: SharedArrayBuffer): Promise<void> {
    await setTimeout(3 * APPEND_SESSION_IDLE_MS_MAX)
    const { serve } = this.counts
    while (this.counts.serve === serve) await this.append('open', memory)
  }

  async texts(): Promise<readonly string[]> {
    const reader = new LogReader({ dataDir: this.dataDir })
    const { first, last } = reader.extent() ?? { first: 1, last: 0 }
    const texts = Array.from({ length: last - first + 1 }, (_, index) =>
      String(reader.block(first + index)?.toString('latin1', SEAL_BYTES)),
    )
    await reader.close()
    return texts
  }
}

function task(text: string, memory: SharedArrayBuffer): AppendTask {
  const bytes = SEAL_BYTES + Buffer.from(memory).write(text, SEAL_BYTES, 'latin1')
  return { blocks: [{ buffer: memory, bytes }], trimThrough: 0 }
}

/** Behaves like a front end that is too busy to process messages. */
function standStill(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

t.test('consecutive appends share a session, in any kind of memory', async (t) => {
  const world = new World(t)
  const memories = [1024, 4096].map((bytes) => new SharedArrayBuffer(bytes))
  const expected: string[] = []
  const differences = new Differences()
  for (let index = 0; index < 300; index++) {
    const text = `block ${index}`
    const { last, commitMs } = await world.append(text, memories[index % memories.length])
    expected.push(text)
    differences.equal(last, expected.length, text)
    differences.ok(commitMs >= 0, `${text} took ${commitMs} ms`)
  }
  t.strictSame(differences.list(), [], 'every append is told its number and its time')
  t.strictSame(await world.texts(), expected)
  t.ok(world.counts.append + world.counts.serve < 100, 'most of them are not calls')
})

t.test('a late wake-up of the main thread has no effect', async (t) => {
  const world = new World(t)
  const memory = new SharedArrayBuffer(1024)
  await world.open(memory)
  let lateCalls = 0
  for (let index = 0; index < 200; index++) {
    const appended = world.append(`block ${index}`, memory)
    // The delayed action of the thread for the previous append.
    lateCalls += Atomics.notify(world.words, 0)
    await appended
  }
  t.ok(lateCalls > 0)
  const texts = (await world.texts()).filter((text) => text !== 'open')
  t.strictSame(
    texts,
    texts.map((_, index) => `block ${index}`),
  )
  t.equal(texts.length, 200)
})

t.test('blocks in a slab, several blocks, none, and those after a pause', async (t) => {
  const world = new World(t)
  const memory = new SharedArrayBuffer(1024)
  await world.open(memory)
  await world.append('in a slab', new SharedArrayBuffer(SLAB_BYTES_MAX))
  await world.append('behind it', memory)
  const others = ['one of two', 'two of two'].map((text) => task(text, new SharedArrayBuffer(64)))
  await world.sessions.append({ blocks: others.flatMap(({ blocks }) => blocks), trimThrough: 0 })
  await world.open(memory)
  await setTimeout(3 * APPEND_SESSION_IDLE_MS_MAX)
  const texts = await world.texts()
  t.strictSame(
    texts.filter((text) => text !== 'open'),
    ['in a slab', 'behind it', 'one of two', 'two of two'],
  )
  const appends = texts.length
  t.equal((await world.append('after a rest', memory)).last, appends + 1)
  t.equal((await world.sessions.append({ blocks: [], trimThrough: appends })).last, appends + 1)
  await world.append('last', memory)
  t.strictSame((await world.texts()).slice(-2), ['after a rest', 'last'])
  t.equal((await world.texts()).length, 2, 'the others are released')
})

t.test(
  'an append completes even if the main thread first learns that the session has ended',
  async (t) => {
    const world = new World(t)
    const memory = new SharedArrayBuffer(1024)
    for (let round = 0; round < 5; round++) {
      await world.open(memory)
      const appended = world.append(`round ${round}`, memory)
      standStill(4 * APPEND_SESSION_IDLE_MS_MAX)
      t.ok((await appended).last > 0)
      await world.append(`after round ${round}`, memory)
    }
    const rounds = (await world.texts()).filter((text) => text !== 'open')
    t.equal(rounds.length, 10)
    t.strictSame(world.deaths, [])
  },
)

t.test('a full disk refuses one append, and the next one succeeds', async (t) => {
  const world = new World(t)
  await world.open()
  await t.rejects(world.append('R'), { status: 503, code: 'server_error' })
  await world.open()
  await t.rejects(world.append('T'), /the disk is gone/)
  t.ok((await world.texts()).every((text) => text === 'open'))
})

t.test('the end of the thread is reported to callers, and the next thread continues', async (t) => {
  const world = new World(t)
  for (let death = 1; death <= 2; death++) {
    await world.open()
    await t.rejects(world.append('X'), ThreadEndedError)
    await world.append(`after death ${death}`)
    t.equal(world.deaths.length, death)
  }
  t.strictSame(world.deaths, [true, true])
  t.match((await world.texts()).join(), /after death 1.*after death 2/)
})
