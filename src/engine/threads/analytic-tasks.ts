/**
 * Analytic questions on a thread: one snapshot, bounded in time, given up when nobody waits any more. The
 * answer is a page; what is proportional to the data stays on the thread.
 */

import {
  type AnalyticAnswer,
  type AnalyticQuery,
  runQuestion,
} from '../../rules/analytics/analytics.ts'
import { actionSteps } from '../../rules/filters/actions.ts'
import type { EventReader } from '../../store/warehouse/read/event-reader.ts'

/** Threads for analytics: answer a question. */
export interface AnalyticTask {
  readonly kind: 'analytics'
  readonly query: AnalyticQuery
  /** Shared memory; another number than 0 means that nobody waits any more. */
  readonly cancelled: Int32Array
}

/** What threads for analytics are told besides what all are told. */
export interface AnalyticSettings {
  /** Time that one question may take on its thread. */
  readonly queryMsMax: number
  /** Bytes of decoded columns that the thread keeps. */
  readonly cacheBytesMax: number
}

/** Runs a question to its end. Throws `ServiceError` as `AnalyticQueries.analyse` rejects. */
export function runAnalytics(
  reader: EventReader,
  { query, cancelled }: AnalyticTask,
  { queryMsMax }: AnalyticSettings,
): AnalyticAnswer {
  const { question, format, ...facts } = query
  const { projectId } = facts
  const { scanner, persons, actors, position } = reader.analytics({
    deadlineMs: performance.now() + queryMsMax,
    isCancelled: () => Atomics.load(cancelled, 0) !== 0,
  })
  const context = {
    ...facts,
    actions: (id: number) => {
      const action = persons.action(projectId, id)
      return action === null ? null : actionSteps(action.steps)
    },
  }
  return actors.answerOf(runQuestion(question, context, scanner), projectId, position, format)
}
