/** The pool of one process, held to src/ports/task-runner.ts. */
import t from 'tap'
import { WorkerPool } from '../../src/engine/threads/pool.ts'
import { ProjectStore } from '../../src/store/catalog/project-store.ts'
import { PersonLog, threadSettings } from '../fixtures/persons/person-log.ts'
import { taskRunnerContract } from './task-runner-contract.ts'

taskRunnerContract(t, 'embedded', (t) => {
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
})

t.test('a refusal of a thread keeps its Retry-After on the way', async (t) => {
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
    message: 'Counting took more than 1 seconds and was given up.',
    retryAfterSeconds: 60,
  })
})
