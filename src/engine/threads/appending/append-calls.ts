/**
 * What the thread of the log carries out. It loads this and not the table of all calls with what they work
 * with, which takes a quarter of a second: no start, and no answer to an event, waits for that.
 */
import type { LogAppender } from '../../../ports/log.ts'
import { short } from '../call-kinds.ts'
import type { AppendResult, AppendTask } from '../tasks.ts'
import { type AppendSession, serveAppends } from './append-session.ts'

/** What that thread has open. */
export interface AppendStores {
  /** In a cluster: that of the outbox of a partition. */
  appenderOf(partition: number): LogAppender
  /** Those that are open. */
  appenders(): Iterable<LogAppender>
}

/** The calls of that thread. */
export const APPEND_CALLS = {
  /** Appends blocks to the log and forgets those that are processed. */
  append: short(
    (stores: AppendStores, task: AppendTask) =>
      append(stores.appenderOf(task.partition ?? 0), task),
    'writer',
  ),
  /** Gives back the disk that a rush took. */
  shrinkLog: short((stores: AppendStores) => {
    for (const appender of stores.appenders()) appender.shrink()
  }, 'writer'),
  /** The same as `append`, again and again. */
  serveAppends: short(
    (stores: AppendStores, session: AppendSession) =>
      serveAppends((partition) => stores.appenderOf(partition), session),
    'writer',
  ),
}

async function append(log: LogAppender, task: AppendTask): Promise<AppendResult> {
  const startedAt = performance.now()
  const blocks = task.blocks.map(({ buffer, bytes }) => Buffer.from(buffer, 0, bytes))
  const last = await log.append(blocks, task.trimThrough)
  return { last, commitMs: performance.now() - startedAt }
}
