/**
 * What the processing thread carries out. It loads this and not the table of all calls with what they work
 * with, which is more than all that processing needs.
 */
import type { LiveRows } from '../../processor/live-rows.ts'
import type { LogProcessor } from '../../processor/log-processor.ts'
import { short } from '../call-kinds.ts'
import type { ProcessResult, ProcessTask } from '../tasks.ts'
import { watchPriority } from './processing-priority.ts'

/** What that thread has open. */
export interface ProcessStores {
  readonly processor: LogProcessor
  /** What streams want of it. */
  readonly live: LiveRows
}

/** The calls of that thread. */
export const PROCESS_CALLS = {
  /** Turns log blocks into stored events. */
  process: short(({ processor, live }: ProcessStores, task: ProcessTask): ProcessResult => {
    const { budgetMs, isDiskShort, stretchEvents, lateInMs, watches } = task
    live.watch(watches)
    if (task.copied !== undefined) processor.giveAway(task.copied)
    if (task.erasedCopies !== undefined) processor.forgetCopies(task.erasedCopies)
    const result = processor.run(budgetMs, isDiskShort, stretchEvents, watchPriority(lateInMs))
    const isQuiet = task.isQuiet === true && result.isIdle && result.eventCount === 0
    const folded = isQuiet ? processor.fold() : 0
    return { ...result, folded, mayFold: processor.mayFold, live: live.take() }
  }, 'processor'),
}
