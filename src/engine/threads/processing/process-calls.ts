/**
 * The calls of the processing thread. The processing thread loads this file instead of the table of all calls, because
 * that table needs more code than all of processing.
 */
import type { LiveRows } from '../../processor/live-rows.ts'
import type { LogProcessor } from '../../processor/log-processor.ts'
import { short } from '../call-kinds.ts'
import type { ProcessFailure, ProcessResult, ProcessTask } from '../tasks.ts'
import { watchPriority } from './processing-priority.ts'

/** The open stores of the processing thread. */
export interface ProcessStores {
  readonly processor: LogProcessor
  /** Closes the processor after a failure. The next call opens a new one. */
  abandon(): Promise<void>
  /** Collects stored events for live streams. */
  readonly live: LiveRows
}

/**
 * Returns the result of a call that failed, and closes its processor. The next call opens a new processor, which
 * continues after the last commit.
 */
async function failed(
  stores: ProcessStores,
  result: ProcessResult,
  failure: ProcessFailure,
): Promise<ProcessResult> {
  const answer = { ...result, isIdle: false, mayFold: false, live: stores.live.take(), failure }
  // After a failed commit, the processor is not closed, because LMDB might wait forever.
  if (failure.kind !== 'broken') await stores.abandon()
  return answer
}

/** The calls of the processing thread. */
export const PROCESS_CALLS = {
  /** Turns log blocks into stored events. */
  process: short(async (stores: ProcessStores, task: ProcessTask): Promise<ProcessResult> => {
    const { live } = stores
    const { budgetMs, isDiskShort, commitEventsMin, lateInMs, watches } = task
    live.watch(watches)
    const { processor } = stores
    const lost = processor.tellOfCopies(task.copied ?? [], task.erasedCopies ?? [])
    if (lost !== undefined) return await failed(stores, processor.emptyResult(), lost)
    const result = processor.attempt(
      budgetMs,
      isDiskShort,
      commitEventsMin,
      watchPriority(lateInMs),
    )
    if (result.failure !== undefined) return await failed(stores, result, result.failure)
    const isQuiet = task.isQuiet === true && result.isIdle && result.eventCount === 0
    const folded = isQuiet ? processor.attemptFold() : 0
    if (typeof folded !== 'number') return await failed(stores, result, folded)
    return { ...result, folded, mayFold: processor.mayFold, live: live.take() }
  }, 'processor'),
}
