/**
 * The calls of the writer thread. The thread loads this file instead of the table of all calls, whose dependencies take
 * a quarter of a second to load. The start of the daemon and the first answers to events need not wait for them.
 */
import type { LogAppender } from '../../../ports/log.ts'
import { short } from '../call-kinds.ts'
import type { AppendResult, AppendTask } from '../tasks.ts'
import { type AppendSession, serveAppends } from './append-session.ts'

/** The stores that the writer thread has open. */
export interface AppendStores {
  /**
   * Returns the appender for a partition. In a cluster, it writes to the outbox of the partition; a single machine has
   * one log.
   */
  appenderOf(partition: number): LogAppender
  /** Returns all appenders that are open. */
  appenders(): Iterable<LogAppender>
}

/** The calls of the writer thread. */
export const APPEND_CALLS = {
  /** Appends blocks to the log and removes processed ones. */
  append: short(
    (stores: AppendStores, task: AppendTask) =>
      append(stores.appenderOf(task.partition ?? 0), task),
    'writer',
  ),
  /** Makes the log files small again after a burst of events. */
  shrinkLog: short((stores: AppendStores) => {
    for (const appender of stores.appenders()) appender.shrink()
  }, 'writer'),
  /** Serves an append session until it ends. */
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
