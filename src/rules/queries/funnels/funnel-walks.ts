/**
 * Walks through a funnel: finds out how far an actor gets with its events. For a funnel over time, there is one walk
 * for each period in which the actor enters. Source: docs/compatibility/queries.md, "FunnelsQuery".
 */
import type { Periods } from '../../analytics/periods.ts'
import type { PacedLimits } from '../paced-limits.ts'
import type { FunnelsPlan } from './funnel-request.ts'
import { EventMasks, StepChains, type StepEvents } from './step-chains.ts'
import { StepSets } from './step-sets.ts'

/** The result of one walk. It is valid until the next walk begins. */
export interface Walked {
  readonly reached: number
  /** Returns the time of a step, counted from 0, in milliseconds. */
  timeMsOf(step: number): number
}

/**
 * Receives each walk that reached a step. `period` is the period of the first step; it is 0 unless the funnel is over
 * time.
 */
export type WalkListener = (walked: Walked, period: number) => void

/**
 * Computes the walks of one actor. All events of the actor are those from `start` (inclusive) to `end` (exclusive), in
 * order. `label` is the breakdown value that the events of the attributed step must have. Null means any value.
 */
export type Walk = (start: number, end: number, label: number | null) => void

/**
 * Returns the function that walks by the rules of a plan. `periods` are the periods of a funnel over time, otherwise
 * null.
 */
export function walkOf(
  plan: FunnelsPlan,
  events: StepEvents,
  periods: Periods | null,
  limits: PacedLimits,
  listener: WalkListener,
): Walk {
  const { rules, attributionStep } = plan
  if (periods !== null) {
    const walk = new PeriodWalk(plan, events, periods, limits, listener)
    return (start, end, label) => walk.run(start, end, label)
  }
  if (rules.order === 'unordered') {
    const sets = new StepSets(rules, events)
    return (start, end, label) => {
      limits.count(end - start)
      sets.run(start, end, label)
      if (sets.reached > 0) listener(sets, 0)
    }
  }
  const chains = new StepChains(rules, events, attributionStep)
  const first = { reached: 1, place: 0, timeMsOf: () => events.timesMs[first.place] ?? 0 }
  return (start, end, label) => {
    limits.count(end - start)
    if (label === null && isFirstAlone(events, start, end)) {
      first.place = start
      listener(first, 0)
      return
    }
    chains.begin(label)
    for (let place = start; place < end && !chains.isComplete; ) {
      const next = endOfMoment(events, place, end)
      chains.visit(place, next, true)
      place = next
    }
    if (chains.reached > 0) listener(chains, 0)
  }
}

/**
 * Returns whether every event matches the first step and no other step. Then the first event alone decides the result.
 */
function isFirstAlone({ masks }: StepEvents, start: number, end: number): boolean {
  for (let place = start; place < end; place++) if (masks[place] !== 1) return false
  return end > start
}

/** Returns the index after the last event that has the same time as the event at `place`. */
function endOfMoment({ timesMs }: StepEvents, place: number, end: number): number {
  let next = place + 1
  while (next < end && timesMs[next] === timesMs[place]) next++
  return next
}

/** The chains that began in one period. */
interface PeriodChains {
  readonly chains: StepChains
  readonly period: number
}

/** Walks once for each period in which an actor enters the funnel. */
class PeriodWalk {
  readonly #plan: FunnelsPlan
  readonly #events: StepEvents
  readonly #periods: Periods
  readonly #limits: PacedLimits
  readonly #listener: WalkListener
  readonly #masks: EventMasks
  /** The periods whose chains may still continue, in ascending order. */
  #open: PeriodChains[] = []
  readonly #unused: StepChains[] = []

  constructor(
    plan: FunnelsPlan,
    events: StepEvents,
    periods: Periods,
    limits: PacedLimits,
    listener: WalkListener,
  ) {
    // A funnel over time measures the conversion up to `toStep`, so later steps are ignored.
    this.#plan = { ...plan, rules: { ...plan.rules, stepCount: plan.toStep + 1 } }
    this.#events = events
    this.#periods = periods
    this.#limits = limits
    this.#listener = listener
    this.#masks = new EventMasks(plan.rules, events)
  }

  run(start: number, end: number, label: number | null): void {
    for (let place = start; place < end; ) {
      const next = endOfMoment(this.#events, place, end)
      const timeMs = this.#events.timesMs[place] ?? 0
      this.#closeBefore(timeMs - this.#plan.rules.windowMs)
      const period = this.#periods.indexOf(timeMs)
      if (this.#hasStart(place, next) && this.#open.at(-1)?.period !== period) {
        this.#open.push({ chains: this.#begun(label), period })
      }
      this.#limits.count((next - place) * (this.#open.length + 1))
      for (const one of this.#open) {
        if (!one.chains.isComplete) one.chains.visit(place, next, one.period === period)
      }
      place = next
    }
    this.#closeBefore(Number.POSITIVE_INFINITY)
  }

  #hasStart(start: number, end: number): boolean {
    for (let place = start; place < end; place++) {
      if ((this.#masks.stepsAt(place) & 1) !== 0) return true
    }
    return false
  }

  #begun(label: number | null): StepChains {
    const { rules, attributionStep } = this.#plan
    const chains = this.#unused.pop() ?? new StepChains(rules, this.#events, attributionStep)
    chains.begin(label)
    return chains
  }

  /** Reports and removes the periods that ended before a moment, because their chains cannot continue. */
  #closeBefore(timeMs: number): void {
    for (let first = this.#open[0]; first !== undefined; first = this.#open[0]) {
      const { chains, period } = first
      if (this.#periods.startMs(period + 1) > timeMs) return
      if (chains.reached > 0) this.#listener(chains, period)
      this.#unused.push(chains)
      this.#open.shift()
    }
  }
}
