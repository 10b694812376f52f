/**
 * Tests the pool of one process, and the link to that of another machine, against src/ports/task-runner.ts.
 *
 * @lane all
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { OperatorError } from '../../src/base/errors.ts'
import { Edge } from '../../src/cluster/edge.ts'
import { HolderService } from '../../src/cluster/holder-service.ts'
import { catalogueOf, WorkerPool } from '../../src/engine/threads/pool.ts'
import { ProjectStore } from '../../src/store/catalog/project-store.ts'
import { DecisionSourceReader } from '../../src/store/identity/decision-sources.ts'
import { pack } from '../../src/store/lmdb/codec.ts'
import { MemoryMessages } from '../fixtures/cluster/memory-messages.ts'
import { PersonLog, threadSettings } from '../fixtures/persons/person-log.ts'
import { taskRunnerContract } from './task-runner-contract.ts'

function embedded(t: Test): WorkerPool {
  const dataDir = t.testdir()
  const projects = new ProjectStore(dataDir)
  projects.bootstrap({ projectKey: 'phc_a', personalKey: 'phx_a' })
  t.teardown(() => projects.close())
  const log = new PersonLog(t, dataDir)
  log.send(
    1,
    Array.from({ length: 150 }, () => ({ event: 'e', distinct_id: 'ann' })),
  )
  log.process()
  const pool = new WorkerPool({
    threads: threadSettings(dataDir),
    workerThreads: 1,
    analyticsThreads: 1,
    queryMsMax: 30_000,
    onDeath: ({ cause }) => t.fail(String(cause)),
  })
  t.teardown(() => pool.close())
  return pool
}

taskRunnerContract(t, 'embedded', embedded)

taskRunnerContract(t, 'another machine', (t) => distant(t).edge)

function distant(t: Test) {
  const pool = embedded(t)
  const messages = new MemoryMessages()
  messages.messageBytesMax = 16 * 1024
  const folder = join(t.testdirName, 'other')
  mkdirSync(folder)
  const stored = new DecisionSourceReader(folder)
  const control = () => 0
  const hurry = () => {}
  const holder = new HolderService({
    messages,
    pool,
    stored: () => stored,
    control,
    hurry,
    partition: 0,
  })
  holder.serve(true)
  const edge = new Edge({
    messages,
    pool,
    control,
    folder,
    held: null,
    partitionOf: () => 0,
    onDefinitions: () => {},
  })
  t.teardown(async () => {
    edge.close()
    holder.close()
    await stored.close()
  })
  return { edge, holder, messages }
}

t.test('a machine answers the permitted calls of others, from its own data', async (t) => {
  const { edge, holder } = distant(t)
  const task = { budgetMs: 1, lateInMs: 0, isDiskShort: false, watches: [] }
  const asked = { ask: 'call', name: 'process', values: [task], options: {} } as const
  await t.rejects(edge.link.ask(0, { asked }, {}), { code: 'invalid_input' })
  const unknown = { ask: 'unknown' } as never
  await t.rejects(edge.link.ask(0, { asked: unknown }, {}), { code: 'invalid_input' })
  const definitions = { ask: 'definitions', projects: [1] } as const
  const later = edge.link.ask(0, { asked: definitions, after: 3 }, {})
  const result = { commands: [], changedDefinitions: [] }
  setTimeout(() => holder.processed({ ...result, processed: 3 } as never), 50)
  t.match(await later, { result: [[1, [], []]] }, 'it is answered as soon as the data is there')
  const never = edge.link.ask(0, { asked: definitions, after: 4 }, {})
  await t.rejects(never, { status: 503, message: /has not caught up/ })
  t.match(await edge.link.ask(0, { asked: { ask: 'outcome', uuid: 'a' } }, {}), { result: null })
  holder.serve(false)
  await t.rejects(edge.run('groupTypes', [1]), {
    status: 503,
    message: /No replica of this project/,
  })
})

t.test('an error for the operator keeps its class between threads', async (t) => {
  const copy = catalogueOf(embedded(t))
  const { parts } = await copy.whole()
  await copy.replace({ place: { incarnation: 'a', sequence: 3, number: 0 }, parts })
  const changes = pack([['from_the_future', Buffer.of(1), Buffer.of(2)]])
  const place = { incarnation: 'a', sequence: 4, number: 1 }
  const refused = Promise.resolve(copy.apply({ place, changes, local: null }))
  const error = await refused.catch((cause: unknown) => cause)
  t.ok(error instanceof OperatorError)
  t.match(error, { exitCode: 1, message: /^A newer version .* Upgrade this machine\.$/ })
})

t.test('a refusal of a thread keeps its Retry-After over the link', async (t) => {
  const pool = new WorkerPool({
    threads: threadSettings(t.testdir()),
    entry: new URL('../fixtures/faults/refusing-thread.js', import.meta.url),
    workerThreads: 1,
    analyticsThreads: 1,
    queryMsMax: 30_000,
    onDeath: ({ cause }) => t.fail(String(cause)),
  })
  t.teardown(() => pool.close())
  await t.rejects(pool.run('groupTypes', [1]), {
    code: 'server_error',
    message:
      'Counting took more than 1 seconds and was stopped. Narrow the filter, or try again later.',
    retryAfterSeconds: 60,
  })
})
