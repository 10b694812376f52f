/**
 * Compares the search for the best attempt of a funnel with a literal implementation of its definition.
 *
 * @lane quick
 */
import fc from 'fast-check'
import t from 'tap'
import {
  AttemptFinder,
  type AttemptRules,
  type Entrance,
} from '../../../src/rules/analytics/funnel/funnel-attempts.ts'
import { runsOf } from '../../fixtures/random-depth.ts'

/** An event of one actor: its time, and the series it belongs to. */
interface Row {
  readonly timeMs: number
  readonly mask: number
}

interface Attempt {
  readonly best: number
  readonly timesMs: readonly number[]
}

const NONE: Attempt = { best: 0, timesMs: [] }

function fits({ mask }: Row, bit: number): boolean {
  return (mask & (1 << bit)) !== 0
}

/** The definition, taken literally: every attempt, with every step searched from the start of the rows. */
function plainBest(rows: readonly Row[], rules: AttemptRules, entrance: Entrance | null): Attempt {
  const attempts = rows.flatMap((row, start) => {
    const isIn =
      entrance === null || (row.timeMs >= entrance.fromMs && row.timeMs < entrance.untilMs)
    if (!isIn) return []
    if (rules.order === 'ordered') return plainOrdered(rows, rules, start)
    if (rules.order === 'strict') return plainStrict(rows, rules, start)
    return plainUnordered(rows, rules, start)
  })
  const best = Math.max(0, ...attempts.map((attempt) => attempt.best))
  return attempts.find((attempt) => attempt.best === best) ?? NONE
}

function firstFrom(rows: readonly Row[], bit: number, from: number): number {
  return rows.findIndex((row, index) => index >= from && fits(row, bit))
}

function plainOrdered(rows: readonly Row[], rules: AttemptRules, start: number): Attempt[] {
  const first = rows[start]
  if (first === undefined || !fits(first, 0)) return []
  const places = [start]
  for (let step = 1; step < rules.stepCount; step++) {
    const previous = places[step - 1] ?? -1
    const from = previous + (rules.needsLaterEvent[step] === true ? 1 : 0)
    places.push(previous < 0 ? -1 : firstFrom(rows, step, from))
  }
  const timeOf = (place: number): number => rows[place]?.timeMs ?? Number.NaN
  const isGone = rules.exclusions.some(({ bit, fromStep, toStep }) => {
    const from = places[fromStep] ?? -1
    const to = places[toStep] ?? -1
    const excluded = from < 0 ? -1 : firstFrom(rows, bit, from)
    if (excluded < 0 || excluded === from) return false
    return to < 0 ? timeOf(excluded) < rules.windowEnd(timeOf(from)) : excluded < to
  })
  if (isGone) return []
  const lastMs = rules.windowEnd(first.timeMs)
  const reached = places.filter((place) => place >= 0 && timeOf(place) <= lastMs)
  return [{ best: reached.length, timesMs: reached.map(timeOf) }]
}

function plainStrict(rows: readonly Row[], rules: AttemptRules, start: number): Attempt[] {
  const lastMs = rules.windowEnd(rows[start]?.timeMs ?? 0)
  const chain = rows.slice(start, start + rules.stepCount)
  const broken = chain.findIndex((row, step) => !fits(row, step) || row.timeMs > lastMs)
  const reached = broken < 0 ? chain : chain.slice(0, broken)
  if (reached.length === 0) return []
  return [{ best: reached.length, timesMs: reached.map(({ timeMs }) => timeMs) }]
}

function plainUnordered(rows: readonly Row[], rules: AttemptRules, start: number): Attempt[] {
  const row = rows[start]
  if (row === undefined) return []
  const lastMs = rules.windowEnd(row.timeMs)
  return Array.from({ length: rules.stepCount }, (_, own) => own)
    .filter((own) => fits(row, own))
    .flatMap((own) => {
      const others = Array.from({ length: rules.stepCount }, (_, step) => step)
        .filter((step) => step !== own)
        .map((step) => firstFrom(rows, step, start + 1))
      const timeOf = (place: number): number => rows[place]?.timeMs ?? Number.NaN
      const isGone = rules.exclusions.some(({ bit }) => {
        const excluded = firstFrom(rows, bit, start + 1)
        if (excluded < 0) return false
        if (others.includes(-1)) return timeOf(excluded) < lastMs
        return excluded < Math.max(start, ...others)
      })
      if (isGone) return []
      const reached = others.filter((place) => place >= 0 && timeOf(place) <= lastMs)
      const timesMs = [row.timeMs, ...reached.map(timeOf)].sort((a, b) => a - b)
      return [{ best: timesMs.length, timesMs }]
    })
}

