/**
 * A sample of durations that keeps every value without allocating an object for it, and the statistics that benches
 * compute.
 */
import type { Percentiles } from './load.ts'

const FIRST_CAPACITY = 1 << 16
const UNITS_PER_MS = 1000

/** Durations in whole microseconds. Adding a duration costs a few nanoseconds. */
export class Samples {
  #values = new Uint32Array(FIRST_CAPACITY)
  #count = 0

  add(milliseconds: number): void {
    if (this.#count === this.#values.length) {
      const larger = new Uint32Array(this.#values.length * 2)
      larger.set(this.#values)
      this.#values = larger
    }
    this.#values[this.#count++] = milliseconds * UNITS_PER_MS
  }

  get count(): number {
    return this.#count
  }

  percentiles(): Percentiles {
    const sorted = this.#values.slice(0, this.#count).sort()
    const at = (share: number): number => {
      const rank = Math.max(0, Math.ceil(share * sorted.length) - 1)
      return (sorted[rank] ?? 0) / UNITS_PER_MS
    }
    return { p50: at(0.5), p99: at(0.99), max: at(1) }
  }
}

/**
 * Returns the median: the middle value or, for an even number of values, the mean of the two middle values. Returns NaN
 * if there are no values.
 */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2
}
