/**
 * The parts of the program that limit the memory and the time of reads: chunks of tables, segments of large events,
 * answers that wait to be sent, and the scheduling of long reads.
 *
 * @lane all
 */
import t from 'tap'
import { SYSTEM_CLOCK } from '../../../src/base/clock.ts'
import { toCsv } from '../../../src/base/csv.ts'
import { RowsWriter } from '../../../src/base/rows-writer.ts'
import { ServiceMetrics } from '../../../src/engine/front/service-metrics.ts'
import { LongReads } from '../../../src/engine/threads/long-reads.ts'
import { makeTableChunk, type TableState } from '../../../src/engine/threads/table-tasks.ts'
import { type WaitingAnswer, WaitingAnswers } from '../../../src/http/server/waiting-answers.ts'
import { personBody } from '../../../src/rules/persons/person-answer.ts'
import { decodeGroup, encodeGroup } from '../../../src/store/events/format/segment-format.ts'
import { PersonLog, threadSettings } from '../../fixtures/persons/person-log.ts'
import { eventually } from '../../fixtures/timed-command.ts'

const MIB = 1024 * 1024
const LIST = { projectId: 1, limit: 10_000, offset: 0, nowMs: 2e12 }

t.test('a table that is made in chunks equals a table that is made at once', async (t) => {
  const log = new PersonLog(t, t.testdir())
  const events = Array.from({ length: 500 }, (_, index) => ({
    event: 'e',
    distinct_id: `p${index}`,
    timestamp: new Date(index * 1000).toISOString(),
    properties: { $set: { text: `${index},"${'z'.repeat(8000)}"`, [`n${index % 70}`]: index } },
  }))
  log.send(1, events)
  log.process()
  const canceled = new Int32Array(1)
  const tools = { stores: { reader: log.reader }, canceled }
  const texts: string[] = []
  let table: typeof LIST | TableState | null = LIST
  let chunks = 0
  while (table !== null) {
    const { piece: chunk, rest } = makeTableChunk(tools, table)
    t.ok(chunk.length < MIB, `a chunk of ${chunk.length} bytes`)
    texts.push(new TextDecoder().decode(chunk))
    table = rest
    chunks++
  }
  t.ok(chunks > 5, `${chunks} chunks`)
  t.ok(texts.join('') === toCsv(log.reader.persons().list(LIST).results.map(personBody)))
  Atomics.store(canceled, 0, 1)
  t.throws(() => makeTableChunk(tools, LIST), 'no chunk is made without a reader')
})

t.test('a page of text ends before its limit, but contains at least one row', async (t) => {
  const writer = new RowsWriter('json', 20)
  t.ok(writer.add({ text: 'longer than all that' }))
  t.notOk(writer.add({}))
  const { rows, rowCount, isCut } = writer.finish()
  t.same(JSON.parse(new TextDecoder().decode(rows)), [{ text: 'longer than all that' }])
  t.equal(rowCount, 1)
  t.ok(isCut)
  const table = new RowsWriter('csv')
  const large = { text: 'x'.repeat(9 * MIB) }
  t.ok(table.add(large))
  t.throws(() => table.add(large), { code: 'invalid_input', attr: 'format' })
})

t.test('segments of large events are bounded by bytes, and merges keep that bound', async (t) => {
  const log = new PersonLog(t, t.testdir())
  for (let batch = 0; batch < 20; batch++) {
    const events = Array.from({ length: 5 }, (_, index) => ({
      event: 'e',
      distinct_id: 'd',
      properties: { text: `${batch} ${index} ${'x'.repeat(900_000)}` },
    }))
    log.send(1, events)
  }
  log.process()
  const [project] = log.reader.statistics().projects
  t.equal(project?.rows, 100)
  t.ok((project?.segments ?? 0) >= 3, `${project?.segments ?? 0} segments for 90 MB`)
  const seen = new Set<number>()
  let cursor: { timestampMs: number; id: number } | null = null
  for (let pages = 0; pages === 0 || cursor !== null; pages++) {
    const query = { projectId: 1, limit: 1000, ...(cursor === null ? {} : { cursor }) }
    const page = log.reader.eventRows(query, new RowsWriter('json'), () => undefined)
    const rows = JSON.parse(new TextDecoder().decode(page.rows)) as readonly { id: number }[]
    t.equal(page.rowCount, rows.length)
    for (const { id } of rows) seen.add(id)
    cursor = page.nextCursor
  }
  t.equal(seen.size, 100)
})

t.test('a stored group of any size can be read', async (t) => {
  const content = Buffer.alloc(300 * MIB, 'x')
  const stored = Buffer.concat(encodeGroup(content, 1))
  t.ok(decodeGroup(stored).equals(content))
})

class Waiting implements WaitingAnswer {
  heldBytes = 10
  memory: readonly ArrayBufferLike[] = []
  readBytes = 0
  waitedMs = 0
  sinceMs: number | null
  isCut = false

