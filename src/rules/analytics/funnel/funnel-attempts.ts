/**
 * Finds out how far one actor got in a funnel. Every event that can start the funnel is an attempt, and the best
 * attempt counts. Of several equally good attempts, the first one counts. Source: docs/compatibility/analytics.md,
 * "Funnels and correlation".
 *
 * From one attempt to the next, the position of a step among the ordered events of the actor never moves back. Each
 * step therefore has a cursor that only moves forward, and the attempts of an actor together read each event at most
 * once for each step.
 */
import type { GatheredRows } from '../actor-rows.ts'

/** The order in which an actor must do the steps. */
export type FunnelOrder = 'ordered' | 'strict' | 'unordered'

/** Events that invalidate an attempt if they occur between two steps. */
export interface Exclusion {
  /** The bit of the excluded series in the series masks. The bits of the exclusions follow the bits of the steps. */
  readonly bit: number
  /** The steps between which the series must not occur, counted from 0. */
  readonly fromStep: number
  readonly toStep: number
}

/** The rules of a funnel. Bit k of the series masks belongs to step k. */
export interface AttemptRules {
  readonly order: FunnelOrder
  readonly stepCount: number
  /**
   * For each step: true if it needs another event, after the event of the previous step. False if one event may count
   * as both steps. Only ordered funnels read this list.
   */
  readonly needsLaterEvent: readonly boolean[]
  /**
   * Returns the last moment that is still within the conversion window of an attempt. Both moments are in milliseconds.
   */
  readonly windowEnd: (startMs: number) => number
  /** The exclusions. Strict funnels have none. */
  readonly exclusions: readonly Exclusion[]
}

/** The time range in which attempts must begin, in milliseconds. The end is exclusive. */
export interface Entrance {
  readonly fromMs: number
  readonly untilMs: number
}

/** Finds the best attempt of an actor. One finder is used for all actors, one after the other. */
export class AttemptFinder {
  /**
   * The times of the steps that the last call of `best` found, in milliseconds. Only as many entries are valid as it
   * returned.
   */
  readonly stepTimesMs: Float64Array
  readonly #rules: AttemptRules
  readonly #times: Float64Array
  readonly #masks: Uint32Array
  readonly #entrance: Entrance
  /** For each bit of the masks, the index up to which the rows were searched for an event with this bit. */
  readonly #cursors: Uint32Array
  /** For each step, the index of its event in the current attempt. The end of the rows stands for a missing step. */
  readonly #places: Uint32Array
  readonly #stepsMask: number
  #end = 0
  #best = 0

