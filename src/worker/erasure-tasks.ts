/** The questions about erasures and retention, as the reading threads answer them. */
import type { ErasureQueries } from '../query/erasure.ts'
import type { ErasureReader } from '../store/erasure-reader.ts'
import type { PersonReadTask, TaskResults } from './tasks.ts'

/** A question about erasures. */
export type ErasureReadTask = Extract<PersonReadTask, { readonly kind: keyof ErasureQueries }>

/** Answers one question; blocks its thread. */
export function readErasures(
  task: ErasureReadTask,
  reader: ErasureReader,
): TaskResults[ErasureReadTask['kind']] {
  switch (task.kind) {
    case 'listErasures':
      return reader.list(...task.values)
    case 'getErasure':
      return reader.receipt(...task.values)
    case 'estimateErasure':
      return reader.estimate(...task.values)
    case 'getRetention':
      return reader.retention(...task.values)
    case 'planRetention':
      return reader.plan(...task.values)
    case 'retainedProjects':
      return reader.retainedProjects()
  }
}
