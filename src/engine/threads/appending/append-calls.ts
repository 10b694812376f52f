/**
 * The calls of the writer thread. The writer thread loads this file instead of the table of all calls. Everything that
 * the table needs takes a quarter of a second to load, and the start of the daemon and the first answers to events
 * would have to wait for it.
 */
import type { LogAppender } from '../../../ports/log.ts'
import { short } from '../call-kinds.ts'
import type { AppendResult, AppendTask } from '../tasks.ts'
import { type AppendSession, serveAppends } from './append-session.ts'

/** The open stores of the writer thread. */
export interface AppendStores {
  /**
   * Returns the appender for a partition. In a cluster, the appender writes to the outbox of the partition. A single
   * machine has only one log.
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
  /** Shrinks the log files after a burst of events. */
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
