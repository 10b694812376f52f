/**
 * Finds the best attempt of one actor in an unordered funnel: the largest number of different steps within the
 * conversion window. The window moves over the events. Source: docs/compatibility/queries.md, "FunnelsQuery".
 */
import type { StepRules } from './funnel-request.ts'
import { EventMasks, type StepEvents } from './step-chains.ts'

/** Stands for a missing event in lists of positions. */
const NONE = -1

/** The steps of one actor that are within the conversion window at the same time. */
export class StepSets {
  readonly #rules: StepRules
  readonly #events: StepEvents
  readonly #masks: EventMasks
  /** For each step, the positions of its oldest and latest event within the window. `NONE` means that there is none. */
  readonly #oldest: Int32Array
  readonly #latest: Int32Array
  /** For each event, the position of the next event of the same step. */
  readonly #next: Int32Array
  /** The times of the steps of the best attempt, ascending, in milliseconds. */
  readonly #timesMs: Float64Array
  #present = 0
  #reached = 0

  constructor(rules: StepRules, events: StepEvents) {
    this.#rules = rules
    this.#events = events
    this.#masks = new EventMasks(rules, events)
    this.#oldest = new Int32Array(rules.stepCount)
    this.#latest = new Int32Array(rules.stepCount)
    this.#next = new Int32Array(events.timesMs.length)
    this.#timesMs = new Float64Array(rules.stepCount)
  }

  /** The number of steps of the best attempt. */
  get reached(): number {
    return this.#reached
  }

  /** Returns the time of a step of the best attempt, counted from 0 in the order of time, in milliseconds. */
  timeMsOf(step: number): number {
    return this.#timesMs[step] ?? 0
  }

  /**
   * Processes the events of an actor. `label` is the breakdown value that the first event of an attempt must have. Null
   * means any value.
   */
  run(start: number, end: number, label: number | null): void {
    this.#empty()
    this.#reached = 0
    for (let place = start; place < end; place++) {
      this.#letGo(this.#events.timesMs[place] ?? 0)
      const steps = this.#masks.stepsAt(place)
      if (steps === 0) {
        // In an unordered funnel, an event that is no step is an excluded event. It ends the current attempt, and the
        // steps gathered in it so far are lost.
        this.#empty()
        continue
      }
      if (this.#present === 0 && label !== null && this.#events.labels?.[place] !== label) continue
      this.#add(this.#stepFor(steps), place)
      if (this.#present === this.#rules.stepCount) break
    }
    this.#count()
  }

  #empty(): void {
    this.#oldest.fill(NONE)
    this.#latest.fill(NONE)
    this.#present = 0
  }

  /** Removes the events that are no longer within the window at `timeMs`, the oldest one first. */
  #letGo(timeMs: number): void {
    while (this.#present > 0) {
      const step = this.#stepOfOldest()
      const place = this.#oldest[step] ?? NONE
      if ((this.#events.timesMs[place] ?? 0) + this.#rules.windowMs >= timeMs) return
      this.#count()
      if (place === this.#latest[step]) {
        this.#oldest[step] = NONE
        this.#latest[step] = NONE
        this.#present--
      } else this.#oldest[step] = this.#next[place] ?? NONE
    }
  }

  #stepOfOldest(): number {
    let found = NONE
    let foundMs = Number.POSITIVE_INFINITY
    for (let step = 0; step < this.#rules.stepCount; step++) {
      const place = this.#oldest[step] ?? NONE
      const timeMs = this.#events.timesMs[place] ?? 0
      if (place === NONE || timeMs >= foundMs) continue
      found = step
      foundMs = timeMs
    }
    return found
  }

  /**
   * Returns the step that an event counts as. If the event matches several steps, it counts as one that has no event in
   * the window. If all of these steps have events in the window, it counts as the step whose latest event is the
   * oldest.
   */
  #stepFor(steps: number): number {
    let found = NONE
    let foundMs = Number.POSITIVE_INFINITY
    for (let step = 0; step < this.#rules.stepCount; step++) {
      if ((steps & (1 << step)) === 0) continue
      const place = this.#latest[step] ?? NONE
      const timeMs = place === NONE ? Number.NEGATIVE_INFINITY : (this.#events.timesMs[place] ?? 0)
      if (found !== NONE && timeMs >= foundMs) continue
      found = step
      foundMs = timeMs
    }
    return found
  }

  #add(step: number, place: number): void {
    const latest = this.#latest[step] ?? NONE
    if (latest === NONE) {
      this.#oldest[step] = place
      this.#present++
    } else this.#next[latest] = place
    this.#latest[step] = place
  }

  /** Stores the current steps as the best attempt if they are more than those of the best attempt so far. */
  #count(): void {
    if (this.#present <= this.#reached) return
    let count = 0
    for (const place of this.#oldest) {
      if (place !== NONE) this.#timesMs[count++] = this.#events.timesMs[place] ?? 0
    }
    this.#reached = count
    this.#timesMs.subarray(0, count).sort()
  }
}
