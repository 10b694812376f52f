/**
 * Tests the logs next to the events: ingestion warnings and dead letters.
 *
 * @lane quick
 */
import t from 'tap'
import { eventInput, openReader, openWriter } from '../fixtures/stored-events.ts'

const HOUR_MS = 60 * 60 * 1000

t.test('warnings of one type and key are limited to one line per hour', async (t) => {
  const dataDir = t.testdir()
  let writer = openWriter(t, dataDir)
  const warn = (timeMs: number, distinctId: string): void => {
    writer.addWarning(1, timeMs, {
      type: 'event_timestamp_in_future',
      details: { distinct_id: distinctId, at: timeMs },
    })
  }
  warn(0, 'a')
  warn(1000, 'a')
  warn(2000, 'b')
  writer.addWarning(1, 3000, { type: 'ignored_invalid_timestamp', details: { field: 'sent_at' } })
  writer.addWarning(2, 3000, { type: 'ignored_invalid_timestamp', details: { field: 'sent_at' } })
  writer.commit(1)
  warn(HOUR_MS - 1, 'a')
  writer.commit(2)
  await writer.close()
  writer = openWriter(t, dataDir)
  warn(HOUR_MS - 1, 'a')
  warn(HOUR_MS, 'a')
  writer.commit(3)
  const lines = openReader(t, dataDir).listWarnings(1, 10)
  t.strictSame(
    lines.map((line) => [line.type, line.timestamp, line.details, line.count]),
    [
      [
        'event_timestamp_in_future',
        '1970-01-01T01:00:00.000Z',
        { distinct_id: 'a', at: HOUR_MS },
        1,
      ],
      ['ignored_invalid_timestamp', '1970-01-01T00:00:03.000Z', { field: 'sent_at' }, 1],
      ['event_timestamp_in_future', '1970-01-01T00:00:02.000Z', { distinct_id: 'b', at: 2000 }, 1],
      ['event_timestamp_in_future', '1970-01-01T00:00:00.000Z', { distinct_id: 'a', at: 0 }, 4],
    ],
  )
  t.equal(openReader(t, dataDir).listWarnings(1, 2).length, 2)
  t.equal(openReader(t, dataDir).listWarnings(2, 10).length, 1)
  t.strictSame(openReader(t, dataDir).listWarnings(3, 10), [])
})

t.test('the log of warnings keeps the newest lines', async (t) => {
  const dataDir = t.testdir()
  let writer = openWriter(t, dataDir, { warningLinesMax: 5 })
  for (let number = 0; number < 20; number++) {
    if (number === 13) {
      await writer.close()
      writer = openWriter(t, dataDir, { warningLinesMax: 5 })
    }
    writer.addWarning(1, number, {
      type: 'client_ingestion_warning',
      details: { distinct_id: `user ${number}` },
    })
    if (number % 3 === 0) writer.commit(number + 1)
  }
  writer.commit(30)
  const kept = openReader(t, dataDir).listWarnings(1, 100)
  t.strictSame(
    kept.map((line) => line.details['distinct_id']),
    ['user 19', 'user 18', 'user 17', 'user 16', 'user 15'],
  )
})

t.test('dead letters keep the accepted data, and the count continues', async (t) => {
  const dataDir = t.testdir()
  let writer = openWriter(t, dataDir)
  writer.beginBlock(1234)
  const raw = Buffer.from('{"event":"a"}')
  writer.addDeadLetter({ projectId: 3, step: 'process', reason: 'TypeError: x', raw })
  raw.fill(0)
  writer.add(eventInput())
  writer.commit(1)
  await writer.close()
  writer = openWriter(t, dataDir)
  const long = 'x'.repeat(5000)
  writer.addDeadLetter({ projectId: 0, step: 'read', reason: long, raw: new Uint8Array(5) })
  writer.commit(2)
  const reader = openReader(t, dataDir)
  const letters = [...reader.deadLetters()]
  t.match(letters, [
    { number: 1, projectId: 3, step: 'process', reason: 'TypeError: x', storedAtMs: 1234 },
    { number: 2, projectId: 0, step: 'read', reason: 'x'.repeat(1000), storedAtMs: 1234 },
  ])
  t.equal(Buffer.from(letters[0]?.raw ?? []).toString(), '{"event":"a"}')
  t.equal([...reader.deadLetters(1)].length, 1)
  t.equal(reader.statistics().deadLetters, 2)
})
