/** Typed arrays that become longer: a longer one takes over what the shorter one holds; and whose memory they are in. */

type Numbers = Uint8Array | Uint16Array | Uint32Array | Float64Array

const IN_OWN_MEMORY = new WeakSet<object>()

/** Says of numbers that nothing else lies in their memory, so that whoever has them may give it away. */
export function inOwnMemory<T extends Numbers>(numbers: T): T {
  IN_OWN_MEMORY.add(numbers)
  return numbers
}

/** Whether somebody has said so. */
export function isInOwnMemory(numbers: object): boolean {
  return IN_OWN_MEMORY.has(numbers)
}

/** A copy of some numbers with room for `length`, at least as many. */
export function grown<T extends Numbers>(numbers: T, length: number): T {
  // The constructor of typed arrays makes its own kind.
  const larger = new (numbers.constructor as new (length: number) => T)(length)
  larger.set(numbers)
  return larger
}

/** The same numbers, or a copy that is at least twice as long, when there is none at `index`. */
export function withRoom<T extends Numbers>(numbers: T, index: number): T {
  if (index < numbers.length) return numbers
  return grown(numbers, Math.max(index + 1, numbers.length * 2))
}

/** Numbers of one kind that become more; in a plain array each takes eight bytes or more, and a large one is copied often. */
export class NumberList<T extends Numbers> {
  length = 0
  #numbers: T

  /** `numbers`: memory to begin with. */
  constructor(numbers: T) {
    this.#numbers = numbers
  }

  push(number: number): void {
    this.#numbers = withRoom(this.#numbers, this.length)
    this.#numbers[this.length++] = number
  }

  /** All of them, in memory of their own. */
  toArray(): T {
    // A copy of a typed array has its type.
    return inOwnMemory(this.#numbers.slice(0, this.length) as T)
  }
}
