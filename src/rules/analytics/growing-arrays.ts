/**
 * Typed arrays that grow: a longer array takes over the content of the shorter one. The file also records which arrays
 * share their memory with no other array.
 */

type Numbers = Uint8Array | Uint16Array | Uint32Array | Float64Array

const IN_OWN_MEMORY = new WeakSet<object>()

/** Marks an array as the only one that uses its memory, so that the memory may be transferred to another thread. */
export function inOwnMemory<T extends Numbers>(numbers: T): T {
  IN_OWN_MEMORY.add(numbers)
  return numbers
}

/** Returns whether an array was marked with `inOwnMemory`. */
export function isInOwnMemory(numbers: object): boolean {
  return IN_OWN_MEMORY.has(numbers)
}

/**
 * Returns a copy of an array with room for `length` numbers. `length` must not be less than the length of the array.
 */
export function grown<T extends Numbers>(numbers: T, length: number): T {
  // The array is created by the constructor of `numbers`, so it has the same type.
  const larger = new (numbers.constructor as new (length: number) => T)(length)
  larger.set(numbers)
  return larger
}

/** Returns the same array if it has an entry at `index`. Otherwise it returns a copy that is at least twice as long. */
export function withRoom<T extends Numbers>(numbers: T, index: number): T {
  if (index < numbers.length) return numbers
  return grown(numbers, Math.max(index + 1, numbers.length * 2))
}

/**
 * A growing list of numbers of one kind. In a plain array each number would take eight bytes or more, and a large array
 * would be copied often.
 */
export class NumberList<T extends Numbers> {
  length = 0
  #numbers: T

  /** `numbers` is the initial memory. */
  constructor(numbers: T) {
    this.#numbers = numbers
  }

  push(number: number): void {
    this.#numbers = withRoom(this.#numbers, this.length)
    this.#numbers[this.length++] = number
  }

  /** Returns a copy of all numbers, in memory that the list does not use. */
  toArray(): T {
    // `slice` returns an array of the same type.
    return inOwnMemory(this.#numbers.slice(0, this.length) as T)
  }
}
