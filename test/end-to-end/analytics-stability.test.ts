/**
 * The same queries get the same answers, however the events were stored: in many small segments, in merged segments,
 * after restarts, in threads with filled caches, and after a replay of the log from its start.
 *
 * @lane all
 */
import { cpSync } from 'node:fs'
import t, { type Test } from 'tap'
import type { LogProcessor } from '../../src/engine/processor/log-processor.ts'
import { openProcessor } from '../../src/engine/processor/open-processor.ts'
import { EventReader } from '../../src/store/events/read/event-reader.ts'
import { type SeenAnswer, seenAnswer } from '../fixtures/analytics/analytic-answers.ts'
import { referenceAnswer } from '../fixtures/analytics/analytic-reference.ts'
import { type RandomQuery, randomQuery } from '../fixtures/analytics/random-queries.ts'
import type { ReferenceWorld } from '../fixtures/analytics/reference-filters.ts'
import { Differences } from '../fixtures/differences.ts'
import { PersonLog, threadSettings } from '../fixtures/persons/person-log.ts'
import { RandomHistory } from '../fixtures/persons/random-histories.ts'

const SEEDS = [11, 12, 13]
const QUERIES = 60
const EVERYTHING_MS = 3_600_000

/** A question and the final state of the data. */
interface Asked {
  readonly projectId: number
  readonly query: RandomQuery
  readonly world: ReferenceWorld
}

/** Histories of requests with one event each. */
function grow(log: PersonLog): readonly RandomHistory[] {
  const histories = SEEDS.map((seed, index) => new RandomHistory(log, index + 1, seed))
  for (const history of histories) history.begin()
  for (let round = 0; round < 3; round++) {
    for (let event = 0; event < 25; event++) {
      for (const history of histories) history.sendSome(1)
    }
    log.process()
    for (const history of histories) history.command()
    log.process()
  }
  for (const history of histories) {
    history.sendSome(5)
    history.finish()
  }
  log.process()
  return histories
}

function questionsTo(histories: readonly RandomHistory[]): readonly Asked[] {
  return histories.flatMap((history) => {
    const { projectId, anchorMs, spanMs } = history
    const world = { ...history.world(), nowMs: anchorMs + spanMs / 2 }
    return Array.from({ length: QUERIES }, () => ({
      projectId,
      query: randomQuery(history),
      world,
    }))
  })
}

function answers(reader: EventReader, asked: readonly Asked[]): readonly SeenAnswer[] {
  return asked.map(({ projectId, query, world }) => seenAnswer(reader, projectId, query, world))
}

function openReader(t: Test, dataDir: string): EventReader {
  const reader = new EventReader({ dataDir })
  t.teardown(() => reader.close())
  return reader
}

function startProcessor(dataDir: string, commitEventsMax: number): LogProcessor {
  const fail = (error: Error): never => {
    throw error
  }
  return openProcessor(threadSettings(dataDir), fail, { commitEvents: commitEventsMax })
}

/** Processes the log of a directory without any idle time, so that segments stay as they are. */
function processOnly(processor: LogProcessor): void {
  // A commit takes longer than this, so that each run makes one commit and has no time left.
  while (true) {
    const { processed, last } = processor.run(0.05)
    if (processed >= last) return
  }
}

function segmentCount(reader: EventReader): number {
  return reader.statistics().projects.reduce((sum, { segments }) => sum + segments, 0)
}

t.test('answers stay the same through all changes of a store', async (t) => {
  const dir = t.testdir({ first: {}, small: {}, whole: {} })
  const log = new PersonLog(t, `${dir}/first`)
  const asked = questionsTo(grow(log))
  const expected = answers(log.reader, asked)
  const filled = expected.filter((answer) => 'rows' in answer && answer.rows.length > 0)
  t.ok(filled.length > asked.length / 5, 'many of the answers are not empty')
  await t.test('answers equal those of the reference evaluator', async (t) => {
    const differences = new Differences()
    for (const [index, { query, world }] of asked.entries()) {
      const reference = referenceAnswer(query.route, query.parameters, world)
      const answer = expected[index]
      const ids = answer !== undefined && 'rows' in answer ? answer.rows.map(([id]) => id) : null
      const wanted = 'rows' in reference ? reference.rows.map(({ id }) => id) : null
      differences.same(ids, wanted, () => JSON.stringify(query))
    }
    t.strictSame(differences.list(), [], 'every answer has the same persons')
  })

  await t.test(
    'answers are equal in small segments, in merged segments and after restarts',
    async (t) => {
      const dataDir = `${dir}/small`
      cpSync(`${dir}/first/log`, `${dataDir}/log`, { recursive: true })
      let processor = startProcessor(dataDir, 1)
      t.teardown(() => processor.close())
      processOnly(processor)
      const reader = openReader(t, dataDir)
      const before = segmentCount(reader)
      t.strictSame(answers(reader, asked), expected, 'in small segments')
      await processor.close()
      processor = startProcessor(dataDir, 1)
      t.strictSame(answers(openReader(t, dataDir), asked), expected, 'after a restart')
      processor.run(EVERYTHING_MS)
      const after = segmentCount(reader)
      t.ok(after < before / 4, `segments were merged: ${before}, then ${after}`)
      t.strictSame(answers(reader, asked), expected, 'merged, in a thread with a filled cache')
      t.strictSame(
        answers(openReader(t, dataDir), asked),
        expected,
        'merged, in a thread with an empty cache',
      )
      await processor.close()
      processor = startProcessor(dataDir, 1)
      processor.run(EVERYTHING_MS)
      t.strictSame(answers(reader, asked), expected, 'after another restart')
    },
  )

  await t.test('answers are equal after a replay of the log from its start', async (t) => {
    const dataDir = `${dir}/whole`
    cpSync(`${dir}/first/log`, `${dataDir}/log`, { recursive: true })
    const processor = startProcessor(dataDir, 1e9)
    t.teardown(() => processor.close())
    processor.run(EVERYTHING_MS)
    t.strictSame(answers(openReader(t, dataDir), asked), expected)
  })

  await t.test('answers are equal after a restart of the first store', async (t) => {
    await log.reopen()
    log.process()
    t.strictSame(answers(log.reader, asked), expected)
  })
})
