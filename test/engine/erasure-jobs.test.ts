/**
 * Tests an erasure job that is interrupted repeatedly, until it completes.
 *
 * @lane quick
 */
import { join } from 'node:path'
import t from 'tap'
import { newJob } from '../../src/rules/events/erasure-job.ts'
import { StoredSegments } from '../../src/store/events/read/segment-texts.ts'
import { ProcessingWriter } from '../../src/store/events/write/processing-writer.ts'
import { verifyStore } from '../../src/store/maintenance/verify/verify-store.ts'
import { runCommand } from '../fixtures/command-line.ts'
import { eventInput, openReader, uuidOf } from '../fixtures/stored-events.ts'

t.test('a job continues where it stopped, and counts the erased events', async (t) => {
  const dataDir = join(t.testdir(), 'data')
  t.match(await runCommand('init', '--data-dir', dataDir), { exitCode: 0 })
  let now = 0
  // Time passes so fast that one call does one step.
  const clock = { now: () => 0, monotonic: () => (now += 60) }
  const open = (): ProcessingWriter =>
    new ProcessingWriter({ dataDir, clock, segmentRowsTarget: 50 })
  let writer = open()
  for (let part = 0; part < 4; part++) {
    for (let index = 0; index < 50; index++) {
      const number = part * 50 + index
      const sketch = { uuid: uuidOf(number), name: index % 5 === 0 ? 'kept' : 'gone' }
      writer.add(eventInput({ ...sketch, properties: { secret: 'x'.repeat(100) + number } }))
    }
    writer.commit(part + 1)
  }
  writer.persons(1).addJob(
    newJob({
      origin: 'request',
      criteria: { event: 'gone', afterMs: null, beforeMs: null, distinctId: null, personId: null },
      requestedBy: 'ann@example.com',
      requestedAt: '2024-01-01T00:00:00Z',
      ids: null,
      rules: [{ event: 'gone', afterMs: null, beforeMs: null }],
      oldestThrough: 0,
      arrivedThroughMs: null,
      through: writer.warehouse.lastSequence(1),
    }),
  )
  writer.commit(5)
  const reader = openReader(t, dataDir)
  const seen: (number | undefined)[] = []
  for (let round = 0; round < 10; round++) {
    writer.warehouse.maintain(100)
    const receipt = reader.erasures().receipt(1, 1)
    seen.push(receipt?.events_removed)
    if (!writer.warehouse.maintain(0)) break
    await writer.close()
    t.same((await verifyStore(dataDir, () => undefined)).findings, [])
    writer = open()
  }
  t.strictSame(writer.warehouse.takeCarriedOut(), [{ projectId: 1, number: 1 }])
  t.strictSame(writer.warehouse.takeCarriedOut(), [], 'it is said once')
  await writer.close()
  writer = open()
  t.strictSame(
    writer.warehouse.takeCarriedOut(),
    [{ projectId: 1, number: 1 }],
    'and again by the next as long as nobody says that it is done',
  )
  t.match(reader.erasures().receipt(1, 1), { status: 'running', finished_at: null })
  for (const second of ['01', '02']) {
    writer.persons(1).doneJobs.add(1, `2024-01-01T00:00:${second}Z`)
    writer.commit(6)
  }
  await writer.close()
  writer = open()
  t.strictSame(writer.warehouse.takeCarriedOut(), [])
  await writer.close()
  t.ok(seen.includes(40) && seen.includes(120), 'there were interruptions in the middle')
  t.equal(seen.at(-1), 160)
  const receipt = reader.erasures().receipt(1, 1)
  t.match(
    receipt,
    { status: 'done', finished_at: '2024-01-01T00:00:01Z' },
    'the first receipt is right',
  )
  t.ok((receipt?.bytes_released ?? 0) > 1000)
  t.equal(reader.listEvents({ projectId: 1, limit: 1000 }).results.length, 40)
})

t.test(
  'a job is pending until its events are erased from all copies, whatever ends the job',
  async (t) => {
    const dataDir = join(t.testdir({}), 'data')
    t.match(await runCommand('init', '--data-dir', dataDir), { exitCode: 0 })
    const open = (hasCopies: boolean): ProcessingWriter =>
      new ProcessingWriter({ dataDir, hasCopies })
    let writer = open(true)
    const order = (through: number) => ({
      origin: 'person' as const,
      criteria: { event: null, afterMs: null, beforeMs: null, distinctId: null, personId: 'a' },
      requestedBy: 'ann@example.com',
      requestedAt: '2024-01-01T00:00:00Z',
      ids: [[1, 0, through]] as const,
      rules: [{ event: null, afterMs: null, beforeMs: null }],
      oldestThrough: 0,
      arrivedThroughMs: null,
      through,
    })
    for (let index = 0; index < 10; index++) writer.add(eventInput({ uuid: uuidOf(index) }))
    writer.commit(1)
    // Another machine was first: it reports completion before this store has erased anything.
    writer.persons(1).addJob(newJob(order(5)))
    writer.commit(2)
    writer.persons(1).doneJobs.add(1, '2024-01-01T00:00:01Z')
    writer.commit(3)
    while (writer.warehouse.maintain(100));
    const job = { projectId: 1, number: 1 }
    t.strictSame(writer.warehouse.takeCarriedOut(), [job])
    const reader = openReader(t, dataDir)
    t.match(reader.erasures().receipt(1, 1), { status: 'done', events_removed: 5 })
    await writer.close()
    writer = open(false)
    t.strictSame(writer.warehouse.takeCarriedOut(), [], 'nobody asks whoever has no copies')
    await writer.close()
    writer = open(true)
    t.strictSame(writer.warehouse.takeCarriedOut(), [job], 'it is known after a restart')
    const segments = new StoredSegments(dataDir)
    t.match(
      segments.erasure(1, 1),
      { ids: [[1, 0, 5]], through: 5 },
      'the erasure names all affected persons',
    )
    writer.warehouse.forgetCopies?.([job])
    t.match(segments.erasure(1, 1), { ids: [] }, 'the pending erasure is removed when it is done')
    await segments.close()
    await writer.close()
    writer = open(true)
    t.strictSame(writer.warehouse.takeCarriedOut(), [])
    t.same((await verifyStore(dataDir, () => undefined)).findings.length, 0)
    await writer.close()
  },
)
