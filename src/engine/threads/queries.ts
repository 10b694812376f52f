/**
 * Queries on a thread for analytics: one snapshot, bounded in time, given up when nobody waits any more. The
 * answer is finished text.
 */
import type { RowFormat } from '../../base/pages.ts'
import { actionSteps } from '../../rules/filters/actions.ts'
import { answerQuery } from '../../rules/queries/answer.ts'
import type { QueryContext } from '../../rules/queries/query-kind.ts'
import type { LongTools } from './call-kinds.ts'

/** A query about a project, as it crosses threads. */
export interface QueryTask
  extends Pick<QueryContext, 'projectId' | 'timezone' | 'nowMs' | 'testAccountFilters'> {
  /** As it was sent. */
  readonly query: unknown
  readonly format: RowFormat
}

/** Answers a query. Throws `ServiceError`: as `answerQuery`. */
export function runQuery({ stores, cancelled }: LongTools, task: QueryTask) {
  const { query, format, ...facts } = task
  const { projectId } = facts
  const scanner = stores.warehouse.scanner({
    deadlineMs: performance.now() + stores.queryMsMax,
    isCancelled: () => Atomics.load(cancelled, 0) !== 0,
  })
  const { persons } = stores.reader.answers()
  const context: QueryContext = {
    ...facts,
    action(id) {
      const action = persons.action(projectId, id)
      return action === null ? null : { name: action.name, steps: actionSteps(action.steps) }
    },
    cohortName: (id) => persons.cohortName(projectId, id),
    firstEventMs: () => scanner.firstEventMs(projectId),
  }
  return answerQuery(query, { context, scanner, part: null }, format)
}
