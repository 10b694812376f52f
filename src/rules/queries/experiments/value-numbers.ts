/** A number for each value of a column, whose list of values grows from piece to piece. */
import { withRoom } from '../../analytics/growing-arrays.ts'

/** Reads each value once, at its position in the list of values. */
export class ValueNumbers<T extends Uint8Array | Float64Array> {
  #numbers: T
  #known = 0
  readonly #numberOf: (value: unknown) => number

  /** `numbers` is the initial memory. */
  constructor(numbers: T, numberOf: (value: unknown) => number) {
    this.#numbers = numbers
    this.#numberOf = numberOf
  }

  /** Returns the number of each value. The list only ever grows. */
  of(values: readonly unknown[]): T {
    if (values.length > this.#known) {
      this.#numbers = withRoom(this.#numbers, values.length - 1)
      for (; this.#known < values.length; this.#known++) {
        this.#numbers[this.#known] = this.#numberOf(values[this.#known])
      }
    }
    return this.#numbers
  }
}
