/**
 * Compares every analytic persons route with a slow reference evaluator that shares no code with it, person by person
 * and in order. The queries and the histories of events are random, and the histories pass through the real log, rules
 * and store. The variable TEST_DEPTH makes the test longer, and TEST_SEED changes its data.
 *
 * @lane all
 */
import t, { type Test } from 'tap'
import { rounded, seenAnswer } from '../fixtures/analytics/analytic-answers.ts'
import { casesOf } from '../fixtures/analytics/analytic-cases.ts'
import { type ReferenceRoute, referenceAnswer } from '../fixtures/analytics/analytic-reference.ts'
import { type RandomQuery, randomQuery } from '../fixtures/analytics/random-queries.ts'
import { sightOfCase, worldOfCase } from '../fixtures/analytics/reference-cases.ts'
import type { ReferenceWorld } from '../fixtures/analytics/reference-filters.ts'
import { HOUR_MS } from '../fixtures/analytics/reference-time.ts'
import { Differences } from '../fixtures/differences.ts'
import { faultyQuery } from '../fixtures/faults/random-faults.ts'
import { growHistories } from '../fixtures/persons/grown-histories.ts'
import { PersonLog } from '../fixtures/persons/person-log.ts'
import { roundsOf, seedOf } from '../fixtures/random-depth.ts'

const HISTORIES = roundsOf(60, 6)
const SEED = seedOf(1)
const QUERIES = 40
const FAULTS = 3
/** Histories in one data directory. */
const TOGETHER = 100

function expectedOf({ route, parameters }: RandomQuery, world: ReferenceWorld) {
  const answer = referenceAnswer(route, parameters, world)
  if ('refusal' in answer) {
    const { code, attr } = answer.refusal
    return {
      status: 400,
      ...(code === undefined ? {} : { code }),
      ...(attr === undefined ? {} : { attr }),
    }
  }
  const rows = answer.rows.map(({ id, value, appearances }) => [id, rounded(value), appearances])
  return { rows, isFull: answer.isFull, missing: answer.missing }
}

/** Of a refusal only the expected members are compared. */
function isAsExpected(seen: object, expected: object): boolean {
  const own = Object.entries(seen).filter(([name]) => !('status' in expected) || name in expected)
  return JSON.stringify(Object.fromEntries(own)) === JSON.stringify(expected)
}

const CASE_ROUTES: readonly (readonly [string, ReferenceRoute])[] = [
  ['persons/trends', 'trends'],
  ['persons/funnel', 'funnel'],
  ['persons/funnel/correlation', 'correlation'],
  ['persons/lifecycle', 'lifecycle'],
  ['persons/path', 'path'],
  ['persons/retention', 'retention'],
  ['persons/stickiness', 'stickiness'],
]

t.test('the reference evaluator agrees with the worked examples', async (t) => {
  const differences = new Differences()
  for (const [path, route] of CASE_ROUTES) {
    const cases = casesOf(path)
    differences.ok(cases.length > 0, `there are examples of ${path}`)
    for (const one of cases) {
      const { request, id, title } = one
      const world = worldOfCase(one)
      const isCorrelation = request.query?.['funnel_correlation_person_entity'] !== undefined
      const asked = isCorrelation ? 'correlation' : route
      const answer = referenceAnswer(asked, { ...request.query, ...request.body }, world)
      const { expected, seen } = sightOfCase(one, world, answer)
      differences.same(seen, expected, `${id}: ${title}`)
    }
  }
  t.strictSame(differences.list(), [], 'every example has its expected answer')
})

interface Tally {
  asked: number
  answered: number
  refused: number
  wrong: number
}

/** Asks questions about histories that share a store. */
function askAll(t: Test, seeds: readonly number[], tallies: Map<ReferenceRoute, Tally>): void {
  const log = new PersonLog(t, t.testdir())
  for (const [index, history] of growHistories(log, seeds).entries()) {
    const { dice, anchorMs, spanMs, projectId } = history
    const past = history.world()
    for (let number = 0; number < QUERIES; number++) {
      const away = dice.chance(0.5) ? spanMs / 2 : dice.between(-spanMs / 4, spanMs)
      const nowMs = anchorMs + Math.floor(away / HOUR_MS) * HOUR_MS + dice.below(HOUR_MS)
      const query = number < FAULTS ? faultyQuery(history) : randomQuery(history)
      const world = { ...past, nowMs }
      const expected = expectedOf(query, world)
      const seen = seenAnswer(log.reader, projectId, query, world)
      const tally = tallyOf(tallies, query.route)
      tally.asked++
      if ('status' in expected) tally.refused++
      else if ((expected.rows?.length ?? 0) > 0) tally.answered++
      if (isAsExpected(seen, expected)) continue
      tally.wrong++
      t.strictSame(seen, expected, `history ${seeds[index]}, question ${number}`, {
        query: JSON.stringify(query),
        facts: `${history.timezone}, now ${new Date(nowMs).toISOString()}`,
      })
    }
  }
}

t.test('random questions have the same answers as in the reference evaluator', async (t) => {
  t.setTimeout(60_000 + HISTORIES * 2000)
  const tallies = new Map<ReferenceRoute, Tally>()
  for (let first = 0; first < HISTORIES; first += TOGETHER) {
    const count = Math.min(TOGETHER, HISTORIES - first)
    const seeds = Array.from({ length: count }, (_, index) => SEED * 1_000_000 + first + index)
    await t.test(`about ${count} histories`, async (t) => askAll(t, seeds, tallies))
  }
  for (const [route, tally] of tallies) t.comment(`${route}: ${JSON.stringify(tally)}`)
  for (const { asked, answered } of tallies.values()) {
    t.ok(answered > asked / 20, 'enough of the answers are not empty')
  }
})

function tallyOf(tallies: Map<ReferenceRoute, Tally>, route: ReferenceRoute): Tally {
  const tally = tallies.get(route) ?? { asked: 0, answered: 0, refused: 0, wrong: 0 }
  tallies.set(route, tally)
  return tally
}
