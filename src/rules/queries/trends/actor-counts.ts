/**
 * Counts, for each bucket, the actors that are active in it. The measure decides in which buckets an actor is active:
 * in every period in which the actor had events, only in the first of these periods, or in every bucket whose window of
 * days contains one of these periods.
 */
import type { CellValue, TallyBuilder } from './tally.ts'
import type { Span } from './trend-spans.ts'

/** Counts the actors of one breakdown value after the other. Call `endCell` after the last actor of each value. */
export class ActorCounts {
  readonly #span: Span
  readonly #isOnce: boolean
  readonly #tally: TallyBuilder
  /**
   * For each period, the change of the number of active actors since the period before. Empty if the measure has no
   * window.
   */
  readonly #changes: Int32Array

  /** If `isOnce` is true, only the first bucket of each actor counts. */
  constructor(span: Span, isOnce: boolean, tally: TallyBuilder) {
    this.#span = span
    this.#isOnce = isOnce
    this.#tally = tally
    const { window, periods } = span
    const length = window === null ? 0 : (periods?.count ?? 1) + window.length + 1
    this.#changes = new Int32Array(length)
  }

  /** Adds one actor, given its periods in ascending order without duplicates. */
  add(periods: readonly number[]): void {
    const { window } = this.#span
    if (window !== null) {
      this.#addActive(periods, window.length)
      return
    }
    for (const period of periods) {
      this.#tally.count(period)
      if (this.#isOnce) return
    }
  }

  /** Stores the counts under a breakdown value. The actors that are added afterward belong to the next value. */
  endCell(value: CellValue): void {
    const changes = this.#changes
    const actives = new Int32Array(changes.length)
    let active = 0
    for (const [period, change] of changes.entries()) {
      active += change
      actives[period] = active
    }
    changes.fill(0)
    for (const [bucket, period] of (this.#span.window?.lastPeriods ?? NONE).entries()) {
      const count = actives[period] ?? 0
      if (count > 0) this.#tally.count(bucket, count)
    }
    this.#tally.endCell(value)
  }

  /**
   * Marks an actor as active for `length` periods from each of its periods on. For example, if `length` is 3, an actor
   * with events in the periods 1 and 2 is active in the periods 1 to 4. Each period counts once.
   */
  #addActive(periods: readonly number[], length: number): void {
    const changes = this.#changes
    let until = -1
    for (const period of periods) {
      if (period > until) {
        if (until >= 0) changes[until] = (changes[until] ?? 0) - 1
        changes[period] = (changes[period] ?? 0) + 1
      }
      until = period + length
    }
    if (until >= 0) changes[until] = (changes[until] ?? 0) - 1
  }
}

const NONE = new Uint32Array(0)
