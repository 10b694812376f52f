/**
 * The entry file of the threads of the pool. What runs on them is loaded when the first task comes, or some
 * seconds after the start: a daemon is ready sooner, and a thread that nobody needs costs little.
 */
import type { Task } from './engine/threads/call.ts'

/** When a thread without a task loads its work, so that its first task does not wait for that. */
const LOAD_AFTER_MS = 3000

let loaded: Promise<typeof import('./thread.ts')> | undefined

function load(): Promise<typeof import('./thread.ts')> {
  loaded ??= import('./thread.ts')
  return loaded
}

setTimeout(load, LOAD_AFTER_MS).unref()

/** Runs one task, as `thread.ts` says. */
export default async function start(task: Task): Promise<unknown> {
  // Nothing was opened.
  if (loaded === undefined && task.call === 'close') return { result: undefined }
  const { default: runTask } = await load()
  return await runTask(task)
}
