/**
 * Finds the best attempt of one actor in ordered and strict funnels. A chain is a series of events that match the first
 * step, the second step and so on. For each number of steps, only the latest chain with this number of steps is stored.
 * In addition, the chain that got furthest is stored. Source: docs/compatibility/queries.md, "FunnelsQuery".
 */
import type { StepRules } from './funnel-request.ts'

/** The events of actors in the order of time. Entry i of each list belongs to event i. */
export interface StepEvents {
  /** The time of each event, in milliseconds. */
  readonly timesMs: Float64Array
  /** The steps of each event. Bit k means step k. The bits after the last step belong to the exclusions. */
  readonly masks: Uint32Array
  /** The breakdown value of each event. Null if there is no breakdown. */
  readonly labels: Uint32Array | null
}

/**
 * Reads the series mask of an event: which steps the event is, and which chains it invalidates because it is excluded.
 */
export class EventMasks {
  readonly #events: StepEvents
  readonly #stepsMask: number
  readonly #spans: readonly { readonly mask: number; readonly steps: number }[]

  constructor({ stepCount, exclusions }: StepRules, events: StepEvents) {
    this.#events = events
    this.#stepsMask = 2 ** stepCount - 1
    this.#spans = exclusions.map(({ bit, fromStep, toStep }) => {
      const steps = (2 ** (toStep + 1) - 2 ** (fromStep + 1)) & this.#stepsMask
      return { mask: 1 << bit, steps }
    })
  }

  /** Returns the steps of the event at a position. Bit k means step k. */
  stepsAt(place: number): number {
    return (this.#events.masks[place] ?? 0) & this.#stepsMask
  }

  /**
   * Returns the chains that the event at a position invalidates as an excluded event. Bit k means the chains that wait
   * for step k.
   */
  spoiltAt(place: number): number {
    const mask = this.#events.masks[place] ?? 0
    let steps = 0
    for (const span of this.#spans) if ((mask & span.mask) !== 0) steps |= span.steps
    return steps
  }
}

/** The chains of one actor, or of one period in which the actor entered. */
export class StepChains {
  readonly #rules: StepRules
  readonly #events: StepEvents
  readonly #masks: EventMasks
  readonly #labelStep: number
  #label: number | null = null
  /**
   * For each number of steps, the time at which the chain with this number of steps began. NaN means that there is no
   * such chain. Entry 0 is the time of the current event, which may begin a chain.
   */
  readonly #startsMs: Float64Array
  readonly #isSpoilt: Uint8Array
  /** For each number of steps, the positions of the events in the chain with this number of steps. */
  readonly #places: Uint32Array
  readonly #furthestPlaces: Uint32Array
  #furthest = 0
  #furthestStartMs = Number.NaN
  #isFurthestSpoilt = false

  /** `labelStep` is the step, from 0, whose events must have the value that `begin` sets. */
  constructor(rules: StepRules, events: StepEvents, labelStep: number) {
    const { stepCount } = rules
    this.#rules = rules
    this.#events = events
    this.#masks = new EventMasks(rules, events)
    this.#labelStep = labelStep
    this.#startsMs = new Float64Array(stepCount + 1).fill(Number.NaN)
    this.#isSpoilt = new Uint8Array(stepCount + 1)
    this.#places = new Uint32Array((stepCount + 1) * stepCount)
    this.#furthestPlaces = new Uint32Array(stepCount)
  }

  /** Starts again for another actor or period. If `label` is null, events may have any value. */
  begin(label: number | null): void {
    this.#label = label
    this.#startsMs.fill(Number.NaN)
    this.#isSpoilt.fill(0)
    this.#furthest = 0
    this.#isFurthestSpoilt = false
  }

  /** True if a chain has all steps, so that further events change nothing. */
  get isComplete(): boolean {
    const { stepCount } = this.#rules
    return !Number.isNaN(this.#startsMs[stepCount] ?? 0)
  }

  /** The number of steps of the furthest chain. It is 0 if there is none, or if an excluded event invalidated it. */
  get reached(): number {
    return this.#isFurthestSpoilt ? 0 : this.#furthest
  }

  /** Returns the time of a step of the furthest chain, counted from 0, in milliseconds. */
  timeMsOf(step: number): number {
    return this.#events.timesMs[this.#furthestPlaces[step] ?? 0] ?? 0
  }

  /** Processes the events of one moment in their order of arrival. `mayStart` says whether they may start a chain. */
  visit(start: number, end: number, mayStart: boolean): void {
    this.#startsMs[0] = mayStart ? (this.#events.timesMs[start] ?? 0) : Number.NaN
    const maySpoil = end - start === 1 || this.#isAlike(start, end)
    for (let place = start; place < end; place++) {
      const steps = this.#masks.stepsAt(place)
      if (maySpoil) this.#spoil(place)
      // If an event matches several steps, the highest one comes first. Otherwise the event could extend a chain to one
      // step and then extend the same chain to the next step.
      for (let left = steps; left !== 0; ) {
        const step = 31 - Math.clz32(left)
        left ^= 1 << step
        this.#take(step, place)
      }
      if (this.#rules.order === 'strict') this.#keepOnly(steps)
    }
  }

  /**
   * Returns true if all events of one moment are the same steps and invalidate the same chains, or if none of them is a
   * step. If the result is false, excluded events of this moment invalidate nothing, because they may have happened
   * before or after the steps of this moment.
   */
  #isAlike(start: number, end: number): boolean {
    const steps = this.#masks.stepsAt(start)
    const spoilt = this.#masks.spoiltAt(start)
    let all = steps
    let isSame = true
    for (let place = start + 1; place < end; place++) {
      all |= this.#masks.stepsAt(place)
      if (this.#masks.stepsAt(place) !== steps) isSame = false
      if (this.#masks.spoiltAt(place) !== spoilt) isSame = false
    }
    return isSame || all === 0
  }

  /** Processes an event as a step, counted from 0. It continues the chain that has all steps before it. */
  #take(step: number, place: number): void {
    const startMs = this.#startsMs[step] ?? 0
    if (!this.#isOpen(step, place)) return
    const label = step === this.#labelStep ? this.#label : null
    if (label !== null && this.#events.labels?.[place] !== label) return
    const { stepCount } = this.#rules
    const from = step * stepCount
    const isSpoilt = this.#isSpoilt[step] === 1
    const isAsFar = step + 1 === this.#furthest && this.#isFurthestSpoilt
    if (step >= this.#furthest || isAsFar) {
      this.#furthest = step + 1
      this.#furthestStartMs = startMs
      this.#isFurthestSpoilt = isSpoilt
      for (let done = 0; done < step; done++) {
        this.#furthestPlaces[done] = this.#places[from + done] ?? 0
      }
      this.#furthestPlaces[step] = place
    }
    if (isSpoilt) return
    this.#startsMs[step + 1] = startMs
    this.#isSpoilt[step + 1] = 0
    // There is usually at most one step to copy. A call of `copyWithin` would cost more than this loop.
    for (let done = 0; done < step; done++) {
      this.#places[from + stepCount + done] = this.#places[from + done] ?? 0
    }
    this.#places[from + stepCount + step] = place
  }

  /**
   * Returns whether the chain with all steps before `step` exists, is still within the window, and has not been
   * continued yet.
   */
  #isOpen(step: number, place: number): boolean {
    const startMs = this.#startsMs[step] ?? 0
    const isWithin = (this.#events.timesMs[place] ?? 0) - startMs <= this.#rules.windowMs
    return isWithin && this.#startsMs[step + 1] !== startMs
  }

  /** Marks the chains that an excluded event invalidates. */
  #spoil(place: number): void {
    const timeMs = this.#events.timesMs[place] ?? 0
    for (let left = this.#masks.spoiltAt(place); left !== 0; ) {
      const step = 31 - Math.clz32(left)
      left ^= 1 << step
      if (!this.#isOpen(step, place) || this.#isSpoilt[step] === 1) continue
      this.#isSpoilt[step] = 1
      if (this.#furthest !== step) continue
      if (timeMs - this.#furthestStartMs <= this.#rules.windowMs) this.#isFurthestSpoilt = true
    }
  }

  /**
   * For strict funnels: removes all chains that do not end with the current event. `steps` are the steps of this event.
   */
  #keepOnly(steps: number): void {
    for (let step = 0; step < this.#rules.stepCount; step++) {
      if ((steps & (1 << step)) === 0) this.#startsMs[step + 1] = Number.NaN
    }
  }
}
