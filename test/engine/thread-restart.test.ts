/**
 * Tests threads with code that cannot be loaded because the process has no free file descriptors. Their waiting tasks
 * are refused, and the threads start again without help when the shortage is over.
 *
 * @lane quick
 */
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t, { type Test } from 'tap'
import { memoryPlan } from '../../src/config/memory-plan.ts'
import {
  type ThreadDeath,
  ThreadEndedError,
  ThreadGroup,
} from '../../src/engine/threads/thread-group.ts'
import { threadSettings } from '../fixtures/persons/person-log.ts'
import { eventually } from '../fixtures/timed-command.ts'

const TASK = { call: 'close', values: [] } as const

/** A group of threads that end while they load their code, as long as the file `shortage` exists. */
function startGroup(t: Test, threadsMin: number) {
  const folder = t.testdir({ shortage: '' })
  const shortage = join(folder, 'shortage')
  const entry = join(folder, 'thread.mjs')
  writeFileSync(
    entry,
    `import { existsSync } from 'node:fs'
    if (existsSync(${JSON.stringify(shortage)})) {
      throw Object.assign(new Error('too many open files'), { code: 'EMFILE', syscall: 'open' })
    }
    export default () => ({ result: 'done' })`,
  )
  const plan = memoryPlan({ memoryBytesMax: 400_000_000, coreCount: 2 })
  const deaths: ThreadDeath[] = []
  const group = new ThreadGroup({
    kind: 'processor',
    settings: { ...threadSettings(folder), plan },
    entry: pathToFileURL(entry),
    threadsMin,
    threadsMax: 1,
    pool: {},
    onDeath: (death) => deaths.push(death),
  })
  // No thread of a group keeps the process alive.
  const timer = setInterval(() => {}, 1000)
  t.teardown(async () => {
    await group.close()
    clearInterval(timer)
  })
  return { group, deaths, endShortage: () => rmSync(shortage) }
}

for (const threadsMin of [0, 1]) {
  t.test(`a group that keeps ${threadsMin} threads starts again after a shortage`, async (t) => {
    const { group, deaths, endShortage } = startGroup(t, threadsMin)
    const refused = await group.run(TASK).catch((error: unknown) => error)
    t.type(refused, ThreadEndedError, 'a task does not wait for a thread that never comes')
    t.match((refused as Error).cause, { message: 'too many open files' })
    const again = await group.run(TASK).catch((error: unknown) => error)
    t.type(again, ThreadEndedError, 'nor does the next one')
    endShortage()
    const isDone = async () => (await group.run(TASK).catch(() => null)) === 'done'
    t.ok(await eventually(isDone), 'tasks run again')
    t.ok(deaths.length > 0)
    t.ok(
      deaths.every(({ isReplaced }) => isReplaced),
      'the process need not end',
    )
  })
}
