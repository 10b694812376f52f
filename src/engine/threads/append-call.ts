/**
 * What the thread of the log carries out. It loads this and not the table of all calls with what they work
 * with, which takes a quarter of a second: no start, and no answer to an event, waits for that.
 */
import { transferable } from '../../base/slabs.ts'
import type { LogAppender } from '../../ports/log.ts'
import { short } from './call-kinds.ts'
import type { AppendResult, AppendTask } from './tasks.ts'

/** Appends to the log. */
export const APPEND_CALL = short(
  ({ appender }, task: AppendTask) => append(appender, task),
  'writer',
  ({ buffers }) => buffers,
)

async function append(log: LogAppender, task: AppendTask): Promise<AppendResult> {
  const startedAt = performance.now()
  const blocks = task.blocks.map(({ buffer, bytes }) => Buffer.from(buffer, 0, bytes))
  const last = await log.append(blocks, task.trimThrough)
  const commitMs = performance.now() - startedAt
  return { last, commitMs, buffers: transferable(task.blocks.map(({ buffer }) => buffer)) }
}