/** Gaps between times, and two masks joined by AND, so that most events match one or two series. */
function rowsOf(rows: readonly (readonly [number, number, number])[]): readonly Row[] {
  let timeMs = 0
  return rows.map(([gap, left, right]) => {
    timeMs += gap
    return { timeMs, mask: left & right }
  })
}

/** Actors with few names and many equal times, so that every rule decides some cases. */
const worlds = fc
  .record({
    order: fc.constantFrom('ordered' as const, 'strict' as const, 'unordered' as const),
    stepCount: fc.integer({ min: 1, max: 4 }),
    exclusionCount: fc.integer({ min: 0, max: 2 }),
    window: fc.integer({ min: 0, max: 12 }),
    later: fc.array(fc.boolean(), { minLength: 4, maxLength: 4 }),
    ranges: fc.array(fc.tuple(fc.nat(3), fc.nat(3)), { minLength: 2, maxLength: 2 }),
    entrance: fc.option(fc.tuple(fc.nat(15), fc.integer({ min: 1, max: 10 }))),
    actors: fc.array(
      fc.array(fc.tuple(fc.nat(3), fc.integer({ min: 1, max: 63 }), fc.nat(63)), { maxLength: 14 }),
      { minLength: 1, maxLength: 4 },
    ),
  })
  .map((world) => {
    const { order, stepCount, ranges } = world
    const exclusions =
      stepCount < 2 || order === 'strict'
        ? []
        : ranges.slice(0, world.exclusionCount).map(([a, b], index) => {
            const fromStep = Math.min(a, b, stepCount - 2)
            const toStep = Math.min(Math.max(a, b, fromStep + 1), stepCount - 1)
            const isWhole = order === 'unordered'
            const bit = stepCount + index
            return isWhole ? { bit, fromStep: 0, toStep: stepCount - 1 } : { bit, fromStep, toStep }
          })
    const rules: AttemptRules = {
      order,
      stepCount,
      needsLaterEvent: world.later,
      windowEnd: (startMs) => startMs + world.window,
      exclusions,
    }
    const actors = world.actors.map(rowsOf)
    const entrance: Entrance | null =
      world.entrance === null
        ? null
        : { fromMs: world.entrance[0], untilMs: world.entrance[0] + world.entrance[1] }
    return { rules, actors, entrance }
  })

t.test('the best attempt equals that of the plain definition', async () => {
  fc.assert(
    fc.property(worlds, ({ rules, actors, entrance }) => {
      const all = actors.flat()
      const gathered = {
        timesMs: Float64Array.from(all, ({ timeMs }) => timeMs),
        masks: Uint32Array.from(all, ({ mask }) => mask),
      }
      const finder = new AttemptFinder(rules, gathered, entrance)
      let start = 0
      for (const rows of actors) {
        const found = finder.best(start, start + rows.length)
        start += rows.length
        const { best, timesMs } = plainBest(rows, rules, entrance)
        const foundTimes = [...finder.stepTimesMs.subarray(0, found)]
        const isSame = found === best && foundTimes.join() === timesMs.join()
        if (!isSame)
          throw new Error(`${found} [${foundTimes.join()}] is not ${best} [${timesMs.join()}]`)
      }
    }),
    runsOf(1500),
  )
})

t.test(
  'the cost of an attempt does not grow with the number of attempts of an actor',
  async (t) => {
    const count = 400_000
    const gathered = {
      timesMs: Float64Array.from({ length: count }, (_, index) => index),
      masks: Uint32Array.from({ length: count }, (_, index) => (index < count / 2 ? 1 : 2)),
    }
    const rules: AttemptRules = {
      order: 'ordered',
      stepCount: 3,
      needsLaterEvent: [false, true, true],
      windowEnd: (startMs) => startMs + 1e9,
      exclusions: [{ bit: 3, fromStep: 0, toStep: 2 }],
    }
    for (const order of ['ordered', 'unordered'] as const) {
      const finder = new AttemptFinder({ ...rules, order }, gathered, null)
      t.equal(finder.best(0, count), 2)
    }
  },
)
