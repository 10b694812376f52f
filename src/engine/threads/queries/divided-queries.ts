/**
 * A query on all threads for analytics at once: one reads it and, when it concerns few events, answers; else
 * each computes its part, and one of them merges. All parts have to be of the same state of the store:
 * otherwise they are computed again, and at last by one thread alone.
 */
import type { PageWish } from '../../../base/pages.ts'
import type { TaskRunner } from '../../../ports/task-runner.ts'
import type { EventPart } from '../../../rules/analytics/event-columns.ts'
import { rowsAsked } from '../../../rules/queries/kinds.ts'
import { LONG_WEIGHT } from '../call-kinds.ts'
import type { Calls } from '../call-table.ts'
import type { QueryTask } from './query-tasks.ts'

/** How often parts of different states are computed again. */
const TRIES = 3

/** As `QueryAnswers.answer`. */
export async function answerDivided(
  pool: TaskRunner<Calls> & { readonly analyticsThreads: number },
  task: QueryTask,
  onLeave: PageWish['onLeave'],
): Promise<Uint8Array<ArrayBuffer>> {
  const count = pool.analyticsThreads
  const cancels = new Set<() => void>()
  let hasLeft = false
  onLeave(() => {
    hasLeft = true
    for (const cancel of cancels) cancel()
  })
  const leaving = {
    onLeave(cancel: () => void): void {
      cancels.add(cancel)
      if (hasLeft) cancel()
    },
  }
  // A page of many rows lets what counts go first, so that nobody waits for a list of them.
  const weight = Math.max(LONG_WEIGHT, rowsAsked(task.query))
  const first = await pool.run('query', [task, count > 1], { ...leaving, weight })
  if (first.kind === 'answer') return first.text
  // All that follows has the time of one query together.
  const startedAtMs = performance.now()
  const rest = (): QueryTask => ({ ...task, spentMs: performance.now() - startedAtMs })
  for (let attempt = 0; attempt < TRIES; attempt++) {
    const parts = await Promise.all(
      Array.from({ length: count }, (_, index) => {
        const part: EventPart = { by: first.by, index, count }
        return pool.run('queryPart', [rest(), part], { ...leaving, thread: index })
      }),
    )
    const [one] = parts
    if (one === undefined || parts.some(({ state }) => state !== one.state)) continue
    const found = parts.map(({ found }) => found)
    const transferList = found.map(({ buffer }) => buffer)
    return (await pool.run('queryMerge', [rest(), found], { ...leaving, transferList })).text
  }
  const whole = await pool.run('query', [rest(), false], leaving)
  if (whole.kind === 'answer') return whole.text
  throw new TypeError('a query that may not be divided was divided')
}
