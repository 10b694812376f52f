/**
 * Sets of small numbers, for example the events that have a property. A few numbers are stored as a list, and many
 * numbers as bits.
 */

import { withRoom } from '../../../rules/analytics/growing-arrays.ts'

/** The largest number of members that a set stores as a list. */
const FEW = 16
/** The estimated number of bytes of memory of an empty set, and of each number in a list. */
const SET_BYTES = 80
const LISTED_BYTES = 8

/** A set in its stored form: a list of its numbers, or one bit for each number, the lowest bit first. */
export type PackedNumbers = readonly number[] | Uint8Array

/** A set of integers that are not negative. */
export class NumberSet {
  readonly #few: number[] = []
  #bits: Uint32Array | null = null

  static of(numbers: PackedNumbers): NumberSet {
    const set = new NumberSet()
    visitNumbers(numbers, (number) => set.add(number))
    return set
  }

  add(number: number): void {
    if (this.#bits === null) {
      if (this.#few.includes(number)) return
      if (this.#few.length < FEW) {
        this.#few.push(number)
        return
      }
      this.#bits = new Uint32Array(1)
      for (const known of this.#few.splice(0)) this.#setBit(known)
    }
    this.#setBit(number)
  }

  has(number: number): boolean {
    if (this.#bits === null) return this.#few.includes(number)
    return ((this.#bits[number >>> 5] ?? 0) & (1 << (number & 31))) !== 0
  }

  /** The estimated number of bytes of memory. */
  get bytes(): number {
    return SET_BYTES + (this.#bits?.byteLength ?? this.#few.length * LISTED_BYTES)
  }

  /** Returns the set in its stored form, from which `of` restores it. */
  pack(): PackedNumbers {
    if (this.#bits === null) return [...this.#few]
    let words = this.#bits.length
    while (words > 0 && this.#bits[words - 1] === 0) words--
    return new Uint8Array(this.#bits.slice(0, words).buffer)
  }

  #setBit(number: number): void {
    const bits = withRoom(this.#bits ?? new Uint32Array(1), number >>> 5)
    bits[number >>> 5] = (bits[number >>> 5] ?? 0) | (1 << (number & 31))
    this.#bits = bits
  }
}

/** Calls `visit` with each number of a set. */
export function visitNumbers(numbers: PackedNumbers, visit: (number: number) => void): void {
  if (!(numbers instanceof Uint8Array)) {
    for (const number of numbers) visit(number)
    return
  }
  for (const [byte, bits] of numbers.entries()) {
    for (let left = bits; left !== 0; left &= left - 1) {
      visit(byte * 8 + 31 - Math.clz32(left & -left))
    }
  }
}
