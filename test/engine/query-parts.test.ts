/**
 * Tests that a part of a query that needs too much memory is computed in pieces, each event in one of them, and that
 * the pieces that did fit are not computed again.
 *
 * @lane quick
 */
import t from 'tap'
import { foundInPart, PieceCounts } from '../../src/engine/threads/queries/query-parts.ts'
import {
  type WorkingMemory,
  WorkingMemoryFullError,
} from '../../src/engine/threads/queries/working-memory.ts'
import type { EventPart } from '../../src/rules/analytics/event-columns.ts'
import type { PlannedQuery } from '../../src/rules/queries/kinds.ts'
import type { QueryShard } from '../../src/rules/queries/query-kind.ts'

const EVENTS = 1000
/** The events from this one on need four times as much memory as the others. */
const LARGE_FROM = 250
const LARGE_WEIGHT = 4

type By = EventPart['by']

/** Returns the events of a part: by their times if it is by sessions, and otherwise in turn. */
function eventsOf({ by, index, count, bounds = [] }: EventPart): readonly number[] {
  const all = Array.from({ length: EVENTS }, (_, event) => event)
  if (by !== 'sessions') return all.filter((event) => event % count === index)
  const from = index === 0 ? 0 : (bounds[index - 1] ?? EVENTS)
  return all.slice(from, bounds[index] ?? EVENTS)
}

/** Computes the first of two parts with memory for this many events, and returns the pieces that were tried. */
function tried(by: By, eventsMax: number) {
  const parts: EventPart[] = []
  const kind = {
    partial(_: unknown, { part }: QueryShard) {
      if (part === null) throw new TypeError('the query has no part')
      parts.push(part)
      const events = eventsOf(part)
      const weights = events.map((event) => (event < LARGE_FROM ? 1 : LARGE_WEIGHT))
      const needed = weights.reduce((sum, weight) => sum + weight, 0)
      if (needed > eventsMax) throw new WorkingMemoryFullError()
      return events
    },
    merge: (_: unknown, lists: readonly (readonly number[])[]) => lists.flat(),
    combine: (lists: readonly (readonly number[])[]) => lists.flat(),
  }
  const scanner = {
    eventsWithin: () => 1,
    sessionBounds: (_project: number, _range: unknown, count: number) =>
      Array.from({ length: count - 1 }, (_, index) => Math.ceil((EVENTS * (index + 1)) / count)),
  }
  const shard = { context: { projectId: 1 }, scanner, part: null } as unknown as QueryShard
  const memory = { bytesMax: 1e9, isLimited: false } as WorkingMemory
  const planned = { kind, plan: {} } as unknown as PlannedQuery
  const counts = new PieceCounts()
  const run = () =>
    foundInPart(planned, shard, { by, index: 0, count: 2 }, { memory, counts }).flat()
  return { parts, run }
}

for (const by of ['segments', 'persons', 'sessions'] as const) {
  t.test(`a part by ${by} is halved until its pieces fit`, (t) => {
    const expected = eventsOf({ by, index: 0, count: 2, bounds: [EVENTS / 2] })
    const { parts, run } = tried(by, 130)
    const found = run() as readonly number[]
    t.strictSame(
      found.toSorted((a, b) => a - b),
      expected,
      'each event is found once',
    )
    const first = parts.length
    const failed = parts.filter((part, index) => parts[index + 1]?.count === 2 * part.count)
    t.ok(failed.length > 1, 'it was halved more than once')
    const computed = parts.filter((part) => !failed.includes(part)).flatMap(eventsOf)
    t.equal(computed.length, expected.length, 'no piece that fitted was computed again')
    t.ok(parts.every(({ count, isPiece }) => isPiece === count > 2))
    run()
    const last = Math.max(...parts.slice(0, first).map(({ count }) => count))
    t.ok(
      parts.slice(first).every(({ count }) => count === last),
      'the next time begins with as many pieces as were needed',
    )
    t.end()
  })

  t.test(`a part by ${by} whose pieces never fit is refused`, (t) => {
    t.throws(tried(by, 0).run, { code: 'query_too_large' })
    t.end()
  })
}
