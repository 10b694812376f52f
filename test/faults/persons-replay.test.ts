/**
 * Tests that the same log always leads to the same persons: when it is replayed from its start, when it is divided into
 * transactions differently, and when SIGKILL interrupts processing at any time.
 *
 * @lane all
 */

import { spawn } from 'node:child_process'
import { cpSync } from 'node:fs'
import fc from 'fast-check'
import t from 'tap'
import { LogProcessor } from '../../src/engine/processor/log-processor.ts'
import type { PersonCommand } from '../../src/rules/persons/commands.ts'
import { readProcessedPosition } from '../../src/store/directory/data-dir.ts'
import { ProcessingWriter } from '../../src/store/events/write/processing-writer.ts'
import { WRITER_CACHE_BYTES_MAX } from '../../src/store/identity/limits.ts'
import { LogReader } from '../../src/store/log/event-log.ts'
import {
  PersonLog,
  personDigest,
  type SentEvent,
  threadSettings,
} from '../fixtures/persons/person-log.ts'
import { runsOf } from '../fixtures/random-depth.ts'
import { SCRIPT_WORDS, sourceText } from '../fixtures/source-script.ts'

const FIRST_MS = Date.UTC(2024, 0, 1)

type Step = { readonly event: SentEvent } | { readonly command: PersonCommand }

const ids = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f')
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc
      .record({
        event: fc.constantFrom('seen', '$identify', '$merge_dangerously', '$create_alias'),
        distinct_id: ids,
        other: ids,
        set: fc.dictionary(fc.constantFrom('email', 'plan', 'n'), fc.integer({ max: 3 })),
        isPersonless: fc.boolean(),
        automatic: fc.dictionary(
          fc.constantFrom('$os', '$os_version', '$browser', '$current_url', 'utm_source'),
          fc.constantFrom('x', 'y', 7),
        ),
        once: fc.dictionary(fc.constantFrom('plan', 'first'), fc.integer({ max: 3 })),
        unset: fc.subarray(['n', 'first', '$browser']),
      })
      .map(({ event, distinct_id, other, set, isPersonless, automatic, once, unset }) => ({
        event: {
          event,
          distinct_id,
          timestamp: new Date(FIRST_MS).toISOString(),
          properties: {
            ...automatic,
            $set: set,
            $set_once: once,
            $unset: unset,
            $groups: { company: other },
            ...(event === '$identify' ? { $anon_distinct_id: other } : { alias: other }),
            ...(event === 'seen' && isPersonless ? { $process_person_profile: false } : {}),
          },
        },
      })),
  },
  {
    weight: 2,
    arbitrary: fc
      .oneof(
        fc.record({
          kind: fc.constant('delete_person' as const),
          person: fc.integer({ min: 1, max: 8 }),
          deletesEvents: fc.constant(false),
        }),
        fc.record({
          kind: fc.constant('split_person' as const),
          person: fc.integer({ min: 1, max: 8 }),
          mainDistinctId: fc.option(ids),
        }),
        fc.record({
          kind: fc.constant('set_properties' as const),
          person: fc.integer({ min: 1, max: 8 }),
          set: fc.constant({ plan: 'by hand' }),
        }),
      )
      .map((command): Step => ({ command })),
  },
)

function fill(log: PersonLog, steps: readonly Step[], projectId: number): void {
  for (const one of steps) {
    if ('event' in one) log.send(projectId, [one.event])
    else log.append(projectId, one.command)
  }
}

/**
 * Processes a copy of the log from its start in transactions of a number of events, with a number of persons in memory
 * between them, and returns the digest.
 */
async function replay(
  from: string,
  to: string,
  commitEvents: number,
  personCacheBytesMax = WRITER_CACHE_BYTES_MAX,
): Promise<string> {
  cpSync(`${from}/log`, `${to}/log`, { recursive: true })
  const onDamage = (error: Error): never => {
    throw error
  }
  const settings = threadSettings(to)
  const store = new ProcessingWriter({ dataDir: to, onDamage, personCacheBytesMax })
  const log = new LogReader(settings)
  const processor = new LogProcessor({ settings, log, store, onDamage, commitEvents })
  processor.run(3_600_000)
  await processor.close()
  return personDigest(to)
}

t.test('random histories lead to the same persons from the start of the log', async (t) => {
  const dir = t.testdir({ first: {}, one: {}, three: {}, all: {}, forgetful: {}, lazy: {} })
  const log = new PersonLog(t, `${dir}/first`)
  const histories = fc.sample(fc.array(step, { minLength: 20, maxLength: 40 }), runsOf(15, 42))
  for (const [index, steps] of histories.entries()) {
    fill(log, steps, index + 1)
    log.process()
    if (index % 10 === 0) await log.reopen()
  }
  const digest = await personDigest(log.dataDir)
  for (const [projectId, query] of histories.map((_, index) => [index + 1, index] as const)) {
    const page = { projectId, limit: 100, offset: 0, nowMs: FIRST_MS + 1e12 }
    const persons = log.reader.persons().list(page)
    t.equal(persons.results.length, persons.count, `the counts of history ${query} are equal`)
    const linked = persons.results.flatMap((person) => person.distinct_ids)
    t.equal(
      new Set(linked).size,
      linked.length,
      `no distinct_id belongs to two persons in ${query}`,
    )
  }
  t.equal(await replay(log.dataDir, `${dir}/one`, 1), digest, 'each event has its own transaction')
  t.equal(await replay(log.dataDir, `${dir}/three`, 3), digest, 'a transaction has several events')
  t.equal(await replay(log.dataDir, `${dir}/all`, 1e9), digest, 'one transaction has all events')
  const forgetful = await replay(log.dataDir, `${dir}/forgetful`, 1, 0)
  t.equal(forgetful, digest, 'changed persons are evicted')
  t.equal(
    await replay(log.dataDir, `${dir}/lazy`, 7, 0),
    digest,
    'a transaction has several events, and persons are evicted',
  )
})

t.test('a process that is killed repeatedly ends with the same persons', async (t) => {
  const dir = t.testdir({ first: {}, killed: {} })
  const log = new PersonLog(t, `${dir}/first`)
  const histories = fc.sample(fc.array(step, { minLength: 40, maxLength: 40 }), runsOf(12, 7))
  for (const [index, steps] of histories.entries()) fill(log, steps, index + 1)
  log.process()
  const last = readProcessedPosition(log.dataDir)
  const digest = await personDigest(log.dataDir)
  const killed = `${dir}/killed`
  cpSync(`${log.dataDir}/log`, `${killed}/log`, { recursive: true })
  const script = `
    const { openProcessor } = await import(${sourceText('engine/processor/open-processor')})
    const settings = ${JSON.stringify(threadSettings(killed))}
    const processor = openProcessor(settings, (error) => { throw error }, { commitEvents: 5 })
    process.stdout.write('open')
    processor.run(3_600_000)
    await processor.close()`
  let kills = 0
  let isDone = false
  for (let round = 0; !isDone && round < 60; round++) {
    const child = spawn(process.execPath, [...SCRIPT_WORDS, script])
    const ended = new Promise<number | null>((resolve) => child.on('exit', resolve))
    child.stdout.once('data', () => setTimeout(() => child.kill('SIGKILL'), 3 + round * 15))
    isDone = (await ended) === 0
    if (!isDone) kills++
  }
  t.ok(isDone, 'processing came to the end at last')
  t.ok(kills > 0, `the process was killed ${kills} times`)
  t.equal(readProcessedPosition(killed), last)
  t.equal(await personDigest(killed), digest)
})
