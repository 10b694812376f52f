/** The questions about erasures and retention, as the reading threads answer them. */
import type { ErasureReader } from '../../store/warehouse/erase/erasure-reader.ts'
import type { ErasureReadTask, TaskResults } from './tasks.ts'

/** Answers one question; blocks its thread. */
export function readErasures(
  task: ErasureReadTask,
  reader: ErasureReader,
): TaskResults[ErasureReadTask['kind']] {
  switch (task.kind) {
    case 'getErasure':
      return reader.receipt(...task.values)
    case 'estimateErasure':
      return reader.estimate(...task.values)
    case 'getRetention':
      return reader.retention(...task.values)
    case 'planRetention':
      return reader.plan(...task.values)
    case 'runningErasures':
      return reader.list(...task.values, 0, 0).runningCount
    case 'retainedProjects':
      return reader.retainedProjects()
  }
}
