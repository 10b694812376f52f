/**
 * The entry file of the threads of the pool. What runs on them (thread.ts) is loaded when the first task
 * comes, or some seconds after the start: a daemon is ready sooner, and a thread that nobody needs costs
 * little.
 */
import { workerData } from 'node:worker_threads'
import type { Task } from './engine/threads/call.ts'
import type { ThreadSettings } from './engine/threads/tasks.ts'

let loaded: Promise<typeof import('./thread.ts')> | undefined

function load(): Promise<typeof import('./thread.ts')> {
  loaded ??= import('./thread.ts')
  return loaded
}

// pool.ts gives every thread its settings.
const { loadAfterMs = 0 } = workerData as ThreadSettings
setTimeout(() => void load(), loadAfterMs).unref()

/** Carries out one task, as `thread.ts` says. */
export default async function start(task: Task): Promise<unknown> {
  // Nothing was opened.
  if (loaded === undefined && task.call === 'close') return { result: undefined }
  const { default: runTask } = await load()
  return await runTask(task)
}