  constructor(rules: AttemptRules, { timesMs, masks }: GatheredRows, entrance: Entrance | null) {
    this.#rules = rules
    this.#times = timesMs
    this.#masks = masks
    this.#entrance = entrance ?? {
      fromMs: Number.NEGATIVE_INFINITY,
      untilMs: Number.POSITIVE_INFINITY,
    }
    this.stepTimesMs = new Float64Array(rules.stepCount)
    this.#cursors = new Uint32Array(rules.stepCount + rules.exclusions.length)
    this.#places = new Uint32Array(rules.stepCount)
    this.#stepsMask = 2 ** rules.stepCount - 1
  }

  /**
   * Returns the number of steps of the best attempt of an actor, or 0 if there is no attempt. The events of the actor
   * are the rows from `start` to `end`, exclusive.
   */
  best(start: number, end: number): number {
    this.#end = end
    this.#best = 0
    this.#cursors.fill(start)
    const { order, stepCount } = this.#rules
    const startMask = order === 'unordered' ? this.#stepsMask : 1
    for (let place = start; place < end && this.#best < stepCount; place++) {
      if (((this.#masks[place] ?? 0) & startMask) === 0) continue
      const startMs = this.#times[place] ?? 0
      if (startMs < this.#entrance.fromMs) continue
      if (startMs >= this.#entrance.untilMs) break
      if (order === 'ordered') this.#tryOrdered(place, startMs)
      else if (order === 'strict') this.#tryStrict(place, startMs)
      else this.#tryUnordered(place, startMs)
    }
    return this.#best
  }

  #tryOrdered(place: number, startMs: number): void {
    const { stepCount, needsLaterEvent, exclusions } = this.#rules
    const lastMs = this.#rules.windowEnd(startMs)
    const places = this.#places
    places.fill(this.#end)
    places[0] = place
    let reached = 1
    let previous = place
    for (let step = 1; step < stepCount; step++) {
      const found = this.#next(step, needsLaterEvent[step] === true ? previous + 1 : previous)
      if (found === this.#end) break
      places[step] = found
      previous = found
      if ((this.#times[found] ?? 0) <= lastMs) reached = step + 1
      // An exclusion may end at a step that was done after the window, so the search for later steps goes on.
      else if (exclusions.length === 0) break
    }
    if (exclusions.length > 0 && this.#isExcluded()) return
    if (reached <= this.#best) return
    this.#best = reached
    for (let step = 0; step < reached; step++) {
      this.stepTimesMs[step] = this.#times[places[step] ?? 0] ?? 0
    }
  }

  #isExcluded(): boolean {
    const { exclusions, windowEnd } = this.#rules
    const end = this.#end
    for (const { bit, fromStep, toStep } of exclusions) {
      const from = this.#places[fromStep] ?? end
      if (from === end) continue
      const excluded = this.#next(bit, from)
      if (excluded === end || excluded === from) continue
      const to = this.#places[toStep] ?? end
      if (to < end) {
        if (excluded < to) return true
      } else if ((this.#times[excluded] ?? 0) < windowEnd(this.#times[from] ?? 0)) return true
    }
    return false
  }

  #tryStrict(place: number, startMs: number): void {
    const { stepCount, windowEnd } = this.#rules
    const lastMs = windowEnd(startMs)
    let reached = 1
    while (reached < stepCount && place + reached < this.#end) {
      const isStep = ((this.#masks[place + reached] ?? 0) & (1 << reached)) !== 0
      if (!isStep || (this.#times[place + reached] ?? 0) > lastMs) break
      reached++
    }
    if (reached <= this.#best) return
    this.#best = reached
    for (let step = 0; step < reached; step++) {
      this.stepTimesMs[step] = this.#times[place + step] ?? 0
    }
  }

  /**
   * Tries an attempt that begins with the event at index `place`. If the event matches several steps, it is tried as
   * each of them.
   */
  #tryUnordered(place: number, startMs: number): void {
    const { stepCount } = this.#rules
    const lastMs = this.#rules.windowEnd(startMs)
    const mask = this.#masks[place] ?? 0
    let within = 0
    for (let step = 0; step < stepCount; step++) {
      const found = this.#next(step, place + 1)
      this.#places[step] = found
      if (found < this.#end && (this.#times[found] ?? 0) <= lastMs) within++
    }
    for (let own = 0; own < stepCount; own++) {
      if ((mask & (1 << own)) === 0) continue
      const found = this.#places[own] ?? 0
      const isOwnWithin = found < this.#end && (this.#times[found] ?? 0) <= lastMs
      const reached = 1 + within - (isOwnWithin ? 1 : 0)
      if (reached <= this.#best || this.#isUnorderedExcluded(place, own, lastMs)) continue
      this.#best = reached
      this.#noteUnordered(startMs, own, lastMs)
    }
  }

  #isUnorderedExcluded(place: number, own: number, lastMs: number): boolean {
    const { exclusions, stepCount } = this.#rules
    if (exclusions.length === 0) return false
    let last = place
    for (let step = 0; step < stepCount; step++) {
      const found = this.#places[step] ?? 0
      if (step !== own && found > last) last = found
    }
    for (const { bit } of exclusions) {
      const excluded = this.#next(bit, place + 1)
      if (excluded === this.#end) continue
      // If a step is missing, `last` is the end of the rows. An excluded event then counts up to the end of the window.
      if (last < this.#end ? excluded < last : (this.#times[excluded] ?? 0) < lastMs) return true
    }
    return false
  }

  #noteUnordered(startMs: number, own: number, lastMs: number): void {
    let count = 0
    this.stepTimesMs[count++] = startMs
    for (let step = 0; step < this.#rules.stepCount; step++) {
      const found = this.#places[step] ?? 0
      const timeMs = this.#times[found] ?? 0
      if (step !== own && found < this.#end && timeMs <= lastMs) this.stepTimesMs[count++] = timeMs
    }
    this.stepTimesMs.subarray(0, count).sort()
  }

  /** Returns the index of the first event at or after `from` whose mask contains a bit, or the end of the rows. */
  #next(bit: number, from: number): number {
    let place = Math.max(this.#cursors[bit] ?? 0, from)
    const mask = 1 << bit
    while (place < this.#end && ((this.#masks[place] ?? 0) & mask) === 0) place++
    if (place > this.#end) place = this.#end
    this.#cursors[bit] = place
    return place
  }
}