  constructor(waitsMs: number) {
    this.sinceMs = performance.now() - waitsMs
  }

  cut(): void {
    this.isCut = true
  }
}

t.test(
  'memory that several answers share is counted once, until the last one is sent',
  async (t) => {
    const metrics = new ServiceMetrics({ version: '0', clock: SYSTEM_CLOCK })
    const waiting = new WaitingAnswers({ metrics, stallMs: 60_000, bytesMax: 100 })
    const shared = new ArrayBuffer(80)
    const readers = Array.from({ length: 20 }, () => {
      const reader = new Waiting(0)
      reader.heldBytes = 0
      reader.memory = [shared]
      return reader
    })
    for (const reader of readers) {
      t.ok(waiting.hasRoomFor([shared]))
      waiting.add(reader)
    }
    t.equal(metrics.httpAnswerBytesWaiting.value, 80)
    t.notOk(waiting.hasRoomFor([new ArrayBuffer(21)]), 'other memory is refused when all is full')
    t.ok(waiting.hasRoomFor([shared, new ArrayBuffer(20)]))
    for (const reader of readers.slice(1)) waiting.remove(reader)
    t.equal(metrics.httpAnswerBytesWaiting.value, 80)
    for (const reader of readers) waiting.remove(reader)
    t.equal(metrics.httpAnswerBytesWaiting.value, 0)
    t.ok(waiting.hasRoomFor([new ArrayBuffer(21)]))
  },
)

t.test('waiting answers have a limit of memory and of time', async (t) => {
  const metrics = new ServiceMetrics({ version: '0', clock: SYSTEM_CLOCK })
  const options = { metrics, stallMs: 400, bytesMax: 30, bytesPerSecondMin: 1000 }
  const waiting = new WaitingAnswers(options)
  const [fresh, old, older] = [new Waiting(0), new Waiting(1200), new Waiting(5000)]
  for (const answer of [fresh, old, older]) waiting.add(answer)
  t.equal(metrics.httpAnswerBytesWaiting.value, 30)
  t.ok(waiting.hasRoom(10), 'a stalled reader is removed to make room')
  t.strictSame([fresh.isCut, old.isCut, older.isCut], [false, false, true], 'the longest first')
  t.notOk(waiting.hasRoom(25), 'who does not stays')
  t.strictSame([fresh.isCut, old.isCut], [false, true])
  const slow = new Waiting(0)
  slow.waitedMs = 1000
  slow.readBytes = 300
  const fast = new Waiting(0)
  fast.waitedMs = 1000
  fast.readBytes = 30_000
  for (const answer of [slow, fast]) waiting.add(answer)
  const keepAlive = setInterval(() => {
    for (const answer of [fresh, slow, fast]) answer.sinceMs = performance.now()
  }, 20)
  await eventually(async () => slow.isCut)
  clearInterval(keepAlive)
  t.strictSame(
    [fresh.isCut, slow.isCut, fast.isCut],
    [false, true, false],
    'the speed counts over the whole answer',
  )
  await eventually(async () => fresh.isCut && fast.isCut)
  t.strictSame([fresh.isCut, fast.isCut], [true, true], 'no reader waits forever')
  t.equal(metrics.httpAnswerBytesWaiting.value, 0)
  t.equal(metrics.httpReadersCut.with('slow').value, 1)
})

t.test(
  'small reads go before long ones, and if there are too many the largest is refused',
  async (t) => {
    const log = new PersonLog(t, t.testdir())
    log.send(1, [{ event: 'e', distinct_id: 'd' }])
    log.process()
    const reads = new LongReads({
      threads: threadSettings(log.dataDir),
      threadCount: 1,
      onDeath: ({ cause }) => t.fail(String(cause)),
    })
    t.teardown(() => reads.close())
    const done: number[] = []
    const leave: (() => void)[] = []
    const ask = async (weight: number): Promise<void> => {
      const task = { call: 'listEvents', values: [{ projectId: 1, limit: weight }] }
      await reads.run(task, weight, (cancel) => leave.push(cancel))
      done.push(weight)
    }
    const first = ask(1)
    const large = Array.from({ length: 40 }, (_, index) => ask(100 + index))
    const outcomes = Promise.allSettled(large)
    const gone = ask(50)
    leave.at(-1)?.()
    await t.rejects(gone, 'a client that disconnects leaves the queue')
    await Promise.all([first, ask(2)])
    t.strictSame(done, [1, 2])
    const refused = (await outcomes).filter(({ status }) => status === 'rejected')
    t.equal(refused.length, 9, 'all others except those that may wait')
    t.match(refused[0], { reason: { code: 'server_error', retryAfterSeconds: 2 } })
    t.strictSame(
      done.slice(2),
      Array.from({ length: 31 }, (_, index) => 100 + index),
    )
    t.equal(reads.queueDepth, 0)
  },
)
